//! A manager and a doer of a task that streams its result. Both are real agents; the test carries their messages.

use super::*;
use crate::{
    Ack, Agent, Attempt, AttemptId, AttemptResult, CommitId, EngineConfig, IncomingMessage, Input,
    InstantAnswer, Output, PeerDirectory, PeerLocation, ReplyTo, TurnKey, World,
    records::{DeadLetter, Step},
    replay, tasks,
    testing::config,
};
use patterns::{
    Candidate,
    turn::{Progress, Prompt, TurnEnd},
};
use protocol::{
    artifact::{Part, PartContent},
    card::Card,
    envelope::Envelope,
    ids::{Capability, Digest, TaskId},
    limits::Limits,
    message::Payload,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    task::TaskState,
    time::{NodeTime, WallTime},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};
use store_types::{Batch, MemoryState};

const CHUNK_BYTES: usize = 1_000;

/// A world with one bidder, `b`.
#[derive(Default)]
struct PairWorld {
    wall: WallTime,
    ids: u64,
}

impl World for PairWorld {
    fn now(&self) -> NodeTime {
        NodeTime(0)
    }

    fn wall(&self) -> WallTime {
        self.wall
    }

    fn uuid(&mut self) -> String {
        self.ids += 1;
        format!("id-{}", self.ids)
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

    fn answer_at_once(&self, _: &Prompt) -> Option<InstantAnswer> {
        None
    }
}

impl PeerDirectory for PairWorld {
    fn candidates(&self, capability: &Capability) -> Vec<Candidate> {
        vec![Candidate { track_record: 0.5, ..Candidate::new(&card("b"), capability) }]
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
    attempts: VecDeque<(AttemptId, Vec<Envelope>)>,
    answer: Option<Ack>,
    turn: Option<TurnKey>,
    is_to_continue: bool,
    /// Bytes of all records written.
    written: usize,
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
            answer: None,
            turn: None,
            is_to_continue: false,
            written: 0,
            widest: 0,
            replies: 0,
        };
        node.collect(outputs);
        node
    }

    fn restart(&mut self) {
        (self.commits, self.attempts, self.turn) = Default::default();
        let (agent, outputs) = Agent::recover(self.config.clone(), &self.store, &mut self.world).unwrap();
        self.agent = agent;
        self.collect(outputs);
        self.settle();
    }

    fn name(&self) -> &AgentId {
        &self.config.card.agent_id
    }

    fn handle(&mut self, input: Input) {
        let outputs = self.agent.handle(input, &self.store, &mut self.world);
        self.collect(outputs);
        self.settle();
    }

    /// Executes all commits.
    fn settle(&mut self) {
        while let Some((id, batch)) = self.commits.pop_front() {
            self.written += batch.writes.iter().map(Write::size).sum::<usize>();
            self.widest = self.widest.max(batch.writes.len());
            let written = self.store.commit(batch).unwrap();
            let revisions = written.iter().map(|(revision, _)| *revision).collect();
            let outputs =
                self.agent.handle(Input::CommitSettled(id, Ok(revisions)), &self.store, &mut self.world);
            self.collect(outputs);
        }
    }

    fn collect(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Commit(id, _, batch) => self.commits.push_back((id, batch)),
                Output::Attempt(id, Attempt::Deliver(delivery)) => {
                    self.attempts.push_back((id, delivery.messages));
                }
                Output::Reply(_, answer) => self.answer = Some(answer.unwrap()),
                Output::StartTurn(turn) => self.turn = Some(turn.key),
                Output::Continue => self.is_to_continue = true,
                _ => {}
            }
        }
    }

    /// Returns the answer.
    fn receive(&mut self, envelope: Envelope, by: Principal) -> Ack {
        let digest = Digest::of(envelope.message_id.as_str().as_bytes());
        // As over the wire.
        let json = envelope.to_json();
        let envelope = Box::new(Envelope::from_json(json, || envelope.message_id.clone()).unwrap());
        self.replies += 1;
        let message = IncomingMessage {
            envelope,
            by,
            proof: SenderProof::Credential,
            digest,
            trace: None,
            contact: None,
            origin: None,
            approval: None,
        };
        self.handle(Input::Message(message, ReplyTo(self.replies)));
        self.answer.take().unwrap()
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
        (artifacts_of(&self.store, self.name(), &row, u64::MAX).unwrap(), row.task.status.state)
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

    /// Carries the messages of one delivery, the manager's first. Returns whether there was one.
    fn carry_one(&mut self) -> bool {
        let Self { manager, doer } = self;
        let (from, to) = if manager.attempts.is_empty() { (doer, manager) } else { (manager, doer) };
        let Some((attempt, messages)) = from.attempts.pop_front() else { return false };
        let by = Principal::Agent(from.name().clone());
        let answers = messages.into_iter().map(|message| Ok(to.receive(message, by.clone()).bid)).collect();
        from.handle(Input::Attempted(attempt, AttemptResult::Delivered(answers)));
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
            assert_eq!((artifacts[0].parts.len(), text.len()), (1, count * CHUNK_BYTES));
            for (number, chunk) in text.as_bytes().chunks(CHUNK_BYTES).enumerate() {
                assert!(chunk.starts_with(format!("{number:08}").as_bytes()));
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
    (pair.manager.widest, pair.doer.widest) = (0, 0);
    for number in 0..count {
        pair.doer.chunk(number);
        pair.carry();
    }
    let widest = [pair.manager.widest, pair.doer.widest];
    assert!(widest.iter().all(|writes| *writes <= 4), "{widest:?} writes in one commit");
    pair.end();
    pair.check_done(count);
    [(pair.manager.written - before[0]) / count, (pair.doer.written - before[1]) / count]
}

#[test]
fn a_chunk_costs_the_same_however_many_came_before() {
    let (short, long) = (bytes_per_chunk(1_000), bytes_per_chunk(10_000));
    println!("manager and doer: {short:?} bytes for each of 1,000 chunks, {long:?} for each of 10,000");
    for (short, long) in short.into_iter().zip(long) {
        assert!(long * 5 <= short * 6, "{long} bytes a chunk of 10,000, {short} of 1,000");
        assert!(long <= 3 * CHUNK_BYTES, "{long} bytes for a chunk of {CHUNK_BYTES}");
    }
}

#[test]
fn a_manager_that_is_slow_gets_many_chunks_in_one_message() {
    let mut pair = Pair::awarded();
    let (before, count) = (pair.doer.written, 1_000);
    for number in 0..count {
        pair.doer.chunk(number);
        assert_eq!(pair.doer.attempts.len(), 1, "one report is in flight");
    }
    let bytes = (pair.doer.written - before) / count;
    assert!(bytes <= 3 * CHUNK_BYTES, "{bytes} bytes for a chunk of {CHUNK_BYTES}");
    let mut messages = 0;
    while pair.carry_one() {
        messages += 1;
    }
    assert!(messages < 20, "{messages} messages");
    pair.end();
    pair.check_done(count);
}

#[test]
fn a_stream_goes_on_after_a_crash_of_both_and_a_repeated_report_has_the_same_bytes() {
    let mut pair = Pair::awarded();
    for number in 0..30 {
        pair.doer.chunk(number);
        if number % 3 == 0 {
            pair.carry();
        }
    }
    let waiting = pair.doer.attempts.clone();
    pair.manager.restart();
    pair.doer.restart();
    let bytes = |attempts: &VecDeque<(AttemptId, Vec<Envelope>)>| -> Vec<_> {
        attempts.iter().flat_map(|(_, messages)| messages).map(Envelope::to_json).collect()
    };
    let again = bytes(&pair.doer.attempts);
    assert_eq!(again, bytes(&waiting));
    assert!(!again.is_empty());
    // A report that was received before the crash is received again.
    let by = Principal::Agent(id("b"));
    for message in waiting.into_iter().flat_map(|(_, messages)| messages) {
        pair.manager.receive(message, by.clone());
    }
    assert!(pair.doer.turn.is_none(), "it waits until the manager knows that it is back");
    pair.carry();
    pair.doer.chunk(30);
    pair.carry();
    pair.end();
    pair.check_done(31);
    for node in [&pair.manager, &pair.doer] {
        replay::audit(&node.journal()).unwrap();
    }
}

/// Refuses the message that the doer sends first.
fn refuse(doer: &mut Node) {
    let (attempt, _) = doer.attempts.pop_front().unwrap();
    let refused = Problem::new(Reason::PayloadTooLarge, "too large");
    doer.handle(Input::Attempted(attempt, AttemptResult::Delivered(vec![Err(refused)])));
}

#[test]
fn a_result_is_whole_although_a_report_of_it_was_refused() {
    for is_refused_after_the_end in [false, true] {
        let mut pair = Pair::awarded();
        pair.doer.chunk(0);
        pair.carry();
        (1..3).for_each(|number| pair.doer.chunk(number));
        if !is_refused_after_the_end {
            refuse(&mut pair.doer);
            assert!(pair.doer.attempts.is_empty(), "what follows a lost report is not sent");
        }
        let turn = pair.doer.turn.take().unwrap();
        pair.doer.handle(Input::TurnEnded(turn, Vec::new(), Ok(TurnEnd::Done { message: None })));
        if is_refused_after_the_end {
            refuse(&mut pair.doer);
        }
        let dead = pair.doer.records("dead");
        let dead: DeadLetter = content::decode(pair.doer.name(), &pair.doer.store, &dead[0].value).unwrap();
        let Payload::TaskUpdate(update) = dead.letter.payload else { panic!("an update") };
        assert!(update.artifact.unwrap().as_text().starts_with("00000001"), "it can be sent again");
        pair.carry();
        pair.check_done(3);
    }
}

#[test]
fn what_a_failed_doer_streamed_counts_no_longer() {
    let mut pair = Pair::awarded();
    (0..3).for_each(|number| pair.doer.chunk(number));
    pair.carry();
    assert_eq!(pair.manager.task(&Principal::local_user()).0[0].as_text().len(), 3 * CHUNK_BYTES);
    let turn = pair.doer.turn.take().unwrap();
    pair.doer.handle(Input::TurnEnded(turn, Vec::new(), Err("it broke".to_owned())));
    pair.carry();
    let (artifacts, state) = pair.manager.task(&Principal::local_user());
    assert_eq!((artifacts.len(), state), (0, TaskState::Working));
}

#[test]
fn chunks_are_deleted_before_their_task() {
    let mut pair = Pair::awarded();
    let count = 700;
    (0..count).for_each(|number| pair.doer.chunk(number));
    pair.carry();
    pair.end();
    for mut node in [pair.manager, pair.doer] {
        assert_eq!((node.records("chunk").len(), node.records("task").len()), (count, 1));
        node.world.wall = node.world.wall.plus(std::time::Duration::from_secs(15 * 24 * 3_600));
        node.widest = 0;
        node.handle(Input::Sweep);
        while std::mem::take(&mut node.is_to_continue) {
            node.handle(Input::Continue);
        }
        assert_eq!((node.records("chunk").len(), node.records("task").len()), (0, 0));
        assert!(node.widest < 300, "{} deletions in one commit", node.widest);
    }
}

#[test]
fn a_missing_chunk_that_an_effect_names_is_an_error() {
    let (mut store, me) = (MemoryState::default(), id("b"));
    let log = ChunkLog::of_conversation(&me, &ConversationId::parse("c-1").unwrap());
    let mut writes = Vec::new();
    let chunk = ArtifactChunk::whole(Artifact::text("a", "text/plain", "x"));
    for number in 0..2 {
        StepChunks::default().record(&log, number, &chunk, &mut writes).unwrap();
    }
    store.commit(Batch { writes, expectations: Vec::new() }).unwrap();
    let read = |from, to| log.read_all(&store, ChunkRange { from, to }).map(|chunks| chunks.len());
    assert_eq!((read(0, 2).unwrap(), read(1, 2).unwrap(), read(2, 2).unwrap()), (2, 1, 0));
    let Err(Error::Refused(why)) = read(1, 3) else { panic!("the third is missing") };
    assert!(why.contains("b.chunk.c-1.2"), "{why}");
}
