//! The HTTP clients: their resolvers check addresses, so there is one for each way in which addresses are judged.

use super::{Error, resolve::PolicyResolver};
use protocol::address_policy::AddressPolicy;
use reqwest::{Client, ClientBuilder, redirect};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The interval of keep-alive pings, and the timeout of each.
const PING: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HttpVersion {
    Http1,
    /// With prior knowledge (RFC 9113 §3.3).
    Http2,
}

/// What the resolver and the version of a client depend on. A port that the policy does not mention is `None`: all these are
/// judged alike.
type ClientKey = (HttpVersion, bool, Option<u16>);

/// The clients, made at their first use; as many as the policy mentions ports. Every clone shares them.
#[derive(Clone)]
pub(super) struct Clients(Arc<ClientsState>);

struct ClientsState {
    policy: Arc<AddressPolicy>,
    connect: Duration,
    made: Mutex<BTreeMap<ClientKey, Client>>,
}

impl Clients {
    pub(super) fn new(policy: Arc<AddressPolicy>, connect: Duration) -> Self {
        Self(Arc::new(ClientsState { policy, connect, made: Mutex::default() }))
    }

    /// The client for URLs with `port`, of `https` or (`named_only`) of `http`.
    pub(super) fn get(&self, version: HttpVersion, named_only: bool, port: u16) -> Result<Client, Error> {
        let ClientsState { policy, connect, made } = self.0.as_ref();
        let key = (version, named_only, policy.mentions(port).then_some(port));
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&key) {
            return Ok(client.clone());
        }
        let builder = transport::http_client::tls::client()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .user_agent(concat!("agent-mesh/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(*connect)
            .dns_resolver(Arc::new(PolicyResolver::new(policy.clone(), port, named_only)));
        let client = of_version(builder, version).build();
        let client = client.map_err(|error| Error::Unreachable(format!("no HTTP client: {error}")))?;
        Ok(made.entry(key).or_insert(client).clone())
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

fn of_version(client: ClientBuilder, version: HttpVersion) -> ClientBuilder {
    match version {
        HttpVersion::Http1 => client.http1_only(),
        HttpVersion::Http2 => {
            client.http2_prior_knowledge().http2_keep_alive_interval(PING).http2_keep_alive_timeout(PING)
        }
    }
}
