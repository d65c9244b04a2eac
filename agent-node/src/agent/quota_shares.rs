//! Shares of the quotas of the mesh: before a message is decided that needs one, the board is asked for it.

use super::AgentActor;
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use blackboard::{client::Blackboard, shares::LeaseShare};
use engine::{GrantedShare, IncomingMessage, Input, QuotaNotice, ReplyTo, ShareRequest};
use protocol::{
    ids::{AgentId, Digest},
    quota::QuotaLevel,
    signal::{Signal, SignalType},
};
use serde_json::json;
use std::time::Duration;

/// How long the board has for an answer. Without one the shares that the agent holds decide.
const PATIENCE: Duration = Duration::from_secs(2);

impl AgentActor {
    /// Passes a message to the engine, with the shares that it needs.
    pub(super) fn decide(&mut self, message: IncomingMessage, reply: ReplyTo, ctx: &mut Context<Self>) {
        let now = (self.parts.clock.node(), self.parts.clock.wall());
        let wanted = self.agent.as_ref().map(|agent| agent.wanted_shares(&message, now)).unwrap_or_default();
        if wanted.is_empty() {
            return self.feed(Input::Message(message, reply), ctx);
        }
        let asked = lease_all(self.parts.transports.board.clone(), self.me.clone(), wanted);
        ctx.spawn(asked.into_actor(self).map(move |shares, this, ctx| {
            this.feed(Input::SharesGranted(shares), ctx);
            this.feed_begun(message, reply, ctx);
        }));
    }

    /// Tells the log and the board that a quota is used up, or nearly.
    pub(super) fn announce(&self, notice: QuotaNotice) {
        let QuotaNotice { level, figures, opens, requester } = notice;
        let (kind, said) = match level {
            QuotaLevel::UsedUp => (SignalType::quota_reached(), "used up"),
            QuotaLevel::Near => (SignalType::quota_near(), "nearly used up"),
            QuotaLevel::Open => return,
        };
        let me = self.me.clone();
        tracing::warn!(agent = %me, figures, opens = %opens, "a quota is {said}");
        let refs = json!({ "figures": figures, "opensAt": opens });
        let name = figures.split(':').next().unwrap_or_default();
        let signal = Signal {
            id: format!(
                "{kind}-{}",
                &Digest::of(format!("{me} {name} {opens}").as_bytes()).to_string()[..24]
            ),
            kind,
            from: me.clone(),
            by: None,
            root: requester,
            root_proof: None,
            subject: Some(me.to_string()),
            task_id: None,
            capability: None,
            refs: refs.as_object().cloned().unwrap_or_default(),
            to: Vec::new(),
            at: self.parts.clock.wall(),
        };
        let board = self.parts.transports.board.clone();
        actix::spawn(async move {
            let by = protocol::principal::Principal::Agent(me);
            if let Err(problem) = board.publish(&by, signal).await {
                tracing::debug!(agent = %by, %problem, "a signal about a quota was not published");
            }
        });
    }
}

/// Asks the board for each share, or gives it back. Those that it does not answer in time are left out, and those that were given
/// back: they are free again when their window ends at the latest.
pub(super) async fn lease_all(
    board: Blackboard,
    me: AgentId,
    wanted: Vec<ShareRequest>,
) -> Vec<GrantedShare> {
    let mut granted = Vec::new();
    for request in wanted {
        let lease = LeaseShare {
            per: request.per,
            window: request.window.clone(),
            requester: request.requester.clone(),
            limits: request.limits,
            used: request.used,
            gives_back: request.gives_back,
        };
        match tokio::time::timeout(PATIENCE, board.call(&me, lease)).await {
            Ok(Ok(share)) => {
                granted.push(GrantedShare { request, granted: share.granted, used_by_all: share.used_by_all })
            }
            Ok(Err(problem)) => tracing::warn!(agent = %me, %problem, "no share of a quota"),
            Err(_) => tracing::warn!(agent = %me, "no share of a quota: the board did not answer in time"),
        }
    }
    granted
}
