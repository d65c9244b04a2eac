//! A manager and a doer of a task that streams its result. Both are real agents; the test carries their messages.

use super::*;
use crate::{
    Agent, Attempt, AttemptId, AttemptResult, CommitId, EngineConfig, IncomingMessage, Input, Output,
    PeerDirectory, PeerLocation, ReplyTo, TimerId, TurnKey, World,
    records::{ConversationState, Step},
    replay, tasks,
    testing::config,
};
use protocol::{
    artifact::{Part, PartContent},
    card::Card,
    envelope::Envelope,
    ids::{Capability, Digest, TaskId},
    limits::Limits,
    message::MessageKind,
    patterns::{
        Candidate,
        turn::{Progress, TurnEnd},
    },
    principal::Principal,
    task::TaskState,
    time::{NodeTime, WallTime},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};
use store_types::{Batch, Filter, MemoryState};

const CHUNK_BYTES: usize = 1_000;

/// A world with one bidder, `b`, and a clock that stands still.
#[derive(Default)]
struct PairWorld(u64);

impl World for PairWorld {
    fn now(&self) -> NodeTime {
        NodeTime(0)
    }

    fn wall(&self) -> WallTime {
        WallTime(1_767_225_600_000)
    }

    fn uuid(&mut self) -> String {
        self.0 += 1;
        format!("id-{}", self.0)
    }

    fn random(&mut self) -> u64 {
        0
    }

    fn samples(&self, _: Option<bool>, _: u128) -> bool {
        false
    }

    fn directory(&self) -> &dyn PeerDirectory {
        self
    }
}

impl PeerDirectory for PairWorld {
    fn candidates(&self, _: &Capability) -> Vec<Candidate> {
        vec![Candidate { card: card("b"), running: 0, is_alive: true, track_record: 0.5 }]
    }

    fn has(&self, _: &Capability) -> bool {
        true
    }

    fn skills(&self) -> BTreeSet<Capability> {
        BTreeSet::from([Capability::parse("build").unwrap()])
    }

    fn knows(&self, agent: &AgentId) -> bool {
        ["m", "b"].contains(&agent.as_str())
    }

    fn locate(&self, _: &AgentId) -> PeerLocation {
        PeerLocation::Here
    }

    fn is_synced(&self) -> bool {
        true
    }
}

fn id(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

fn card(name: &str) -> Card {
    let skills = if name == "b" { json!([{ "id": "build" }]) } else { json!([]) };
    let card = json!({ "agentId": name, "endpoint": format!("http://{name}"), "skills": skills });
    serde_json::from_value(card).unwrap()
}

/// One agent, its store, and what the test has not carried out.
struct Node {
    config: EngineConfig,
    agent: Agent,
    store: MemoryState,
    world: PairWorld,
    commits: VecDeque<(CommitId, Batch)>,
    attempts: VecDeque<(AttemptId, Envelope)>,
    turn: Option<TurnKey>,
    timers: Vec<TimerId>,
    /// Bytes of all records written.
    written: usize,
    by_topic: std::collections::BTreeMap<String, usize>,
    /// The most writes in one commit.
    widest: usize,
    replies: u64,
}

impl Node {
    fn new(name: &str) -> Self {
        let config = EngineConfig { card: Arc::new(card(name)), ..config(Limits::default()) };
        let (store, mut world) = (MemoryState::default(), PairWorld::default());
        let (agent, outputs) = Agent::recover(config.clone(), &store, &mut world).unwrap();
        let mut node = Self {
            config,
            agent,
            store,
            world,
            commits: VecDeque::new(),
            attempts: VecDeque::new(),
            turn: None,
            timers: Vec::new(),
            written: 0,
            widest: 0,
            by_topic: Default::default(),
            replies: 0,
        };
        node.collect(outputs);
        node
    }

    fn restart(&mut self) {
        (self.commits, self.attempts, self.turn, self.timers) = Default::default();
        let (agent, outputs) = Agent::recover(self.config.clone(), &self.store, &mut self.world).unwrap();
        self.agent = agent;
        self.collect(outputs);
    }

    fn name(&self) -> &AgentId {
        &self.config.card.agent_id
    }

    fn handle(&mut self, input: Input) {
        let outputs = self.agent.handle(input, &self.store, &mut self.world);
        self.collect(outputs);
        while let Some((id, batch)) = self.commits.pop_front() {
            self.written += batch.writes.iter().map(Write::size).sum::<usize>();
            for write in &batch.writes { *self.by_topic.entry(write.key().topic().to_owned()).or_default() += write.size(); }
            self.widest = self.widest.max(batch.writes.len());
            let written = self.store.commit(batch).unwrap();
            let revisions = written.iter().map(|(revision, _)| *revision).collect();
            let outputs =
                self.agent.handle(Input::CommitSettled(id, Ok(revisions)), &self.store, &mut self.world);
            self.collect(outputs);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is not carried out")]
    fn collect(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Commit(id, _, batch) => self.commits.push_back((id, batch)),
                Output::Attempt(id, Attempt::Deliver(delivery)) => {
                    self.attempts.push_back((id, delivery.envelope));
                }
                Output::Reply(_, answer) => drop(answer.unwrap()),
                Output::StartTurn(turn) => self.turn = Some(turn.key),
                Output::SetTimer(id, _) => self.timers.push(id),
                _ => {}
            }
        }
    }

    fn receive(&mut self, envelope: Envelope, by: Principal) {
        let digest = Digest::of(envelope.message_id.as_str().as_bytes());
        // As over the wire.
        let json = envelope.to_json();
        let envelope = Box::new(Envelope::from_json(json, || envelope.message_id.clone()).unwrap());
        self.replies += 1;
        let message = IncomingMessage { envelope, by, digest, trace: None, contact: None };
        self.handle(Input::Message(message, ReplyTo(self.replies)));
    }

    fn chunk(&mut self, number: usize) {
        let text = format!("{number:08}{}", "x".repeat(CHUNK_BYTES - 8));
        let artifact = Artifact {
            parts: vec![Part::new(PartContent::Text(text))],
            ..Artifact::text("log", "text/plain", "")
        };
        let chunk = Progress::Artifact { artifact, append: number > 0, last_chunk: false };
        let turn = self.turn.clone().unwrap();
        self.handle(Input::TurnProgress(turn, vec![chunk]));
    }

    /// The artifacts of the task, and its state.
    fn task(&self, owner: &Principal) -> (Vec<Artifact>, TaskState) {
        let task = TaskId::parse("t-1").unwrap();
        let row = tasks::find(&self.store, self.name(), &task, owner).unwrap().unwrap();
        (row.artifacts(self.name(), &self.store, u64::MAX).unwrap(), row.task.status.state)
    }

    fn records(&self, topic: &str) -> Vec<store_types::Record> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let page = self.store.read(&keys::all(self.name(), topic), after, 1_000).unwrap();
            let Some(last) = page.last() else { return all };
            after = last.revision;
            all.extend(page);
        }
    }

    fn journal(&self) -> Vec<Step> {
        let lines = self.records("journal");
        lines.iter().map(|line| content::decode(self.name(), &self.store, &line.value).unwrap()).collect()
    }

    fn largest_state(&self) -> usize {
        self.records("state").iter().map(|record| record.value.len()).max().unwrap_or_default()
    }
}

/// A manager `m` and a doer `b`.
struct Pair {
    manager: Node,
    doer: Node,
}

impl Pair {
    /// The manager has awarded a task of the local user to the doer, whose turn has begun.
    fn awarded() -> Self {
        let mut pair = Self { manager: Node::new("m"), doer: Node::new("b") };
        let request = json!({
            "messageId": "m-1", "fromAgentId": "me", "toAgentId": "m", "type": "task-request",
            "payload": { "taskId": "t-1", "description": "write it", "capability": "build" }
        });
        pair.manager.receive(envelope(request), Principal::local_user());
        pair.carry();
        assert!(pair.doer.turn.is_some(), "the doer has begun");
        pair
    }

    /// Carries one message that waits, the manager's first. Returns whether there was one.
    fn carry_one(&mut self) -> bool {
        let Self { manager, doer } = self;
        let (from, to) = if manager.attempts.is_empty() { (doer, manager) } else { (manager, doer) };
        let Some((attempt, envelope)) = from.attempts.pop_front() else { return false };
        to.receive(envelope, Principal::Agent(from.name().clone()));
        from.handle(Input::Attempted(attempt, AttemptResult::Delivered));
        true
    }

    fn carry(&mut self) {
        while self.carry_one() {}
    }

    fn end(&mut self) {
        let turn = self.doer.turn.take().unwrap();
        self.doer.handle(Input::TurnEnded(turn, Vec::new(), Ok(TurnEnd::Done { message: None })));
        self.carry();
    }

    /// Checks that both sides hold `count` chunks and that the task is done.
    fn check_done(&self, count: usize) {
        let owner = Principal::Agent(id("m"));
        for (node, owner) in [(&self.manager, Principal::local_user()), (&self.doer, owner)] {
            let (artifacts, state) = node.task(&owner);
            assert_eq!(state, TaskState::Completed, "{}", node.name());
            assert_eq!(artifacts.len(), 1);
            let text = artifacts[0].as_text();
            assert_eq!((artifacts[0].parts.len(), text.len()), (count, count * CHUNK_BYTES));
            for (number, part) in artifacts[0].parts.iter().enumerate() {
                let PartContent::Text(text) = &part.content else { panic!("no text") };
                assert!(text.starts_with(&format!("{number:08}")));
            }
        }
    }
}

fn envelope(message: Value) -> Envelope {
    serde_json::from_value(message).unwrap()
}

/// The record bytes of the manager and the doer for one chunk of a stream of `count` chunks, each of which is a step of its
/// own on both sides.
fn bytes_per_chunk(count: usize) -> [usize; 2] {
    let mut pair = Pair::awarded();
    let before = [pair.manager.written, pair.doer.written];
    for number in 0..count {
        pair.doer.chunk(number);
        pair.carry();
        if number == 20 { for node in [&pair.manager, &pair.doer] { println!("{}", String::from_utf8_lossy(&node.records("state")[0].value)); } }
    }
    pair.end();
    pair.check_done(count);
    println!("{:?} {:?}", pair.manager.by_topic, pair.doer.by_topic);
    for node in [&pair.manager, &pair.doer] { println!("{} {}", String::from_utf8_lossy(&node.records("journal")[20].value), node.widest); }
    [(pair.manager.written - before[0]) / count, (pair.doer.written - before[1]) / count]
}

#[test]
fn a_chunk_costs_the_same_however_many_came_before() {
    let (short, long) = (bytes_per_chunk(1_000), bytes_per_chunk(10_000));
    println!("{short:?} {long:?}");
    for (short, long) in short.into_iter().zip(long) {
        assert!(long * 5 <= short * 6, "{long} bytes a chunk of 10,000, {short} of 1,000");
        assert!(long <= 3 * CHUNK_BYTES, "{long} bytes for a chunk of {CHUNK_BYTES}");
    }
}
