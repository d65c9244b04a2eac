//! DNS resolution that returns only addresses that the policy allows.

use protocol::address_policy::AddressPolicy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// The policy forbids the address. The text says why and how to allow it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct AddressRefused(pub(super) String);

#[derive(Debug)]
pub(super) struct PolicyResolver {
    policy: Arc<AddressPolicy>,
    port: u16,
    named_only: bool,
}

impl PolicyResolver {
    /// A resolver of a client that calls `port`, or another one that the policy treats alike. `named_only` for a client without
    /// TLS, which may call only addresses that the configuration names.
    pub(super) fn new(policy: Arc<AddressPolicy>, port: u16, named_only: bool) -> Self {
        Self { policy, port, named_only }
    }
}

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, host) = (self.policy.clone(), name.as_str().to_owned());
        let (port, named_only) = (self.port, self.named_only);
        Box::pin(async move {
            match resolve_allowed(&policy, (&host, port), named_only).await {
                Ok(allowed) => Ok(Box::new(allowed.into_iter()) as Addrs),
                Err(ResolveError::Refused(refused)) => Err(refused.into()),
                Err(ResolveError::Unknown(why)) => Err(why.into()),
            }
        })
    }
}

/// Why a name has no address that may be called.
pub(super) enum ResolveError {
    /// The policy forbids all its addresses.
    Refused(AddressRefused),
    /// It can't be resolved.
    Unknown(String),
}

/// The addresses of `host` that may be called at `port`.
pub(super) async fn resolve_allowed(
    policy: &AddressPolicy,
    (host, port): (&str, u16),
    named_only: bool,
) -> Result<Vec<SocketAddr>, ResolveError> {
    let addresses = tokio::net::lookup_host((host, 0)).await;
    let addresses = addresses.map_err(|error| ResolveError::Unknown(error.to_string()))?;
    let mut refused = None;
    let mut allowed = Vec::new();
    for address in addresses {
        match check_ip(policy, (address.ip(), port), named_only) {
            Ok(()) => allowed.push(address),
            Err(AddressRefused(why)) => {
                refused = Some(format!("{host} leads to {}, which {why}", address.ip()))
            }
        }
    }
    match (allowed.is_empty(), refused) {
        (true, Some(why)) => Err(ResolveError::Refused(AddressRefused(why))),
        (true, None) => Err(ResolveError::Unknown(format!("{host} has no address"))),
        (false, _) => Ok(allowed),
    }
}

/// Checks whether `ip` may be called at `port`, with TLS or (`named_only`) without. The error continues a sentence about it.
pub(super) fn check_ip(
    policy: &AddressPolicy,
    (ip, port): (IpAddr, u16),
    named_only: bool,
) -> Result<(), AddressRefused> {
    let how = "`mesh: { outside: { allow: [\u{2026}] } }` lets it be called";
    if named_only && !policy.names(ip, port) && policy.judge(ip, 443).is_ok() {
        return Err(AddressRefused(format!("is called by https only; {how} without")));
    }
    policy.judge(ip, port).map_err(|what| AddressRefused(format!("{what}; {how}")))
}
