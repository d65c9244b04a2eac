//! The turns of one seat: each goes on from those before it, one at a time.

use super::*;
use crate::{
    Input, Output, TurnStart,
    records::keys,
    testing::{TestAgent, me},
};
use patterns::turn::{Checkpoint, TurnContext};
use protocol::{
    answer::SeatEnd,
    ids::{AgentId, TaskId},
    question::Question,
};
use serde_json::json;
use std::time::Duration;
use store_types::Snapshot as _;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The host sends a turn of a seat, which is another one if `seat` says so.
fn send(agent: &mut TestAgent, round: u32, seat: &str) {
    let seat = json!({
        "session": "s-1", "stage": "table", "seat": seat, "round": round, "order": "turns", "new": ["n"]
    });
    let task = format!("t-{round}");
    let new = json!({ "artifactId": "n", "parts": [{ "text": format!("new {round}") }] });
    let payload = json!({
        "taskId": task, "description": "x", "input": { "seat": seat }, "inlineArtifacts": [new]
    });
    agent.send(
        Some("host"),
        json!({ "messageId": format!("m-{round}"), "type": "task-request", "payload": payload }),
    );
    agent.commit_all();
}

/// The turn of a round that starts.
fn started(agent: &mut TestAgent, round: u32) -> Option<Box<TurnStart>> {
    let name = format!("t-{round}");
    agent.take(|output| match output {
        Output::StartTurn(turn) if turn.prompt.about.task_id().map(TaskId::as_str) == Some(&name) => {
            Some(turn.clone())
        }
        _ => None,
    })
}

fn context(turn: &TurnStart) -> &TurnContext {
    turn.prompt.context.as_ref().unwrap()
}

fn end(agent: &mut TestAgent, turn: &TurnStart, said: &str) {
    let note =
        Progress::Checkpoint(Checkpoint { data: json!({ "noted": said }), replace: false, summary: None });
    agent.handle(Input::TurnProgress(turn.key.clone(), vec![note]));
    agent.commit_all();
    let seat = SeatEnd { passed: true, ..SeatEnd::default() };
    let end = TurnEnd::Seat { message: Some(said.to_owned()), seat };
    agent.handle(Input::TurnEnded(turn.key.clone(), Vec::new(), Ok(end)));
    agent.commit_all();
}

#[test]
fn a_turn_goes_on_from_those_before_it_and_waits_for_one_that_is_under_way() {
    let mut agent = TestAgent::new(&[]);
    send(&mut agent, 1, "a");
    let first = started(&mut agent, 1).unwrap();
    assert_eq!(context(&first), &TurnContext::default());
    send(&mut agent, 2, "a");
    assert!(started(&mut agent, 2).is_none(), "one at a time");
    agent.restart();
    let first = started(&mut agent, 1).unwrap();
    assert!(started(&mut agent, 2).is_none(), "also after a restart");
    end(&mut agent, &first, "one");
    let second = started(&mut agent, 2).unwrap();
    let [turn] = context(&second).turns.as_slice() else { panic!("{second:?}") };
    assert_eq!(turn.checkpoints, [json!({ "noted": "one" })]);
    assert_eq!((turn.message.as_deref(), turn.place.as_str()), (Some("one"), "stage table, round 1"));
    assert_eq!(turn.new[0].as_text(), "new 1");
    agent.restart();
    let again = started(&mut agent, 2).unwrap();
    assert_eq!(again.prompt, second.prompt, "the same after a restart");

    // One that asks a person does not keep the next one waiting.
    let ask = Progress::Question(Question::new("q", "which?"));
    agent.handle(Input::TurnEnded(again.key.clone(), vec![ask], Ok(TurnEnd::Waiting)));
    agent.commit_all();
    send(&mut agent, 3, "a");
    let third = started(&mut agent, 3).unwrap();
    assert_eq!(context(&third).turns.len(), 1);
    end(&mut agent, &third, "three");
    send(&mut agent, 4, "b");
    assert!(context(&started(&mut agent, 4).unwrap()).turns.is_empty(), "another seat has another context");
}

#[test]
fn a_context_and_what_it_goes_on_from_live_for_thirty_days_after_the_last_use() {
    let mut agent = TestAgent::new(&[]);
    let pass = |agent: &mut TestAgent, days: u32| {
        let (now, wall) = (agent.world.now, agent.world.wall);
        (agent.world.now, agent.world.wall) = (now + DAY * days, wall.plus(DAY * days));
        agent.handle(Input::Sweep);
        agent.commit_all();
        while agent.take(|output| matches!(output, Output::Continue).then_some(())).is_some() {
            agent.handle(Input::Continue);
            agent.commit_all();
        }
    };
    let has_task = |agent: &TestAgent, round: u32| {
        let (task, host) = (TaskId::parse(&format!("t-{round}")).unwrap(), AgentId::parse("host").unwrap());
        agent.store.latest(&keys::task(&me(), &task, &Principal::Agent(host))).unwrap().is_some()
    };
    send(&mut agent, 1, "a");
    let first = started(&mut agent, 1).unwrap();
    end(&mut agent, &first, "one");
    pass(&mut agent, 20);
    assert!(has_task(&agent, 1), "longer than other tasks");
    send(&mut agent, 2, "a");
    let second = started(&mut agent, 2).unwrap();
    assert_eq!(context(&second).turns[0].checkpoints, [json!({ "noted": "one" })]);
    end(&mut agent, &second, "two");
    pass(&mut agent, 25);
    send(&mut agent, 3, "a");
    let third = started(&mut agent, 3).unwrap();
    assert_eq!(context(&third).turns.len(), 2);
    end(&mut agent, &third, "three");
    pass(&mut agent, 31);
    pass(&mut agent, 1);
    assert!(!has_task(&agent, 1) && !has_task(&agent, 2) && !has_task(&agent, 3));
    send(&mut agent, 4, "a");
    assert_eq!(context(&started(&mut agent, 4).unwrap()), &TurnContext::default(), "nothing is left");
}
