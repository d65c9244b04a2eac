//! The fixture of the contract net's tests: a manager with candidates and a clock that the test sets, and builders of the
//! events that it receives.

use crate::{
    AnyPattern, Candidate, Outcome, Pattern,
    contract_net::{Auction, ContractNet, Effect, Event, Timer, record::CandidateResult},
    ownership::{Requester, TaskOwnership},
};
use protocol::{
    envelope::Envelope,
    ids::{Address, AgentId, Capability, MessageId, TaskId},
    message::{Award, Payload},
    principal::Principal,
    task::{TaskSpec, TaskState, TaskTerms},
    time::{NodeTime, WallTime},
};
use serde_json::{Value, json};

pub(super) type EventKind = crate::EventKind;

pub(super) const TASK: &str = "t-1";
pub(super) const CAPABILITY: &str = "implement-api";

pub(super) fn agent_id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

pub(super) fn candidate(agent: &str) -> Candidate {
    Candidate {
        agent: agent_id(agent),
        support: 1.0,
        output_modes: Vec::new(),
        max_parallel: 2,
        running: 0,
        is_alive: true,
        away_since: None,
        track_record: 0.5,
    }
}

pub(super) fn task_spec(task: &str) -> TaskSpec {
    let capability = Some(Capability::parse(CAPABILITY).unwrap());
    let terms = TaskTerms { capability, ..TaskTerms::new("do it") };
    TaskSpec::new(TaskId::parse(task).unwrap(), terms, Principal::local_user())
}

pub(super) fn envelope(from: &str, kind: &str, payload: Value) -> Envelope {
    let body = json!({ "fromAgentId": from, "toAgentId": "planner-01", "type": kind, "payload": payload });
    Envelope::from_json(body, || MessageId::parse("m-1").unwrap()).unwrap()
}

pub(super) fn message_received(from: &str, kind: &str, payload: Value) -> EventKind {
    let by = Principal::Agent(agent_id(from));
    EventKind::MessageReceived { by, answers: None, envelope: Box::new(envelope(from, kind, payload)) }
}

pub(super) fn bid_received(from: &str, cost: f64, eta: &str, fit: f64) -> EventKind {
    let payload = json!({ "taskId": TASK, "cost": cost, "eta": eta, "capability_match": fit });
    message_received(from, "bid", payload)
}

pub(super) fn task_completed(from: &str, epoch: u64, text: &str) -> EventKind {
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
    let payload = json!({ "taskId": TASK, "seq": 9, "epoch": epoch, "state": "TASK_STATE_COMPLETED", "artifacts": [artifact] });
    message_received(from, "task-response", payload)
}

pub(super) fn timer_fired(timer: Timer) -> EventKind {
    EventKind::TimerFired { timer }
}

/// A manager under test.
pub(super) struct ManagerFixture {
    pub contract_net: ContractNet,
    /// Node time, in milliseconds.
    pub now_ms: u64,
    /// The epoch of the last claim.
    pub epoch: u64,
    /// All effects so far, in order.
    pub effects: Vec<Effect>,
}

impl ManagerFixture {
    pub(super) fn new(auction: Auction, candidates: Vec<Candidate>) -> Self {
        Self::with_task(task_spec(TASK), auction, candidates)
    }

    pub(super) fn with_task(spec: TaskSpec, auction: Auction, candidates: Vec<Candidate>) -> Self {
        let contract_net =
            ContractNet::new(agent_id("planner-01"), TaskOwnership::new(spec, None), auction, candidates);
        Self { contract_net, now_ms: 1_000, epoch: 100, effects: vec![] }
    }

    /// A manager of a task of another agent, that has sent its call for proposals to `b-1`.
    pub(super) fn requested_by(agent: &str, auction: Auction) -> Self {
        let message = MessageId::parse("m-0").unwrap();
        let requester = Requester { agent: agent_id(agent), conversation: None, message, epoch: None };
        let ownership = TaskOwnership::new(task_spec(TASK), Some(requester));
        let contract_net =
            ContractNet::new(agent_id("planner-01"), ownership, auction, vec![candidate("b-1")]);
        let mut fixture = Self { contract_net, now_ms: 1_000, epoch: 100, effects: vec![] };
        fixture.deliver(EventKind::Started);
        fixture
    }

    /// A manager that has sent its call for proposals to `agents`.
    pub(super) fn with_open_round(auction: Auction, agents: &[&str]) -> Self {
        let mut fixture = Self::new(auction, agents.iter().map(|agent| candidate(agent)).collect());
        fixture.deliver(EventKind::Started);
        fixture
    }

    /// Delivers an event, and then answers a claim that it leads to, as the engine does. Returns the effects of both.
    pub(super) fn deliver(&mut self, what: EventKind) -> Vec<Effect> {
        let mut effects = self.deliver_only(what);
        let claimed = effects.iter().find_map(|effect| match effect {
            Effect::Claim { holder, .. } => Some(holder.clone()),
            _ => None,
        });
        if let Some(holder) = claimed {
            self.epoch += 7;
            effects.extend(self.deliver_only(EventKind::Claimed { holder, epoch: self.epoch }));
        }
        effects
    }

    /// Delivers an event; a claim that it leads to stays unanswered. Asserts that the state survives its JSON form.
    pub(super) fn deliver_only(&mut self, what: EventKind) -> Vec<Effect> {
        let event = Event { at: NodeTime(self.now_ms), wall: WallTime(1_000_000 + self.now_ms as i64), what };
        let stored = serde_json::to_string(&AnyPattern::from(self.contract_net.clone())).unwrap();
        let AnyPattern::ContractNet(restored) = serde_json::from_str(&stored).unwrap() else { panic!() };
        assert_eq!(*restored, self.contract_net, "the state differs after a round trip through JSON");
        let effects = self.contract_net.on(&event);
        self.effects.extend(effects.iter().cloned());
        effects
    }

    pub(super) fn advance(&mut self, millis: u64) -> &mut Self {
        self.now_ms += millis;
        self
    }

    /// The result of the candidate in the last round that lists it.
    pub(super) fn result_of(&self, agent: &str) -> CandidateResult {
        let all = self.contract_net.record.rounds.iter().rev().flat_map(|round| &round.candidates);
        all.into_iter().find(|candidate| candidate.agent == agent_id(agent)).unwrap().fate
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Finish(outcome) => Some(outcome),
            _ => None,
        })
    }

    /// The terminal state of the task, if it has one.
    pub(super) fn end_state(&self) -> Option<TaskState> {
        self.outcome().map(|outcome| outcome.status.state)
    }
}

/// The winner and the award of every award message.
pub(super) fn awards(effects: &[Effect]) -> Vec<(String, Award)> {
    let messages = effects.iter().filter_map(|effect| match effect {
        Effect::Send(message) => Some(message),
        _ => None,
    });
    let awards = messages.filter_map(|message| match (&message.payload, &message.to) {
        (Payload::Award(award), Address::Agent(to)) => Some((to.to_string(), award.clone())),
        _ => None,
    });
    awards.collect()
}

/// The recipients of messages of this kind.
pub(super) fn recipients_of(effects: &[Effect], kind: &str) -> Vec<String> {
    let recipients = effects.iter().filter_map(|effect| match effect {
        Effect::Send(message) if message.payload.kind().wire() == kind => Some(message.to.to_string()),
        _ => None,
    });
    recipients.collect()
}
