//! Open tasks: which offers an agent tries to get, and which of its conversations has a claim that it won.

use super::AgentActor;
use crate::conversation::{Conversation, Queued};
use actix::Context;
use blackboard::signals::{self, PUBLISHER};
use protocol::{
    coordination::{
        AnyPattern, What,
        broadcast::on_behalf_of,
        open_task::{self, OpenTask},
    },
    ids::{AgentId, ConversationId},
    message::Epoch,
    principal::Principal,
    problem::Problem,
    signal::Signal,
};
use std::time::Duration;

fn open_task(conversation: &Conversation) -> Option<&OpenTask> {
    match &conversation.pattern {
        AnyPattern::OpenTask(task) => Some(task),
        AnyPattern::Delegation(_)
        | AnyPattern::HelpRequest(_)
        | AnyPattern::Broadcast(_)
        | AnyPattern::ContractNet(_)
        | AnyPattern::Redelivery(_)
        | AnyPattern::Reaction(_) => None,
    }
}

/// Whether a conversation has the claim of `epoch`, or is about to hear that it has.
fn has(conversation: &Conversation, epoch: Epoch) -> bool {
    let hears = |queued: &Queued| matches!(queued.what, What::Claimed { epoch: won, .. } if won == epoch);
    open_task(conversation)
        .is_some_and(|task| task.epoch() == Some(epoch) || conversation.queue.iter().any(hears))
}

impl AgentActor {
    /// Whether one task more, with those it tries to get, would be one too many.
    pub(super) fn has_no_place(&self) -> bool {
        let takes = |conversation: &Conversation| {
            conversation.is_work() || open_task(conversation).is_some_and(OpenTask::is_claiming)
        };
        let taken = self.conversations.values().filter(|conversation| takes(conversation)).count();
        let places = usize::try_from(self.parts.card.terms.max_parallel.max(1)).unwrap_or(usize::MAX);
        taken >= places
    }

    /// How this agent tries to get what `signal` offers; `None` if it knows the task already, or can't make it out.
    pub(super) fn try_to_get(&self, signal: &Signal) -> Result<Option<AnyPattern>, Problem> {
        let owner = self.principal_of(&publisher(signal));
        let root = on_behalf_of(signal).unwrap_or_else(|| owner.clone());
        let Some(spec) = open_task::offered(signal, root) else {
            tracing::warn!(agent = %self.me, signal = %signal.id, "an offer without a task id or a description");
            return Ok(None);
        };
        let of = (spec.task_id.clone(), owner.clone());
        let was_asked_for_directly = match self.tasks.get(&of).and_then(|id| self.conversations.get(id)) {
            Some(open) => open_task(open).is_none(),
            None => self.row(&of.0, &of.1)?.is_some_and(|row| row.epoch.is_none()),
        };
        if was_asked_for_directly {
            tracing::info!(agent = %self.me, task = %spec.task_id, "not claimed: a task of that id was sent here");
            return Ok(None);
        }
        let lease = Duration::from_millis(self.parts.auction.lease_ms);
        let task = OpenTask::new(self.me.clone(), owner, spec, lease, self.parts.patience);
        Ok(Some(AnyPattern::OpenTask(Box::new(task))))
    }

    /// A name on the board is an agent's if that agent is known; only it could have signed under it.
    fn principal_of(&self, name: &AgentId) -> Principal {
        let is_agent = *name == self.me
            || self.parts.ways.locals.get(name).is_some()
            || self.parts.ways.peers.knows(name);
        if is_agent { Principal::Agent(name.clone()) } else { Principal::local_user() }
    }

    /// What a claim's result is to the conversation `id`: the board knows agents, not conversations, and answers a
    /// second one of the same agent that it has the claim. An earlier claim on the same task is over then.
    pub(super) fn settle_open_claim(
        &mut self,
        id: &ConversationId,
        what: What,
        ctx: &mut Context<Self>,
    ) -> What {
        let (epoch, task, owner) =
            match (&what, self.conversations.get(id).and_then(|conversation| open_task(conversation))) {
                (What::Claimed { epoch, .. }, Some(open)) if open.is_claiming() => {
                    (*epoch, open.spec().task_id.clone(), open.owner().clone())
                }
                _ => return what,
            };
        if self.conversations.iter().any(|(other, conversation)| other != id && has(conversation, epoch)) {
            return What::ClaimLost { holder: Some(self.me.clone()) };
        }
        let mut fenced = Vec::new();
        for (other, conversation) in self.conversations.iter_mut().filter(|(other, _)| *other != id) {
            let same = open_task(conversation)
                .filter(|open| open.spec().task_id == task && *open.owner() == owner)
                .and_then(OpenTask::epoch);
            if let Some(epoch) = same {
                conversation.task = None;
                conversation.queue.push_back(Queued::from_inside(What::ClaimExpired { epoch }, None));
                fenced.push(other.clone());
            }
        }
        fenced.iter().for_each(|other| self.advance(other, false, ctx));
        what
    }
}

/// Who published a signal first: the board says it when it offers a task again, in the name of whoever released it too.
pub(super) fn publisher(signal: &Signal) -> AgentId {
    let first = || AgentId::parse(signal.refs.get(PUBLISHER)?.as_str()?).ok();
    signals::is_own(signal).then(first).flatten().unwrap_or_else(|| signal.from.clone())
}
