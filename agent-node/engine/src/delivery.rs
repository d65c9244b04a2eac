//! Sends messages to peers, and signals and claims to the board. Each lane is FIFO. An attempt that may succeed later is
//! repeated after a pause. Success and final failure are events for the conversation.

pub(crate) mod backoff;
pub(crate) mod claims;
pub(crate) mod envelope;
pub(crate) mod lanes;

use crate::{
    Attempt, AttemptId, AttemptResult, ClaimRequest, Delivery, DeliveryAttemptOutcome, Observation, Output,
    PeerLocation,
    agent::Agent,
    context::Context,
    delivery::lanes::{LaneKey, Outgoing, OutgoingContent, OutgoingEnvelope},
    faults::{self, PlantedFault},
    records::EffectKey,
    timers::TimerPurpose,
};
use backoff::pause;
use protocol::{
    ids::{ConversationId, TaskId},
    patterns::EventKind,
    problem::{Problem, Reason},
    signal::Signal,
    time::WallTime,
    trace::TraceContext,
};
use std::time::Duration;

/// How often an unknown recipient is looked up once the directory is synced.
const UNKNOWN_ATTEMPTS: u32 = 3;

/// How many signals of one conversation may wait for the board.
const MAX_SIGNALS: usize = 256;
/// How many more may wait that are about the course of its task.
const RESERVED_SIGNALS: usize = 32;

impl Agent {
    /// Queues a message behind the other messages of its conversation to the same recipient.
    pub(crate) fn send(
        &mut self,
        origin: Option<(ConversationId, EffectKey)>,
        message: OutgoingEnvelope,
        cx: &mut Context<'_>,
    ) {
        let limit = self.config.limits.max_outbox_per_peer;
        let waiting = self.deliveries.waiting.get(&message.to).copied().unwrap_or_default();
        if waiting >= limit {
            let why = format!("{waiting} messages already wait for {}, the limit is {limit}", message.to);
            return self.report_delivery(origin, &message, Err(Problem::new(Reason::Overloaded, why)), cx);
        }
        self.deliveries.waiting.insert(message.to.clone(), waiting + 1);
        let conversation = origin.as_ref().map(|(conversation, _)| conversation.clone());
        let lane = conversation.filter(|_| !message.best_effort);
        let lane = lane.map(|conversation| LaneKey::Peer(message.to.clone(), conversation));
        self.begin_delivery(
            Outgoing {
                origin,
                lanes: Vec::from_iter(lane),
                what: OutgoingContent::Message(Box::new(message)),
                attempts: 0,
            },
            cx,
        );
    }

    /// Queues a signal behind the earlier signals of its conversation; refused while [`MAX_SIGNALS`] wait.
    pub(crate) fn publish(
        &mut self,
        conversation: ConversationId,
        effect: EffectKey,
        signal: Signal,
        cx: &mut Context<'_>,
    ) {
        let lane = LaneKey::Signals(conversation.clone());
        let limit = if signal.kind.is_of_task() { MAX_SIGNALS + RESERVED_SIGNALS } else { MAX_SIGNALS };
        if self.deliveries.len(&lane) >= limit {
            let why = format!("{limit} signals of the conversation already wait for the board");
            let problem = Problem::new(Reason::Overloaded, why);
            return self.signal_refused(Some((conversation, effect)), &signal, problem);
        }
        let (lanes, what) = (vec![lane], OutgoingContent::Signal(Box::new(signal)));
        self.begin_delivery(Outgoing { origin: Some((conversation, effect)), lanes, what, attempts: 0 }, cx);
    }

    /// Queues a claim request behind the earlier claim requests of its conversation. The board announces the end of a claim,
    /// so this is also queued behind the conversation's signals.
    pub(crate) fn claim(
        &mut self,
        conversation: ConversationId,
        effect: EffectKey,
        task: TaskId,
        request: ClaimRequest,
        cx: &mut Context<'_>,
    ) {
        let mut lanes = vec![LaneKey::Claims(conversation.clone())];
        if request.is_end() && !faults::is_planted(PlantedFault::LateArtifact) {
            lanes.push(LaneKey::Signals(conversation.clone()));
        }
        let what = OutgoingContent::Claim(task, request);
        self.begin_delivery(Outgoing { origin: Some((conversation, effect)), lanes, what, attempts: 0 }, cx);
    }

    fn begin_delivery(&mut self, outgoing: Outgoing, cx: &mut Context<'_>) {
        if let Some(id) = self.deliveries.add(outgoing) {
            self.attempt(id, cx);
        }
    }

    /// Makes one attempt, or gives up if the message has expired or its recipient is unknown.
    pub(crate) fn attempt(&mut self, id: AttemptId, cx: &mut Context<'_>) {
        let Some(outgoing) = self.deliveries.all.get(&id) else { return };
        let attempts = outgoing.attempts;
        let attempt = match &outgoing.what {
            OutgoingContent::Signal(_) if self.is_withdrawn(outgoing) => return self.skip(id, cx),
            OutgoingContent::Signal(signal) => Attempt::Publish(signal.clone()),
            // The effect stays open, so the next start asks for the claim.
            OutgoingContent::Claim(_, ClaimRequest::Take { .. })
                if self.is_draining || self.is_withdrawn(outgoing) =>
            {
                return self.skip(id, cx);
            }
            OutgoingContent::Claim(task, request @ ClaimRequest::Take { .. }) => {
                let attempt = Attempt::Claim(task.clone(), *request);
                let conversation = outgoing.origin.as_ref().map(|(conversation, _)| conversation.clone());
                if conversation.is_some_and(|conversation| !self.may_request_claim(&conversation)) {
                    return self.offers.waiting.push_back(id);
                }
                attempt
            }
            OutgoingContent::Claim(task, request) => Attempt::Claim(task.clone(), *request),
            OutgoingContent::Message(message) => {
                let (to, expires) = (message.to.clone(), self.expiry(message, cx));
                let may_have_expired = message.is_redelivery && attempts == 0;
                let is_expired = !may_have_expired && cx.wall() >= expires;
                if is_expired && !faults::is_planted(PlantedFault::SentExpired) {
                    let why = format!("not delivered to {to} before it expired");
                    return self.give_up(id, Problem::new(Reason::Expired, why), cx);
                }
                let directory = cx.world.directory();
                let at = directory.locate(&to);
                match at {
                    PeerLocation::Here | PeerLocation::At(_) => {}
                    PeerLocation::Departed => {
                        let problem = Problem::new(Reason::AgentDeparted, format!("{to} has left"));
                        return self.attempt_failed(id, problem, cx);
                    }
                    PeerLocation::Unknown if attempts >= UNKNOWN_ATTEMPTS && directory.is_synced() => {
                        let problem = Problem::new(Reason::AgentNotFound, format!("no agent {to} is known"));
                        return self.give_up(id, problem, cx);
                    }
                    PeerLocation::Unknown => {
                        let problem =
                            Problem::new(Reason::AgentNotFound, format!("no agent {to} is known yet"));
                        return self.attempt_failed(id, problem, cx);
                    }
                }
                let (envelope, trace) = (message.envelope.clone(), message.trace.clone());
                Attempt::Deliver(Box::new(Delivery { to, at, envelope, trace }))
            }
        };
        cx.out.push(Output::Attempt(id, attempt));
    }

    /// Whether its conversation has dropped the effect that it performs.
    fn is_withdrawn(&self, outgoing: &Outgoing) -> bool {
        outgoing.origin.as_ref().is_some_and(|(id, effect)| match self.conversations.get(id) {
            // The step that drops it may still fail.
            Some(open) => !open.is_committing() && !open.open.contains_key(effect),
            None => !self.parked.has(id),
        })
    }

    /// Removes an entry without an attempt.
    fn skip(&mut self, id: AttemptId, cx: &mut Context<'_>) {
        let next = self.deliveries.remove(id).map(|(_, next)| next).unwrap_or_default();
        next.into_iter().for_each(|next| self.attempt(next, cx));
    }

    /// When a message expires: at its `expiresAt`, at the latest after the configured message life.
    fn expiry(&self, message: &OutgoingEnvelope, cx: &Context<'_>) -> WallTime {
        let written = message.envelope.timestamp.unwrap_or_else(|| cx.wall());
        let life_ends = written.plus(self.config.limits.message_life());
        message.envelope.expires_at.map_or(life_ends, |at| at.min(life_ends))
    }

    pub(crate) fn attempted(&mut self, id: AttemptId, result: AttemptResult, cx: &mut Context<'_>) {
        match result {
            AttemptResult::Failed(problem) => self.attempt_failed(id, problem, cx),
            AttemptResult::Delivered => self.finish_delivery(id, Ok(None), cx),
            AttemptResult::Published(revision) => {
                self.finish_delivery(id, Ok(Some(EventKind::Published { revision })), cx);
            }
            AttemptResult::Claim(what) => self.finish_delivery(id, Ok(Some(what)), cx),
        }
    }

    fn attempt_failed(&mut self, id: AttemptId, problem: Problem, cx: &mut Context<'_>) {
        let Some(outgoing) = self.deliveries.all.get(&id) else { return };
        let is_message = matches!(outgoing.what, OutgoingContent::Message(_));
        let is_best_effort =
            matches!(&outgoing.what, OutgoingContent::Message(message) if message.best_effort);
        if is_best_effort || !may_succeed_later(problem.reason) {
            return self.give_up(id, problem, cx);
        }
        let attempts = outgoing.attempts;
        let mut wait = problem.retry_after.unwrap_or_default().max(pause(attempts, cx.world.random()));
        if let OutgoingContent::Message(message) = &outgoing.what {
            let (task, trace) = task_and_trace(message);
            tracing::debug!(agent = %self.me, to = %message.to, message = %message.envelope.message_id, task, trace, %problem, attempts, "not delivered yet");
            wait = wait.min(cx.wall().until(self.expiry(message, cx)));
        } else {
            tracing::debug!(agent = %self.me, %problem, attempts, "the board is waited for");
            // The end of a claim may wait behind a signal.
            wait = wait.min(Duration::from_millis(self.config.auction.lease_ms / 3));
        }
        if is_message {
            cx.observe(Observation::Tried(DeliveryAttemptOutcome::Retried));
        }
        if let Some(outgoing) = self.deliveries.all.get_mut(&id) {
            outgoing.attempts += 1;
        }
        if faults::is_planted(PlantedFault::LostRetry) {
            return;
        }
        self.timers.set(wait.max(Duration::from_millis(1)), TimerPurpose::Retry(id), cx);
    }

    fn give_up(&mut self, id: AttemptId, problem: Problem, cx: &mut Context<'_>) {
        self.finish_delivery(id, Err(problem), cx);
    }

    fn finish_delivery(
        &mut self,
        id: AttemptId,
        outcome: Result<Option<EventKind>, Problem>,
        cx: &mut Context<'_>,
    ) {
        let Some((outgoing, next)) = self.deliveries.remove(id) else { return };
        let Outgoing { origin, what, .. } = outgoing;
        match (what, outcome) {
            (OutgoingContent::Message(message), outcome) => {
                let tried = if outcome.is_ok() {
                    DeliveryAttemptOutcome::Delivered
                } else {
                    DeliveryAttemptOutcome::GivenUp
                };
                cx.observe(Observation::Tried(tried));
                self.report_delivery(origin, &message, outcome.map(drop), cx);
            }
            (OutgoingContent::Signal(_) | OutgoingContent::Claim(..), Ok(what)) => {
                if let (Some((conversation, effect)), Some(what)) = (origin, what) {
                    self.queue_event(&conversation, Some(effect), what);
                }
            }
            (OutgoingContent::Claim(task, request), Err(problem)) => {
                if let Some((conversation, effect)) = origin {
                    self.queue_event(&conversation, Some(effect), request.refused(&task, &problem));
                }
            }
            (OutgoingContent::Signal(signal), Err(problem)) => self.signal_refused(origin, &signal, problem),
        }
        next.into_iter().for_each(|next| self.attempt(next, cx));
    }

    fn signal_refused(
        &mut self,
        origin: Option<(ConversationId, EffectKey)>,
        signal: &Signal,
        problem: Problem,
    ) {
        let task = signal.task_id.as_ref().map(ToString::to_string);
        tracing::warn!(agent = %self.me, task, %problem, signal = %signal.kind, "signal refused");
        let Some((conversation, effect)) = origin else { return };
        let (reason, message) = (problem.reason.code().to_owned(), problem.message);
        self.queue_event(&conversation, Some(effect), EventKind::PublishRefused { reason, message });
    }

    /// Reports the result of a message to its conversation.
    fn report_delivery(
        &mut self,
        origin: Option<(ConversationId, EffectKey)>,
        message: &OutgoingEnvelope,
        outcome: Result<(), Problem>,
        cx: &mut Context<'_>,
    ) {
        if let Err(problem) = &outcome {
            cx.observe(Observation::GivenUp(problem.reason));
        }
        let (Some((conversation, effect)), Some(label)) = (origin, message.label.clone()) else { return };
        let what = match outcome {
            Ok(()) if message.best_effort => return,
            Ok(()) => EventKind::Delivered { label, by: message.to.clone() },
            Err(problem) => {
                let (task, trace) = task_and_trace(message);
                let kind = message.envelope.kind().wire();
                tracing::warn!(agent = %self.me, to = %message.to, kind, message = %message.envelope.message_id, task, trace, %problem, "message given up");
                let reason = problem.reason.code().to_owned();
                EventKind::Undelivered { label, to: message.to.clone(), reason, message: problem.message }
            }
        };
        self.queue_event(&conversation, (!message.best_effort).then_some(effect), what);
    }
}

/// The task id and the trace id of a message, for logs.
fn task_and_trace(message: &OutgoingEnvelope) -> (Option<String>, Option<String>) {
    let task = message.envelope.payload.task_id().map(ToString::to_string);
    (task, message.trace.as_ref().map(TraceContext::trace))
}

/// Whether a retry may succeed after a refusal with this reason (RELIABILITY §1.11).
fn may_succeed_later(reason: Reason) -> bool {
    if reason == Reason::MessageFailed {
        return false;
    }
    let may_come_back =
        [Reason::AgentNotFound, Reason::RegisteredElsewhere, Reason::AgentDeparted, Reason::StaleSignature];
    may_come_back.contains(&reason) || matches!(reason.status(), 408 | 425 | 429 | 500..=599)
}
