//! Names to addresses, of which only those that passed are handed out.

use protocol::address_policy::AddressPolicy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// The address is none that may be called; the text says whose and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotAllowed(pub(super) String);

/// A resolver for one client.
#[derive(Debug)]
pub(super) struct Resolver {
    rules: Arc<AddressPolicy>,
    only_named: bool,
}

impl Resolver {
    /// `only_named` for a client without TLS: it goes only where the configuration says so.
    pub(super) fn new(rules: Arc<AddressPolicy>, only_named: bool) -> Self {
        Self { rules, only_named }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, only_named, host) = (self.rules.clone(), self.only_named, name.as_str().to_owned());
        Box::pin(async move {
            match lead(&rules, &host, only_named).await {
                Ok(passed) => Ok(Box::new(passed.into_iter()) as Addrs),
                Err(Astray::NotAllowed(refused)) => Err(refused.into()),
                Err(Astray::Unknown(why)) => Err(why.into()),
            }
        })
    }
}

/// Why a name leads nowhere.
pub(super) enum Astray {
    /// To addresses that may not be called.
    NotAllowed(NotAllowed),
    /// Nobody knows it.
    Unknown(String),
}

/// The addresses of `host` that may be called.
pub(super) async fn lead(
    rules: &AddressPolicy,
    host: &str,
    only_named: bool,
) -> Result<Vec<SocketAddr>, Astray> {
    let found = tokio::net::lookup_host((host, 0)).await;
    let found: Vec<SocketAddr> = found.map_err(|error| Astray::Unknown(error.to_string()))?.collect();
    let mut refused = None;
    let mut passed = Vec::new();
    for address in found {
        match judge(rules, address.ip(), only_named) {
            Ok(()) => passed.push(address),
            Err(NotAllowed(why)) => refused = Some(format!("{host} leads to {}, which {why}", address.ip())),
        }
    }
    match (passed.is_empty(), refused) {
        (true, Some(why)) => Err(Astray::NotAllowed(NotAllowed(why))),
        (true, None) => Err(Astray::Unknown(format!("{host} has no address"))),
        (false, _) => Ok(passed),
    }
}

/// Whether `address` may be called, with TLS or (`only_named`) without; else the rest of a sentence about it.
pub(super) fn judge(rules: &AddressPolicy, address: IpAddr, only_named: bool) -> Result<(), NotAllowed> {
    let how = "`mesh: { outside: { allow: [\u{2026}] } }` lets it be called";
    if let Err(what) = rules.judge(address) {
        return Err(NotAllowed(format!("is {what}; {how}")));
    }
    if only_named && !rules.names(address) {
        return Err(NotAllowed(format!("is called by https only; {how} without")));
    }
    Ok(())
}
