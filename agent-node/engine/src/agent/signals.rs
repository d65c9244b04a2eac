//! Reactions to signals on the board (DESIGN §5). Each signal opens a conversation in the commit that moves the cursor past
//! it, so that the agent reacts exactly once across crashes.
//!
//! Signals are handled one at a time: while the agent can take no new conversation, the current signal waits. An offer opens
//! its conversation even if the agent has enough to do; its claim is requested when there is a place for the work, so that
//! it does not hide later signals.

use crate::{
    Ack, ReplyTo,
    agent::{Agent, begin::ConversationTrigger, open_tasks::first_publisher},
    context::Context,
    conversation::{Conversation, QueuedEvent, origin::OpeningSignal},
    problems::internal,
    records::ReactionReceipt,
};
use patterns::{
    AnyPattern, EventKind,
    reaction::{self, Reaction},
};
use protocol::{
    ids::{ConversationId, MessageId},
    problem::{Problem, Reason},
    signal::{Signal, SignalRecord, SignalType},
    trace::{TRACEPARENT, TraceContext, trace_begun_by_signal},
};
use store_types::Revision;

impl Agent {
    /// Handles a signal, now or as soon as the agent can.
    pub(super) fn signal(&mut self, posted: Box<SignalRecord>, reply: ReplyTo, cx: &mut Context<'_>) {
        let revision = posted.revision;
        self.subscription.take_in_hand(revision);
        match self.react(&posted, reply, cx) {
            Ok(()) => {}
            Err(problem) if problem.reason == Reason::Internal => {
                tracing::error!(agent = %self.me, signal = %posted.signal.id, %problem, "a signal is passed over");
                self.subscription.pass(revision);
                cx.reply(reply, Err(problem));
            }
            Err(problem) => {
                tracing::debug!(agent = %self.me, signal = %posted.signal.id, %problem, "a signal waits");
                self.subscription.wait(posted, reply, &mut self.timers, cx);
            }
        }
    }

    /// The signal that was being handled if the last call of [`Agent::handle`] panicked.
    pub fn signal_in_hand(&self) -> Option<Revision> {
        self.subscription.in_hand()
    }

    /// Moves the cursor past a signal that the agent has panicked over.
    pub(super) fn pass_over_signal(&mut self, revision: Revision, reply: ReplyTo, cx: &mut Context<'_>) {
        tracing::error!(agent = %self.me, revision, "a signal is passed over: the agent panicked over it");
        self.subscription.pass(revision);
        cx.reply(reply, signal_ack(revision));
    }

    pub(super) fn retry_signal(&mut self, cx: &mut Context<'_>) {
        if let Some((posted, reply)) = self.subscription.take_waiting() {
            self.signal(posted, reply, cx);
        }
    }

    /// Opens the conversation for a signal, if there is one. The caller is answered when it is durable.
    fn react(&mut self, posted: &SignalRecord, reply: ReplyTo, cx: &mut Context<'_>) -> Result<(), Problem> {
        let ack = signal_ack(posted.revision)?;
        if !self.is_relevant(&posted.signal) {
            self.subscription.pass(posted.revision);
            cx.reply(reply, Ok(ack));
            return Ok(());
        }
        if self.is_draining {
            return Err(Problem::new(Reason::Draining, format!("{} is leaving", self.me)));
        }
        let is_offer = posted.signal.kind == SignalType::task_available();
        let is_full = !self.conversations.has_room_for_signal(self.config.limits.max_open_conversations)
            || is_offer && !self.offers.has_room();
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
            self.subscription.pass(posted.revision);
            cx.reply(reply, Ok(ack));
            return Ok(());
        };
        self.counts.reactions += 1;
        self.begin_reaction(posted.revision, pattern, trigger, (reply, ack), cx)
    }

    /// Whether to react: the signal is what the agent wants, is not this agent's own (a relayed broadcast is not), asks for a capability of this
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
        let is_wanted = self.config.settings.subscribe.iter().any(|filter| filter.admits(signal));
        is_wanted && !is_own && is_within && !is_endless
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
        self.conversations.insert(conversation);
        self.advance(&id, false, cx);
        Ok(())
    }
}

/// The answer to a signal.
fn signal_ack(revision: Revision) -> Result<Ack, Problem> {
    MessageId::parse(&format!("signal-{revision}")).map(Ack::of).map_err(internal)
}
