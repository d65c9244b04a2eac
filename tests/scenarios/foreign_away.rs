//! A foreign agent that is not there, or would not: whoever is next does the work, and if nobody does, the end says why.

use super::foreign::{forecast_of, team, up, weather};
use crate::harness::{Process, artifact, foreign::Play, message, state};
use serde_json::json;
use std::time::{Duration, Instant};

/// The team of `foreign`, which bids best, and a runner-up.
fn with_runner_up(team: &str) -> String {
    format!(
        "{team}  - agent: weather-02
    skills: [get_forecast]
    brain: {{ scripted: forecast.yaml }}
    bid: {{ cost: 9, eta: 10m }}
"
    )
}

const FORECAST: &str = "turns: [{ say: [{ type: artifact, name: sky, text: rain }], end: { done: rain } }]";

#[actix::test]
async fn an_award_to_one_that_is_away_goes_to_the_runner_up_soon() {
    let foreign = weather("{}", Play::Answers("fine")).await;
    let mesh = Process::up_beside(&with_runner_up(&team(&foreign, "")), &[("forecast.yaml", FORECAST)]).await;
    let desk = mesh.agent("desk-01");
    foreign.leave().await;
    let begun = Instant::now();
    let id = desk.send(forecast_of("Bern")).await;
    let task = desk.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "sky").as_deref(), Some("rain"), "{task:#}");
    let took = begun.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(14)).contains(&took), "{took:?}");
    let award = desk.award(&id).await;
    let first = award["rounds"][0]["candidates"][0].clone();
    assert_eq!((&first["agent"], &first["fate"]), (&json!("weather-bot"), &json!("failed")), "{award:#}");
    assert!(first["why"].as_str().unwrap().contains("unreachable"), "{first:#}");
}

#[actix::test]
async fn how_long_an_award_waits_for_it_can_be_said() {
    let foreign = weather("{}", Play::Answers("fine")).await;
    let team = with_runner_up(&team(&foreign, ", bounds: { reachMs: 100 }"));
    let mesh = Process::up_beside(&team, &[("forecast.yaml", FORECAST)]).await;
    foreign.leave().await;
    let begun = Instant::now();
    let task = mesh.agent("desk-01").ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "sky").as_deref(), Some("rain"), "{task:#}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[actix::test]
async fn what_nobody_would_do_is_rejected_and_the_reasons_are_named() {
    let foreign = weather("{}", Play::Rejects("not on a Sunday")).await;
    let (mesh, desk) = up(&foreign, "").await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(state(&task), "rejected", "{task:#}");
    let said = message(&task);
    assert!(said.contains("unassigned") && said.contains("not on a Sunday"), "{said}");
    assert_eq!(foreign.heard("SendMessage").len(), 1, "who rejects a task is not asked again");
    drop(mesh);

    let mesh = Process::up_beside(&with_runner_up(&team(&foreign, "")), &[("forecast.yaml", FORECAST)]).await;
    let task = mesh.agent("desk-01").ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "sky").as_deref(), Some("rain"), "somebody else took it: {task:#}");
}
