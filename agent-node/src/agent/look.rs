//! What an agent says of itself while it runs.

use super::{AgentActor, Swept};
use crate::{conversation::record::keys, outbox::Outbox};
use actix::{Handler, Message};
use blackboard::store::Revision;
use protocol::{
    ids::{AgentId, ConversationId, MessageId},
    principal::Principal,
};
use serde::Serialize;
use std::{collections::BTreeMap, sync::atomic::Ordering};

/// What an agent has done since it started.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Messages taken.
    pub admitted: u64,
    /// Messages that had been taken before.
    pub duplicates: u64,
    /// Messages refused.
    pub refused: u64,
    /// Steps committed.
    pub steps: u64,
    /// Acknowledgements nobody waited for any more.
    pub late_acks: u64,
    /// Calls for proposals answered with a bid.
    pub bids: u64,
    /// Signals reacted to.
    pub reactions: u64,
    /// Rules that panicked; each ended its conversation.
    pub panics: u64,
}

/// Asks whether a message of `by` is on its way into the store.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct IsPending {
    /// Which message.
    pub message: MessageId,
    /// Whose it is.
    pub by: Principal,
    /// The name it was sent under; any of them, if none is said.
    pub sent_as: Option<AgentId>,
}

/// Asks what the actor is doing.
#[derive(Debug, Message)]
#[rtype(result = "Snapshot")]
pub struct Look;

/// What an agent is doing.
#[derive(Debug, Serialize, actix::MessageResponse)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Who.
    pub agent: AgentId,
    /// Its brain's kind.
    pub brain: &'static str,
    /// Open conversations by pattern.
    pub conversations: BTreeMap<&'static str, usize>,
    /// Tasks it is doing.
    pub running: u32,
    /// Turns being thought.
    pub thinking: usize,
    /// Timers set.
    pub timers: usize,
    /// Messages on their way, by recipient.
    pub outbox: BTreeMap<AgentId, usize>,
    /// How far it has followed the board, if it subscribes to anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<Revision>,
    /// What it has done since it started.
    pub counts: Counts,
    /// What it has let go of since it started.
    pub swept: Swept,
    /// Conversations it can't go on with before its next start, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parked: BTreeMap<ConversationId, String>,
}

impl Handler<IsPending> for AgentActor {
    type Result = bool;

    fn handle(&mut self, pending: IsPending, _: &mut Self::Context) -> bool {
        let IsPending { message, by, sent_as } = pending;
        match sent_as {
            Some(name) => self.in_flight.contains_key(&keys::receipt(&self.me, &message, &by, &name)),
            None => {
                let all = keys::receipts(&self.me, &message, &by);
                self.in_flight.keys().any(|key| all.admits(key))
            }
        }
    }
}

impl Handler<Look> for AgentActor {
    type Result = Snapshot;

    fn handle(&mut self, _: Look, _: &mut Self::Context) -> Snapshot {
        let mut conversations = BTreeMap::new();
        for conversation in self.conversations.values() {
            *conversations.entry(conversation.pattern.name()).or_default() += 1;
        }
        Snapshot {
            agent: self.me.clone(),
            brain: self.parts.brain.name(),
            conversations,
            running: self.parts.pulse.running(),
            thinking: self.thoughts.len(),
            timers: self.timers.len(),
            outbox: self.outbox().map(Outbox::waiting).unwrap_or_default(),
            followed: self.followed.get(),
            counts: Counts {
                late_acks: self.parts.pulse.late_acks.load(Ordering::Relaxed),
                ..self.counts.clone()
            },
            swept: self.sweeping.swept(),
            parked: self.parts.pulse.parked(),
        }
    }
}
