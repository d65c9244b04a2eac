//! Notices within two seconds that a peer which works for this agent is gone: while it holds an award, a connection to its
//! endpoint is opened once a second. Only a refused connection counts; a slow peer has its lease.

use super::AgentActor;
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use engine::{Input, PeerLocation};
use protocol::ids::AgentId;
use reqwest::Url;
use std::{io::ErrorKind, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// The time between two probes, and the longest time of one.
pub(super) const INTERVAL: Duration = Duration::from_millis(800);

/// The refusals in a row after which a peer counts as gone. One may be a restart.
const REFUSALS: u32 = 2;

impl AgentActor {
    /// Probes every peer of another process that holds an award.
    pub(super) fn probe_peers(&mut self, ctx: &mut Context<Self>) {
        let Some(agent) = &self.agent else { return };
        let awarded = agent.awarded_peers();
        self.refusals.retain(|peer, _| awarded.contains(peer));
        let transports = &self.parts.transports;
        for peer in awarded.into_iter().filter(|peer| transports.locals.get(peer).is_none()) {
            let PeerLocation::At(endpoint) = transports.peers.locate(&peer) else { continue };
            let probe = refuses(endpoint).into_actor(self);
            ctx.spawn(probe.map(move |refuses, actor, ctx| actor.peer_probed(peer, refuses, ctx)));
        }
    }

    fn peer_probed(&mut self, peer: AgentId, refuses: bool, ctx: &mut Context<Self>) {
        if !refuses {
            self.refusals.remove(&peer);
            return;
        }
        let refusals = self.refusals.entry(peer.clone()).or_default();
        *refusals += 1;
        if *refusals >= REFUSALS {
            tracing::warn!(agent = %self.me, %peer, "a peer that holds an award is gone: it refuses connections");
            self.parts.transports.peers.report_unreachable(&self.me, &peer);
            self.feed(Input::PeerGone(peer, "its endpoint refuses connections".to_owned()), ctx);
        }
    }
}

/// Whether nobody listens at `endpoint`.
async fn refuses(endpoint: String) -> bool {
    let Ok(url) = Url::parse(&endpoint) else { return false };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
    let connection = TcpStream::connect((host.trim_matches(['[', ']']), port));
    let connected = timeout(INTERVAL, connection).await;
    matches!(connected, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_an_endpoint_where_nobody_listens_refuses() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        assert!(!refuses(endpoint.clone()).await, "it listens and says nothing");
        drop(listener);
        assert!(refuses(endpoint).await);
        assert!(!refuses("http://".to_owned()).await);
    }
}
