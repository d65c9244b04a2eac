//! Open tasks: which offers an agent claims, and which of its conversations holds a claim.

use crate::{
    agent::Agent,
    context::Context,
    conversation::{Conversation, QueuedEvent},
    faults::{self, PlantedFault},
};
use protocol::{
    ids::{AgentId, ConversationId, TaskId},
    message::Epoch,
    patterns::{
        AnyPattern, EventKind,
        broadcast::on_behalf_of,
        open_task::{self, OpenTask},
    },
    principal::Principal,
    problem::Problem,
    signal::{PUBLISHER, Signal},
};
use std::time::Duration;

/// Whether a conversation holds the claim of `epoch`, or has the event queued that says so.
fn has_claim(conversation: &Conversation, epoch: Epoch) -> bool {
    let is_won =
        |queued: &QueuedEvent| matches!(queued.what, EventKind::Claimed { epoch: won, .. } if won == epoch);
    conversation
        .pattern
        .open_task()
        .is_some_and(|task| task.epoch == Some(epoch) || conversation.queue.iter().any(is_won))
}

/// The epoch of the claim under which a conversation does an open task.
fn claim_epoch(conversation: &Conversation, task: &TaskId, owner: &Principal) -> Option<Epoch> {
    conversation.pattern.open_task()?;
    let row = conversation.task.as_ref()?;
    (row.task.spec.task_id == *task && row.task.owner == *owner).then_some(row.epoch)?
}

impl Agent {
    /// Whether another conversation does the same open task under a later claim; the task's row belongs to that one.
    pub(crate) fn has_later_claim(&self, id: &ConversationId, conversation: &Conversation) -> bool {
        let Some(row) = &conversation.task else { return false };
        let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
        let mut others = self.conversations.iter().filter(|(other, _)| *other != id);
        conversation.pattern.open_task().is_some()
            && others.any(|(_, other)| claim_epoch(other, task, owner) > row.epoch)
    }

    /// Whether its taken places and requested claims reach `maxParallel`.
    pub(crate) fn is_at_max_parallel(&self) -> bool {
        let is_work = |id: &&ConversationId| self.working.contains_key(*id);
        let requested = self.offers.claiming.iter().filter(|id| !is_work(id)).count();
        let requested = u32::try_from(requested).unwrap_or(u32::MAX);
        self.taken_places().saturating_add(requested) >= self.max_parallel()
    }

    /// Whether the claim of a conversation may be requested. If so, it takes a place.
    pub(crate) fn may_request_claim(&mut self, id: &ConversationId) -> bool {
        let may = self.offers.claiming.contains(id) || !self.is_at_max_parallel();
        if may {
            self.offers.claiming.insert(id.clone());
        }
        may
    }

    /// Requests the claims that have waited for a place, the oldest first.
    pub(crate) fn request_waiting_claims(&mut self, cx: &mut Context<'_>) {
        while !self.offers.waiting.is_empty()
            && !self.is_at_max_parallel()
            && let Some(id) = self.offers.waiting.pop_front()
        {
            self.attempt(id, cx);
        }
    }

    /// The pattern that claims the task offered by `signal`; `None` if the offer is incomplete or the task was sent here
    /// directly.
    pub(crate) fn pattern_for_offer(
        &self,
        signal: &Signal,
        cx: &Context<'_>,
    ) -> Result<Option<AnyPattern>, Problem> {
        let owner = self.principal_of(&publisher(signal), cx);
        let root = on_behalf_of(signal).unwrap_or_else(|| owner.clone());
        let Some(spec) = open_task::offered(signal, root) else {
            tracing::warn!(agent = %self.me, signal = %signal.id, "an offer without a task id or a description");
            return Ok(None);
        };
        let of = (spec.task_id.clone(), owner.clone());
        let was_asked_for_directly = match self.tasks.get(&of).and_then(|id| self.conversations.get(id)) {
            Some(open) => open.pattern.open_task().is_none(),
            None => self.row(&of.0, &of.1, cx)?.is_some_and(|row| row.epoch.is_none()),
        };
        if was_asked_for_directly {
            tracing::info!(agent = %self.me, task = %spec.task_id, "not claimed: a task of that id was sent here");
            return Ok(None);
        }
        let lease = Duration::from_millis(self.config.auction.lease_ms);
        let task = OpenTask::new(self.me.clone(), owner, spec, lease, self.config.timeouts);
        Ok(Some(task.into()))
    }

    /// The principal of a publisher: an agent if its id is known, otherwise the local user.
    fn principal_of(&self, name: &AgentId, cx: &Context<'_>) -> Principal {
        let is_agent = *name == self.me || cx.world.directory().knows(name);
        if is_agent { Principal::Agent(name.clone()) } else { Principal::local_user() }
    }

    /// Adapts the result of a claim to the conversation `id`. The board knows agents, not conversations: it confirms a claim
    /// of the same agent to a second conversation, too. An earlier claim on the same task has then expired.
    pub(crate) fn settle_open_claim(
        &mut self,
        id: &ConversationId,
        what: EventKind,
        cx: &mut Context<'_>,
    ) -> EventKind {
        let (epoch, task, owner) = match (
            &what,
            self.conversations.get(id).and_then(|conversation| conversation.pattern.open_task()),
        ) {
            (EventKind::Claimed { epoch, .. }, Some(open)) if open.is_pending => {
                (*epoch, open.spec.task_id.clone(), open.owner.clone())
            }
            _ => return what,
        };
        let others = || self.conversations.iter().filter(|(other, _)| *other != id).map(|(_, other)| other);
        let has_it =
            others().any(|other| has_claim(other, epoch) || claim_epoch(other, &task, &owner) == Some(epoch));
        // The task may have ended under this claim since the board answered.
        let is_done = match self.row(&task, &owner, cx) {
            Ok(row) => row
                .filter(|row| row.task.conversation != *id)
                .and_then(|row| row.epoch)
                .is_some_and(|done| done >= epoch),
            Err(problem) => {
                tracing::error!(agent = %self.me, %task, %problem, "its row can't be read, so its claim is left to expire");
                true
            }
        };
        if (is_done || has_it) && !faults::is_planted(PlantedFault::ClaimTwice) {
            return EventKind::ClaimLost { holder: Some(self.me.clone()) };
        }
        let mut fenced = Vec::new();
        for (other, conversation) in self.conversations.iter_mut().filter(|(other, _)| *other != id) {
            let same = (conversation.pattern.open_task())
                .filter(|open| open.spec.task_id == task && *open.owner == owner)
                .and_then(|open| open.epoch);
            if let Some(epoch) = same {
                conversation.task = None;
                conversation
                    .queue
                    .push_back(QueuedEvent::from_inside(EventKind::ClaimExpired { epoch }, None));
                fenced.push(other.clone());
            }
        }
        fenced.iter().for_each(|other| self.advance(other, false, cx));
        what
    }
}

/// The first publisher of a signal. When the board offers a task again, the signal names it.
pub(crate) fn publisher(signal: &Signal) -> AgentId {
    let first = || AgentId::parse(signal.refs.get(PUBLISHER)?.as_str()?).ok();
    signal.is_boards_own().then(first).flatten().unwrap_or_else(|| signal.from.clone())
}
