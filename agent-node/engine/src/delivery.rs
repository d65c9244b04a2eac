//! Sends messages to peers, and signals and claims to the board. Each lane is FIFO. An attempt that may succeed later is
//! repeated after a pause. Success and final failure are events for the conversation.

pub(crate) mod backoff;
pub(crate) mod claims;
mod delivery_context;
pub(crate) mod envelope;
pub(crate) mod lanes;

pub(crate) use delivery_context::DeliveryContext;

use crate::{
    Attempt, AttemptId, AttemptResult, ClaimRequest, Delivery, DeliveryAttemptOutcome, MessageResult,
    Observation, Output, PeerLocation, away, context::Context, peers::capability_like, records::EffectKey,
    timer_purpose::TimerPurpose,
};
use backoff::pause;
use lanes::{LaneKey, Lanes, Outgoing, OutgoingContent, OutgoingEnvelope};
use patterns::{AnyPattern, EventKind, Label};
use protocol::{
    envelope::Envelope,
    ids::{AgentId, ConversationId},
    problem::{Problem, Reason},
    signal::Signal,
    spaces::request::{SpaceAnswer, SpaceRequest},
    task::OpenTaskKey,
};
use std::{collections::BTreeMap, time::Duration};

/// How often an unknown recipient is looked up once the directory is synced.
const UNKNOWN_ATTEMPTS: u32 = 3;
/// The longest pause before an agent that is away is looked up again, which is no attempt to reach it.
const AWAY_PAUSE: Duration = Duration::from_secs(1);
/// The most messages or signals in one request.
const MAX_SHARED: usize = 64;

/// How many signals of one conversation may wait for the board.
const MAX_SIGNALS: usize = 256;
/// How many more may wait that are about the course of its task.
const RESERVED_SIGNALS: usize = 32;

/// All that is to be sent, to peers and to the board.
#[derive(Default)]
pub(crate) struct Deliveries(Lanes);

/// The effect that an entry performs.
type EffectOrigin = (ConversationId, EffectKey);

impl Deliveries {
    /// How many messages wait, by recipient.
    pub(crate) fn waiting(&self) -> BTreeMap<AgentId, usize> {
        self.0.waiting()
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next entry to attempt before the current call of the agent returns.
    pub(crate) fn next_start(&mut self) -> Option<AttemptId> {
        self.0.next_start()
    }

    /// Queues a message behind the other messages of its conversation to the same recipient.
    pub(crate) fn send(
        &mut self,
        origin: EffectOrigin,
        message: OutgoingEnvelope,
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) {
        let limit = own.limits.max_outbox_per_peer;
        let waiting = self.0.waiting_for(&message.to);
        if waiting >= limit {
            let why = format!("{waiting} messages already wait for {}, the limit is {limit}", message.to);
            return own.report(origin, &message, Err(Problem::new(Reason::Overloaded, why)), cx);
        }
        let lane = (!message.best_effort).then(|| LaneKey::Peer(message.to.clone(), origin.0.clone()));
        let what = OutgoingContent::Message(Box::new(message));
        self.0.add(Outgoing::new(origin, Vec::from_iter(lane), what));
    }

    /// Queues a signal behind the earlier signals of its conversation; refused while [`MAX_SIGNALS`] wait.
    pub(crate) fn publish(
        &mut self,
        conversation: ConversationId,
        effect: EffectKey,
        signal: Signal,
        own: &mut DeliveryContext<'_>,
    ) {
        let lane = LaneKey::Signals(conversation.clone());
        let limit = if signal.kind.is_of_task() { MAX_SIGNALS + RESERVED_SIGNALS } else { MAX_SIGNALS };
        if self.0.len(&lane) >= limit {
            let why = format!("{limit} signals of the conversation already wait for the board");
            let problem = Problem::new(Reason::Overloaded, why);
            return own.refuse_signal((conversation, effect), &signal, problem);
        }
        let (lanes, what) = (vec![lane], OutgoingContent::Signal(Box::new(signal)));
        self.0.add(Outgoing::new((conversation, effect), lanes, what));
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
        self.0.add(Outgoing::new((conversation, effect), lanes, what));
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
        self.0.add(Outgoing::new((conversation, effect), lanes, what));
    }

    /// Drops a claim request whose effect is no longer open. The later ones of its conversation do not wait for its answer.
    pub(crate) fn withdraw_claim_request(&mut self, conversation: &ConversationId, effect: EffectKey) {
        if let Some(id) = self.0.find(&LaneKey::Claims(conversation.clone()), effect) {
            self.skip(id);
        }
    }

    /// Makes one attempt at the first entry of a lane, or gives up if the message has expired or its recipient is unknown.
    pub(crate) fn attempt(&mut self, id: AttemptId, own: &mut DeliveryContext<'_>, cx: &mut Context<'_>) {
        let Some(outgoing) = self.0.get(id) else { return };
        let attempt = match &outgoing.what {
            OutgoingContent::Signal(_) if own.has_dropped(outgoing) => return self.skip(id),
            OutgoingContent::Signal(_) => Attempt::Publish(self.signals_from(id, own)),
            // The effect stays open, so the next start asks for the claim.
            OutgoingContent::Claim(_, ClaimRequest::Take { .. })
                if own.is_draining || own.has_dropped(outgoing) =>
            {
                return self.skip(id);
            }
            OutgoingContent::Claim(task, request @ ClaimRequest::Take { .. }) => {
                let attempt = Attempt::Claim(task.clone(), request.clone());
                if !own.offers.may_claim(&outgoing.origin.0, own.has_place) {
                    return own.offers.wait(id);
                }
                attempt
            }
            OutgoingContent::Claim(task, request) => Attempt::Claim(task.clone(), request.clone()),
            OutgoingContent::Space(..) if own.has_dropped(outgoing) => return self.skip(id),
            OutgoingContent::Space(_, request) => Attempt::AskSpace(request.clone()),
            OutgoingContent::Message(message) => match self.delivery(id, message, outgoing.attempts, own, cx)
            {
                Ok(delivery) => Attempt::Deliver(Box::new(delivery)),
                Err(problem) => return self.attempt_failed(id, problem, own, cx),
            },
        };
        cx.out.push(Output::Attempt(id, attempt));
    }

    /// The signal `first` and those behind it in its lane, up to a claim request or one that is withdrawn.
    fn signals_from(&self, first: AttemptId, own: &DeliveryContext<'_>) -> Vec<Signal> {
        let lane = self.0.from(first);
        let outgoing = lane.iter().filter_map(|id| self.0.get(*id));
        let signals = outgoing.map_while(|outgoing| match &outgoing.what {
            OutgoingContent::Signal(signal) => (!own.has_dropped(outgoing)).then(|| (**signal).clone()),
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
        own: &DeliveryContext<'_>,
        cx: &Context<'_>,
    ) -> Result<Delivery, Problem> {
        let to = message.to.clone();
        let may_have_expired = message.is_redelivery && attempts == 0;
        if !may_have_expired && own.has_expired(message, cx) {
            let why = format!("not delivered to {to} before it expired");
            return Err(Problem::new(Reason::Expired, why));
        }
        let directory = cx.world.directory();
        let at = directory.locate(&to);
        match at {
            PeerLocation::Here | PeerLocation::At(_) => {}
            PeerLocation::Away { since } => return Err(away(&to, since)),
            PeerLocation::Left => {
                return Err(Problem::new(Reason::AgentDeparted, format!("{to} has left")));
            }
            PeerLocation::Unknown => {
                let hint = capability_like(to.as_str(), own.card, directory);
                let hint =
                    hint.map(|known| format!("; did you mean capability:{known}?")).unwrap_or_default();
                return Err(Problem::new(Reason::AgentNotFound, format!("no agent {to} is known{hint}")));
            }
        }
        let behind = self.0.from(id);
        let behind = behind.iter().skip(1).take_while(|id| !self.0.waits_for_post(**id));
        let behind = behind.filter_map(|id| self.0.get(*id));
        let behind = behind.map_while(|outgoing| match &outgoing.what {
            OutgoingContent::Message(next) if !next.is_redelivery && !own.has_expired(next, cx) => {
                let opens = AnyPattern::is_opened_by(next.envelope.kind());
                (!opens).then(|| next.envelope.clone())
            }
            _ => None,
        });
        let messages = std::iter::once(message.envelope.clone()).chain(behind).take(MAX_SHARED).collect();
        Ok(Delivery { to, at, messages, trace: message.trace.clone() })
    }

    /// Removes an entry without an attempt.
    fn skip(&mut self, id: AttemptId) {
        let lanes = self.0.lanes_of(id);
        self.0.remove(id);
        self.0.start(&lanes);
    }

    /// Handles the result of an attempt. Returns the bids in it.
    pub(crate) fn attempted(
        &mut self,
        id: AttemptId,
        result: AttemptResult,
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) -> Vec<Envelope> {
        match result {
            AttemptResult::Delivered(results) => return self.delivered(id, results, own, cx),
            AttemptResult::Failed(problem) => self.attempt_failed(id, problem, own, cx),
            AttemptResult::Published(results) => {
                let published = |revision| Some(EventKind::Published { revision });
                let results = results.into_iter().map(|result| result.map(published)).collect();
                self.answered(id, results, own, cx);
            }
            AttemptResult::Claim(what) => self.succeeded(id, what, own, cx),
            AttemptResult::SpaceAnswered(answer) => self.space_answered(id, answer, own, cx),
        }
        Vec::new()
    }

    fn space_answered(
        &mut self,
        id: AttemptId,
        answer: SpaceAnswer,
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) {
        let Some(Outgoing { what: OutgoingContent::Space(label, _), .. }) = self.0.get(id) else {
            return;
        };
        let label = *label;
        self.succeeded(id, EventKind::SpaceAnswered { label, answer }, own, cx);
    }

    fn succeeded(
        &mut self,
        id: AttemptId,
        what: EventKind,
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) {
        let lanes = self.0.lanes_of(id);
        self.finish_delivery(id, Ok(Some(what)), own, cx);
        self.0.start(&lanes);
    }

    /// Handles the answers to the first messages of a lane. Returns the bids of the recipient in them.
    fn delivered(
        &mut self,
        first: AttemptId,
        results: Vec<MessageResult>,
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) -> Vec<Envelope> {
        let Some(Outgoing { what: OutgoingContent::Message(message), .. }) = self.0.get(first) else {
            return Vec::new();
        };
        let recipient = message.to.clone();
        let bids = results.iter().flatten().flatten().filter(|bid| bid.from_agent_id == recipient);
        let bids = bids.map(|bid| bid.as_ref().clone()).collect();
        self.answered(first, results.into_iter().map(|result| result.map(|_| None)).collect(), own, cx);
        bids
    }

    /// Handles the answers to the first entries of a lane. After one that may succeed later the lane waits; entries behind it
    /// that were taken are done.
    fn answered(
        &mut self,
        first: AttemptId,
        results: Vec<Result<Option<EventKind>, Problem>>,
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) {
        let lanes = self.0.lanes_of(first);
        let mut waits = false;
        for (id, result) in self.0.from(first).into_iter().zip(results) {
            match result {
                Ok(what) => self.finish_delivery(id, Ok(what), own, cx),
                Err(problem) if !may_succeed_later(problem.reason) => {
                    self.finish_delivery(id, Err(problem), own, cx);
                }
                Err(problem) if !waits => waits = self.waits_for_retry(id, problem, own, cx),
                Err(_) => {}
            }
        }
        if !waits {
            self.0.start(&lanes);
        }
    }

    fn attempt_failed(
        &mut self,
        id: AttemptId,
        problem: Problem,
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) {
        let lanes = self.0.lanes_of(id);
        if !self.waits_for_retry(id, problem, own, cx) {
            self.0.start(&lanes);
        }
    }

    /// Sets the timer of the next attempt, or gives up. Returns whether there is a next attempt.
    fn waits_for_retry(
        &mut self,
        id: AttemptId,
        problem: Problem,
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(outgoing) = self.0.get(id) else { return false };
        let is_message = matches!(outgoing.what, OutgoingContent::Message(_));
        let attempts = outgoing.attempts;
        if self.is_final(outgoing, problem.reason, cx) {
            self.finish_delivery(id, Err(problem), own, cx);
            return false;
        }
        self.tell_away(id, problem.reason, own, cx);
        let Some(outgoing) = self.0.get(id) else { return false };
        let mut wait = problem.retry_after.unwrap_or_default().max(pause(attempts, cx.world.random()));
        if let OutgoingContent::Message(message) = &outgoing.what {
            let (task, trace) = message.task_and_trace();
            tracing::debug!(agent = %own.me, to = %message.to, message = %message.envelope.message_id, task, trace, %problem, attempts, "not delivered yet");
            wait = wait.min(cx.wall().until(own.expiry(message, cx)));
            if problem.reason == Reason::AgentAway {
                wait = wait.min(AWAY_PAUSE);
            }
        } else {
            tracing::debug!(agent = %own.me, %problem, attempts, "the board is waited for");
            // A board that is back gives every holder a full lease; it must hear of each within it. The end of a claim may
            // wait behind a signal.
            wait = wait.min(own.lease / 3);
        }
        if is_message {
            cx.observe(Observation::Tried(DeliveryAttemptOutcome::Retried));
        }
        self.0.count_attempt(id);
        own.timers.set(wait.max(Duration::from_millis(1)), TimerPurpose::Retry(id), cx);
        true
    }

    /// Tells the conversation of a message, once, that its recipient is away.
    fn tell_away(&mut self, id: AttemptId, reason: Reason, own: &mut DeliveryContext<'_>, cx: &Context<'_>) {
        let Some(Outgoing { origin, what: OutgoingContent::Message(message), .. }) = self.0.get(id) else {
            return;
        };
        let PeerLocation::Away { since } = cx.world.directory().locate(&message.to) else { return };
        let (conversation, label, to) = (origin.0.clone(), message.label, message.to.clone());
        if reason == Reason::AgentAway && self.0.tell_away(id) {
            own.events.push(&conversation, None, EventKind::RecipientAway { label, to, since });
        }
    }

    /// Whether there is no other attempt. Whoever asks an agent that has left is told so at once; reports, results, answers and
    /// cancels wait for it.
    fn is_final(&self, outgoing: &Outgoing, reason: Reason, cx: &Context<'_>) -> bool {
        let of_message = match &outgoing.what {
            OutgoingContent::Message(message) => {
                let opens = AnyPattern::is_opened_by(message.envelope.kind());
                message.best_effort || opens && reason == Reason::AgentDeparted
            }
            OutgoingContent::Signal(_) | OutgoingContent::Claim(..) | OutgoingContent::Space(..) => false,
        };
        of_message || self.is_unknown(outgoing, cx) || !may_succeed_later(reason)
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
        own: &mut DeliveryContext<'_>,
        cx: &mut Context<'_>,
    ) {
        let Some(Outgoing { origin, what, .. }) = self.0.remove(id) else { return };
        match (what, outcome) {
            (OutgoingContent::Message(message), outcome) => {
                let tried = if outcome.is_ok() {
                    DeliveryAttemptOutcome::Delivered
                } else {
                    DeliveryAttemptOutcome::GivenUp
                };
                cx.observe(Observation::Tried(tried));
                own.report(origin, &message, outcome.map(drop), cx);
            }
            (
                OutgoingContent::Signal(_) | OutgoingContent::Claim(..) | OutgoingContent::Space(..),
                Ok(what),
            ) => {
                if let Some(what) = what {
                    own.events.push(&origin.0, Some(origin.1), what);
                }
            }
            (OutgoingContent::Claim(task, request), Err(problem)) => {
                own.events.push(&origin.0, Some(origin.1), request.refused(&task, &problem));
            }
            (OutgoingContent::Space(label, request), Err(problem)) => {
                tracing::warn!(agent = %own.me, %problem, request = request.name(), "the space refused a request");
                let answer = SpaceAnswer::refused(&problem);
                own.events.push(&origin.0, Some(origin.1), EventKind::SpaceAnswered { label, answer });
            }
            (OutgoingContent::Signal(signal), Err(problem)) => own.refuse_signal(origin, &signal, problem),
        }
    }
}

/// Whether a retry may succeed after a refusal with this reason (RELIABILITY §1.11). After a restart another process may
/// listen at the recipient's old address; it knows neither the recipient nor, in another mesh, the sender's signature.
pub fn may_succeed_later(reason: Reason) -> bool {
    if matches!(reason, Reason::MessageFailed | Reason::QuotaReached) {
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
