//! What follows a refused or failed step.
use super::*;
use crate::{
    AttemptResult, Input, Output, TurnKey,
    records::keys,
    tasks,
    testing::{TestAgent, me},
};
use patterns::turn::{Progress, TurnEnd};
use protocol::{
    ids::{AgentId, TaskId},
    signal::SignalRecord,
    task::{Status, TaskState},
    time::WallTime,
};
use serde_json::json;
use store_types::{Batch, Write};

fn progress(message: &str) -> Vec<Progress> {
    vec![Progress::Status { message: message.to_owned() }]
}

#[test]
fn no_event_overtakes_those_of_a_refused_step() {
    let mut test = TestAgent::new(&[]);
    let (id, turn) = test.begin_task("t-1");
    test.handle(Input::TurnProgress(turn.clone(), progress("first")));
    test.refuse_commit(Error::Full);
    test.handle(Input::TurnProgress(turn.clone(), progress("second")));
    let end = TurnEnd::Done { message: Some("built".to_owned()) };
    test.handle(Input::TurnEnded(turn, Vec::new(), Ok(end)));
    assert!(!test.agent.is_idle());
    test.fire_timer(AGAIN);
    test.commit_all();
    let events: Vec<_> = test.last_step(&id).events.into_iter().map(|event| event.what).collect();
    let [EventKind::TurnProgress { updates: first, .. }, EventKind::TurnProgress { updates: second, .. }, _] =
        events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((first, second), (&progress("first"), &progress("second")));
    assert!(matches!(events.last(), Some(EventKind::TurnEnded { .. })));
}

#[test]
fn a_request_behind_a_refused_step_is_answered_if_the_conversation_ends() {
    let mut test = TestAgent::new(&[]);
    let (_, turn) = test.begin_task("t-1");
    test.handle(Input::TurnProgress(turn, progress("first")));
    let behind = test.cancel("t-1");
    test.refuse_commit(Error::Full);
    let later = test.cancel("t-1");
    test.commit_all();
    test.fire_timer(AGAIN);
    test.commit_all();
    assert!(matches!((test.reply(behind), test.reply(later)), (Some(Ok(_)), Some(Ok(_)))));
    assert_eq!(test.agent.running(), 0);
}

fn signal(revision: u64) -> Box<SignalRecord> {
    let at = serde_json::to_value(WallTime(0)).unwrap();
    let id = format!("s-{revision}");
    let signal = json!({ "revision": revision, "id": id, "type": "build.failed", "from": "b", "at": at });
    Box::new(serde_json::from_value(signal).unwrap())
}

#[test]
fn a_signal_whose_reaction_fails_twice_is_passed_over() {
    let mut test = TestAgent::new(&["build.failed"]);
    test.handle(Input::BoardHead(4.into()));
    test.commit_all();
    test.world.panic_on(|what| matches!(what, EventKind::Started), 2);
    for cursor in [4, 5] {
        let reply = test.reply_to();
        test.handle(Input::Signal(signal(5), reply));
        assert!(test.reply(reply).unwrap().is_err());
        assert_eq!(test.agent.snapshot().followed, Some(cursor));
    }
    assert!(test.agent.snapshot().conversations.is_empty());
}

fn damage_state(test: &mut TestAgent, id: &ConversationId) {
    let writes = vec![Write::Put(keys::state(&me(), id), b"damaged".to_vec().into())];
    test.store.commit(Batch { writes, expectations: Vec::new() }).unwrap();
}

#[test]
fn a_conversation_that_cannot_be_read_back_is_parked() {
    let mut test = TestAgent::new(&[]);
    let (id, turn) = test.begin_task("t-1");
    damage_state(&mut test, &id);
    test.handle(Input::TurnProgress(turn.clone(), progress("first")));
    test.refuse_commit(Error::Full);
    let stopped = test.take(|output| match output {
        Output::StopTurn(key) => Some(key.clone()),
        _ => None,
    });
    assert_eq!((stopped, test.agent.parked().count()), (Some(turn), 1));
    test.commit_all();
    let row = tasks::find(&test.store, &me(), &TaskId::parse("t-1").unwrap(), &Principal::local_user());
    assert!(row.unwrap().unwrap().task.status.message.unwrap().starts_with("parked until"));
    let payload = json!({ "taskId": "t-1", "reason": "enough" });
    let late = json!({ "messageId": "m-2", "conversationId": id, "type": "task-cancel", "payload": payload });
    let reply = test.send(None, late);
    assert_eq!(test.reply(reply).unwrap().unwrap_err().reason, Reason::StoreUnavailable);
}

fn award(test: &mut TestAgent, epoch: u64) -> ReplyTo {
    let spec = json!({ "taskId": "t-1", "description": "x", "root": "user:local" });
    let payload = json!({ "taskId": "t-1", "epoch": epoch, "leaseMs": 60_000, "task": spec });
    test.send(Some("b"), json!({ "messageId": format!("m-{epoch}"), "type": "award", "payload": payload }))
}

#[test]
fn a_later_award_is_taken_when_the_work_under_the_older_one_has_ended() {
    let mut test = TestAgent::new(&[]);
    let reply = award(&mut test, 1);
    test.commit_all();
    let older = test.reply(reply).unwrap().unwrap().conversation_id.unwrap();
    let reply = award(&mut test, 2);
    test.commit_all();
    assert_eq!(
        test.reply(reply).unwrap().unwrap_err().reason,
        Reason::Overloaded,
        "its manager sends it again"
    );
    let owner = Principal::Agent(AgentId::parse("b").unwrap());
    let row = tasks::find(&test.store, &me(), &TaskId::parse("t-1").unwrap(), &owner).unwrap().unwrap();
    assert!(row.task.conversation == older && row.ended_at.is_some(), "the older work has ended");
    let reply = award(&mut test, 2);
    test.commit_all();
    assert!(test.reply(reply).unwrap().is_ok());
    assert_eq!(test.agent.running(), 1);
}

#[test]
fn a_result_on_which_a_pattern_panicked_still_closes_its_effect() {
    let mut test = TestAgent::new(&[]);
    let payload = json!({ "signal": "build.failed", "subject": "x" });
    test.send(None, json!({ "messageId": "m-1", "type": "broadcast", "payload": payload }));
    test.commit_all();
    let attempt = test.take(|output| match output {
        Output::Attempt(id, _) => Some(*id),
        _ => None,
    });
    test.world.panic_on(|what| matches!(what, EventKind::PublishRefused { .. }), 1);
    let refused = Problem::new(Reason::InvalidField, "refused by the board");
    test.handle(Input::Attempted(attempt.unwrap(), AttemptResult::Failed(refused)));
    test.fire_timer(AGAIN);
    test.commit_all();
    let snapshot = test.agent.snapshot();
    assert!(snapshot.conversations.is_empty() && snapshot.parked.is_empty(), "{snapshot:?}");
}

fn is_end_of_turn(what: &EventKind) -> bool {
    matches!(what, EventKind::TurnEnded { .. } | EventKind::Cancelled { .. })
}

fn end_turn(test: &mut TestAgent, turn: TurnKey) {
    let end = TurnEnd::Done { message: Some("built".to_owned()) };
    test.handle(Input::TurnEnded(turn, Vec::new(), Ok(end)));
    test.commit_all();
}

fn status(test: &TestAgent, task: &str) -> Status {
    let task = TaskId::parse(task).unwrap();
    let row = tasks::find(&test.store, &me(), &task, &Principal::local_user()).unwrap().unwrap();
    row.task.status
}

#[test]
fn a_pattern_that_panics_ends_its_task_and_the_agent_goes_on() {
    let mut test = TestAgent::new(&[]);
    let (_, turn) = test.begin_task("t-1");
    test.world.panic_on(is_end_of_turn, 1);
    end_turn(&mut test, turn);
    test.fire_timer(AGAIN);
    test.commit_all();
    let broken = status(&test, "t-1");
    assert_eq!(broken.state, TaskState::Canceled);
    assert!(broken.message.unwrap().contains("an internal fault"));
    let (_, turn) = test.begin_task("t-2");
    end_turn(&mut test, turn);
    assert_eq!(status(&test, "t-2").state, TaskState::Completed);
}

#[test]
fn what_a_turn_says_after_a_lost_piece_does_not_count() {
    let mut test = TestAgent::new(&[]);
    let (_, turn) = test.begin_task("t-1");
    test.handle(Input::TurnProgress(turn.clone(), progress("first")));
    // Both wait for the commit of the first, so one step takes them.
    test.handle(Input::TurnProgress(turn.clone(), progress("second")));
    let end = TurnEnd::Done { message: Some("built".to_owned()) };
    test.handle(Input::TurnEnded(turn, Vec::new(), Ok(end)));
    test.world.panic_on(|what| matches!(what, EventKind::TurnProgress { .. }), 1);
    test.commit_all();
    test.fire_timer(AGAIN);
    test.commit_all();
    assert_eq!(status(&test, "t-1").state, TaskState::Canceled);
}

#[test]
fn a_conversation_that_panics_twice_is_parked_and_resumes_at_the_next_start() {
    let mut test = TestAgent::new(&[]);
    let (id, turn) = test.begin_task("t-1");
    test.world.panic_on(is_end_of_turn, 2);
    end_turn(&mut test, turn.clone());
    test.fire_timer(AGAIN);
    test.commit_all();
    assert!(status(&test, "t-1").message.unwrap().contains("parked until"));
    let snapshot = test.agent.snapshot();
    assert!(snapshot.parked.contains_key(&id), "{snapshot:?}");
    assert_eq!((snapshot.running, snapshot.thinking, snapshot.timers), (0, 0, 0));
    let cancel = test.cancel("t-1");
    assert_eq!(test.reply(cancel).unwrap().unwrap_err().reason, Reason::StoreUnavailable);
    let (_, next) = test.begin_task("t-2");
    end_turn(&mut test, next);
    assert_eq!(status(&test, "t-2").state, TaskState::Completed);
    test.restart();
    assert!(test.agent.snapshot().parked.is_empty());
    end_turn(&mut test, turn);
    assert_eq!(status(&test, "t-1").state, TaskState::Completed);
}

#[test]
fn a_refused_signal_comes_again_after_growing_pauses() {
    let mut test = TestAgent::new(&["build.failed"]);
    test.handle(Input::BoardHead(4.into()));
    test.commit_all();
    test.outputs.clear();
    let mut refuse = || {
        let reply = test.reply_to();
        test.handle(Input::Signal(signal(5), reply));
        test.refuse_commit(Error::StorageFull);
        let problem = test.reply(reply).unwrap().unwrap_err();
        test.handle(Input::SubscriptionLost(problem));
        let wait = test.take(|output| match output {
            Output::SetTimer(id, wait) => Some((*id, *wait)),
            _ => None,
        });
        let (timer, wait) = wait.unwrap();
        test.handle(Input::TimerFired(timer));
        let cursor = test.take(|output| match output {
            Output::Subscribe(_, cursor) => Some(cursor.clone()),
            _ => None,
        });
        assert_eq!(cursor, Some(Some(4.into())));
        wait
    };
    let (first, second) = (refuse(), refuse());
    assert!(first < second, "{first:?}, {second:?}");
}
