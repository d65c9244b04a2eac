//! Limits of time and size for a foreign agent.

use super::foreign::{STREAMING, forecast_of, team, up, weather};
use crate::harness::{Process, artifact, eventually, foreign::ForeignBehavior, message, state};
use std::time::Duration;

#[actix::test]
async fn an_outage_of_some_seconds_does_not_fail_the_task() {
    for (more, how) in [(STREAMING, ""), ("{}", ", bounds: { pollMs: 30 }")] {
        let mut foreign = weather(more, ForeignBehavior::Never).await;
        let (_mesh, desk) = up(&foreign, how).await;
        let id = desk.send(forecast_of("slowly")).await;
        eventually("its name to be known", async || {
            desk.task(&id).await.to_string().contains("busy over there").then_some(())
        })
        .await;
        foreign.set_behavior(ForeignBehavior::Answers("done at last"));
        foreign.gone_for(Duration::from_secs(3)).await;
        let task = desk.task_in(&id, &["completed", "failed"]).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("done at last"), "{how}: {task:#}");
    }
}

#[actix::test]
async fn retry_after_of_a_foreign_agent_is_honoured() {
    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    let (_mesh, desk) = up(&foreign, "").await;
    foreign.refuse_calls(2, 1);
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("fine"), "{task:#}");
    let sent = foreign.received("SendMessage");
    assert_eq!(sent.len(), 3);
    for pair in sent.windows(2) {
        let pause = pair[1].at - pair[0].at;
        assert!(pause >= Duration::from_secs(1), "Retry-After: 1 was said, and it came back after {pause:?}");
        assert_eq!(pair[0].params["message"]["messageId"], pair[1].params["message"]["messageId"]);
    }
}

#[actix::test]
async fn foreign_work_is_limited_by_its_bounds_and_not_by_the_think_time() {
    let foreign = weather("{}", ForeignBehavior::Works(30, "took its time")).await;
    let quick = |how: &str| {
        team(&foreign, how).replace("    brain:", "    bounds: { idle: 300, turn: 300 }\n    brain:")
    };
    let mesh = Process::up(&quick(", bounds: { pollMs: 50 }")).await;
    let task = mesh.agent("desk-01").ask(forecast_of("slowly")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("took its time"), "{task:#}");
    drop(mesh);

    let foreign = weather(STREAMING, ForeignBehavior::Never).await;
    let how = ", bounds: { polls: 4, pollMs: 100, answerMs: 600 }";
    let (_mesh, desk) = up(&foreign, how).await;
    let task = desk.ask(forecast_of("for ever")).await;
    assert_eq!(state(&task), "failed");
    assert!(message(&task).contains("not done within its bounds, 1000 ms"), "{}", message(&task));
    eventually("the cancel", async || foreign.received("CancelTask").first().cloned()).await;
}

#[actix::test]
async fn an_endless_stream_is_stopped_at_the_limit_at_once() {
    let foreign = weather(STREAMING, ForeignBehavior::Floods).await;
    let bounded = team(&foreign, "")
        .replace("mesh: { outside:", "mesh: { limits: { maxArtifactBytes: 320000 }, outside:");
    let mesh = Process::up(&bounded).await;
    let desk = mesh.agent("desk-01");
    let task = desk.ask(forecast_of("everything")).await;
    assert_eq!(state(&task), "failed");
    assert!(message(&task).contains("its artifacts hold more than 300000 bytes"), "{}", message(&task));
    eventually("the cancel", async || foreign.received("CancelTask").first().cloned()).await;
}

#[actix::test]
async fn a_silent_foreign_agent_is_given_up() {
    let foreign = weather(STREAMING, ForeignBehavior::Mute).await;
    let (_mesh, desk) = up(&foreign, ", bounds: { answerMs: 300, attempts: 2 }").await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(state(&task), "failed");
    assert!(message(&task).contains("unreachable: no answer"), "{}", message(&task));
    let sent = foreign.received("SendStreamingMessage");
    assert!(sent.len() >= 2, "it was tried again: {}", sent.len());
}
