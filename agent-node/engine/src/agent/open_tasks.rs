//! Open tasks: which offers an agent claims, and which of its conversations holds a claim.

use crate::{
    agent::Agent,
    context::Context,
    conversation::{Conversation, QueuedEvent},
    problems::internal,
    quotas::Gate,
};
use patterns::{
    AnyPattern, EventKind,
    open_task::{self, OpenTask},
};
use protocol::{
    ids::{ConversationId, MessageId, TaskId},
    message::Epoch,
    principal::{Principal, TaskRoot},
    problem::Problem,
    signal::{Signal, first_offer, publisher},
};
use std::time::Duration;

/// The newest claim on an open task that a conversation holds, or that an event in its queue grants.
fn newest_claim(conversation: &Conversation, task: &TaskId, owner: &Principal) -> Option<Epoch> {
    let open = conversation.pattern.view().open_task;
    let open = open.filter(|open| open.spec.task_id == *task && open.owner == owner)?;
    let granted = |queued: &QueuedEvent| {
        if let EventKind::Claimed { epoch, .. } = queued.what { Some(epoch) } else { None }
    };
    open.epoch.max(conversation.queue.iter().filter_map(granted).max())
}

/// The epoch of the claim under which a conversation does an open task.
fn claim_epoch(conversation: &Conversation, task: &TaskId, owner: &Principal) -> Option<Epoch> {
    conversation.pattern.view().open_task?;
    let row = conversation.task.as_ref()?;
    (row.task.spec.task_id == *task && row.task.owner == *owner).then_some(row.epoch)?
}

impl Agent {
    /// Whether another conversation does the same open task under a later claim; the task's row belongs to that one.
    pub(super) fn has_later_claim(&self, conversation: &Conversation) -> bool {
        let Some(row) = &conversation.task else { return false };
        let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
        let mut others = self.conversations.others(&conversation.id);
        conversation.pattern.view().open_task.is_some()
            && others.any(|other| claim_epoch(other, task, owner) > row.epoch)
    }

    /// Whether it takes work, and its taken places and requested claims do not reach `maxParallel`.
    pub(super) fn may_claim(&self, cx: &Context<'_>) -> bool {
        let requested = self.offers.claiming().filter(|id| self.conversations.phase(id).is_none()).count();
        let requested = u32::try_from(requested).unwrap_or(u32::MAX);
        let is_full = self.taken_places().saturating_add(requested) >= self.max_parallel();
        let own = Principal::Agent(self.me.clone());
        let is_closed = || self.closed_quota(Gate::Taken, (None, &own), cx).is_some();
        !is_full && self.config.card.waits_for.is_none() && !is_closed()
    }

    /// Requests the claims that have waited for a place, the oldest first.
    pub(super) fn request_waiting_claims(&mut self, cx: &mut Context<'_>) {
        while self.offers.waiting() > 0
            && self.may_claim(cx)
            && let Some(id) = self.offers.next_waiting()
        {
            self.attempt(id, cx);
        }
    }

    /// The pattern that claims the task offered by `signal`; `None` if the offer is incomplete or the task was sent here
    /// directly.
    pub(super) fn pattern_for_offer(
        &self,
        signal: &Signal,
        cx: &Context<'_>,
    ) -> Result<Option<AnyPattern>, Problem> {
        let incomplete = || {
            tracing::warn!(agent = %self.me, signal = %signal.id, "an offer without a task id, a description or a publisher");
        };
        // The board names the publisher of every offer with a task id.
        let Some(owner) = publisher(signal) else {
            incomplete();
            return Ok(None);
        };
        let unproven = || TaskRoot { principal: owner.clone(), proof: None };
        let root = signal.task_root().unwrap_or_else(unproven);
        let Some(spec) = open_task::offered(signal, root) else {
            incomplete();
            return Ok(None);
        };
        let open = self.conversations.of_task(&spec.task_id, &owner);
        let was_asked_for_directly = match open.and_then(|id| self.conversations.get(id)) {
            Some(open) => open.pattern.view().open_task.is_none(),
            None => self.row(&spec.task_id, &owner, cx)?.is_some_and(|row| row.epoch.is_none()),
        };
        if was_asked_for_directly {
            tracing::info!(agent = %self.me, task = %spec.task_id, "not claimed: a task of that id was sent here");
            return Ok(None);
        }
        let lease = Duration::from_millis(self.config.auction.lease_ms);
        let offer = MessageId::parse(first_offer(signal)).map_err(internal)?;
        let acceptance = self.acceptance(spec.capability.as_ref(), None);
        let task = OpenTask::new(self.me.clone(), owner, offer, spec, lease, self.config.work_limits);
        Ok(Some(task.with_acceptance(acceptance).into()))
    }

    /// Adapts the result of a claim to the conversation `id`. The board knows agents, not conversations: it confirms a claim
    /// of the same agent to a second conversation, too. An earlier claim on the same task has then expired; the conversations
    /// that held one are returned with that event in their queues.
    pub(super) fn settle_open_claim(
        &mut self,
        id: &ConversationId,
        what: EventKind,
        cx: &Context<'_>,
    ) -> (EventKind, Vec<ConversationId>) {
        let (epoch, task, owner) = match (
            &what,
            self.conversations.get(id).and_then(|conversation| conversation.pattern.view().open_task),
        ) {
            (EventKind::Claimed { epoch, .. }, Some(open)) if open.is_pending => {
                (*epoch, open.spec.task_id.clone(), open.owner.clone())
            }
            _ => return (what, Vec::new()),
        };
        let newest = |other| newest_claim(other, &task, &owner).max(claim_epoch(other, &task, &owner));
        let has_it = self.conversations.others(id).any(|other| newest(other) >= Some(epoch));
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
        if is_done || has_it {
            return (EventKind::ClaimLost { holder: Some(self.me.clone()) }, Vec::new());
        }
        let mut fenced = Vec::new();
        for conversation in self.conversations.others_mut(id) {
            let open = conversation.pattern.view().open_task;
            match open.filter(|open| open.spec.task_id == task && *open.owner == owner).map(|open| open.epoch)
            {
                Some(Some(epoch)) => {
                    let what = EventKind::ClaimExpired { epoch };
                    conversation.queue.push_back(QueuedEvent::from_inside(what, None));
                    fenced.push(conversation.id.clone());
                }
                // An earlier claim that was granted here has not become a step yet, and has expired already.
                Some(None) => {
                    let granted = (conversation.queue.iter_mut())
                        .filter(|queued| matches!(queued.what, EventKind::Claimed { .. }));
                    let lost = || EventKind::ClaimLost { holder: Some(self.me.clone()) };
                    granted.for_each(|queued| queued.what = lost());
                }
                None => {}
            }
        }
        (what, fenced)
    }

    /// Leaves the row of an open task to the conversation that holds a later claim, when the end of this claim is next.
    pub(super) fn leave_row_to_later_claim(&mut self, id: &ConversationId) {
        let is_expiring = |queued: &QueuedEvent| matches!(queued.what, EventKind::ClaimExpired { .. });
        let Some(conversation) = self.conversations.get(id) else { return };
        if conversation.queue.iter().any(is_expiring)
            && self.has_later_claim(conversation)
            && let Some(conversation) = self.conversations.get_mut(id)
        {
            conversation.task = None;
        }
    }
}

/// The first publisher of a signal. When the board offers a task again, the signal names the publisher of the task.
pub(super) fn first_publisher(signal: &Signal) -> Option<Principal> {
    publisher(signal).filter(|_| signal.is_boards_own()).or_else(|| signal.by.clone())
}
