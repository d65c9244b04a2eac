//! Schedules of agents (docs/schedules-and-triggers.md): each firing is one task, also over kills.

use crate::harness::{
    Agent, Process, call, client, directory,
    documentation::{self, blocks, run_commands},
    eventually, file, mesh, read_answer, state,
};
use protocol::{task::EXTENSION, time::WallTime};
use reqwest::Method;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, time::Duration};

const TEAM: &str = "
agents:
  - agent: echo-01
    brain: { echo: {} }
    schedules:
      tick: { every: 1s, task: tick, input: { n: 1 }, overlap: allow, missed: all }
      nightly: { cron: '30 2 * * *', timezone: Europe/Berlin, task: dream }
mesh:
  callers:
    - { user: alice, apiKey: alices-own-key-0001 }
    - { user: bob, apiKey: bobs-own-key-000001 }
";

async fn listed(agent: &Agent) -> BTreeMap<String, Value> {
    let answer = call(Method::GET, &format!("{}/a2a/schedules", agent.url), None).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let schedules = answer.body["schedules"].as_array().unwrap().iter();
    schedules.map(|one| (one["name"].as_str().unwrap().to_owned(), one.clone())).collect()
}

/// The tasks of the schedule `tick`, by their ids, when each was due.
async fn ticks(agent: &Agent) -> BTreeMap<String, WallTime> {
    let answer = call(Method::GET, &format!("{}/a2a/tasks?limit=1000", agent.url), None).await;
    let tasks = answer.body["tasks"].as_array().unwrap().clone();
    let mut ticks = BTreeMap::new();
    for task in tasks {
        let origin = &task["metadata"][EXTENSION]["origin"];
        if origin["name"] == "tick" {
            let due = WallTime::parse(origin["dueAt"].as_str().unwrap()).unwrap();
            let before = ticks.insert(task["id"].as_str().unwrap().to_owned(), due);
            assert_eq!(before, None, "{task:#}");
        }
    }
    ticks
}

#[tokio::test]
async fn a_task_of_a_schedule_says_where_it_comes_from_and_has_the_rights_of_the_person() {
    let node = Process::up(TEAM).await;
    let agent = node.agent("echo-01");
    let last = eventually("a task", async || {
        let last = listed(&agent).await["tick"]["lastRun"].clone();
        (last["state"] == "TASK_STATE_COMPLETED").then_some(last)
    })
    .await;
    let task = agent.task(last["taskId"].as_str().unwrap()).await;
    let ours = &task["metadata"][EXTENSION];
    assert_eq!(
        ours["origin"],
        json!({ "kind": "schedule", "name": "tick", "dueAt": last["due"] }),
        "{task:#}"
    );
    assert_eq!((&ours["owner"], &ours["description"]), (&json!("user:local"), &json!("tick")));
    let (code, shown, told) = node.as_person(&["tasks", "show", last["taskId"].as_str().unwrap()]).await;
    assert!(code == 0 && shown.contains("schedule tick, due "), "{shown}{told}");
    let list = eventually("a list with the last task", async || {
        let (_, list, _) = node.as_person(&["schedule", "ls"]).await;
        list.contains("completed").then_some(list)
    })
    .await;
    assert!(list.contains("every 1s") && list.contains("30 2 * * * Europe/Berlin"), "{list}");
    let nightly = &listed(&agent).await["nightly"];
    let next = WallTime::parse(nightly["nextRun"].as_str().unwrap()).unwrap();
    assert!(next.0 % 60_000 == 0 && nightly["fromFile"] == true, "{nightly:#}");
}

#[tokio::test]
async fn a_schedule_that_is_killed_again_and_again_misses_no_firing_and_repeats_none() {
    let mut node = Process::up(TEAM).await;
    eventually("the first task", async || (!ticks(&node.agent("echo-01")).await.is_empty()).then_some(()))
        .await;
    for kill in 0..6_usize {
        let before = ticks(&node.agent("echo-01")).await.len();
        // At another moment of the second each time: before a firing is recorded, before it is taken, and behind that.
        let due = eventually("more tasks", async || {
            let ticks = ticks(&node.agent("echo-01")).await;
            (ticks.len() > before).then(|| ticks.values().max().copied()).flatten()
        })
        .await;
        let moment = due.0 + 1_000 + i64::try_from(kill).unwrap() * 4;
        while wall() < moment {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        node.kill();
        node = node.restart().await;
    }
    let agent = node.agent("echo-01");
    let count = ticks(&agent).await.len();
    let all = eventually("tasks after the last start", async || {
        Some(ticks(&agent).await).filter(|all| all.len() > count + 1)
    })
    .await;
    let mut due: Vec<i64> = all.values().map(|due| due.0).collect();
    due.sort_unstable();
    assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "one each second: {due:?}");
    for task in all.keys() {
        assert_eq!(state(&agent.task_in(task, &["completed", "failed"]).await), "completed");
    }
    let view = &listed(&agent).await["tick"];
    assert_eq!(view["skips"], 0, "{view:#}");
}

fn wall() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

#[tokio::test]
async fn a_firing_beside_an_open_task_is_left_out_with_the_reason() {
    let script = "turns: [{ say: [{ type: question, id: q, text: which? }] }]\n";
    let team = "
agents:
  - { agent: asks-01, brain: { scripted: script.yaml }, schedules: { ask: { every: 1s, task: ask me } } }
";
    let node = Process::up_beside(team, &[("script.yaml", script)]).await;
    let agent = node.agent("asks-01");
    let view = eventually("two that are left out", async || {
        Some(listed(&agent).await["ask"].clone()).filter(|view| view["skips"].as_u64() >= Some(2))
    })
    .await;
    let task = view["lastRun"]["taskId"].as_str().unwrap();
    let reason = view["lastSkipped"]["reason"].as_str().unwrap();
    assert!(reason.contains(task) && reason.contains("waits for an answer"), "{view:#}");
    let (_, list, _) = node.as_person(&["schedule", "ls"]).await;
    assert!(list.contains("waits for an answer"), "{list}");
    let run = node
        .call_as_person(Method::POST, &format!("{}/a2a/schedules/ask/run", agent.url), Some(&json!({})))
        .await;
    assert_eq!((run.status, &run.body["reasonCode"]), (409, &json!("schedule_refused")), "{run:?}");
}

/// Calls a route of schedules as alice, bob, or without a credential.
async fn as_caller(
    agent: &Agent,
    key: Option<&str>,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let mut request = client().request(method, format!("{}/a2a/schedules{path}", agent.url));
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = read_answer(request.send().await.unwrap()).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn a_schedule_acts_for_who_made_it_and_only_they_change_it() {
    let node = Process::up(TEAM).await;
    let agent = node.agent("echo-01");
    let (alice, bob) = (Some("alices-own-key-0001"), Some("bobs-own-key-000001"));
    let add =
        json!({ "name": "report", "cron": "0 6 * * mon", "task": "report", "timezone": "Asia/Kolkata" });
    let (status, added) = as_caller(&agent, alice, Method::POST, "", Some(add.clone())).await;
    assert_eq!(
        (status, &added["by"], &added["fromFile"]),
        (201, &json!("user:alice"), &json!(false)),
        "{added:#}"
    );
    assert_eq!(as_caller(&agent, alice, Method::POST, "", Some(add.clone())).await.0, 409);
    assert_eq!(as_caller(&agent, bob, Method::GET, "/report", None).await.0, 404, "nobody else sees it");
    assert_eq!(as_caller(&agent, bob, Method::DELETE, "/report", None).await.0, 404);
    let (status, run) = as_caller(&agent, alice, Method::POST, "/report/run", Some(json!({}))).await;
    assert_eq!(status, 202, "{run:#}");
    let task = run["taskId"].as_str().unwrap();
    let shown = eventually("alice's task", async || {
        let url = format!("{}/a2a/tasks/{task}", agent.url);
        let answer = client().get(url).header("x-api-key", "alices-own-key-0001").send().await.unwrap();
        Some(read_answer(answer).await.body).filter(|task| state(task) == "completed")
    })
    .await;
    let ours = &shown["metadata"][EXTENSION];
    assert_eq!(
        (&ours["owner"], &ours["origin"]["byHand"]),
        (&json!("user:alice"), &json!(true)),
        "{shown:#}"
    );
    let (_, after) = as_caller(&agent, alice, Method::GET, "/report", None).await;
    assert_eq!(after["nextRun"], added["nextRun"], "a run by hand takes the place of none that is due");
    // What acts with the person's rights is not changed by a program of this machine.
    for (method, path) in
        [(Method::POST, "/nightly/pause"), (Method::POST, "/nightly/run"), (Method::DELETE, "/nightly")]
    {
        let (status, refused) = as_caller(&agent, None, method, path, Some(json!({}))).await;
        assert_eq!(status, 403, "{path}: {refused:#}");
    }
    let (code, _, told) = node.as_person(&["schedule", "rm", "nightly"]).await;
    assert!(code == 6 && told.contains("in the agent's file"), "{told}");
    assert_eq!(node.as_person(&["schedule", "pause", "tick"]).await.0, 0);
    let paused = listed(&agent).await["tick"].clone();
    assert!(paused["pausedAt"].is_string() && paused["nextRun"].is_null(), "{paused:#}");
    // A pause outlasts a restart.
    let node = node.restart().await;
    let agent = node.agent("echo-01");
    assert!(listed(&agent).await["tick"]["pausedAt"].is_string());
    assert_eq!(node.as_person(&["schedule", "resume", "tick"]).await.0, 0);
    let before = ticks(&agent).await.len();
    eventually("it goes on", async || (ticks(&agent).await.len() > before).then_some(())).await;
    assert_eq!(as_caller(&agent, alice, Method::DELETE, "/report", None).await.0, 204);
    assert_eq!(as_caller(&agent, alice, Method::GET, "/report", None).await.0, 404);
}

#[tokio::test]
async fn schedules_are_added_and_run_from_the_command_line() {
    let node = Process::up("agents: [{ agent: echo-01, brain: { echo: {} } }]").await;
    let add = [
        "schedule",
        "add",
        "weekly",
        "Sum up the week",
        "--to",
        "echo-01",
        "--cron",
        "0 17 * * fri",
        "--timezone",
    ];
    let (code, told, failed) = node.as_person(&[&add[..], &["Europe/Berlin"]].concat()).await;
    assert!(code == 0 && told.contains("weekly of echo-01: next "), "{told}{failed}");
    let (code, _, failed) = node.as_person(&[&add[..], &["Berlin"]].concat()).await;
    assert!(code == 6 && failed.contains("Europe/Berlin"), "{failed}");
    let (code, task, failed) = node.as_person(&["schedule", "run", "weekly"]).await;
    assert_eq!(code, 0, "{failed}");
    let task = node.agent("echo-01").task_in(task.trim(), &["completed"]).await;
    assert_eq!(task["metadata"][EXTENSION]["origin"]["name"], "weekly", "{task:#}");
    assert_eq!(node.as_person(&["schedule", "rm", "weekly"]).await.0, 0);
    let (code, list, _) = node.as_person(&["schedule"]).await;
    assert!(code == 0 && list.contains("no schedules"), "{list}");
}

#[tokio::test]
async fn a_schedule_that_makes_no_sense_ends_the_start_with_its_key_and_line() {
    let team = "agents:
  - agent: echo-01
    brain: { echo: {} }
    schedules:
      nightly:
        cron: 0 25 * * *
        task: x
    triggers:
      issues: { auth: github, secret: a-secret-of-github, actAs: nobody-1, task: x }
";
    let dir = directory();
    let path = file(dir.path(), "team.yaml", team).to_string_lossy().into_owned();
    for args in [vec!["validate", &path], vec!["up", "--port", "0", &path]] {
        let (code, _, told) = mesh(&args, &[("HOME", &dir.path().to_string_lossy())]);
        assert_eq!(code, 78, "{told}");
        assert!(told.contains("team.yaml:6: agents[0].schedules.nightly.cron: "), "{told}");
        assert!(told.contains("agents[0].triggers.issues.actAs: nobody-1 is neither"), "{told}");
    }
}

#[tokio::test]
async fn the_files_and_commands_of_the_page_work_as_shown() {
    let page = include_str!("../../docs/schedules-and-triggers.md");
    let dir = directory();
    let files = blocks(page, "yaml");
    for (at, text) in files.iter().enumerate() {
        file(dir.path(), &format!("team-{at}.yaml"), text);
    }
    let node = documentation::up(dir.path(), &["team-0.yaml", "team-1.yaml"].map(Path::new)).await;
    let outputs = run_commands(page, dir.path(), Some(node), |_| {}).await;
    assert!(outputs[0].contains("weekly of reporter-01: next ") && outputs.len() == 6, "{outputs:#?}");
}
