//! The subscription to the board: its cursor, and the signal in hand. The first start begins at the board's head.

use crate::{
    Output, ReplyTo, board_cursor,
    commits::{Commits, PendingCommit},
    context::Context,
    counts::AgentCounts,
    delivery::backoff::pause,
    settings::SignalFilter,
    timer_purpose::TimerPurpose,
    timers::Timers,
};
use protocol::{
    ids::AgentId,
    problem::{Problem, Reason},
    signal::{Cursor, Selector, SignalRecord},
};
use std::time::Duration;
use store_types::{Batch, Error, Lane, Revision};

/// How long a signal waits before it is retried.
const FULL: Duration = Duration::from_millis(100);

/// What a subscription needs of the agent.
pub(crate) struct SubscriptionContext<'a> {
    pub(crate) me: &'a AgentId,
    pub(crate) timers: &'a mut Timers,
    pub(crate) commits: &'a mut Commits,
    pub(crate) counts: &'a mut AgentCounts,
}

/// What the agent subscribes to on the board, and its cursor.
pub(crate) struct BoardSubscription {
    selector: Option<Selector>,
    cursor: Option<Cursor>,
    attempts: u32,
    /// The signal that waits for a retry.
    waiting: Option<(Box<SignalRecord>, ReplyTo)>,
    /// The signal that the current or last input handles.
    in_hand: Option<Revision>,
    /// The cursor that is being recorded.
    recording: Option<Cursor>,
    /// The last signal whose reaction failed.
    failed: Option<Cursor>,
}

impl BoardSubscription {
    pub(crate) fn new(filters: &[SignalFilter]) -> Self {
        let types = filters.iter().map(|filter| filter.kind.clone()).collect();
        Self {
            selector: (!filters.is_empty()).then_some(Selector { types, ..Selector::default() }),
            cursor: None,
            attempts: 0,
            waiting: None,
            in_hand: None,
            recording: None,
            failed: None,
        }
    }

    /// The cursor of the signal at `revision`, in the generation that is followed.
    pub(crate) fn at(&self, revision: Revision) -> Cursor {
        let generation = self.cursor.as_ref().and_then(|cursor| cursor.generation.clone());
        Cursor { generation, revision }
    }

    pub(crate) fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// The agent begins to handle the signal at `revision`.
    pub(crate) fn take_in_hand(&mut self, revision: Revision) {
        self.in_hand = Some(revision);
    }

    /// The next input is no signal, until one is taken in hand.
    pub(crate) fn lay_down(&mut self) {
        self.in_hand = None;
    }

    /// The signal that the current or last input handles.
    pub(crate) fn in_hand(&self) -> Option<Revision> {
        self.in_hand
    }

    /// A signal waits for a retry.
    pub(crate) fn wait(
        &mut self,
        posted: Box<SignalRecord>,
        reply: ReplyTo,
        timers: &mut Timers,
        cx: &mut Context<'_>,
    ) {
        self.waiting = Some((posted, reply));
        timers.set(FULL, TimerPurpose::Signal, cx);
    }

    pub(crate) fn take_waiting(&mut self) -> Option<(Box<SignalRecord>, ReplyTo)> {
        self.waiting.take()
    }

    /// Reads the recorded cursor and subscribes from there.
    pub(crate) fn begin(&mut self, me: &AgentId, cx: &mut Context<'_>) -> Result<(), Error> {
        if self.selector.is_some() {
            self.cursor = board_cursor::read(me, cx.store)?;
            self.subscribe(cx);
        }
        Ok(())
    }

    pub(crate) fn subscribe(&self, cx: &mut Context<'_>) {
        if let Some(selector) = &self.selector {
            cx.out.push(Output::Subscribe(selector.clone(), self.cursor.clone()));
        }
    }

    pub(crate) fn lost(
        &mut self,
        problem: &Problem,
        own: &mut SubscriptionContext<'_>,
        cx: &mut Context<'_>,
    ) {
        let attempts = self.attempts;
        match attempts {
            // An unavailable registry is logged once for all agents.
            0 if problem.reason != Reason::RegistryUnavailable => {
                tracing::warn!(agent = %own.me, %problem, "the board can't be followed");
            }
            _ => tracing::debug!(agent = %own.me, %problem, attempts, "the board can't be followed yet"),
        }
        if matches!(problem.reason, Reason::Trimmed | Reason::GenerationChanged) {
            self.start_from_floor(problem, own);
        }
        self.attempts += 1;
        let wait = pause(attempts, cx.world.random());
        own.timers.set(wait, TimerPurpose::Subscribe, cx);
    }

    /// The board can't continue from the cursor: the agent begins with the oldest signal that is kept.
    fn start_from_floor(&mut self, problem: &Problem, own: &mut SubscriptionContext<'_>) {
        let named =
            |name| problem.metadata.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
        let Some(revision) = named("floor").and_then(|floor| floor.parse().ok()) else { return };
        let before = self.cursor.take();
        let known = before.as_ref().and_then(|cursor| cursor.generation.clone());
        let now = Cursor { generation: named("generation").or(known), revision };
        if problem.reason == Reason::GenerationChanged {
            own.counts.boards_changed += 1;
            let before = before.as_ref().map(ToString::to_string);
            tracing::warn!(
                agent = %own.me, before, %now,
                "the board has lost its signals: it is another generation, and is read from its oldest signal"
            );
        }
        self.cursor = Some(now);
    }

    /// The first start: records the head as the cursor, then subscribes.
    pub(crate) fn head(&mut self, head: Cursor, own: &mut SubscriptionContext<'_>, cx: &mut Context<'_>) {
        match board_cursor::write(own.me, &head) {
            Ok(write) => {
                self.recording = Some(head);
                let batch = Batch { writes: vec![write], expectations: Vec::new() };
                own.commits.issue(Lane::Admission, batch, PendingCommit::BoardCursor, cx);
            }
            Err(error) => self.lost(&error.into(), own, cx),
        }
    }

    /// Handles the result of the commit of the first cursor.
    pub(crate) fn head_settled(
        &mut self,
        result: Result<(), Error>,
        own: &mut SubscriptionContext<'_>,
        cx: &mut Context<'_>,
    ) {
        let recorded = self.recording.take();
        match result {
            Ok(()) => {
                self.cursor = recorded;
                self.subscribe(cx);
            }
            Err(error) => self.lost(&error.into(), own, cx),
        }
    }

    /// Moves the cursor past a signal that was skipped or whose conversation is durable.
    pub(crate) fn set_cursor(&mut self, cursor: Cursor) {
        // The reaction to a signal of the generation before may settle late.
        if self.cursor.as_ref().is_none_or(|now| now.generation == cursor.generation) {
            self.cursor = Some(cursor);
            self.attempts = 0;
        }
    }

    /// Moves the cursor past the signal at `revision`.
    pub(crate) fn pass(&mut self, revision: Revision) {
        self.set_cursor(self.at(revision));
    }

    /// The first step of the reaction to a signal failed. The signal is tried once more, then passed over.
    pub(crate) fn reaction_failed(&mut self, cursor: Cursor, me: &AgentId) {
        if self.failed.replace(cursor.clone()).as_ref() == Some(&cursor) {
            tracing::error!(agent = %me, %cursor, "a signal is passed over: the reaction failed twice");
            self.set_cursor(cursor);
        }
    }
}
