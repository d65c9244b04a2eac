//! What deliveries need of the agent, and to whom their results go.

use crate::{
    Observation,
    context::Context,
    conversations::Conversations,
    delivery::lanes::{Outgoing, OutgoingEnvelope},
    internal_events::InternalEvents,
    offers::Offers,
    records::EffectKey,
    timers::Timers,
};
use patterns::EventKind;
use protocol::{
    card::Card,
    ids::{AgentId, ConversationId},
    limits::Limits,
    problem::{Problem, Reason},
    signal::Signal,
    time::WallTime,
};
use std::time::Duration;

/// What deliveries need of the agent.
pub(crate) struct DeliveryContext<'a> {
    pub(crate) me: &'a AgentId,
    pub(crate) card: &'a Card,
    pub(crate) limits: &'a Limits,
    /// The lease of its claims.
    pub(crate) lease: Duration,
    pub(crate) is_draining: bool,
    /// Whether fewer of its places are taken, by work and requested claims, than it has.
    pub(crate) has_place: bool,
    pub(crate) conversations: &'a Conversations,
    pub(crate) offers: &'a mut Offers,
    pub(crate) timers: &'a mut Timers,
    /// Gets the results.
    pub(crate) events: &'a mut InternalEvents,
}

impl DeliveryContext<'_> {
    /// Whether its conversation has dropped the effect that an entry performs.
    pub(super) fn has_dropped(&self, outgoing: &Outgoing) -> bool {
        let (id, effect) = &outgoing.origin;
        self.conversations.has_dropped(id, *effect)
    }

    pub(super) fn has_expired(&self, message: &OutgoingEnvelope, cx: &Context<'_>) -> bool {
        cx.wall() >= self.expiry(message, cx)
    }

    /// When a message expires: at its `expiresAt`, at the latest after the configured message life.
    pub(super) fn expiry(&self, message: &OutgoingEnvelope, cx: &Context<'_>) -> WallTime {
        let written = message.envelope.timestamp.unwrap_or_else(|| cx.wall());
        let life_ends = written.plus(self.limits.message_life());
        message.envelope.expires_at.map_or(life_ends, |at| at.min(life_ends))
    }

    pub(super) fn refuse_signal(
        &mut self,
        origin: (ConversationId, EffectKey),
        signal: &Signal,
        problem: Problem,
    ) {
        let task = signal.task_id.as_ref().map(ToString::to_string);
        tracing::warn!(agent = %self.me, task, %problem, signal = %signal.kind, "signal refused");
        let (reason, message) = (problem.reason.code().to_owned(), problem.message);
        self.events.push(&origin.0, Some(origin.1), EventKind::PublishRefused { reason, message });
    }

    /// Reports the result of a message to its conversation.
    pub(super) fn report(
        &mut self,
        origin: (ConversationId, EffectKey),
        message: &OutgoingEnvelope,
        outcome: Result<(), Problem>,
        cx: &mut Context<'_>,
    ) {
        if let Err(problem) = &outcome {
            cx.observe(Observation::GivenUp(problem.reason));
        }
        let ((conversation, effect), label) = (origin, message.label);
        let what = match outcome {
            Ok(()) if message.best_effort => return,
            Ok(()) => EventKind::Delivered { label, by: message.to.clone() },
            Err(problem) => {
                let (task, trace) = message.task_and_trace();
                let kind = message.envelope.kind().wire();
                let (to, id) = (&message.to, &message.envelope.message_id);
                if problem.reason == Reason::Fenced {
                    tracing::info!(agent = %self.me, %to, kind, message = %id, task, trace, %problem, "obsolete message dropped: its award or claim has ended");
                } else {
                    tracing::warn!(agent = %self.me, %to, kind, message = %id, task, trace, %problem, "message given up");
                }
                let reason = problem.reason.code().to_owned();
                EventKind::Undelivered { label, to: message.to.clone(), reason, message: problem.message }
            }
        };
        self.events.push(&conversation, (!message.best_effort).then_some(effect), what);
    }
}
