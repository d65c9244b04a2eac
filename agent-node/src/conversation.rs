//! Drives any pattern: events come in, the rule runs, one commit records event, state and effects, then effects are
//! performed (DESIGN §2). This file is the part without I/O: it turns waiting events into one batch.

mod advance;
mod effects;
pub mod opening;
pub mod record;
pub mod spill;
mod step;
#[cfg(test)]
mod survives;

use blackboard::store::{Error, Revision};
use bytes::Bytes;
use opening::Opening;
use protocol::{
    coordination::{AnyPattern, Effect, Event, What},
    ids::ConversationId,
    task::TaskState,
    trace::TraceContext,
};
use record::{Open, Place, Sealed, State, TaskRow};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::agent::{Ack, Waiter};

#[cfg(test)]
pub(crate) use advance::ENOUGH_TO_FOLLOW;
use advance::Taken;
pub use advance::{Advance, Decided, Now, Poisoned};

/// One event on its way into a conversation.
pub struct Queued {
    /// What happened.
    pub what: What,
    /// The effect whose result it is.
    pub closes: Option<Place>,
    /// The message, if it is one, as it came: written in place of what serde makes of it.
    pub text: Option<Bytes>,
    /// The receipt that is written with it, if it came from outside.
    pub receipt: Option<Sealed>,
    /// How far the board has been followed with it, which is written with it too.
    pub cursor: Option<Revision>,
    /// Whoever waits for the commit, and what they are told.
    pub waiters: Vec<(Waiter, Ack)>,
}

impl Queued {
    /// An event from inside.
    pub fn from_inside(what: What, closes: Option<Place>) -> Self {
        Self { what, closes, text: None, receipt: None, cursor: None, waiters: Vec::new() }
    }

    /// Whether nothing is lost if this is forgotten in a crash: a best-effort message, or the news that a message
    /// arrived (it would be sent again, and known).
    fn may_be_forgotten(&self) -> bool {
        match &self.what {
            What::Heard { envelope, .. } => envelope.kind().is_best_effort(),
            What::Told { .. } | What::Published { .. } => true,
            What::Undelivered { .. } => self.closes.is_none(),
            What::Started
            | What::Progress { .. }
            | What::Thought { .. }
            | What::ThoughtFailed { .. }
            | What::Claimed { .. }
            | What::ClaimLost { .. }
            | What::ClaimExpired { .. }
            | What::ClaimEnded { .. }
            | What::Woke { .. }
            | What::PeersFound { .. }
            | What::Answered { .. }
            | What::Cancelled { .. }
            | What::Leaving { .. } => false,
        }
    }
}

/// Events that nobody outside repeats, with the effects whose results they are.
type Inside = Vec<(What, Option<Place>)>;

/// An event that the rule has seen, the effect whose result it is, and the message as it came.
struct Seen {
    event: Event,
    closes: Option<Place>,
    text: Option<Bytes>,
}

/// A step, how many bytes its journal line has, and what became of it.
type Early = (Box<Decided>, usize, Result<Vec<Revision>, Error>);

/// One open conversation in memory.
pub struct Conversation {
    /// Its name.
    pub id: ConversationId,
    /// Its pattern and that pattern's state.
    pub pattern: AnyPattern,
    /// Effects without a result.
    pub open: BTreeMap<Place, Open>,
    /// Labels of messages that may be answered.
    pub labels: BTreeMap<Place, String>,
    /// The task it is about, as its row holds it.
    pub task: Option<TaskRow>,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
    /// How it came to be, until that is recorded.
    pub opening: Option<Box<Opening>>,
    /// The last step of which its trace has been told.
    pub told: u64,
    /// How it ended.
    pub ended: Option<TaskState>,
    /// Events that wait for the running commit.
    pub queue: VecDeque<Queued>,
    /// Commits under way: one, or a second that stands only if the first does.
    commits: u8,
    /// Whether that one is written by itself: one that shares its commit with others may have to be written again.
    may_be_followed: bool,
    /// What was in the first of two that failed, until the second has too.
    failed: Option<(Error, Inside)>,
    /// What became of the second of two, while nothing is known of the first.
    pub early: Option<Early>,
    /// What the rule has seen since the last one began, or nothing.
    ahead: Option<Box<Taken>>,
    /// The step last decided.
    pub step: u64,
    head: Revision,
    first: Revision,
    uncommitted: Vec<Seen>,
    /// Of those, what happened inside: nobody outside will repeat it if the commit fails.
    deferred: Vec<(What, Option<Place>)>,
    written: Option<State>,
    kept: BTreeSet<protocol::ids::Digest>,
    again: Vec<Place>,
    shown: Option<TaskRow>,
}

impl Conversation {
    /// A new conversation; its first event is on the queue when this returns.
    pub fn open(
        id: ConversationId,
        pattern: AnyPattern,
        task: Option<TaskRow>,
        opening: Option<Opening>,
    ) -> Self {
        Self {
            id,
            pattern,
            open: BTreeMap::new(),
            labels: BTreeMap::new(),
            task,
            trace: opening.as_ref().map(|opening| opening.trace.clone()),
            opening: opening.map(Box::new),
            told: 0,
            ended: None,
            queue: VecDeque::new(),
            commits: 0,
            may_be_followed: false,
            failed: None,
            early: None,
            ahead: None,
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
    pub fn restore(
        id: ConversationId,
        state: State,
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
            ..Self::open(id, state.pattern, task, None)
        }
    }

    /// Whether nothing is left to do: it may leave memory.
    pub fn is_over(&self) -> bool {
        self.ended.is_some()
            && self.open.is_empty()
            && self.queue.is_empty()
            && !self.is_committing()
            && self.uncommitted.is_empty()
    }

    /// Whether nothing is left but to record that.
    pub fn is_closing(&self) -> bool {
        self.ended.is_some() && self.open.is_empty() && self.queue.is_empty() && !self.is_committing()
    }

    /// Whether a commit is under way.
    pub fn is_committing(&self) -> bool {
        self.commits > 0
    }

    /// Whether something waits for a commit that nothing has forced yet.
    pub fn has_uncommitted(&self) -> bool {
        !self.uncommitted.is_empty() || !self.again.is_empty()
    }

    /// Counts one more attempt at an open effect and performs it once that is recorded.
    pub fn begin_again(&mut self, place: Place) {
        if let Some(open) = self.open.get_mut(&place) {
            open.attempts += 1;
            self.again.push(place);
        }
    }

    /// A node that leaves of its own accord was not brought down by what it was thinking.
    fn excuse_attempts(&mut self) {
        let thoughts = self.open.values_mut().filter(|open| matches!(open.effect, Effect::Think { .. }));
        thoughts.for_each(|open| open.attempts = open.attempts.saturating_sub(1));
    }

    /// The label of the message `envelope` answers, if it is one of ours.
    pub fn label_answered(&self, effect: &protocol::ids::EffectId) -> Option<String> {
        self.labels.get(&Place(effect.step, effect.index)).cloned()
    }

    /// Whether it is work of this agent's own that goes on.
    pub fn is_work(&self) -> bool {
        match &self.pattern {
            AnyPattern::Delegation(delegation) => delegation.is_work(),
            AnyPattern::OpenTask(task) => task.is_work(),
            AnyPattern::HelpRequest(_)
            | AnyPattern::Broadcast(_)
            | AnyPattern::ContractNet(_)
            | AnyPattern::Redelivery(_)
            | AnyPattern::Reaction(_) => false,
        }
    }

    /// How it ended, once that is recorded.
    pub fn end(&self) -> Option<TaskState> {
        self.ended.filter(|_| !self.ahead.as_ref().is_some_and(|taken| taken.ends()))
    }

    /// Its task, once it has ended and that is recorded: nothing changes it any more.
    pub fn ended_task(&self) -> Option<&TaskRow> {
        self.end().and(self.task.as_ref())
    }

    /// What is in memory of it and in no record: events that wait, and what the next step would have held.
    pub fn unrecorded(self) -> (VecDeque<Queued>, Option<Poisoned>) {
        (self.queue, self.ahead.map(|taken| taken.given_up()))
    }

    /// Whether the step is the second of two under way: what becomes of it counts only after the first.
    pub fn is_second(&self, step: u64) -> bool {
        self.commits > 1 && step == self.step
    }

    /// Takes the revision of the journal's new head: the batch's last write. Whether the step that it stands upon was done.
    #[must_use]
    pub fn committed(&mut self, revisions: &[Revision]) -> bool {
        self.commits = self.commits.saturating_sub(1);
        self.head = revisions.last().copied().unwrap_or(self.head);
        if self.first == 0 {
            self.first = self.head;
        }
        self.failed.is_none()
    }

    /// A commit was not done, of which `inside` happened here: why the first was not, what happened here of all, and
    /// whether none is under way any more.
    pub fn failed(&mut self, error: Error, inside: Inside) -> (Error, Inside, bool) {
        self.commits = self.commits.saturating_sub(1);
        let (first, mut all) = self.failed.take().unwrap_or((error, Vec::new()));
        all.extend(inside);
        if self.commits == 0 {
            return (first, all, true);
        }
        self.failed = Some((first.clone(), all));
        (first, Vec::new(), false)
    }

    /// The revision of its journal's first record, or a lower one.
    pub fn first(&self) -> Revision {
        self.first
    }

    /// The journal's head.
    pub fn head(&self) -> Revision {
        self.head
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use advance::{AtOnce, MOST_AT_ONCE};
    use protocol::{
        coordination::{
            accountable::Accountable,
            delegation::{Delegation, Patience},
            thought::{Progress, TurnEnd},
        },
        ids::AgentId,
        message::Payload,
        time::{NodeTime, WallTime},
    };
    use std::cell::Cell;

    thread_local! {
        static PANICS: Cell<u32> = const { Cell::new(0) };
        static FAILURES: Cell<u32> = const { Cell::new(0) };
    }

    /// Makes the next `times` steps of this thread impossible to write.
    pub(crate) fn fail_steps(times: u32) {
        FAILURES.set(times);
    }

    pub(super) fn fail_if_asked() -> Result<(), blackboard::store::Error> {
        if FAILURES.get() == 0 {
            return Ok(());
        }
        FAILURES.set(FAILURES.get() - 1);
        Err(blackboard::store::Error::Refused("a record can't be written".to_owned()))
    }

    /// Makes the rules of this thread panic on the next `times` thoughts or ends.
    pub(crate) fn panic_on_thoughts(times: u32) {
        PANICS.set(times);
    }

    #[test]
    fn news_that_waited_for_a_step_is_handed_back_with_it() {
        let me = AgentId::parse("a").unwrap();
        let content = serde_json::json!({ "signal": "x.y" }).as_object().unwrap().clone();
        let Ok(Payload::Broadcast(message)) = Payload::parse(protocol::message::Kind::Broadcast, content)
        else {
            panic!("a broadcast");
        };
        let by = protocol::principal::Principal::local_user();
        let broadcast = protocol::coordination::broadcast::Broadcast::new(message, &by);
        let id = ConversationId::parse("c").unwrap();
        let mut conversation = Conversation::open(id, AnyPattern::Broadcast(broadcast), None, None);
        let mut next = |what, closes| {
            conversation.commits = 0;
            conversation.queue.push_back(Queued::from_inside(what, closes));
            let (at, wall, records) = (NodeTime(0), WallTime(0), &BTreeMap::new());
            conversation.advance(Now { me: &me, at, wall, records, at_once: &|_, _, _| None }, false)
        };
        assert!(matches!(next(What::Started, None), Advance::Commit(_)));
        let told = What::Told { label: "x".to_owned(), by: me.clone() };
        assert!(matches!(next(told.clone(), Some(Place(1, 0))), Advance::Deferred(_)));
        let woke = What::Woke { timer: "x".to_owned() };
        let Advance::Commit(decided) = next(woke.clone(), None) else { panic!("a step") };
        assert_eq!(decided.inside, [(told, Some(Place(1, 0))), (woke, None)]);
    }

    fn task() -> Conversation {
        let me = AgentId::parse("a").unwrap();
        let spec = serde_json::json!({ "taskId": "t-1", "description": "x", "root": "user:local" });
        let accountable = Accountable::new(serde_json::from_value(spec).unwrap(), None);
        let pattern = Delegation::new(me, accountable, None, Patience::default());
        let id = ConversationId::parse("c").unwrap();
        let mut conversation = Conversation::open(id, AnyPattern::Delegation(pattern), None, None);
        conversation.queue.push_back(Queued::from_inside(What::Started, None));
        conversation
    }

    /// The step that follows from what waits, if a brain asks its owner in every turn, at once.
    fn step_of_one_who_asks(conversation: &mut Conversation) -> Box<Decided> {
        let me = AgentId::parse("a").unwrap();
        let (at, wall, records) = (NodeTime(0), WallTime(0), &BTreeMap::new());
        let question = Progress::Question { id: "q".to_owned(), text: "which?".to_owned(), auth: false };
        let at_once: AtOnce<'_> = &|turn, _, _| {
            Some(What::Thought { turn, updates: vec![question.clone()], end: TurnEnd::Waiting })
        };
        let Advance::Commit(decided) =
            conversation.advance(Now { me: &me, at, wall, records, at_once }, false)
        else {
            panic!("a step")
        };
        decided
    }

    fn thinks(decided: &Decided) -> usize {
        decided.effects.iter().filter(|(_, effect)| matches!(effect, Effect::Think { .. })).count()
    }

    #[test]
    fn so_many_turns_share_a_step_and_the_next_is_asked_after_it() {
        let mut conversation = task();
        let by = protocol::principal::Principal::local_user();
        for _ in 0..MOST_AT_ONCE {
            let what = What::Answered { by: by.clone(), text: "this".to_owned(), message: None };
            conversation.queue.push_back(Queued::from_inside(what, None));
        }
        let decided = step_of_one_who_asks(&mut conversation);
        assert_eq!((thinks(&decided), conversation.open.len()), (1, 1));
        assert_eq!(decided.inside.len(), 1 + MOST_AT_ONCE, "thoughts come again with what asks for them");
    }

    #[test]
    fn a_thought_that_the_rule_cannot_take_is_left_out_of_the_step_that_asks() {
        let mut conversation = task();
        panic_on_thoughts(1);
        let decided = step_of_one_who_asks(&mut conversation);
        let [(place, Open { effect: Effect::Think { turn: 1, .. }, attempts: 1, .. })] =
            conversation.open.iter().collect::<Vec<_>>()[..]
        else {
            panic!("{:#?}", conversation.open)
        };
        assert_eq!((thinks(&decided), decided.effects.last().unwrap().0), (1, *place));
    }

    pub(super) fn panic_if_asked(event: &Event) {
        if matches!(event.what, What::Thought { .. } | What::Cancelled { .. }) && PANICS.get() > 0 {
            PANICS.set(PANICS.get() - 1);
            panic!("a rule that can't take it");
        }
    }
}
