//! One conversation of any pattern (DESIGN §2): it turns queued events into one batch with events, state and effects.

mod batch;
mod effects;
mod expense;
pub mod origin;
#[cfg(test)]
mod round_trip_tests;
mod step;

pub(crate) use step::{AdvanceResult, DecidedStep, StepContext, StepFailed};

use crate::{
    Ack, ReplyTo,
    chunks::ChunkLog,
    records::{EffectKey, OpenEffect, SealedReceipt, TaskRow},
    replay_start::ReplayStart,
    states::{RecordedState, StateRow},
};
use origin::Origin;
use patterns::{AnyPattern, Effect, Event, EventKind, Label};
use protocol::{
    ids::{AgentId, ConversationId, Digest, EffectId, TaskId, ThreadId},
    principal::{Principal, TaskRoot},
    signal::Cursor,
    task::TaskState,
    trace::TraceContext,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store_types::Revision;

/// An event that waits for its conversation.
pub(crate) struct QueuedEvent {
    pub what: EventKind,
    /// The effect whose result it is.
    pub closes: Option<EffectKey>,
    /// The receipt written in the same step, if the event is a message.
    pub receipt: Option<SealedReceipt>,
    /// The board cursor written in the same step, if the event is a signal.
    pub cursor: Option<Cursor>,
    /// The callers that wait for the commit, and their answers.
    pub waiters: Vec<(ReplyTo, Ack)>,
}

impl QueuedEvent {
    /// An event that the agent produced itself.
    pub(crate) fn from_inside(what: EventKind, closes: Option<EffectKey>) -> Self {
        Self { what, closes, receipt: None, cursor: None, waiters: Vec::new() }
    }

    /// Whether a crash may lose it: a best-effort message, or an acknowledgement. Without the acknowledgement the message is
    /// sent again and recognised as a duplicate.
    fn may_be_forgotten(&self) -> bool {
        match &self.what {
            EventKind::MessageReceived { envelope, .. } => envelope.kind().is_best_effort(),
            EventKind::Delivered { .. } | EventKind::Published { .. } => true,
            EventKind::Undelivered { .. } => self.closes.is_none(),
            _ => false,
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
    pub id: ConversationId,
    /// Its pattern and that pattern's state.
    pub pattern: AnyPattern,
    /// Effects without a result.
    pub open: BTreeMap<EffectKey, OpenEffect>,
    /// Labels of messages that may be answered.
    pub labels: BTreeMap<EffectKey, Label>,
    /// The task it is about, as its row holds it.
    pub task: Option<TaskRow>,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
    /// The thread it belongs to.
    pub thread: Option<ThreadId>,
    /// The principal that it works for; `None` if a signal opened it.
    pub principal: Option<Principal>,
    /// Its origin, until the first step records it.
    pub origin: Option<Box<Origin>>,
    /// The last step that an observation has reported for the trace.
    pub traced_step: u64,
    /// The state it ended in.
    pub ended: Option<TaskState>,
    /// Events that wait for the next step.
    pub queue: VecDeque<QueuedEvent>,
    is_committing: bool,
    /// Whether a step failed a moment ago; its events are at the front of the queue.
    is_paused: bool,
    /// The number of the last decided step.
    pub step: u64,
    head: Revision,
    first: Revision,
    uncommitted: Vec<HandledEvent>,
    /// The uncommitted events that the agent produced itself; they are queued again if the commit fails.
    deferred: Vec<(EventKind, Option<EffectKey>)>,
    state_row: Option<StateRow>,
    stored_content: BTreeSet<Digest>,
    restarted: Vec<EffectKey>,
    recorded_task: Option<TaskRow>,
    /// The state that it was restored to from one of other rules, until a step records it.
    upgraded: Option<Box<ReplayStart>>,
}

impl Conversation {
    /// The principal at the root of its work, if it works for one.
    pub(crate) fn root(&self) -> Option<TaskRoot> {
        let of_pattern = || {
            let (principal, proof) = self.pattern.view().root?;
            Some(TaskRoot { principal: principal.clone(), proof })
        };
        self.task.as_ref().map(|row| row.task.spec.task_root()).or_else(of_pattern)
    }

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
            principal: None,
            origin: origin.map(Box::new),
            traced_step: 0,
            ended: None,
            queue: VecDeque::new(),
            is_committing: false,
            is_paused: false,
            step: 0,
            head: 0,
            first: 0,
            uncommitted: Vec::new(),
            deferred: Vec::new(),
            state_row: None,
            stored_content: BTreeSet::new(),
            restarted: Vec::new(),
            recorded_task: None,
            upgraded: None,
        }
    }

    /// The conversation as the store holds it. `first` is the revision of its journal's first record.
    pub(crate) fn restore(
        id: ConversationId,
        RecordedState { state, row, is_upgraded, step, head }: RecordedState,
        task: Option<TaskRow>,
        first: Revision,
    ) -> Self {
        let ended =
            state.has_ended.then(|| task.as_ref().map_or(TaskState::Completed, |row| row.task.status.state));
        Self {
            open: state.open,
            labels: state.labels,
            traced_step: if ended.is_some() { step } else { 0 },
            ended,
            step,
            head,
            first,
            recorded_task: task.clone(),
            state_row: Some(row),
            upgraded: is_upgraded.then(|| ReplayStart::of(&state.pattern)),
            trace: state.trace,
            thread: state.thread,
            principal: state.principal,
            ..Self::open(id, state.pattern, task, None)
        }
    }

    /// Whether it has ended and nothing is open or queued, so that it can leave memory.
    pub(crate) fn is_finished(&self) -> bool {
        self.ended.is_some()
            && self.open.is_empty()
            && self.queue.is_empty()
            && !self.is_committing()
            && self.uncommitted.is_empty()
    }

    /// Whether a commit is under way, or about to be repeated.
    pub(crate) fn is_committing(&self) -> bool {
        self.is_committing || self.is_paused
    }

    /// Makes `queue` and all later events wait until [`Self::resume`].
    pub(crate) fn pause(&mut self, queue: VecDeque<QueuedEvent>) {
        self.queue = queue;
        self.is_paused = true;
    }

    /// Ends a pause.
    pub(crate) fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Whether handled events, restarted turns or an upgraded state wait for a commit.
    pub(crate) fn has_uncommitted(&self) -> bool {
        !self.uncommitted.is_empty() || !self.restarted.is_empty() || self.upgraded.is_some()
    }

    /// The next step performs an open turn again. `is_counted` adds an attempt, which that step records.
    pub(crate) fn restart_turn(&mut self, effect: EffectKey, is_counted: bool) {
        if let Some(open) = self.open.get_mut(&effect) {
            open.attempts += u32::from(is_counted);
            self.restarted.push(effect);
        }
    }

    /// How often each open turn was started.
    pub(crate) fn turn_attempts(&self) -> impl Iterator<Item = u32> {
        let turns = self.open.values().filter(|open| matches!(open.effect, Effect::RunTurn { .. }));
        turns.map(|open| open.attempts)
    }

    /// Undoes the attempt count of running turns when the node drains: they are not the cause of this restart.
    fn discount_turn_attempts(&mut self) {
        let thoughts = self.open.values_mut().filter(|open| matches!(open.effect, Effect::RunTurn { .. }));
        thoughts.for_each(|open| open.attempts = open.attempts.saturating_sub(1));
    }

    /// The label of the message with this effect id, if an answer to it is awaited.
    pub(crate) fn label_of(&self, effect: &EffectId) -> Option<Label> {
        self.labels.get(&EffectKey(effect.step, effect.index)).copied()
    }

    /// Removes the next event if it is a message that the pattern fences. Returns it with the reason. While a step is being
    /// committed nothing is judged, because the commit may fail.
    pub(crate) fn pop_fenced(&mut self) -> Option<(QueuedEvent, String)> {
        let why =
            self.queue.front().filter(|_| !self.is_committing()).and_then(|next| self.why_fenced(next))?;
        self.queue.pop_front().map(|fenced| (fenced, why))
    }

    /// Where the chunks of its artifacts are.
    pub(crate) fn chunk_log(&self, me: &AgentId) -> ChunkLog {
        match &self.task {
            Some(row) => ChunkLog::of_task(me, row),
            None => ChunkLog::of_conversation(me, &self.id),
        }
    }

    /// Why the pattern refuses a message: it is a report under an award that is not in force.
    fn why_fenced(&self, queued: &QueuedEvent) -> Option<String> {
        match &queued.what {
            EventKind::MessageReceived { by, envelope, .. } => {
                self.pattern.view().fence?.why_fenced(by.agent()?, &envelope.payload)
            }
            _ => None,
        }
    }

    /// Whether it has ended in a step that is not durable.
    pub(crate) fn is_end_uncommitted(&self) -> bool {
        self.ended.is_some() && self.traced_step == 0
    }

    /// Whether it has ended in a step that is durable.
    pub(crate) fn has_ended_for_good(&self) -> bool {
        self.ended.is_some() && !self.is_end_uncommitted()
    }

    /// Ends the running commit. The batch's last write is the journal's new head.
    pub(crate) fn committed(&mut self, revisions: &[Revision]) {
        self.is_committing = false;
        self.head = revisions.last().copied().unwrap_or(self.head);
        if self.first == 0 {
            self.first = self.head;
        }
    }

    /// Its task as it is recorded.
    pub(crate) fn recorded_task(&self) -> Option<(TaskId, Principal)> {
        let row = self.recorded_task.as_ref();
        row.map(|row| (row.task.spec.task_id.clone(), row.task.owner.clone()))
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
    use crate::testing::EmptyWorld;
    use patterns::Timer;
    use protocol::{
        message::Payload,
        time::{NodeTime, WallTime},
    };
    #[test]
    fn deferred_events_are_part_of_the_next_step() {
        let me = AgentId::parse("a").unwrap();
        let content = serde_json::json!({ "signal": "x.y" }).as_object().unwrap().clone();
        let Ok(Payload::Broadcast(message)) =
            Payload::parse(protocol::message::MessageKind::Broadcast, content)
        else {
            panic!("a broadcast");
        };
        let by = protocol::principal::Principal::local_user();
        let broadcast = patterns::broadcast::Broadcast::new(message, &by);
        let id = ConversationId::parse("c").unwrap();
        let mut conversation = Conversation::open(id, broadcast.into(), None, None);
        let mut next = |what, closes| {
            conversation.is_committing = false;
            conversation.queue.push_back(QueuedEvent::from_inside(what, closes));
            let (at, wall, records) = (NodeTime(0), WallTime(0), &BTreeMap::new());
            let (store, world) = (&store_types::MemoryState::default(), &EmptyWorld::default());
            conversation.advance(
                StepContext { me: &me, world, at, wall, records, store, counts_tasks: false, brain: None },
                false,
            )
        };
        assert!(matches!(next(EventKind::Started, None), AdvanceResult::Commit(_)));
        let label = Label::Update;
        let traced_step = EventKind::Delivered { label, by: me.clone() };
        assert!(matches!(next(traced_step.clone(), Some(EffectKey(1, 0))), AdvanceResult::Deferred(_)));
        let timer = Timer::Renew;
        let woke = EventKind::TimerFired { timer };
        let AdvanceResult::Commit(decided) = next(woke.clone(), None) else { panic!("a step") };
        assert_eq!(decided.inside, [(traced_step, Some(EffectKey(1, 0))), (woke, None)]);
    }
}
