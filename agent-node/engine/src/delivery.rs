//! Sends messages to peers, and signals and claims to the board. Each lane is FIFO. An attempt that may succeed later is
//! repeated after a pause. Success and final failure are events for the conversation.

pub(crate) mod backoff;
pub(crate) mod claims;
pub(crate) mod envelope;
pub(crate) mod lanes;

use crate::{
    Attempt, AttemptId, AttemptResult, ClaimRequest, Delivery, DeliveryAttemptOutcome, MessageResult,
    Observation, Output, PeerLocation,
    agent::Agent,
    context::Context,
    delivery::lanes::{LaneKey, Outgoing, OutgoingContent, OutgoingEnvelope},
    records::EffectKey,
    timers::TimerPurpose,
};
use backoff::pause;
use protocol::{
    ids::ConversationId,
    patterns::{
        AnyPattern, EventKind, Label,
        space_request::{SpaceAnswer, SpaceRequest},
    },
    principal::Principal,
    problem::{Problem, Reason},
    signal::Signal,
    task::OpenTaskKey,
    time::WallTime,
    trace::TraceContext,
};
use std::time::Duration;

/// How often an unknown recipient is looked up once the directory is synced.
const UNKNOWN_ATTEMPTS: u32 = 3;
/// The most messages or signals in one request.
const MAX_SHARED: usize = 64;

/// How many signals of one conversation may wait for the board.
const MAX_SIGNALS: usize = 256;
/// How many more may wait that are about the course of its task.
const RESERVED_SIGNALS: usize = 32;

impl Agent {
    /// Queues a message behind the other messages of its conversation to the same recipient.
    pub(crate) fn send(
        &mut self,
        origin: (ConversationId, EffectKey),
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
        let lane = (!message.best_effort).then(|| LaneKey::Peer(message.to.clone(), origin.0.clone()));
        let what = OutgoingContent::Message(Box::new(message));
        self.deliveries.add(Outgoing { origin, lanes: Vec::from_iter(lane), what, attempts: 0 });
    }

    /// Queues a signal behind the earlier signals of its conversation; refused while [`MAX_SIGNALS`] wait.
    pub(crate) fn publish(&mut self, conversation: ConversationId, effect: EffectKey, signal: Signal) {
        let lane = LaneKey::Signals(conversation.clone());
        let limit = if signal.kind.is_of_task() { MAX_SIGNALS + RESERVED_SIGNALS } else { MAX_SIGNALS };
        if self.deliveries.len(&lane) >= limit {
            let why = format!("{limit} signals of the conversation already wait for the board");
            let problem = Problem::new(Reason::Overloaded, why);
            return self.signal_refused((conversation, effect), &signal, problem);
        }
        let (lanes, what) = (vec![lane], OutgoingContent::Signal(Box::new(signal)));
        self.deliveries.add(Outgoing { origin: (conversation, effect), lanes, what, attempts: 0 });
    }

    /// Queues a claim request behind the earlier claim requests of its conversation. The board announces the end of a claim,
    /// so this is also queued behind the conversation's signals.
    pub(crate) fn claim(
        &mut self,
        conversation: ConversationId,
        effect: EffectKey,
        task: OpenTaskKey,
        request: ClaimRequest,
    ) {
        let mut lanes = vec![LaneKey::Claims(conversation.clone())];
        if request.is_end() {
            lanes.push(LaneKey::Signals(conversation.clone()));
        }
        let what = OutgoingContent::Claim(task, request);
        self.deliveries.add(Outgoing { origin: (conversation, effect), lanes, what, attempts: 0 });
    }

    /// Queues a request behind the earlier requests of its conversation to spaces of the board, and a write behind all writes of
    /// the agent.
    pub(crate) fn ask_space(
        &mut self,
        conversation: ConversationId,
        effect: EffectKey,
        label: Label,
        request: SpaceRequest,
    ) {
        let mut lanes = vec![LaneKey::Spaces(conversation.clone())];
        lanes.extend(request.is_write().then_some(LaneKey::SpaceWrites));
        let what = OutgoingContent::Space(label, Box::new(request));
        self.deliveries.add(Outgoing { origin: (conversation, effect), lanes, what, attempts: 0 });
    }

    /// Drops a claim request whose effect is no longer open. The later ones of its conversation do not wait for its answer.
    pub(crate) fn withdraw_claim_request(&mut self, conversation: &ConversationId, effect: EffectKey) {
        let lane = self.deliveries.lanes.get(&LaneKey::Claims(conversation.clone()));
        let is_of_effect =
            |id: &&AttemptId| self.deliveries.all.get(id).is_some_and(|outgoing| outgoing.origin.1 == effect);
        if let Some(id) = lane.into_iter().flatten().find(is_of_effect).copied() {
            self.skip(id);
        }
    }

    /// Makes one attempt at the first entry of a lane, or gives up if the message has expired or its recipient is unknown.
    pub(crate) fn attempt(&mut self, id: AttemptId, cx: &mut Context<'_>) {
        let Some(outgoing) = self.deliveries.all.get(&id) else { return };
        let attempt = match &outgoing.what {
            OutgoingContent::Signal(_) if self.is_withdrawn(outgoing) => return self.skip(id),
            OutgoingContent::Signal(_) => Attempt::Publish(self.signals_from(id)),
            // The effect stays open, so the next start asks for the claim.
            OutgoingContent::Claim(_, ClaimRequest::Take { .. })
                if self.is_draining || self.is_withdrawn(outgoing) =>
            {
                return self.skip(id);
            }
            OutgoingContent::Claim(task, request @ ClaimRequest::Take { .. }) => {
                let attempt = Attempt::Claim(task.clone(), request.clone());
                let conversation = outgoing.origin.0.clone();
                if !self.may_request_claim(&conversation) {
                    return self.offers.waiting.push_back(id);
                }
                attempt
            }
            OutgoingContent::Claim(task, request) => Attempt::Claim(task.clone(), request.clone()),
            OutgoingContent::Space(..) if self.is_withdrawn(outgoing) => return self.skip(id),
            OutgoingContent::Space(_, request) => Attempt::AskSpace(request.clone()),
            OutgoingContent::Message(message) => match self.delivery(id, message, outgoing.attempts, cx) {
                Ok(delivery) => Attempt::Deliver(Box::new(delivery)),
                Err(problem) => return self.attempt_failed(id, problem, cx),
            },
        };
        cx.out.push(Output::Attempt(id, attempt));
    }

    /// The signal `first` and those behind it in its lane, up to a claim request or one that is withdrawn.
    fn signals_from(&self, first: AttemptId) -> Vec<Signal> {
        let lane = self.deliveries.from(first);
        let outgoing = lane.iter().filter_map(|id| self.deliveries.all.get(id));
        let signals = outgoing.map_while(|outgoing| match &outgoing.what {
            OutgoingContent::Signal(signal) => (!self.is_withdrawn(outgoing)).then(|| (**signal).clone()),
            OutgoingContent::Message(_) | OutgoingContent::Claim(..) | OutgoingContent::Space(..) => None,
        });
        signals.take(MAX_SHARED).collect()
    }

    /// The delivery of a message, together with those behind it in its lane. Fails if the message has expired or its recipient
    /// can't be reached.
    fn delivery(
        &self,
        id: AttemptId,
        message: &OutgoingEnvelope,
        attempts: u32,
        cx: &Context<'_>,
    ) -> Result<Delivery, Problem> {
        let to = message.to.clone();
        let may_have_expired = message.is_redelivery && attempts == 0;
        if !may_have_expired && self.has_expired(message, cx) {
            let why = format!("not delivered to {to} before it expired");
            return Err(Problem::new(Reason::Expired, why));
        }
        let directory = cx.world.directory();
        let at = directory.locate(&to);
        match at {
            PeerLocation::Here | PeerLocation::At(_) => {}
            PeerLocation::Departed => {
                return Err(Problem::new(Reason::AgentDeparted, format!("{to} has left")));
            }
            PeerLocation::Unknown => {
                let hint = self.capability_like(to.as_str(), cx);
                let hint =
                    hint.map(|known| format!("; did you mean capability:{known}?")).unwrap_or_default();
                return Err(Problem::new(Reason::AgentNotFound, format!("no agent {to} is known{hint}")));
            }
        }
        let behind = self.deliveries.from(id);
        let behind = behind.iter().skip(1).filter_map(|id| self.deliveries.all.get(id));
        let behind = behind.map_while(|outgoing| match &outgoing.what {
            OutgoingContent::Message(next) if !next.is_redelivery && !self.has_expired(next, cx) => {
                let opens = AnyPattern::is_opened_by(next.envelope.kind());
                (!opens).then(|| next.envelope.clone())
            }
            _ => None,
        });
        let messages = std::iter::once(message.envelope.clone()).chain(behind).take(MAX_SHARED).collect();
        Ok(Delivery { to, at, messages, trace: message.trace.clone() })
    }

    fn has_expired(&self, message: &OutgoingEnvelope, cx: &Context<'_>) -> bool {
        cx.wall() >= self.expiry(message, cx)
    }

    /// Whether its conversation has dropped the effect that it performs.
    fn is_withdrawn(&self, outgoing: &Outgoing) -> bool {
        let (id, effect) = &outgoing.origin;
        match self.conversations.get(id) {
            // The step that drops it may still fail.
            Some(open) => !open.is_committing() && !open.open.contains_key(effect),
            None => !self.parked.has(id),
        }
    }

    /// Removes an entry without an attempt.
    fn skip(&mut self, id: AttemptId) {
        let lanes = self.deliveries.lanes_of(id);
        self.deliveries.remove(id);
        self.deliveries.start(&lanes);
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
            AttemptResult::Delivered(results) => self.delivered(id, results, cx),
            AttemptResult::Published(results) => {
                let published = |revision| Some(EventKind::Published { revision });
                let results = results.into_iter().map(|result| result.map(published)).collect();
                self.answered(id, results, cx);
            }
            AttemptResult::Claim(what) => self.succeeded(id, what, cx),
            AttemptResult::SpaceAnswered(answer) => self.space_answered(id, answer, cx),
        }
    }

    fn space_answered(&mut self, id: AttemptId, answer: SpaceAnswer, cx: &mut Context<'_>) {
        let Some(Outgoing { what: OutgoingContent::Space(label, _), .. }) = self.deliveries.all.get(&id)
        else {
            return;
        };
        let label = *label;
        self.succeeded(id, EventKind::SpaceAnswered { label, answer }, cx);
    }

    fn succeeded(&mut self, id: AttemptId, what: EventKind, cx: &mut Context<'_>) {
        let lanes = self.deliveries.lanes_of(id);
        self.finish_delivery(id, Ok(Some(what)), cx);
        self.deliveries.start(&lanes);
    }

    /// Handles the answers to the first messages of a lane, and the bids in them.
    fn delivered(&mut self, first: AttemptId, results: Vec<MessageResult>, cx: &mut Context<'_>) {
        let Some(Outgoing { what: OutgoingContent::Message(message), .. }) = self.deliveries.all.get(&first)
        else {
            return;
        };
        let recipient = message.to.clone();
        let bids: Vec<_> = results.iter().flatten().flatten().cloned().collect();
        self.answered(first, results.into_iter().map(|result| result.map(|_| None)).collect(), cx);
        for bid in bids.into_iter().filter(|bid| bid.from_agent_id == recipient) {
            self.take_bid(bid, Principal::Agent(recipient.clone()), cx);
        }
    }

    /// Handles the answers to the first entries of a lane. After one that may succeed later the lane waits; entries behind it
    /// that were taken are done.
    fn answered(
        &mut self,
        first: AttemptId,
        results: Vec<Result<Option<EventKind>, Problem>>,
        cx: &mut Context<'_>,
    ) {
        let lanes = self.deliveries.lanes_of(first);
        let mut waits = false;
        for (id, result) in self.deliveries.from(first).into_iter().zip(results) {
            match result {
                Ok(what) => self.finish_delivery(id, Ok(what), cx),
                Err(problem) if !may_succeed_later(problem.reason) => {
                    self.finish_delivery(id, Err(problem), cx);
                }
                Err(problem) if !waits => waits = self.waits_for_retry(id, problem, cx),
                Err(_) => {}
            }
        }
        if !waits {
            self.deliveries.start(&lanes);
        }
    }

    fn attempt_failed(&mut self, id: AttemptId, problem: Problem, cx: &mut Context<'_>) {
        let lanes = self.deliveries.lanes_of(id);
        if !self.waits_for_retry(id, problem, cx) {
            self.deliveries.start(&lanes);
        }
    }

    /// Sets the timer of the next attempt, or gives up. Returns whether there is a next attempt.
    fn waits_for_retry(&mut self, id: AttemptId, problem: Problem, cx: &mut Context<'_>) -> bool {
        let Some(outgoing) = self.deliveries.all.get(&id) else { return false };
        let is_message = matches!(outgoing.what, OutgoingContent::Message(_));
        let is_best_effort =
            matches!(&outgoing.what, OutgoingContent::Message(message) if message.best_effort);
        let attempts = outgoing.attempts;
        if is_best_effort || self.is_unknown(outgoing, cx) || !may_succeed_later(problem.reason) {
            self.finish_delivery(id, Err(problem), cx);
            return false;
        }
        let mut wait = problem.retry_after.unwrap_or_default().max(pause(attempts, cx.world.random()));
        if let OutgoingContent::Message(message) = &outgoing.what {
            let (task, trace) = task_and_trace(message);
            tracing::debug!(agent = %self.me, to = %message.to, message = %message.envelope.message_id, task, trace, %problem, attempts, "not delivered yet");
            wait = wait.min(cx.wall().until(self.expiry(message, cx)));
        } else {
            tracing::debug!(agent = %self.me, %problem, attempts, "the board is waited for");
            // A board that is back gives every holder a full lease; it must hear of each within it. The end of a claim may
            // wait behind a signal.
            wait = wait.min(Duration::from_millis(self.config.auction.lease_ms / 3));
        }
        if is_message {
            cx.observe(Observation::Tried(DeliveryAttemptOutcome::Retried));
        }
        if let Some(outgoing) = self.deliveries.all.get_mut(&id) {
            outgoing.attempts += 1;
        }
        self.timers.set(wait.max(Duration::from_millis(1)), TimerPurpose::Retry(id), cx);
        true
    }

    /// Whether the recipient has been looked up often enough in the whole directory.
    fn is_unknown(&self, outgoing: &Outgoing, cx: &Context<'_>) -> bool {
        let OutgoingContent::Message(message) = &outgoing.what else { return false };
        let directory = cx.world.directory();
        outgoing.attempts >= UNKNOWN_ATTEMPTS
            && directory.is_synced()
            && directory.locate(&message.to) == PeerLocation::Unknown
    }

    /// Removes an entry and reports its result.
    fn finish_delivery(
        &mut self,
        id: AttemptId,
        outcome: Result<Option<EventKind>, Problem>,
        cx: &mut Context<'_>,
    ) {
        let Some(Outgoing { origin, what, .. }) = self.deliveries.remove(id) else { return };
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
            (
                OutgoingContent::Signal(_) | OutgoingContent::Claim(..) | OutgoingContent::Space(..),
                Ok(what),
            ) => {
                if let Some(what) = what {
                    self.queue_event(&origin.0, Some(origin.1), what);
                }
            }
            (OutgoingContent::Claim(task, request), Err(problem)) => {
                self.queue_event(&origin.0, Some(origin.1), request.refused(&task, &problem));
            }
            (OutgoingContent::Space(label, request), Err(problem)) => {
                tracing::warn!(agent = %self.me, %problem, request = request.name(), "the space refused a request");
                let answer = SpaceAnswer::refused(&problem);
                self.queue_event(&origin.0, Some(origin.1), EventKind::SpaceAnswered { label, answer });
            }
            (OutgoingContent::Signal(signal), Err(problem)) => self.signal_refused(origin, &signal, problem),
        }
    }

    fn signal_refused(&mut self, origin: (ConversationId, EffectKey), signal: &Signal, problem: Problem) {
        let task = signal.task_id.as_ref().map(ToString::to_string);
        tracing::warn!(agent = %self.me, task, %problem, signal = %signal.kind, "signal refused");
        let (reason, message) = (problem.reason.code().to_owned(), problem.message);
        self.queue_event(&origin.0, Some(origin.1), EventKind::PublishRefused { reason, message });
    }

    /// Reports the result of a message to its conversation.
    fn report_delivery(
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
                let (task, trace) = task_and_trace(message);
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
        self.queue_event(&conversation, (!message.best_effort).then_some(effect), what);
    }
}

/// The task id and the trace id of a message, for logs.
fn task_and_trace(message: &OutgoingEnvelope) -> (Option<String>, Option<String>) {
    let task = message.envelope.payload.task_id().map(ToString::to_string);
    (task, message.trace.as_ref().map(TraceContext::trace))
}

/// Whether a retry may succeed after a refusal with this reason (RELIABILITY §1.11). After a restart another process may
/// listen at the recipient's old address; it knows neither the recipient nor, in another mesh, the sender's signature.
pub fn may_succeed_later(reason: Reason) -> bool {
    if reason == Reason::MessageFailed {
        return false;
    }
    let may_come_back = [
        Reason::AgentNotFound,
        Reason::RegisteredElsewhere,
        Reason::AgentDeparted,
        Reason::StaleSignature,
        Reason::Unauthenticated,
    ];
    may_come_back.contains(&reason) || matches!(reason.status(), 408 | 425 | 429 | 500..=599)
}
