//! Reactions to signals on the board (DESIGN §5). Each signal opens a conversation in the commit that moves the cursor past
//! it, so that the agent reacts exactly once across crashes.
//!
//! Signals are handled one at a time: while the agent can take no new conversation, the current signal waits. An offer opens
//! its conversation even if the agent has enough to do; its claim is requested when there is a place for the work, so that
//! it does not hide later signals. The first start begins at the board's head.

pub(crate) mod state;

use crate::{
    Ack, Output, ReplyTo,
    agent::Agent,
    commits::PendingCommit,
    content,
    context::Context,
    conversation::{Conversation, QueuedEvent, origin::OpeningSignal},
    delivery::backoff::pause,
    open_tasks::first_publisher,
    problems::internal,
    records::{ReactionReceipt, keys},
    requests::ConversationTrigger,
    timers::TimerPurpose,
};
use protocol::{
    ids::{AgentId, ConversationId, MessageId},
    patterns::{
        AnyPattern, EventKind,
        reaction::{self, Reaction},
    },
    problem::{Problem, Reason},
    signal::{Cursor, Signal, SignalRecord, SignalType},
    trace::{TRACEPARENT, TraceContext, trace_begun_by_signal},
};
use std::time::Duration;
use store_types::{Batch, Error, Lane, Revision, Write};

/// How long a signal waits before it is retried.
const FULL: Duration = Duration::from_millis(100);

/// How many offers may wait for a place; the next one waits on the board, and so do the signals behind it.
const MAX_WAITING_OFFERS: usize = 4_096;

impl Agent {
    /// Reads the recorded cursor and subscribes from there.
    pub(crate) fn begin_subscription(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        if self.subscription.selector.is_some() {
            let record = cx.store.latest(&keys::cursor(&self.me))?;
            let cursor =
                record.map(|record| content::decode(&self.me, cx.store, &record.value)).transpose()?;
            self.subscription.cursor = cursor;
            self.subscribe(cx);
        }
        Ok(())
    }

    pub(crate) fn subscribe(&mut self, cx: &mut Context<'_>) {
        if let Some(selector) = &self.subscription.selector {
            cx.out.push(Output::Subscribe(selector.clone(), self.subscription.cursor.clone()));
        }
    }

    pub(crate) fn subscription_lost(&mut self, problem: &Problem, cx: &mut Context<'_>) {
        let attempts = self.subscription.attempts;
        match attempts {
            // An unavailable registry is logged once for all agents.
            0 if problem.reason != Reason::RegistryUnavailable => {
                tracing::warn!(agent = %self.me, %problem, "the board can't be followed");
            }
            _ => tracing::debug!(agent = %self.me, %problem, attempts, "the board can't be followed yet"),
        }
        if matches!(problem.reason, Reason::Trimmed | Reason::GenerationChanged) {
            self.start_from_floor(problem);
        }
        self.subscription.attempts += 1;
        let wait = pause(attempts, cx.world.random());
        self.timers.set(wait, TimerPurpose::Subscribe, cx);
    }

    /// The board can't continue from the cursor: the agent begins with the oldest signal that is kept.
    fn start_from_floor(&mut self, problem: &Problem) {
        let named =
            |name| problem.metadata.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
        let Some(revision) = named("floor").and_then(|floor| floor.parse().ok()) else { return };
        let before = self.subscription.cursor.take();
        let known = before.as_ref().and_then(|cursor| cursor.generation.clone());
        let now = Cursor { generation: named("generation").or(known), revision };
        if problem.reason == Reason::GenerationChanged {
            self.counts.boards_changed += 1;
            let before = before.as_ref().map(ToString::to_string);
            tracing::warn!(
                agent = %self.me, before, %now,
                "the board has lost its signals: it is another generation, and is read from its oldest signal"
            );
        }
        self.subscription.cursor = Some(now);
    }

    /// The first start: records the head as the cursor, then subscribes.
    pub(crate) fn board_head(&mut self, head: Cursor, cx: &mut Context<'_>) {
        match cursor_write(&self.me, &head) {
            Ok(write) => {
                self.subscription.recording = Some(head);
                let batch = Batch { writes: vec![write], expectations: Vec::new() };
                self.commit(Lane::Admission, batch, PendingCommit::BoardCursor, cx);
            }
            Err(error) => self.subscription_lost(&error.into(), cx),
        }
    }

    pub(crate) fn board_cursor_settled(&mut self, result: Result<(), Error>, cx: &mut Context<'_>) {
        let recorded = self.subscription.recording.take();
        match result {
            Ok(()) => {
                self.subscription.cursor = recorded;
                self.subscribe(cx);
            }
            Err(error) => self.subscription_lost(&error.into(), cx),
        }
    }

    /// Moves the cursor past a signal that was skipped or whose conversation is durable.
    pub(crate) fn set_board_cursor(&mut self, cursor: Cursor) {
        // The reaction to a signal of the generation before may settle late.
        if self.subscription.cursor.as_ref().is_none_or(|now| now.generation == cursor.generation) {
            self.subscription.cursor = Some(cursor);
            self.subscription.attempts = 0;
        }
    }

    /// Moves the cursor past the signal at `revision`.
    fn pass_signal(&mut self, revision: Revision) {
        self.set_board_cursor(self.subscription.at(revision));
    }

    /// The first step of the reaction to a signal failed. The signal is tried once more, then passed over.
    pub(crate) fn reaction_failed(&mut self, cursor: Cursor) {
        if self.subscription.failed.replace(cursor.clone()).as_ref() == Some(&cursor) {
            tracing::error!(agent = %self.me, %cursor, "a signal is passed over: the reaction failed twice");
            self.set_board_cursor(cursor);
        }
    }

    /// Handles a signal, now or as soon as the agent can.
    pub(crate) fn signal(&mut self, posted: Box<SignalRecord>, reply: ReplyTo, cx: &mut Context<'_>) {
        let revision = posted.revision;
        self.subscription.in_hand = Some(revision);
        match self.react(&posted, reply, cx) {
            Ok(()) => {}
            Err(problem) if problem.reason == Reason::Internal => {
                tracing::error!(agent = %self.me, signal = %posted.signal.id, %problem, "a signal is passed over");
                self.pass_signal(revision);
                cx.reply(reply, Err(problem));
            }
            Err(problem) => {
                tracing::debug!(agent = %self.me, signal = %posted.signal.id, %problem, "a signal waits");
                self.subscription.waiting = Some((posted, reply));
                self.timers.set(FULL, TimerPurpose::Signal, cx);
            }
        }
    }

    /// The signal that was being handled if the last call of [`Agent::handle`] panicked.
    pub fn signal_in_hand(&self) -> Option<Revision> {
        self.subscription.in_hand
    }

    /// Moves the cursor past a signal that the agent has panicked over.
    pub(crate) fn pass_over_signal(&mut self, revision: Revision, reply: ReplyTo, cx: &mut Context<'_>) {
        tracing::error!(agent = %self.me, revision, "a signal is passed over: the agent panicked over it");
        self.pass_signal(revision);
        cx.reply(reply, signal_ack(revision));
    }

    pub(crate) fn retry_signal(&mut self, cx: &mut Context<'_>) {
        if let Some((posted, reply)) = self.subscription.waiting.take() {
            self.signal(posted, reply, cx);
        }
    }

    /// Opens the conversation for a signal, if there is one. The caller is answered when it is durable.
    fn react(&mut self, posted: &SignalRecord, reply: ReplyTo, cx: &mut Context<'_>) -> Result<(), Problem> {
        let ack = signal_ack(posted.revision)?;
        if !self.is_relevant(&posted.signal) {
            self.pass_signal(posted.revision);
            cx.reply(reply, Ok(ack));
            return Ok(());
        }
        if self.is_draining {
            return Err(Problem::new(Reason::Draining, format!("{} is leaving", self.me)));
        }
        let is_offer = posted.signal.kind == SignalType::task_available();
        let is_full =
            !self.has_room_for_signal() || is_offer && self.offers.waiting.len() >= MAX_WAITING_OFFERS;
        if is_full {
            return Err(Problem::new(Reason::Overloaded, format!("{} has enough to do", self.me)));
        }
        let signal = &posted.signal;
        let trigger = ConversationTrigger {
            trace: signal.refs.get(TRACEPARENT).and_then(|text| TraceContext::parse(text.as_str()?)),
            begins: Some(trace_begun_by_signal(signal)),
            signal: Some(OpeningSignal {
                id: signal.id.clone(),
                from: signal.from.clone(),
                by: first_publisher(signal),
            }),
            task: signal.task_id.clone(),
            capability: signal.capability.clone(),
            ..ConversationTrigger::default()
        };
        let pattern = match is_offer {
            true => self.pattern_for_offer(signal, cx)?,
            false => Some(Reaction::new(self.me.clone(), posted.clone(), self.config.work_limits).into()),
        };
        let Some(pattern) = pattern else {
            self.pass_signal(posted.revision);
            cx.reply(reply, Ok(ack));
            return Ok(());
        };
        self.counts.reactions += 1;
        self.begin_reaction(posted.revision, pattern, trigger, (reply, ack), cx)
    }

    /// Whether to react: the signal is not this agent's own (a relayed broadcast is not), asks for a capability of this
    /// agent, and does not follow from `max_hops` reactions.
    fn is_relevant(&self, signal: &Signal) -> bool {
        let is_relayed = signal.on_behalf_of().is_some_and(|by| by.agent() != Some(&self.me));
        let is_own = signal.is_caused_by(&self.me) && !is_relayed;
        let asks = signal.kind == SignalType::task_available() || signal.kind == SignalType::help_needed();
        let can = |capability| self.config.card.support(capability) > 0.0;
        let is_within = !asks || signal.capability.as_ref().is_none_or(can);
        let max_hops = u64::try_from(self.config.limits.max_hops).unwrap_or(u64::MAX);
        let is_endless = reaction::hops(signal) >= max_hops;
        if is_endless {
            tracing::warn!(agent = %self.me, signal = %signal.id, "not reacted to: it follows from {max_hops} reactions");
        }
        !is_own && is_within && !is_endless
    }

    fn begin_reaction(
        &mut self,
        revision: Revision,
        pattern: AnyPattern,
        trigger: ConversationTrigger,
        (reply, mut ack): (ReplyTo, Ack),
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let id = ConversationId::parse(&cx.world.uuid()).map_err(internal)?;
        ack.conversation_id = Some(id.clone());
        let origin = self.origin(&id, &pattern, None, trigger, cx);
        let receipt = origin.signal.as_ref().map(|signal| {
            let (by, conversation_id, at) = (signal.by.clone(), id.clone(), cx.wall());
            ReactionReceipt { by, conversation_id, at }.sealed(&self.me, &origin)
        });
        let receipt = receipt.transpose().map_err(internal)?;
        let mut conversation = Conversation::open(id.clone(), pattern, None, Some(origin));
        conversation.queue.push_back(QueuedEvent {
            cursor: Some(self.subscription.at(revision)),
            receipt,
            waiters: vec![(reply, ack)],
            ..QueuedEvent::from_inside(EventKind::Started, None)
        });
        self.insert_open(id.clone(), conversation);
        self.advance(&id, false, cx);
        Ok(())
    }
}

/// The write that records the cursor. It is too short to refer to a content record.
pub(crate) fn cursor_write(me: &AgentId, cursor: &Cursor) -> Result<Write, Error> {
    let bytes = content::encode(me, cursor, &mut Vec::new(), &mut Default::default())?;
    Ok(Write::Put(keys::cursor(me), bytes))
}

/// The answer to a signal.
fn signal_ack(revision: Revision) -> Result<Ack, Problem> {
    MessageId::parse(&format!("signal-{revision}")).map(Ack::of).map_err(internal)
}
