//! A foreign agent that is unreachable or rejects: the runner-up does the work, or the task ends with the reason.

use super::foreign::{STREAMING, forecast_of, team, up, weather};
use crate::harness::{Process, artifact, call, foreign::ForeignBehavior, mesh, message, state};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};

/// The team of the foreign agent, which bids best, with a runner-up.
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
async fn an_award_to_an_unreachable_agent_goes_to_the_runner_up_soon() {
    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    let mesh = Process::up_beside(&with_runner_up(&team(&foreign, "")), &[("forecast.yaml", FORECAST)]).await;
    let desk = mesh.agent("desk-01");
    foreign.leave().await;
    let begun = Instant::now();
    let id = desk.send(forecast_of("Bern")).await;
    let task = desk.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "sky").as_deref(), Some("rain"), "{task:#}");
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
    let award = desk.award(&id).await;
    let first = award["rounds"][0]["candidates"][0].clone();
    assert_eq!((&first["agent"], &first["fate"]), (&json!("weather-bot"), &json!("failed")), "{award:#}");
    assert!(first["why"].as_str().unwrap().contains("unreachable"), "{first:#}");
}

#[actix::test]
async fn the_time_until_an_award_is_handed_back_is_configurable() {
    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    let team = with_runner_up(&team(&foreign, ", bounds: { reachMs: 9000 }"));
    let mesh = Process::up_beside(&team, &[("forecast.yaml", FORECAST)]).await;
    foreign.leave().await;
    let begun = Instant::now();
    let task = mesh.agent("desk-01").ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "sky").as_deref(), Some("rain"), "{task:#}");
    assert!(begun.elapsed() > Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[actix::test]
async fn a_retry_after_longer_than_the_award_goes_to_the_runner_up() {
    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    let mesh = Process::up_beside(&with_runner_up(&team(&foreign, "")), &[("forecast.yaml", FORECAST)]).await;
    foreign.refuse_calls(100, 3_600);
    let task = mesh.agent("desk-01").ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "sky").as_deref(), Some("rain"), "{task:#}");
    assert_eq!(foreign.calls(), 1);
}

#[actix::test]
async fn the_only_bidder_is_retried_within_its_bounds() {
    let mut foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    let (_mesh, desk) = up(&foreign, ", bounds: { reachMs: 100 }").await;
    foreign.leave().await;
    let id = desk.send(forecast_of("Bern")).await;
    // Longer than three rounds of `reachMs`.
    tokio::time::sleep(Duration::from_secs(3)).await;
    foreign.come_back();
    let task = desk.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("fine"), "{task:#}");
    let rounds = desk.award(&id).await["rounds"].as_array().map(Vec::len);
    assert_eq!(rounds, Some(1), "it kept its award");
}

#[actix::test]
async fn the_next_interface_is_called_when_one_does_not_answer() {
    for how in ["", ", mode: sync"] {
        let elsewhere = weather(STREAMING, ForeignBehavior::Streams(&["fine ", "there"], None)).await;
        let gone = weather("{}", ForeignBehavior::Answers("nobody")).await;
        gone.leave().await;
        let interfaces = [&gone, &elsewhere].map(|agent| {
            json!({ "url": format!("{}/rpc", agent.url), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" })
        });
        let card = json!({ "supportedInterfaces": interfaces, "capabilities": { "streaming": true } });
        let foreign = weather(&card.to_string(), ForeignBehavior::Answers("not here")).await;
        let (_mesh, desk) = up(&foreign, how).await;
        let task = desk.ask(forecast_of("Bern")).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("fine there"), "{how}: {task:#}");
        assert_eq!(foreign.calls(), 0);
    }
}

#[actix::test]
async fn a_task_that_all_reject_is_rejected_with_the_reasons() {
    let foreign = weather("{}", ForeignBehavior::Rejects("not on a Sunday")).await;
    let (mesh, desk) = up(&foreign, "").await;
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(state(&task), "rejected", "{task:#}");
    let said = message(&task);
    assert!(said.contains("unassigned") && said.contains("not on a Sunday"), "{said}");
    assert_eq!(foreign.received("SendMessage").len(), 1, "who rejects a task is not asked again");
    drop(mesh);

    let mesh = Process::up_beside(&with_runner_up(&team(&foreign, "")), &[("forecast.yaml", FORECAST)]).await;
    let task = mesh.agent("desk-01").ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "sky").as_deref(), Some("rain"), "somebody else took it: {task:#}");
}

#[actix::test]
async fn a_node_starts_without_the_foreign_card_and_takes_work_once_it_is_read() {
    let mut foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    foreign.leave().await;
    let process = Process::up(&team(&foreign, "")).await;
    let (desk, bot) = (process.agent("desk-01"), process.agent("weather-bot"));
    let ready = call(Method::GET, &format!("{}/readyz", desk.url), None).await;
    assert_eq!((ready.status, &ready.body["ready"]), (200, &json!(true)), "the others work: {ready:?}");
    let why = ready.body["waiting"]["weather-bot"].as_str().unwrap_or_default();
    assert!(why.contains(&foreign.url) && why.contains("can't be had"), "{ready:?}");
    let entry = process.entry_where("weather-bot", |entry| entry["accepting"] == false).await;
    assert_eq!(entry["card"]["skills"], json!([]));
    let url = process.url.clone();
    let (code, listed, said) =
        tokio::task::spawn_blocking(move || mesh(&["--url", &url, "ls"], &[])).await.unwrap();
    assert_eq!(code, 0, "{said}");
    let line = listed.lines().find(|line| line.contains("weather-bot")).unwrap_or_else(|| panic!("{listed}"));
    assert!(line.contains("waiting") && line.contains("can't be had"), "{listed}");
    let nobody = desk.ask(forecast_of("Bern")).await;
    assert!(message(&nobody).contains("no bids"), "{}", message(&nobody));

    foreign.come_back();
    let entry = process.entry_where("weather-bot", |entry| entry["accepting"] == true).await;
    assert_eq!(entry["card"]["skills"][0]["id"], "get_forecast", "{entry:#}");
    assert_eq!(entry["card"]["description"], "WeatherBot, from elsewhere");
    assert!(entry["card"].get("waitsFor").is_none());
    let card = call(Method::GET, &format!("{}/.well-known/agent-card.json", bot.url), None).await;
    assert_eq!(card.body["skills"][0]["id"], "get_forecast");
    assert_eq!(card.body["defaultInputModes"], json!(["text/plain"]));
    let ready = call(Method::GET, &format!("{}/readyz", desk.url), None).await;
    assert!(ready.body.get("waiting").is_none(), "{ready:?}");
    let task = desk.ask(forecast_of("Bern")).await;
    assert_eq!(artifact(&task, "result").as_deref(), Some("fine"), "{task:#}");
}

#[actix::test]
async fn the_reason_for_waiting_is_current() {
    let mut foreign = weather(r#"{ "skills": [] }"#, ForeignBehavior::Answers("fine")).await;
    foreign.leave().await;
    let process = Process::up(&team(&foreign, "")).await;
    let waits_for = |what: &'static str| {
        move |entry: &serde_json::Value| {
            entry["card"]["waitsFor"].as_str().is_some_and(|why| why.contains(what))
        }
    };
    let before = process.entry_where("weather-bot", waits_for("can't be had")).await;
    foreign.come_back();
    let now = process.entry_where("weather-bot", waits_for("can't be used: skills")).await;
    assert_eq!(now["incarnation"], before["incarnation"], "it is the one that it was");
    let of = |signals: Vec<serde_json::Value>| {
        signals.iter().filter(|signal| signal["subject"] == "weather-bot").count()
    };
    assert_eq!(of(process.signals("agent.joined").await), 1);
    assert_eq!(of(process.signals("agent.left").await), 0);
}

#[actix::test]
async fn a_node_with_only_an_unreachable_foreign_agent_is_not_ready() {
    let mut foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    foreign.leave().await;
    let alone = format!(
        "
mesh: {{ outside: {{ allow: [127.0.0.0/8] }} }}
agents: [{{ agent: weather-bot, brain: {{ a2a: {{ card: '{}' }} }} }}]
",
        foreign.url
    );
    let process = Process::up(&alone).await;
    let url = format!("{}/readyz", process.agent("weather-bot").url);
    let ready = call(Method::GET, &url, None).await;
    assert_eq!((ready.status, &ready.body["ready"]), (503, &json!(false)), "{ready:?}");
    foreign.come_back();
    crate::harness::eventually("it to be ready", async || {
        (call(Method::GET, &url, None).await.status == 200).then_some(())
    })
    .await;
}

#[actix::test]
async fn mesh_join_of_an_unreachable_agent_fails_at_once() {
    let foreign = weather("{}", ForeignBehavior::Answers("fine")).await;
    foreign.leave().await;
    let (url, begun) = (foreign.url.clone(), Instant::now());
    let joined = tokio::task::spawn_blocking(move || mesh(&["join", &url, "--allow", "127.0.0.0/8"], &[]));
    let (code, _, said) = joined.await.unwrap();
    assert_eq!(code, 6, "{said}");
    assert!(said.contains(&format!("the card at {} can't be had", foreign.url)), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(25));
}
