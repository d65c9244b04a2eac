//! One agent with a store in memory; the test performs its outputs.

use super::*;
use crate::{
    Ack, Attempt, CommitId, IncomingMessage, ReplyTo, TurnKey,
    records::keys,
    testing::{EmptyWorld, HOUR, config, me, subscribing},
};
use patterns::turn::{Progress, TurnEnd};
use protocol::{
    artifact::Artifact,
    envelope::Envelope,
    ids::{Digest, MessageId, TaskId},
    principal::SenderProof,
    problem::Reason,
    signal::{Cursor, Signal, SignalType},
    spaces::{EntryDraft, EntryId, EntryKind, request::SpaceAnswer},
    task::TaskState,
    time::WallTime,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use store_types::{Batch, MemoryState, Write};

/// An agent and the outputs that the test has not performed.
struct Driver {
    config: EngineConfig,
    agent: Agent,
    store: MemoryState,
    world: EmptyWorld,
    commits: VecDeque<(CommitId, Batch)>,
    replies: BTreeMap<ReplyTo, Result<Ack, Problem>>,
    attempts: Vec<(AttemptId, Attempt)>,
    turns: Vec<TurnKey>,
    timers: Vec<TimerId>,
    last_reply: u64,
}

impl Driver {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let config = engine_config(limits);
        let mut world = EmptyWorld::default();
        world.neighbours.extend(manager().agent().cloned());
        let mut driver = Self {
            agent: Agent::new(config.clone()),
            config,
            store: MemoryState::default(),
            world,
            commits: VecDeque::new(),
            replies: BTreeMap::new(),
            attempts: Vec::new(),
            turns: Vec::new(),
            timers: Vec::new(),
            last_reply: 0,
        };
        driver.restart();
        driver
    }

    /// Starts again from the store, as after a crash.
    fn restart(&mut self) {
        self.commits.clear();
        self.attempts.clear();
        self.turns.clear();
        self.timers.clear();
        let (agent, outputs) = Agent::recover(self.config.clone(), &self.store, &mut self.world).unwrap();
        self.agent = agent;
        self.collect(outputs);
    }

    fn collect(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Commit(id, _, batch) => self.commits.push_back((id, batch)),
                Output::Reply(to, answer) => drop(self.replies.insert(to, answer)),
                Output::Attempt(id, attempt) => self.attempts.push((id, attempt)),
                Output::StartTurn(turn) => self.turns.push(turn.key),
                Output::StopTurn(key) => self.turns.retain(|turn| *turn != key),
                Output::SetTimer(id, _) => self.timers.push(id),
                Output::ClearTimer(id) => self.timers.retain(|timer| *timer != id),
                _ => {}
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let outputs = self.agent.handle(input, &self.store, &mut self.world);
        self.collect(outputs);
    }

    /// Commits everything.
    fn settle(&mut self) {
        while let Some((id, batch)) = self.commits.pop_front() {
            let written = self.store.commit(batch);
            let revisions = written.map(|written| written.iter().map(|(revision, _)| *revision).collect());
            self.handle(Input::CommitSettled(id, revisions));
        }
    }

    fn expect_reply(&mut self) -> ReplyTo {
        self.last_reply += 1;
        ReplyTo(self.last_reply)
    }

    /// Hands over a message and does not commit.
    fn send(&mut self, by: &Principal, id: &str, kind: &str, payload: Value) -> ReplyTo {
        let from = by.agent().map_or("me", AgentId::as_str);
        let envelope = json!({
            "messageId": id, "fromAgentId": from, "toAgentId": "a", "type": kind, "payload": payload
        });
        let envelope: Envelope = serde_json::from_value(envelope).unwrap();
        let digest = Digest::of(id.as_bytes());
        let message = IncomingMessage {
            envelope: Box::new(envelope),
            by: by.clone(),
            proof: SenderProof::Credential,
            digest,
            trace: None,
            contact: None,
            origin: None,
            approval: None,
        };
        let reply = self.expect_reply();
        self.handle(Input::Message(message, reply));
        reply
    }

    /// Hands over a message and returns the answer.
    fn ask(&mut self, by: &Principal, id: &str, kind: &str, payload: Value) -> Result<Ack, Problem> {
        let reply = self.send(by, id, kind, payload);
        self.settle();
        self.replies.remove(&reply).expect("an answer")
    }

    /// Hands over a signal of which the test names some members.
    fn signal(&mut self, members: Value) -> ReplyTo {
        let mut signal = json!({
            "id": format!("s-{}", members["revision"]), "from": "p", "capability": "build",
            "refs": { "description": "x", "publisher": "user:local" }, "at": "2026-01-01T00:00:00Z"
        });
        signal.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let reply = self.expect_reply();
        self.handle(Input::Signal(Box::new(serde_json::from_value(signal).unwrap()), reply));
        self.settle();
        reply
    }

    /// Hands over a signal that offers `task` and returns the claim request that follows.
    fn offer(&mut self, task: &str) -> AttemptId {
        self.signal(json!({ "revision": 1, "type": "task.available", "taskId": task }));
        self.claim_request()
    }

    fn claim_request(&mut self) -> AttemptId {
        let is_claim = |(_, attempt): &(AttemptId, Attempt)| matches!(attempt, Attempt::Claim(..));
        let at = self.attempts.iter().position(is_claim).expect("a claim request");
        self.attempts.remove(at).0
    }

    /// The board's answer to a claim request.
    fn board_answers(&mut self, request: AttemptId, what: EventKind) {
        self.handle(Input::Attempted(request, AttemptResult::Claim(what)));
        self.settle();
    }

    /// Ends the running turn and does not commit.
    fn end_turn(&mut self) {
        self.end_turn_with(Vec::new());
    }

    fn end_turn_with(&mut self, updates: Vec<Progress>) {
        let turn = self.turns.remove(0);
        let end = TurnEnd::Done { message: Some("done".to_owned()) };
        self.handle(Input::TurnEnded(turn, updates, Ok(end)));
    }

    /// The signals that are to be published.
    fn signals(&self) -> Vec<Signal> {
        let signals = |(_, attempt): &(AttemptId, Attempt)| match attempt {
            Attempt::Publish(signals) => signals.clone(),
            Attempt::Deliver(_) | Attempt::Claim(..) | Attempt::AskSpace(_) => Vec::new(),
        };
        self.attempts.iter().flat_map(signals).collect()
    }

    /// The user cancels a task.
    fn cancel(&mut self, task: &str) -> Result<Ack, Problem> {
        let (task, reply) = (TaskId::parse(task).unwrap(), self.expect_reply());
        self.handle(Input::Cancel {
            task,
            by: user(),
            reason: "a test".to_owned(),
            calls: Vec::new(),
            reply,
        });
        self.settle();
        self.replies.remove(&reply).expect("an answer")
    }

    fn redrive(&mut self, message: &MessageId) -> Result<Ack, Problem> {
        let reply = self.expect_reply();
        self.handle(Input::Redrive { message: message.clone(), reply });
        self.settle();
        self.replies.remove(&reply).expect("an answer")
    }

    /// Puts the signals on the board and records that.
    fn publish_all(&mut self) {
        for (request, attempt) in std::mem::take(&mut self.attempts) {
            let Attempt::Publish(signals) = attempt else { panic!("{attempt:?}") };
            self.handle(Input::Attempted(request, AttemptResult::Published(vec![Ok(1); signals.len()])));
        }
        for timer in std::mem::take(&mut self.timers) {
            self.handle(Input::TimerFired(timer));
        }
        self.settle();
    }

    /// The messages that are to be delivered.
    fn deliveries(&self) -> Vec<MessageId> {
        let message = |(_, attempt): &(AttemptId, Attempt)| match attempt {
            Attempt::Deliver(delivery) => {
                delivery.messages.iter().map(|envelope| envelope.message_id.clone()).collect()
            }
            Attempt::Publish(_) | Attempt::Claim(..) | Attempt::AskSpace(_) => Vec::new(),
        };
        self.attempts.iter().flat_map(message).collect()
    }

    /// Takes an award whose answer expires in the outbox; returns the answer, which is a dead letter then.
    fn make_dead_letter(&mut self) -> MessageId {
        self.ask(&manager(), "m-1", "award", award("t-1", 1)).unwrap();
        let answer = self.deliveries().remove(0);
        self.world.wall = WallTime(30 * HOUR);
        self.restart();
        answer
    }

    fn row(&self, task: &str, owner: &Principal) -> crate::records::TaskRow {
        let task = TaskId::parse(task).unwrap();
        crate::tasks::find(&self.store, &me(), &task, owner).unwrap().expect("a row")
    }
}

fn engine_config(limits: Limits) -> EngineConfig {
    let mut config = config(limits);
    let card = json!({ "agentId": "a", "endpoint": "http://a", "skills": [{ "id": "build" }] });
    config.card = Arc::new(serde_json::from_value(card).unwrap());
    config.settings = subscribing(&["task.*"]);
    config
}

fn user() -> Principal {
    Principal::local_user()
}

fn manager() -> Principal {
    Principal::Agent(AgentId::parse("m").unwrap())
}

fn request(task: &str) -> Value {
    json!({ "taskId": task, "description": "x", "capability": "build" })
}

fn award(task: &str, epoch: u64) -> Value {
    let spec = json!({ "taskId": task, "description": "x", "capability": "build", "root": "user:local" });
    json!({ "taskId": task, "epoch": epoch, "leaseMs": 60_000, "task": spec })
}

#[test]
fn a_message_that_names_only_the_task_of_a_parked_conversation_is_retried() {
    let mut driver = Driver::new();
    driver.ask(&manager(), "m-1", "award", award("t-1", 1)).unwrap();
    let id = driver.row("t-1", &manager()).task.conversation;
    let outputs = {
        let mut cx = Context { store: &driver.store, world: &mut driver.world, out: Vec::new() };
        driver.agent.park(&id, Default::default(), "a test", &mut cx);
        cx.out
    };
    driver.collect(outputs);
    driver.settle();
    let mut refused = |id, kind, payload| driver.ask(&manager(), id, kind, payload).unwrap_err().reason;
    let cancel = json!({ "taskId": "t-1" });
    assert_eq!(refused("m-2", "task-cancel", cancel.clone()), Reason::StoreUnavailable);
    assert_eq!(refused("m-3", "award", award("t-1", 2)), Reason::StoreUnavailable);
    driver.restart();
    driver.settle();
    driver.ask(&manager(), "m-2", "task-cancel", cancel).unwrap();
    assert_eq!(driver.row("t-1", &manager()).task.status.state, TaskState::Canceled);
}

#[test]
fn a_turn_that_waits_for_a_place_is_not_blamed_for_crashes() {
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    driver.ask(&user(), "m-2", "task-request", request("t-2")).unwrap();
    for _ in 0..5 {
        assert_eq!(driver.turns.len(), 1, "maxParallel is 1");
        driver.restart();
        driver.settle();
    }
    let (first, second) = (driver.row("t-1", &user()), driver.row("t-2", &user()));
    assert_eq!(first.task.status.state, TaskState::Failed);
    assert!(first.task.status.message.unwrap().contains("stopped 5 times"));
    assert!(!second.task.status.state.is_terminal(), "{:?}", second.task.status);
    let thinks = driver.turns.iter().map(|turn| &turn.conversation).collect::<Vec<_>>();
    assert_eq!(thinks, [&second.task.conversation]);
}

#[test]
fn an_award_is_refused_while_the_cancel_that_came_before_it_is_being_committed() {
    let mut driver = Driver::new();
    let cancel = json!({ "taskId": "t-1", "epoch": 1, "reason": "not needed" });
    let cancelled = driver.send(&manager(), "m-1", "task-cancel", cancel);
    assert!(driver.replies.is_empty(), "it is not durable yet");
    let awarded = driver.send(&manager(), "m-2", "award", award("t-1", 1));
    driver.settle();
    assert!(driver.replies[&cancelled].is_ok(), "{:?}", driver.replies);
    assert!(driver.replies[&awarded].is_ok(), "it is taken, and declined: {:?}", driver.replies);
    assert!(driver.turns.is_empty(), "no turn of it begins");
}

#[test]
fn a_task_whose_claim_is_being_closed_cannot_be_cancelled() {
    let mut driver = Driver::new();
    let claim = driver.offer("t-1");
    driver.board_answers(claim, EventKind::Claimed { holder: me(), epoch: 5 });
    driver.end_turn();
    driver.settle();
    let refused = driver.cancel("t-1").unwrap_err();
    assert_eq!(refused.reason, Reason::TaskNotCancelable);
    assert!(refused.message.contains("is being closed"), "{refused}");
    let refused = driver.ask(&user(), "m-1", "task-cancel", json!({ "taskId": "t-1" })).unwrap_err();
    assert_eq!(refused.reason, Reason::TaskNotCancelable);
    let close = driver.claim_request();
    driver.board_answers(close, EventKind::ClaimEnded { epoch: 5 });
    assert_eq!(driver.row("t-1", &user()).task.status.state, TaskState::Completed);
}

#[test]
fn a_cancel_during_the_commit_of_the_end_is_retried() {
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    driver.end_turn();
    let (end, batch) = driver.commits.pop_front().unwrap();
    let refused = driver.cancel("t-1").unwrap_err();
    assert_eq!((refused.reason, refused.retry_after.is_some()), (Reason::Overloaded, true), "{refused}");
    driver.commits.push_back((end, batch));
    driver.settle();
    assert_eq!(driver.cancel("t-1").unwrap_err().reason, Reason::TaskNotCancelable);
}

#[test]
fn a_draining_agent_leaves_its_claim_requests_to_the_next_start() {
    let mut driver = Driver::new();
    let claim = driver.offer("t-1");
    let away = Problem::new(Reason::BlackboardUnavailable, "a test");
    driver.handle(Input::Attempted(claim, AttemptResult::Failed(away)));
    driver.handle(Input::Drain);
    let retry = driver.timers.pop().unwrap();
    driver.handle(Input::TimerFired(retry));
    assert!(driver.attempts.is_empty() && driver.agent.is_idle());
    driver.restart();
    driver.claim_request();
}

#[test]
fn an_award_of_an_agent_of_the_same_node_is_kept_at_a_stop_and_any_other_is_handed_back() {
    for (is_neighbour, expected) in [(true, TaskState::Working), (false, TaskState::Rejected)] {
        let mut driver = Driver::new();
        if !is_neighbour {
            driver.world.neighbours.clear();
        }
        driver.ask(&manager(), "m-1", "award", award("t-1", 1)).unwrap();
        driver.handle(Input::Drain);
        driver.handle(Input::HandBack);
        driver.settle();
        assert_eq!(driver.row("t-1", &manager()).task.status.state, expected);
    }
}

#[test]
fn a_message_that_expired_before_its_first_attempt_is_not_sent_and_a_dead_letter_is() {
    let mut driver = Driver::new();
    let answer = driver.make_dead_letter();
    assert_eq!(driver.deliveries(), []);
    driver.settle();
    driver.redrive(&answer).unwrap();
    assert!(driver.deliveries().contains(&answer));
}

#[test]
fn a_dead_letter_is_not_sent_again_beyond_the_limit_of_open_conversations() {
    let mut driver = Driver::with(Limits { max_open_conversations: 1, ..Limits::default() });
    let answer = driver.make_dead_letter();
    driver.settle();
    if driver.agent.conversations.iter().next().is_none() {
        driver.ask(&user(), "m-2", "task-request", request("t-2")).unwrap();
    }
    assert_eq!(driver.redrive(&answer).unwrap_err().reason, Reason::Overloaded);
}

fn named(user: &str) -> Principal {
    Principal::User(AgentId::parse(user).unwrap())
}

#[test]
fn one_principal_has_as_many_conversations_open_as_are_left_for_others() {
    let mut driver = Driver::with(Limits { max_open_conversations: 6, ..Limits::default() });
    let ask = |driver: &mut Driver, by: &Principal, task: &str| {
        driver.ask(by, task, "task-request", request(task)).map(drop)
    };
    let (alice, bob, carol, dave) = (named("alice"), named("bob"), named("carol"), named("dave"));
    for task in ["a-1", "a-2", "a-3"] {
        ask(&mut driver, &alice, task).unwrap();
    }
    let refused = ask(&mut driver, &alice, "a-4").unwrap_err();
    assert_eq!(refused.reason, Reason::Overloaded);
    for part in ["user:alice has 3", "3 of 6", "maxOpenConversations"] {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
    driver.restart();
    assert!(ask(&mut driver, &alice, "a-4").is_err(), "a restart counts again");
    for (by, task) in [(&bob, "b-1"), (&bob, "b-2")] {
        assert_eq!(ask(&mut driver, by, task), Ok(()));
    }
    assert!(ask(&mut driver, &bob, "b-3").is_err());
    let for_bob =
        json!({ "taskId": "b-3", "description": "x", "capability": "build", "onBehalfOf": "user:bob" });
    let by_agent = driver.ask(&manager(), "b-3", "task-request", for_bob);
    assert_eq!(by_agent.unwrap_err().reason, Reason::Overloaded, "it counts for whom an agent asks");
    assert_eq!(ask(&mut driver, &carol, "c-1"), Ok(()));
    assert!(ask(&mut driver, &dave, "d-1").unwrap_err().message.contains("6 conversations are open"));
    let alices = driver.agent.conversations.iter().find(|open| open.principal.as_ref() == Some(&alice));
    let turn = driver.turns.iter().position(|turn| Some(&turn.conversation) == alices.map(|open| &open.id));
    driver.turns.swap(0, turn.expect("a running turn of alice"));
    driver.end_turn();
    driver.settle();
    driver.publish_all();
    assert_eq!(ask(&mut driver, &dave, "d-1"), Ok(()), "what ends gives its place back");
}

#[test]
fn the_principals_whose_turns_wait_take_turns() {
    let mut driver = Driver::new();
    let (alice, bob) = (named("alice"), named("bob"));
    for (by, task) in [(&alice, "a-1"), (&alice, "a-2"), (&alice, "a-3"), (&bob, "b-1"), (&bob, "b-2")] {
        driver.ask(by, task, "task-request", request(task)).unwrap();
    }
    let mut order = Vec::new();
    while let Some(turn) = driver.turns.first() {
        let task = driver.agent.conversations.get(&turn.conversation).unwrap().task.as_ref().unwrap();
        order.push(task.task.spec.task_id.to_string());
        driver.end_turn();
        driver.settle();
    }
    assert_eq!(order, ["a-1", "b-1", "a-2", "b-2", "a-3"]);
}

#[test]
fn a_conversation_that_has_ended_is_forgotten_as_one_that_failed() {
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    let open: Vec<_> = driver.agent.conversations.iter().map(|open| open.id.clone()).collect();
    assert!(open.iter().all(|id| driver.agent.conversations.note_failure(id)));
    driver.cancel("t-1").unwrap();
    driver.publish_all();
    assert!(driver.agent.conversations.iter().next().is_none());
    assert!(open.iter().all(|id| driver.agent.conversations.note_failure(id)), "as if none had failed");
}

#[test]
fn a_claim_is_lost_if_the_row_of_its_task_cannot_be_read() {
    let mut driver = Driver::new();
    let claim = driver.offer("t-1");
    let key = keys::task(&me(), &TaskId::parse("t-1").unwrap(), &user());
    let damaged = Batch { writes: vec![Write::Put(key, "damaged".into())], expectations: Vec::new() };
    driver.store.commit(damaged).unwrap();
    driver.board_answers(claim, EventKind::Claimed { holder: me(), epoch: 5 });
    assert!(driver.turns.is_empty() && driver.agent.conversations.iter().next().is_none());
}

#[test]
fn a_turn_that_takes_no_time_is_part_of_the_step_that_asks_for_it() {
    let mut driver = Driver::new();
    driver.world.answers = true;
    driver.send(&user(), "m-1", "task-request", request("t-1"));
    assert_eq!(driver.commits.len(), 1);
    driver.settle();
    assert!(driver.turns.is_empty());
    let row = driver.row("t-1", &user());
    assert_eq!(row.task.status.state, TaskState::Completed);
    let key = keys::journal(&me(), &row.task.conversation);
    let journal = driver.store.read(&store_types::Filter::Exactly(key), 0, 10).unwrap();
    let steps =
        journal.iter().map(|record| crate::content::decode(&me(), &driver.store, &record.value).unwrap());
    let steps: Vec<crate::records::Step> = steps.collect();
    assert_eq!(steps[0].events.len(), 2, "the start and the turn's end");
    crate::replay::audit(&steps).unwrap();
}

/// An awarded task whose brain takes no time, up to the delivery of its answers to the manager.
fn answers_of_an_award() -> (Driver, AttemptId, Vec<MessageId>) {
    let mut driver = Driver::new();
    driver.world.answers = true;
    driver.ask(&manager(), "m-1", "award", award("t-1", 1)).unwrap();
    let (id, Attempt::Deliver(delivery)) = driver.attempts.remove(0) else { panic!("a delivery") };
    assert!(driver.attempts.is_empty(), "one request");
    (driver, id, delivery.messages.into_iter().map(|envelope| envelope.message_id).collect())
}

#[test]
fn the_messages_of_a_step_to_one_peer_share_a_request() {
    let (mut driver, id, messages) = answers_of_an_award();
    assert_eq!(messages.len(), 2, "the acceptance and the result");
    driver.handle(Input::Attempted(id, AttemptResult::Delivered(vec![Ok(None), Ok(None)])));
    driver.settle();
    assert!(driver.deliveries().is_empty());
    assert_eq!(driver.row("t-1", &manager()).task.status.state, TaskState::Completed);
}

#[test]
fn a_message_refused_for_now_is_sent_again_and_not_those_that_were_taken() {
    let (mut driver, id, messages) = answers_of_an_award();
    let full = Problem::new(Reason::Overloaded, "full");
    driver.handle(Input::Attempted(id, AttemptResult::Delivered(vec![Ok(None), Err(full)])));
    for timer in std::mem::take(&mut driver.timers) {
        driver.handle(Input::TimerFired(timer));
    }
    assert_eq!(driver.deliveries(), messages[1..]);
}

#[test]
fn a_request_that_was_not_answered_is_sent_again_whole() {
    let (mut driver, id, messages) = answers_of_an_award();
    let full = Problem::new(Reason::GatewayTimeout, "no answer");
    driver.handle(Input::Attempted(id, AttemptResult::Failed(full)));
    for timer in std::mem::take(&mut driver.timers) {
        driver.handle(Input::TimerFired(timer));
    }
    assert_eq!(driver.deliveries(), messages);
}

#[test]
fn messages_of_one_request_share_a_step() {
    let mut driver = Driver::new();
    driver.ask(&manager(), "m-1", "award", award("t-1", 1)).unwrap();
    driver.settle();
    driver.handle(Input::HoldSteps);
    let answer = |text: &str| json!({ "taskId": "t-1", "epoch": 1, "answer": text });
    driver.send(&manager(), "m-2", "task-answer", answer("one"));
    driver.send(&manager(), "m-3", "task-answer", answer("two"));
    assert!(driver.commits.is_empty());
    driver.handle(Input::ReleaseSteps);
    assert_eq!(driver.commits.len(), 1);
}

fn result(text: &str) -> Progress {
    let artifact = Artifact::text("out.txt", "text/plain", text);
    Progress::Artifact { artifact, append: false, last_chunk: true }
}

#[test]
fn whoever_may_see_a_signal_about_an_artifact_may_read_it() {
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    driver.end_turn_with(vec![result("hello")]);
    driver.settle();
    let digest = Digest::of(b"hello");
    let signal = driver.signals().remove(0);
    assert_eq!((signal.produced(), signal.from.clone()), (Some(digest), me()));
    let expected = json!({ "artifactId": "out.txt", "sha256": digest, "mediaType": "text/plain", "bytes": 5, "owner": "a", "threadId": "t-1" });
    let mut refs = signal.refs.clone();
    refs.remove("traceparent");
    assert_eq!(Value::Object(refs), expected);
    let read =
        |by: &Principal| crate::artifacts::read(&driver.store, &me(), &digest, by, SenderProof::Credential);
    for by in [manager(), user()] {
        assert_eq!(
            read(&by).map(|artifact| artifact.content).ok(),
            Some(crate::artifacts::UploadedContent::Here("hello".into())),
            "{by}"
        );
    }
    let stranger = Principal::User(AgentId::parse("eve").unwrap());
    assert_eq!(read(&stranger).err().map(|problem| problem.reason), Some(Reason::ArtifactNotFound));
}

#[test]
fn the_end_of_an_open_task_waits_for_the_signals_about_its_artifacts() {
    let mut driver = Driver::new();
    let claim = driver.offer("t-1");
    driver.board_answers(claim, EventKind::Claimed { holder: me(), epoch: 5 });
    driver.end_turn_with(vec![result("hello")]);
    driver.settle();
    let [(published, Attempt::Publish(_))] = driver.attempts.as_slice() else {
        panic!("{:?}", driver.attempts)
    };
    let published = *published;
    driver.attempts.clear();
    driver.handle(Input::Attempted(published, AttemptResult::Published(vec![Ok(1)])));
    driver.claim_request();
}

#[test]
fn a_lost_open_task_tells_of_no_artifact() {
    let mut driver = Driver::new();
    let claim = driver.offer("t-1");
    driver.board_answers(claim, EventKind::Claimed { holder: me(), epoch: 5 });
    driver.end_turn_with(vec![result("hello")]);
    driver.settle();
    let (published, _) = driver.attempts.remove(0);
    let away = Problem::new(Reason::BlackboardUnavailable, "a test");
    driver.handle(Input::Attempted(published, AttemptResult::Failed(away)));
    let id = driver.row("t-1", &user()).task.conversation;
    driver.agent.events.push(&id, None, EventKind::ClaimExpired { epoch: 5 });
    driver.handle(Input::Continue);
    driver.settle();
    for timer in std::mem::take(&mut driver.timers) {
        driver.handle(Input::TimerFired(timer));
    }
    assert!(driver.signals().is_empty(), "{:?}", driver.attempts);
}

#[test]
fn a_shared_request_of_signals_goes_on_behind_the_last_that_was_answered() {
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    let news = |kind: &str| Progress::Signal {
        signal: SignalType::parse(kind).unwrap(),
        subject: None,
        capability: None,
        refs: Default::default(),
    };
    driver.end_turn_with(["acme.one", "acme.two", "acme.three"].map(news).into());
    driver.settle();
    let mut answer = |answers: Vec<Result<u64, Problem>>| {
        let asked: Vec<_> = driver.signals().iter().map(|signal| signal.kind.to_string()).collect();
        let (request, _) = driver.attempts.remove(0);
        driver.handle(Input::Attempted(request, AttemptResult::Published(answers)));
        for timer in std::mem::take(&mut driver.timers) {
            driver.handle(Input::TimerFired(timer));
        }
        driver.settle();
        asked
    };
    let refused = |reason| Err(Problem::new(reason, "a test"));
    let first = answer(vec![Ok(1), refused(Reason::Overloaded)]);
    assert_eq!(first, ["acme.one", "acme.two", "acme.three", "task.complete"]);
    assert_eq!(answer(vec![refused(Reason::InvalidField)]), first[1..], "one is tried again");
    assert_eq!(answer(vec![Ok(2)]), first[2..], "one is refused for good");
    assert_eq!(answer(vec![Ok(3)]), first[3..], "the rest was not sent");
    assert!(driver.attempts.is_empty(), "{:?}", driver.attempts);
}

#[test]
fn what_a_brain_posts_is_asked_of_the_space_in_order_until_it_answers_across_restarts() {
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    let post = |content: &str| {
        let entry = Box::new(EntryDraft::new(EntryKind::Finding, content));
        Progress::Post { entry }
    };
    let asked = |driver: &mut Driver| {
        let asked = std::mem::take(&mut driver.attempts).into_iter().filter_map(|(id, attempt)| {
            let Attempt::AskSpace(request) = attempt else { return None };
            Some((id, *request))
        });
        asked.collect::<Vec<_>>()
    };
    driver.handle(Input::TurnProgress(driver.turns[0].clone(), vec![post("one"), post("two")]));
    assert!(asked(&mut driver).is_empty(), "nothing leaves before the commit");
    driver.settle();
    let [(_, first)] = asked(&mut driver).try_into().expect("one after the other");
    driver.restart();
    let [(id, again)] = asked(&mut driver).try_into().expect("one after the other");
    assert_eq!(again, first, "the same entry with the same id");
    let away = Problem::new(Reason::BlackboardUnavailable, "a test");
    driver.handle(Input::Attempted(id, AttemptResult::Failed(away)));
    for timer in std::mem::take(&mut driver.timers) {
        driver.handle(Input::TimerFired(timer));
    }
    let [(id, again)] = asked(&mut driver).try_into().expect("one after the other");
    assert_eq!(again, first);
    let posted = SpaceAnswer::Posted { id: EntryId::parse("e-1").unwrap(), version: 1 };
    driver.handle(Input::Attempted(id, AttemptResult::SpaceAnswered(posted.clone())));
    driver.settle();
    let [(id, second)] = asked(&mut driver).try_into().expect("the second");
    assert_ne!(second, first);
    driver.handle(Input::Attempted(id, AttemptResult::SpaceAnswered(posted)));
    driver.settle();
    driver.restart();
    assert!(asked(&mut driver).is_empty());
}

#[test]
fn a_peer_is_asked_when_what_was_posted_before_is_on_the_board_or_that_is_away() {
    for is_away in [false, true] {
        let mut driver = Driver::new();
        driver.world.neighbours.insert(AgentId::parse("b-01").unwrap());
        driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
        let entry = Box::new(EntryDraft::new(EntryKind::Finding, "one"));
        let help = json!({ "type": "help", "id": "h", "to": "b-01", "question": "?" });
        let updates = vec![Progress::Post { entry }, serde_json::from_value(help).unwrap()];
        driver.handle(Input::TurnEnded(driver.turns[0].clone(), updates, Ok(TurnEnd::Waiting)));
        driver.settle();
        let [(id, Attempt::AskSpace(_))] = driver.attempts.as_slice() else {
            panic!("{:?}", driver.attempts)
        };
        let posted = SpaceAnswer::Posted { id: EntryId::parse("e-1").unwrap(), version: 1 };
        let away = Problem::new(Reason::BlackboardUnavailable, "a test");
        let result = if is_away { AttemptResult::Failed(away) } else { AttemptResult::SpaceAnswered(posted) };
        let id = *id;
        driver.attempts.clear();
        driver.handle(Input::Attempted(id, result));
        driver.settle();
        let [(_, Attempt::Deliver(sent))] = driver.attempts.as_slice() else {
            panic!("{:?}", driver.attempts)
        };
        assert_eq!(sent.messages.len(), 1, "{sent:?}");
    }
}

#[test]
fn the_signals_of_a_conversation_that_wait_for_the_board_are_bounded() {
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    let kind = SignalType::parse("acme.news").unwrap();
    let news = Progress::Signal { signal: kind, subject: None, capability: None, refs: Default::default() };
    driver.end_turn_with(vec![news; 300]);
    driver.settle();
    let (mut published, mut requests) = (Vec::new(), Vec::new());
    while let [(request, Attempt::Publish(signals))] = driver.attempts.as_slice() {
        let revisions = vec![Ok(1); signals.len()];
        requests.push(signals.len());
        published.extend(signals.iter().map(|signal| signal.kind.to_string()));
        let request = *request;
        driver.attempts.clear();
        driver.handle(Input::Attempted(request, AttemptResult::Published(revisions)));
    }
    assert_eq!(requests, [64, 64, 64, 64, 1]);
    assert_eq!(published.len(), 257, "256 of the brain and the end of the task");
    assert_eq!(published.last().unwrap(), "task.complete");
}

#[test]
fn a_signal_above_the_limit_fails_its_turn() {
    let news = |bytes: usize| Progress::Signal {
        signal: SignalType::parse("acme.news").unwrap(),
        subject: Some("x".repeat(bytes)),
        capability: None,
        refs: Default::default(),
    };
    let limit = Limits::default().max_signal_bytes;
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    driver.ask(&user(), "m-2", "task-request", request("t-2")).unwrap();
    // In a report while the turn runs: it is stopped, and the next one starts.
    let turn = driver.turns[0].clone();
    driver.handle(Input::TurnProgress(turn.clone(), vec![news(limit)]));
    driver.settle();
    assert!(!driver.turns.contains(&turn) && driver.turns.len() == 1, "{:?}", driver.turns);
    // With the end of the turn.
    driver.end_turn_with(vec![news(10), news(limit)]);
    driver.settle();
    for task in ["t-1", "t-2"] {
        let status = driver.row(task, &user()).task.status;
        let message = status.message.unwrap_or_default();
        assert_eq!(status.state, TaskState::Failed, "{message}");
        assert!(
            message.contains("the signal acme.news has") && message.contains("maxSignalBytes"),
            "{message}"
        );
    }
    let published: Vec<_> = driver.signals().iter().map(|signal| signal.kind.to_string()).collect();
    assert!(!published.contains(&"acme.news".to_owned()), "{published:?}");
    driver.ask(&user(), "m-3", "task-request", request("t-3")).unwrap();
    driver.end_turn_with(vec![news(limit - 1_000)]);
    driver.settle();
    assert_ne!(driver.row("t-3", &user()).task.status.state, TaskState::Failed);
}

#[test]
fn an_offer_without_a_place_lets_later_signals_pass_and_is_claimed_when_there_is_one() {
    let mut driver = Driver::new();
    driver.ask(&user(), "m-1", "task-request", request("t-1")).unwrap();
    let reply = driver.signal(json!({ "revision": 1, "type": "task.available", "taskId": "t-2" }));
    assert!(driver.replies.remove(&reply).unwrap().is_ok());
    assert!(driver.attempts.is_empty(), "maxParallel is 1");
    assert_eq!(driver.agent.snapshot().waiting_offers, 1);
    let reply = driver.signal(json!({ "revision": 2, "type": "task.failed", "taskId": "t-3" }));
    assert!(driver.replies.remove(&reply).unwrap().unwrap().conversation_id.is_some(), "it is reacted to");
    // A restart keeps the offer.
    driver.restart();
    driver.settle();
    let is_claim = |(_, attempt): &(AttemptId, Attempt)| matches!(attempt, Attempt::Claim(..));
    assert!(!driver.attempts.iter().any(is_claim), "{:?}", driver.attempts);
    driver.cancel("t-1").unwrap();
    assert!(!driver.attempts.iter().any(is_claim), "the reaction has the place: {:?}", driver.attempts);
    driver.end_turn();
    driver.settle();
    driver.claim_request();
}

#[test]
fn a_board_of_another_generation_is_read_from_its_floor() {
    let mut driver = Driver::new();
    let at = |text: &str| Cursor::parse(text).unwrap();
    driver.handle(Input::BoardHead(at("a-7")));
    driver.settle();
    let changed = Problem::new(Reason::GenerationChanged, "x").with("generation", "b").with("floor", 2);
    driver.handle(Input::SubscriptionLost(changed));
    let snapshot = driver.agent.snapshot();
    assert_eq!((snapshot.followed, snapshot.board_generation.as_deref()), (Some(2), Some("b")));
    assert_eq!(snapshot.counts.boards_changed, 1);
    driver.signal(json!({ "revision": 3, "type": "task.failed", "taskId": "t-3" }));
    driver.restart();
    let snapshot = driver.agent.snapshot();
    assert_eq!((snapshot.followed, snapshot.board_generation.as_deref()), (Some(3), Some("b")));
}

#[test]
fn a_message_whose_first_step_panics_is_refused_for_good() {
    let mut driver = Driver::new();
    driver.world.answers = true;
    driver.world.panic_on(|what| matches!(what, EventKind::TurnEnded { .. }), 1);
    let refused = driver.ask(&manager(), "m-1", "award", award("t-1", 1)).unwrap_err();
    assert_eq!(refused.reason, Reason::MessageFailed);
    assert!(!crate::may_succeed_later(refused.reason), "its sender does not repeat it");
    assert!(driver.agent.conversations.iter().next().is_none());
}

/// A request in the run of the task `root`.
fn in_run(root: &str, task: &str) -> Value {
    let run = json!({ "task": root, "agent": "m" });
    json!({ "taskId": task, "description": "x", "capability": "build", "run": run })
}

#[test]
fn the_fifth_equal_request_of_a_run_is_refused_also_after_a_restart() {
    let mut driver = Driver::new();
    for number in 1..=4 {
        let request = in_run("r-1", &format!("t-{number}"));
        driver.ask(&manager(), &format!("m-{number}"), "task-request", request).unwrap();
    }
    driver.end_turn();
    driver.settle();
    let again = driver.ask(&manager(), "m-4", "task-request", in_run("r-1", "t-4")).unwrap();
    assert!(again.duplicate, "the same request is none of its own");
    for restarts in [false, true] {
        if restarts {
            driver.restart();
            driver.settle();
        }
        let fifth = in_run("r-1", "t-5");
        let refused = driver.ask(&manager(), "m-5", "task-request", fifth).unwrap_err();
        assert_eq!(refused.reason, Reason::Loop);
        assert!(refused.message.starts_with("loop: m has asked a for the same 4 times"), "{refused}");
    }
}

#[test]
fn equal_requests_that_come_at_once_are_counted_before_they_are_recorded() {
    let mut driver = Driver::new();
    let send = |driver: &mut Driver, number: usize| {
        let request = in_run("r-1", &format!("t-{number}"));
        driver.send(&manager(), &format!("m-{number}"), "task-request", request)
    };
    let replies: Vec<_> = (1..=5).map(|number| send(&mut driver, number)).collect();
    driver.settle();
    let refused = |reply: &ReplyTo| driver.replies[reply].as_ref().err().map(|problem| problem.reason);
    let refused: Vec<_> = replies.iter().map(refused).collect();
    assert_eq!(refused, [None, None, None, None, Some(Reason::Loop)]);
}

#[test]
fn only_equal_requests_of_one_agent_in_one_run_are_counted_together() {
    let mut driver = Driver::new();
    let other = Principal::Agent(AgentId::parse("n").unwrap());
    let differs = |number: usize, member: &str, value: Value| {
        let mut request = in_run("r-1", &format!("t-{number}"));
        request[member] = value;
        request
    };
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": "x" }] });
    let requests = [
        (manager(), in_run("r-2", "t-5")),
        (other, in_run("r-1", "t-6")),
        (user(), in_run("r-1", "t-7")),
        (manager(), request("t-8")),
        (manager(), differs(9, "description", json!("y"))),
        (manager(), differs(10, "input", json!({ "page": 2 }))),
        (manager(), differs(11, "inlineArtifacts", json!([artifact]))),
    ];
    for number in 1..=4 {
        let request = in_run("r-1", &format!("t-{number}"));
        driver.ask(&manager(), &format!("m-{number}"), "task-request", request).unwrap();
    }
    for (number, (by, request)) in requests.into_iter().enumerate() {
        let taken = driver.ask(&by, &format!("o-{number}"), "task-request", request.clone());
        assert!(taken.is_ok(), "{request}: {taken:?}");
    }
    for number in 20..30 {
        driver
            .ask(&user(), &format!("u-{number}"), "task-request", in_run("r-1", &format!("t-{number}")))
            .unwrap();
    }
    let mut turn = differs(30, "input", json!({ "seat": { "session": "r-1", "stage": "s", "seat": "a" } }));
    for number in 30..36 {
        turn["taskId"] = json!(format!("t-{number}"));
        driver.ask(&manager(), &format!("s-{number}"), "task-request", turn.clone()).unwrap();
    }
}
