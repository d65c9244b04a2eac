//! What every test of the auction sets up: a manager, its peers, and a clock that a test turns.

use crate::{
    bid::{Cost, Eta},
    card::{BidTerms, Card, Skill},
    envelope::Envelope,
    ids::{Address, AgentId, Capability, MessageId, TaskId},
    message::{Award, Payload},
    patterns::{
        AnyPattern, Candidate, Outcome, Pattern,
        contract_net::{
            Auction, ContractNet, ContractNetEffect, ContractNetEvent, ContractNetLabel, ContractNetTimer,
            record::CandidateResult,
        },
        ownership::TaskOwnership,
    },
    principal::Principal,
    task::{TaskSpec, TaskState},
    time::{NodeTime, WallTime},
};
use serde_json::{Value, json};

pub(super) type EventKind = crate::patterns::EventKind<ContractNetLabel, ContractNetTimer>;

pub(super) const TASK: &str = "t-1";
pub(super) const WORK: &str = "implement-api";

pub(super) fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

pub(super) fn peer(agent: &str) -> Candidate {
    Candidate {
        card: Card {
            agent_id: id(agent),
            description: String::new(),
            endpoint: "http://127.0.0.1:1".into(),
            version: String::new(),
            skills: vec![Skill {
                id: Capability::parse(WORK).unwrap(),
                name: String::new(),
                description: String::new(),
                examples: Vec::new(),
                tags: vec![],
                output_modes: vec![],
            }],
            open: false,
            subscribe: vec![],
            terms: BidTerms { cost: Cost::default(), eta: Eta(60_000), max_parallel: 2 },
            limits: Default::default(),
            waits_for: None,
        },
        running: 0,
        is_alive: true,
        track_record: 0.5,
    }
}

pub(super) fn spec(task: &str) -> TaskSpec {
    TaskSpec {
        task_id: TaskId::parse(task).unwrap(),
        description: "do it".into(),
        capability: Some(Capability::parse(WORK).unwrap()),
        input: None,
        artifacts: vec![],
        deadline: None,
        accepted_modes: vec![],
        path: vec![],
        parent: None,
        root: Principal::local_user(),
        contact: None,
    }
}

pub(super) fn envelope(from: &str, kind: &str, payload: Value) -> Envelope {
    let body = json!({ "fromAgentId": from, "toAgentId": "planner-01", "type": kind, "payload": payload });
    Envelope::from_json(body, || MessageId::parse("m-1").unwrap()).unwrap()
}

pub(super) fn received(from: &str, kind: &str, payload: Value) -> EventKind {
    let by = Principal::Agent(id(from));
    EventKind::MessageReceived { by, answers: None, envelope: Box::new(envelope(from, kind, payload)) }
}

pub(super) fn offer(from: &str, cost: f64, eta: &str, fit: f64) -> EventKind {
    let payload = json!({ "taskId": TASK, "cost": cost, "eta": eta, "capability_match": fit });
    received(from, "bid", payload)
}

pub(super) fn result(from: &str, epoch: u64, text: &str) -> EventKind {
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
    let payload = json!({ "taskId": TASK, "seq": 9, "epoch": epoch, "state": "TASK_STATE_COMPLETED", "artifacts": [artifact] });
    received(from, "task-response", payload)
}

pub(super) fn woke(timer: ContractNetTimer) -> EventKind {
    EventKind::TimerFired { timer }
}

pub(super) struct Bench {
    pub net: ContractNet,
    pub now: u64,
    pub epoch: u64,
    pub effects: Vec<ContractNetEffect>,
}

impl Bench {
    pub(super) fn new(auction: Auction, candidates: Vec<Candidate>) -> Self {
        Self::of(spec(TASK), auction, candidates)
    }

    pub(super) fn of(spec: TaskSpec, auction: Auction, candidates: Vec<Candidate>) -> Self {
        let net = ContractNet::new(id("planner-01"), TaskOwnership::new(spec, None), auction, candidates);
        Self { net, now: 1_000, epoch: 100, effects: vec![] }
    }

    /// A bench whose call for proposals is out.
    pub(super) fn called(auction: Auction, agents: &[&str]) -> Self {
        let mut bench = Self::new(auction, agents.iter().map(|agent| peer(agent)).collect());
        bench.on(EventKind::Started);
        bench
    }

    /// Hands the event in, as the driver does it: the state goes through its stored form, a claim comes back.
    pub(super) fn on(&mut self, what: EventKind) -> Vec<ContractNetEffect> {
        let effects = self.raw(what);
        let claimed = effects.iter().find_map(|effect| match effect {
            ContractNetEffect::Claim { holder, .. } => Some(holder.clone()),
            _ => None,
        });
        let mut all = effects;
        if let Some(holder) = claimed {
            self.epoch += 7;
            all.extend(self.raw(EventKind::Claimed { holder, epoch: self.epoch }));
        }
        all
    }

    pub(super) fn raw(&mut self, what: EventKind) -> Vec<ContractNetEffect> {
        let event =
            ContractNetEvent { at: NodeTime(self.now), wall: WallTime(1_000_000 + self.now as i64), what };
        let stored = serde_json::to_string(&AnyPattern::from(self.net.clone())).unwrap();
        let AnyPattern::ContractNet(restored) = serde_json::from_str(&stored).unwrap() else { panic!() };
        assert_eq!(*restored, self.net, "what was stored is what comes back");
        let effects = self.net.on(&event);
        self.effects.extend(effects.iter().cloned());
        effects
    }

    pub(super) fn later(&mut self, millis: u64) -> &mut Self {
        self.now += millis;
        self
    }

    pub(super) fn fate(&self, agent: &str) -> CandidateResult {
        let all = self.net.record.rounds.iter().rev().flat_map(|round| &round.candidates);
        all.into_iter().find(|fate| fate.agent == id(agent)).unwrap().fate
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        self.effects.iter().find_map(|effect| match effect {
            ContractNetEffect::Finish(outcome) => Some(outcome),
            _ => None,
        })
    }

    pub(super) fn ended(&self) -> Option<TaskState> {
        self.outcome().map(|outcome| outcome.status.state)
    }
}

/// To whom the effects award the task, and under which epoch.
pub(super) fn awards(effects: &[ContractNetEffect]) -> Vec<(String, Award)> {
    let tells = effects.iter().filter_map(|effect| match effect {
        ContractNetEffect::Send(tell) => Some(tell),
        _ => None,
    });
    let awards = tells.filter_map(|tell| match (&tell.payload, &tell.to) {
        (Payload::Award(award), Address::Agent(to)) => Some((to.to_string(), award.clone())),
        _ => None,
    });
    awards.collect()
}

/// The recipients of messages of this kind.
pub(super) fn recipients_of(effects: &[ContractNetEffect], kind: &str) -> Vec<String> {
    let to = effects.iter().filter_map(|effect| match effect {
        ContractNetEffect::Send(tell) if tell.payload.kind().wire() == kind => Some(tell.to.to_string()),
        _ => None,
    });
    to.collect()
}
