//! The node leaves: what can be handed back is, and whether everything has been sent.

use super::AgentActor;
use crate::{conversation::Queued, outbox::Outbox};
use actix::{Context, Handler, Message};
use protocol::coordination::What;

/// Hands back what others can do, and leaves the rest for the next start.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Leave;

/// Asks whether every step is recorded and everything sent.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct IsIdle;

impl Handler<Leave> for AgentActor {
    type Result = ();

    fn handle(&mut self, _: Leave, ctx: &mut Context<Self>) {
        let reason = format!("{} is leaving and could not finish in time", self.me);
        for id in self.working.clone() {
            if let Some(conversation) = self.conversations.get_mut(&id) {
                let what = What::Leaving { reason: reason.clone() };
                conversation.queue.push_back(Queued::from_inside(what, None));
            }
            self.advance(&id, false, ctx);
        }
    }
}

impl Handler<IsIdle> for AgentActor {
    type Result = bool;

    fn handle(&mut self, _: IsIdle, _: &mut Context<Self>) -> bool {
        let is_recorded = self
            .conversations
            .values()
            .all(|conversation| !conversation.is_committing() && conversation.queue.is_empty());
        is_recorded && self.outbox().is_none_or(Outbox::is_empty)
    }
}
