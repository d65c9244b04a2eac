//! An agent reacts to what it subscribes to on the board (DESIGN §5): each signal opens a conversation, in the commit
//! that moves the agent's cursor past it, so that each is reacted to once, whatever crashes.
//!
//! Signals come one at a time: while the agent can take nothing new (or no more work, when work is offered), the signal
//! at hand waits, and what has not been read waits on the board. The first start begins at the board's head.

pub(crate) mod state;

use crate::{
    Ack, Output, ReplyTo,
    agent::Agent,
    commits::PendingCommit,
    content,
    context::Context,
    conversation::{Conversation, QueuedEvent, origin::OpeningSignal},
    delivery::backoff::pause,
    faults::{self, PlantedFault},
    open_tasks::publisher,
    problems::internal,
    records::{ReactionReceipt, keys},
    requests::ConversationTrigger,
    timers::TimerPurpose,
};
use protocol::{
    ids::{ConversationId, MessageId},
    patterns::{
        AnyPattern, EventKind,
        broadcast::on_behalf_of,
        reaction::{self, Reaction},
    },
    problem::{Problem, Reason},
    signal::{Signal, SignalRecord, SignalType},
    trace::{TRACEPARENT, TraceContext, trace_begun_by_signal},
};
use std::time::Duration;
use store_types::{Batch, Error, Lane, Revision, Write};

/// How long a signal waits that the agent can't take yet.
const FULL: Duration = Duration::from_millis(100);

impl Agent {
    /// Reads the recorded cursor, and follows the board from there.
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
            cx.out.push(Output::Subscribe(selector.clone(), self.subscription.cursor));
        }
    }

    pub(crate) fn subscription_lost(&mut self, problem: &Problem, cx: &mut Context<'_>) {
        let attempts = self.subscription.attempts;
        match attempts {
            // Where the board is, only the registry knows; that it is away is said for all.
            0 if problem.reason != Reason::RegistryUnavailable => {
                tracing::warn!(agent = %self.me, %problem, "the board can't be followed");
            }
            _ => tracing::debug!(agent = %self.me, %problem, attempts, "the board can't be followed yet"),
        }
        if problem.reason == Reason::Trimmed {
            let floor = problem.metadata.iter().find(|(key, _)| *key == "floor");
            if let Some(floor) = floor.and_then(|(_, floor)| floor.parse().ok()) {
                self.subscription.cursor = Some(floor);
            }
        }
        self.subscription.attempts += 1;
        let wait = pause(attempts, cx.world.random());
        self.timers.set(wait, TimerPurpose::Subscribe, cx);
    }

    /// The first start: the board is followed from its head on, once that is recorded.
    pub(crate) fn board_head(&mut self, head: Revision, cx: &mut Context<'_>) {
        let mut writes = Vec::new();
        match content::encode(&self.me, &head, &mut writes, &mut Default::default()) {
            Ok(bytes) => {
                writes.push(Write::Put(keys::cursor(&self.me), bytes));
                self.subscription.recording = Some(head);
                let batch = Batch { writes, expectations: Vec::new() };
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

    /// The signal at `revision` was passed over, or what it called for is durable: it is not read again.
    pub(crate) fn followed_to(&mut self, revision: Revision) {
        self.subscription.cursor = Some(revision);
    }

    /// Takes a signal, now or as soon as the agent can.
    pub(crate) fn signal(&mut self, posted: Box<SignalRecord>, reply: ReplyTo, cx: &mut Context<'_>) {
        self.subscription.attempts = 0;
        let revision = posted.revision;
        match self.react(&posted, reply, cx) {
            Ok(()) if faults::is(PlantedFault::EarlyCursor) => self.followed_to(revision),
            Ok(()) => {}
            Err(problem) if problem.reason == Reason::Internal => {
                tracing::error!(agent = %self.me, signal = %posted.signal.id, %problem, "a signal is passed over");
                self.subscription.cursor = Some(revision);
                cx.reply(reply, Err(problem));
            }
            Err(problem) => {
                tracing::debug!(agent = %self.me, signal = %posted.signal.id, %problem, "a signal waits");
                self.subscription.waiting = Some((posted, reply));
                self.timers.set(FULL, TimerPurpose::Signal, cx);
            }
        }
    }

    pub(crate) fn signal_again(&mut self, cx: &mut Context<'_>) {
        if let Some((posted, reply)) = self.subscription.waiting.take() {
            self.signal(posted, reply, cx);
        }
    }

    /// Opens the conversation that `posted` calls for, if any; the answer comes when it is durable.
    fn react(&mut self, posted: &SignalRecord, reply: ReplyTo, cx: &mut Context<'_>) -> Result<(), Problem> {
        let message_id = MessageId::parse(&format!("signal-{}", posted.revision)).map_err(internal)?;
        let ack = Ack::of(message_id);
        if !self.concerns(&posted.signal) {
            self.followed_to(posted.revision);
            cx.reply(reply, Ok(ack));
            return Ok(());
        }
        if self.is_draining {
            return Err(Problem::new(Reason::Draining, format!("{} is leaving", self.me)));
        }
        let is_offer = posted.signal.kind == SignalType::task_available();
        let is_full = self.conversations.len() >= self.config.limits.max_open_conversations
            || is_offer && self.is_at_max_parallel();
        if is_full {
            return Err(Problem::new(Reason::Overloaded, format!("{} has enough to do", self.me)));
        }
        let signal = &posted.signal;
        let trigger = ConversationTrigger {
            trace: signal.refs.get(TRACEPARENT).and_then(|text| TraceContext::parse(text.as_str()?)),
            begins: Some(trace_begun_by_signal(&signal.from, &signal.id)),
            signal: Some(OpeningSignal { id: signal.id.clone(), from: publisher(signal) }),
            task: signal.task_id.clone(),
            capability: signal.capability.clone(),
            ..ConversationTrigger::default()
        };
        let pattern = match is_offer {
            true => self.try_to_get(signal, cx)?,
            false => Some(Reaction::new(self.me.clone(), posted.clone(), self.config.timeouts).into()),
        };
        let Some(pattern) = pattern else {
            self.followed_to(posted.revision);
            cx.reply(reply, Ok(ack));
            return Ok(());
        };
        self.counts.reactions += 1;
        self.begin_at(posted.revision, pattern, trigger, (reply, ack), cx)
    }

    /// Whether a signal is somebody else's (a broadcast that this agent only passed on is), within what this agent can
    /// do, and not the end of an endless chain.
    fn concerns(&self, signal: &Signal) -> bool {
        let is_relayed = on_behalf_of(signal).is_some_and(|by| by.agent() != Some(&self.me));
        let is_own = signal.from == self.me && !is_relayed;
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

    fn begin_at(
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
            let (from, conversation_id, at) = (signal.from.clone(), id.clone(), cx.wall());
            ReactionReceipt { from, conversation_id, at }.sealed(&self.me, &origin)
        });
        let receipt = receipt.transpose().map_err(internal)?;
        let mut conversation = Conversation::open(id.clone(), pattern, None, Some(origin));
        conversation.queue.push_back(QueuedEvent {
            cursor: Some(revision),
            receipt,
            waiters: vec![(reply, ack)],
            ..QueuedEvent::from_inside(EventKind::Started, None)
        });
        if faults::is(PlantedFault::CursorAlone) {
            self.board_head(revision, cx);
        }
        self.conversations.insert(id.clone(), Box::new(conversation));
        self.advance(&id, false, cx);
        Ok(())
    }
}
