//! Drives any pattern: events come in, the rule runs, one commit records event, state and effects, then effects are
//! performed (DESIGN §2). This file is the part without I/O: it turns waiting events into one batch.

mod batch;
mod effects;
pub mod origin;
pub(crate) mod parked;
#[cfg(test)]
mod round_trip_tests;
mod step;

pub(crate) use step::{AdvanceResult, DecidedStep, StepContext, StepFailed};

use crate::{
    Ack, ReplyTo,
    records::{ConversationState, EffectKey, OpenEffect, SealedReceipt, TaskRow},
};
use origin::Origin;
use protocol::{
    ids::{ConversationId, Digest, EffectId, ThreadId},
    patterns::{AnyLabel, AnyPattern, Effect, Event, EventKind},
    task::TaskState,
    trace::TraceContext,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store_types::Revision;

/// An event of a conversation that happened in here, and the effect whose result it is.
pub(crate) struct InternalEvent {
    pub(crate) conversation: ConversationId,
    pub(crate) closes: Option<EffectKey>,
    pub(crate) what: EventKind,
}

/// One event on its way into a conversation.
pub(crate) struct QueuedEvent {
    /// What happened.
    pub what: EventKind,
    /// The effect whose result it is.
    pub closes: Option<EffectKey>,
    /// The receipt that is written with it, if it came from outside.
    pub receipt: Option<SealedReceipt>,
    /// How far the board has been followed with it, which is written with it too.
    pub cursor: Option<Revision>,
    /// Whoever waits for the commit, and what they are told.
    pub waiters: Vec<(ReplyTo, Ack)>,
}

impl QueuedEvent {
    /// An event from inside.
    pub(crate) fn from_inside(what: EventKind, closes: Option<EffectKey>) -> Self {
        Self { what, closes, receipt: None, cursor: None, waiters: Vec::new() }
    }

    /// Whether nothing is lost if this is forgotten in a crash: a best-effort message, or the news that a message
    /// arrived (it would be sent again, and known).
    fn may_be_forgotten(&self) -> bool {
        match &self.what {
            EventKind::MessageReceived { envelope, .. } => envelope.kind().is_best_effort(),
            EventKind::Delivered { .. } | EventKind::Published { .. } => true,
            EventKind::Undelivered { .. } => self.closes.is_none(),
            EventKind::Started
            | EventKind::TurnProgress { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::TurnFailed { .. }
            | EventKind::Claimed { .. }
            | EventKind::ClaimLost { .. }
            | EventKind::ClaimExpired { .. }
            | EventKind::ClaimEnded { .. }
            | EventKind::TimerFired { .. }
            | EventKind::PublishRefused { .. }
            | EventKind::PeersFound { .. }
            | EventKind::Answered { .. }
            | EventKind::Cancelled { .. }
            | EventKind::Draining { .. } => false,
        }
    }
}

/// An event that the pattern has handled, and the effect whose result it is.
struct HandledEvent {
    event: Event,
    closes: Option<EffectKey>,
}

/// One open conversation in memory.
pub(crate) struct Conversation {
    /// Its name.
    pub id: ConversationId,
    /// Its pattern and that pattern's state.
    pub pattern: AnyPattern,
    /// Effects without a result.
    pub open: BTreeMap<EffectKey, OpenEffect>,
    /// Labels of messages that may be answered.
    pub labels: BTreeMap<EffectKey, AnyLabel>,
    /// The task it is about, as its row holds it.
    pub task: Option<TaskRow>,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
    /// The collaboration it is a part of.
    pub thread: Option<ThreadId>,
    /// How it came to be, until that is recorded.
    pub origin: Option<Box<Origin>>,
    /// The last step of which its trace has been told.
    pub told: u64,
    /// How it ended.
    pub ended: Option<TaskState>,
    /// Events that wait for the running commit.
    pub queue: VecDeque<QueuedEvent>,
    is_committing: bool,
    /// The step last decided.
    pub step: u64,
    head: Revision,
    first: Revision,
    uncommitted: Vec<HandledEvent>,
    /// Of those, what happened inside: nobody outside will repeat it if the commit fails.
    deferred: Vec<(EventKind, Option<EffectKey>)>,
    written: Option<ConversationState>,
    kept: BTreeSet<Digest>,
    again: Vec<EffectKey>,
    shown: Option<TaskRow>,
}

impl Conversation {
    /// A new conversation; its first event is on the queue when this returns.
    pub(crate) fn open(
        id: ConversationId,
        pattern: AnyPattern,
        task: Option<TaskRow>,
        origin: Option<Origin>,
    ) -> Self {
        Self {
            id,
            pattern,
            open: BTreeMap::new(),
            labels: BTreeMap::new(),
            task,
            trace: origin.as_ref().map(|origin| origin.trace.clone()),
            thread: origin.as_ref().and_then(|origin| origin.thread.clone()),
            origin: origin.map(Box::new),
            told: 0,
            ended: None,
            queue: VecDeque::new(),
            is_committing: false,
            step: 0,
            head: 0,
            first: 0,
            uncommitted: Vec::new(),
            deferred: Vec::new(),
            written: None,
            kept: BTreeSet::new(),
            again: Vec::new(),
            shown: None,
        }
    }

    /// The conversation a restart finds: `first` and `head` are the revisions of its journal's
    /// ends, `step` is the last one recorded.
    pub(crate) fn restore(
        id: ConversationId,
        state: ConversationState,
        task: Option<TaskRow>,
        (first, head): (Revision, Revision),
        step: u64,
    ) -> Self {
        let ended =
            state.has_ended.then(|| task.as_ref().map_or(TaskState::Completed, |row| row.task.status.state));
        Self {
            open: state.open.clone(),
            labels: state.labels.clone(),
            told: if ended.is_some() { step } else { 0 },
            ended,
            step,
            head,
            first,
            shown: task.clone(),
            written: Some(state.clone()),
            trace: state.trace,
            thread: state.thread,
            ..Self::open(id, state.pattern, task, None)
        }
    }

    /// Whether nothing is left to do: it may leave memory.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_some()
            && self.open.is_empty()
            && self.queue.is_empty()
            && !self.is_committing()
            && self.uncommitted.is_empty()
    }

    /// Whether a commit is under way.
    pub(crate) fn is_committing(&self) -> bool {
        self.is_committing
    }

    /// Whether something waits for a commit that nothing has forced yet.
    pub(crate) fn has_uncommitted(&self) -> bool {
        !self.uncommitted.is_empty() || !self.again.is_empty()
    }

    /// Counts one more attempt at an open effect and performs it once that is recorded.
    pub(crate) fn begin_again(&mut self, effect: EffectKey) {
        if let Some(open) = self.open.get_mut(&effect) {
            open.attempts += 1;
            self.again.push(effect);
        }
    }

    /// A node that leaves of its own accord was not brought down by what it was thinking.
    fn excuse_attempts(&mut self) {
        let thoughts = self.open.values_mut().filter(|open| matches!(open.effect, Effect::RunTurn { .. }));
        thoughts.for_each(|open| open.attempts = open.attempts.saturating_sub(1));
    }

    /// The label of the message `envelope` answers, if it is one of ours.
    pub(crate) fn label_answered(&self, effect: &EffectId) -> Option<AnyLabel> {
        self.labels.get(&EffectKey(effect.step, effect.index)).cloned()
    }

    /// Whether it is work of this agent's own that goes on.
    pub(crate) fn is_work(&self) -> bool {
        self.pattern.is_work()
    }

    /// Takes the revision of the journal's new head: the batch's last write.
    pub(crate) fn committed(&mut self, revisions: &[Revision]) {
        self.is_committing = false;
        self.head = revisions.last().copied().unwrap_or(self.head);
        if self.first == 0 {
            self.first = self.head;
        }
    }

    /// The revision of its journal's first record, or a lower one.
    pub(crate) fn first(&self) -> Revision {
        self.first
    }

    /// The journal's head.
    pub(crate) fn head(&self) -> Revision {
        self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        ids::AgentId,
        message::Payload,
        patterns::AnyTimer,
        time::{NodeTime, WallTime},
    };
    #[test]
    fn news_that_waited_for_a_step_is_handed_back_with_it() {
        let me = AgentId::parse("a").unwrap();
        let content = serde_json::json!({ "signal": "x.y" }).as_object().unwrap().clone();
        let Ok(Payload::Broadcast(message)) =
            Payload::parse(protocol::message::MessageKind::Broadcast, content)
        else {
            panic!("a broadcast");
        };
        let by = protocol::principal::Principal::local_user();
        let broadcast = protocol::patterns::broadcast::Broadcast::new(message, &by);
        let id = ConversationId::parse("c").unwrap();
        let mut conversation = Conversation::open(id, broadcast.into(), None, None);
        let mut next = |what, closes| {
            conversation.is_committing = false;
            conversation.queue.push_back(QueuedEvent::from_inside(what, closes));
            let (at, wall, records) = (NodeTime(0), WallTime(0), &BTreeMap::new());
            conversation.advance(StepContext { me: &me, at, wall, records }, false)
        };
        assert!(matches!(next(EventKind::Started, None), AdvanceResult::Commit(_)));
        let label = AnyLabel::Delegation(protocol::patterns::delegation::DelegationLabel::Update);
        let told = EventKind::Delivered { label, by: me.clone() };
        assert!(matches!(next(told.clone(), Some(EffectKey(1, 0))), AdvanceResult::Deferred(_)));
        let timer = AnyTimer::Delegation(protocol::patterns::delegation::DelegationTimer::Renew);
        let woke = EventKind::TimerFired { timer };
        let AdvanceResult::Commit(decided) = next(woke.clone(), None) else { panic!("a step") };
        assert_eq!(decided.inside, [(told, Some(EffectKey(1, 0))), (woke, None)]);
    }
}
