//! Notices within two seconds that a peer which works for this agent is gone: while it holds an award, a connection to its
//! endpoint is opened once a second. Only a refused connection counts, and after it that the registry has found it away; a slow peer
//! has its lease.

use super::AgentActor;
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use engine::{Input, PeerLocation};
use protocol::ids::AgentId;
use transport::endpoint_probe::{REFUSALS, refuses};

impl AgentActor {
    /// Probes every peer of another process that holds an award.
    pub(super) fn probe_peers(&mut self, ctx: &mut Context<Self>) {
        let Some(agent) = &self.agent else { return };
        let awarded = agent.awarded_peers();
        self.refusals.retain(|peer, _| awarded.contains(peer));
        let transports = &self.parts.transports;
        for peer in awarded.into_iter().filter(|peer| transports.locals.get(peer).is_none()) {
            let location = transports.peers.locate(&peer);
            // The registry may have missed one that works: that it is away counts after a refusal only.
            let has_refused = self.refusals.contains_key(&peer);
            let probe = async move {
                match location {
                    PeerLocation::At(endpoint) => refuses(&endpoint).await,
                    location => has_refused && location.is_absent(),
                }
            };
            let probe = probe.into_actor(self);
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
