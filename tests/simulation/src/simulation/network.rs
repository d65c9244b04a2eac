//! The network between agents: loss, delay, duplication and partitions.

use super::{
    ACK_TIMEOUT, AttemptTry, BOARD, REGISTRY, Simulation, event::Event, replies::ReplyTarget,
    services::BoardRequest,
};
use crate::plan;
use engine::{Attempt, AttemptId, AttemptResult, Delivery, IncomingMessage, Input};
use protocol::{
    envelope::Envelope,
    ids::{AgentId, Digest},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use std::time::Duration;

impl Simulation {
    /// Whether a partition separates `a` and `b`.
    pub(super) fn is_partitioned(&self, a: usize, b: usize) -> bool {
        let side = |endpoint: usize, sides: u64| match endpoint {
            BOARD => (sides >> 62) & 1,
            REGISTRY => (sides >> 63) & 1,
            agent => (sides >> agent) & 1,
        };
        self.partition.is_some_and(|sides| side(a, sides) != side(b, sides))
    }

    /// The delay from `a` to `b` in milliseconds; `None` if the message is lost.
    pub(super) fn travel(&mut self, a: usize, b: usize) -> Option<u64> {
        let (loss, long_delay) = (self.faults.message_loss, self.faults.long_delay);
        if self.is_partitioned(a, b) || a != b && self.chance(loss) {
            return None;
        }
        if self.chance(long_delay) {
            return Some(self.random.between(100, 12_000));
        }
        let most = if self.has_faults() { self.faults.max_delay_ms } else { 20 };
        Some(self.random.between(1, most))
    }

    /// Makes one attempt at an effect, after checking that the step of the effect is durable.
    pub(super) fn attempt(&mut self, agent: usize, life: u64, id: AttemptId, what: Attempt) {
        let number = self.next_id();
        self.nodes[agent].attempts.insert(id, number);
        let attempt: AttemptTry = (id, number);
        let me = self.nodes[agent].id.clone();
        match what {
            Attempt::Deliver(delivery) => self.deliver(agent, life, attempt, *delivery),
            Attempt::Publish(signals) => {
                for signal in &signals {
                    self.check_effect(&me, &signal.id);
                    self.note(|| format!("{me} publishes {} {}", signal.kind, signal.id));
                }
                self.request_board(agent, life, attempt, BoardRequest::Publish(signals));
            }
            Attempt::AskSpace(request) => {
                self.note(|| format!("{me} asks a space to {}", request.name()));
                self.request_board(agent, life, attempt, BoardRequest::AskSpace(request));
            }
            Attempt::Claim(task, request) => {
                self.note(|| format!("{me} wants of the claim on {task}: {request:?}"));
                self.check_claim(agent, &task);
                self.check_claim_pause(agent, id);
                self.request_board(agent, life, attempt, BoardRequest::Claim(task, request));
            }
        }
    }

    /// Sends messages to a peer in one request; the network may lose, delay or duplicate it.
    fn deliver(&mut self, agent: usize, life: u64, attempt: AttemptTry, delivery: Delivery) {
        for envelope in &delivery.messages {
            self.check_sending(agent, envelope, &delivery.to);
        }
        let me = self.nodes[agent].id.clone();
        let Some(&to) = self.index.get(&delivery.to) else { return };
        let timeout = Problem::new(Reason::GatewayTimeout, "no answer in time");
        let failed = Box::new(AttemptResult::Failed(timeout));
        self.after(ACK_TIMEOUT, Event::Attempted { agent, life, attempt, result: failed });
        let messages = delivery.messages.into_iter().map(|envelope| IncomingMessage {
            proof: SenderProof::Credential,
            digest: Digest::of(&serde_json::to_vec(&envelope).unwrap_or_default()),
            envelope: Box::new(envelope),
            by: Principal::Agent(me.clone()),
            trace: delivery.trace.clone(),
            contact: None,
            origin: None,
            approval: None,
        });
        let messages: Vec<_> = messages.collect();
        let rate = self.faults.duplication;
        if self.chance(rate)
            && let Some(delay) = self.travel(agent, to)
        {
            let most = if self.random.chance(250) { 30_000 } else { 3_000 };
            let delay = delay + self.random.below(most);
            let copy = messages.clone();
            self.after(
                delay,
                Event::MessagesArrived { agent: to, messages: copy, target: ReplyTarget::None },
            );
        }
        if let Some(delay) = self.travel(agent, to) {
            self.answers.insert(attempt.1, vec![None; messages.len()]);
            let target = ReplyTarget::Peer { from: agent, life, attempt, message: 0 };
            self.after(delay, Event::MessagesArrived { agent: to, messages, target });
        }
    }

    /// Checks a message that is about to be sent: its step is durable, and it has not expired.
    fn check_sending(&mut self, agent: usize, envelope: &Envelope, to: &AgentId) {
        let me = self.nodes[agent].id.clone();
        self.check_effect(&me, envelope.message_id.as_str());
        let kind = envelope.kind().wire();
        let message_id = envelope.message_id.clone();
        self.note(|| format!("{me} sends {kind} {message_id} to {to}"));
        let lifetime = Duration::from_millis(plan::limits().message_life_ms);
        let written = envelope.timestamp.unwrap_or_else(|| self.wall(agent));
        let expires = written.plus(lifetime);
        let expires = envelope.expires_at.map_or(expires, |at| at.min(expires));
        let is_repeat = !self.nodes[agent].sent.insert(message_id.clone());
        if is_repeat && self.wall(agent) >= expires && !self.nodes[agent].redriven.contains(&message_id) {
            self.fail(format!("{me}: {kind} {message_id} is sent after it expired"));
        }
    }

    /// An agent learns the result of an attempt, unless it has learned one before.
    pub(super) fn end_attempt(&mut self, agent: usize, (id, number): AttemptTry, result: AttemptResult) {
        if self.nodes[agent].attempts.get(&id) == Some(&number) {
            self.nodes[agent].attempts.remove(&id);
            if matches!(result, AttemptResult::Failed(_)) {
                self.nodes[agent].failed_attempts.insert(id, self.now);
            }
            self.handle(agent, Input::Attempted(id, result));
        }
    }

    /// Messages of one request arrive at an agent; one that is down refuses the connection.
    pub(super) fn arrive(&mut self, agent: usize, messages: Vec<IncomingMessage>, target: ReplyTarget) {
        if self.nodes[agent].agent.is_none() {
            let refused = Problem::new(Reason::GatewayTimeout, "connection refused");
            match target {
                ReplyTarget::Peer { from, life, attempt, .. } => {
                    let result = Box::new(AttemptResult::Failed(refused));
                    self.after(2, Event::Attempted { agent: from, life, attempt, result });
                }
                ReplyTarget::User { request } => self.on_user_reply(agent, request, Err(refused)),
                ReplyTarget::Owner { .. } | ReplyTarget::BoardReader { .. } | ReplyTarget::None => {}
            }
            return;
        }
        let me = self.nodes[agent].id.clone();
        self.handle(agent, Input::HoldSteps);
        for (index, message) in messages.into_iter().enumerate() {
            // It may have crashed over the message before.
            if self.nodes[agent].agent.is_none() {
                return;
            }
            let target = target.of_message(index);
            if let Some(problem) = self.refusal_before(&target) {
                self.answer_peer(agent, &target, Err(problem));
                continue;
            }
            let (kind, id) = (message.envelope.kind().wire(), message.envelope.message_id.clone());
            self.note(|| format!("{me} gets {kind} {id}"));
            let reply = self.expect_reply(agent, target, Some(&message));
            self.handle(agent, Input::Message(message, reply));
        }
        self.handle(agent, Input::ReleaseSteps);
    }

    /// The refusal of an earlier message of the same request that may succeed later: the messages behind it are refused, too.
    fn refusal_before(&self, target: &ReplyTarget) -> Option<Problem> {
        let ReplyTarget::Peer { attempt, .. } = target else { return None };
        let mut refusals =
            self.answers.get(&attempt.1)?.iter().flatten().filter_map(|answer| answer.as_ref().err());
        refusals.find(|problem| engine::may_succeed_later(problem.reason)).cloned()
    }
}
