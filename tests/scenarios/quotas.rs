//! Quotas: what may be used in an hour, a day or a month, exact for an agent, by shares for the mesh; and what was used.

use crate::harness::{
    Agent, Answer, Process, call, cluster::Cluster, directory, eventually, file, message, state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

/// Uses as many tokens as the request says, at a hundredth each, and does it.
const BRAIN: &str = r#"
import json, sys

task = json.loads(sys.stdin.readline())["task"]
used = int(task["description"])
print(json.dumps({"type": "usage", "model": "m", "inputTokens": used, "outputTokens": 0, "cost": used / 100}))
print(json.dumps({"type": "done", "message": f"used {used}"}))
"#;

fn agent(dir: &Path, id: &str, more: &str) -> String {
    let brain = file(dir, "brain.py", BRAIN);
    let brain = brain.display();
    format!("  - {{ agent: {id}, skills: [dig], brain: {{ exec: [python3, '{brain}'] }}{more} }}\n")
}

fn dig(tokens: u32) -> Value {
    json!({ "description": tokens.to_string(), "capability": "dig" })
}

/// A request to this agent alone.
async fn ask(agent: &Agent, key: Option<&str>, tokens: u32) -> Answer {
    let key = key.map(|key| ("x-api-key", key));
    let headers: Vec<_> = [("prefer", "wait=250")].into_iter().chain(key).collect();
    agent.post_raw(agent.request(dig(tokens)).to_string(), &headers).await
}

fn is_refused(answer: &Answer, why: &str) {
    assert_eq!((answer.status, &answer.body["reasonCode"]), (429, &json!("quota_reached")), "{answer:?}");
    let said = answer.body["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains(why), "{said}");
}

#[tokio::test]
async fn a_quota_of_an_agent_is_exact_over_kills_and_says_when_it_opens_again() {
    let dir = directory();
    let quotas = ", quotas: [{ tokens: 100, per: month }, { capability: dig, cost: 9.5, per: day }]";
    let team = |quotas| format!("agents:\n{}", agent(dir.path(), "digger-01", quotas));
    let mut mesh = Process::up(&team(quotas)).await;
    for tokens in [40, 40] {
        let done = mesh.agent("digger-01").ask(dig(tokens)).await;
        assert_eq!(state(&done), "completed", "{done:#}");
        mesh.kill();
        mesh = mesh.restart().await;
    }
    // A task is told of what it brings near its end; one that is complete when it passes a quota is complete.
    let done = mesh.agent("digger-01").ask(dig(30)).await;
    assert_eq!((state(&done).as_str(), message(&done).as_str()), ("completed", "used 30"), "{done:#}");
    let signal = mesh.signal_where("quota.reached", |signal| signal["subject"] == "digger-01").await;
    assert!(signal["refs"]["figures"].as_str().unwrap().contains("110 of 100 tokens"), "{signal:#}");
    mesh.kill();
    mesh = mesh.restart().await;
    let refused = ask(&mesh.agent("digger-01"), None, 1).await;
    is_refused(&refused, "the quota per month is used up: 110 of 100 tokens; it opens again at ");
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=31 * 24 * 3_600).contains(&seconds), "{seconds}");

    let (code, out, said) = mesh.as_person(&["cost", "--by", "capability", "--json"]).await;
    assert_eq!(code, 0, "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{ "key": "dig", "tokens": 110, "cost": 1.1, "tasks": 3 }]), "{out}");
    let (_, out, _) = mesh.as_person(&["cost", "--by", "task"]).await;
    assert_eq!(out.lines().filter(|line| line.contains("  40 ")).count(), 2, "{out}");
    let (code, out, said) = mesh.as_person(&["cost", "--quotas"]).await;
    assert!(code == 0 && out.contains("reached") && out.contains("a cost of 1.1 of 9.5"), "{out}{said}");
    let data = mesh.data.to_string_lossy().into_owned();
    let (code, out, said) = mesh.as_person(&["doctor", "--data", &data]).await;
    assert!(code == 1 && out.contains("the quota per month is used up and opens again at"), "{out}{said}");
}

#[tokio::test]
async fn a_task_waits_for_a_quota_that_says_so_and_others_do_what_one_may_not() {
    let dir = directory();
    let waits = |tokens: u32| format!(", quotas: [{{ tokens: {tokens}, per: month, reached: wait }}]");
    let mesh = Process::up(&format!("agents:\n{}", agent(dir.path(), "digger-01", &waits(10)))).await;
    assert_eq!(state(&mesh.agent("digger-01").ask(dig(10)).await), "completed");
    let id = mesh.agent("digger-01").send(dig(7)).await;
    let waiting = eventually("it waits, and says for what", async || {
        let task = mesh.agent("digger-01").task(&id).await;
        message(&task).contains("the quota per month is used up").then_some(task)
    })
    .await;
    assert_eq!(state(&waiting), "submitted", "{waiting:#}");
    let mesh = mesh.restart().await;
    let waiting = mesh.agent("digger-01").task(&id).await;
    assert_eq!(state(&waiting), "submitted", "a restart begins nothing: {waiting:#}");
    // With a larger quota it begins.
    std::fs::write(
        mesh.dir().join("team.yaml"),
        format!("agents:\n{}", agent(dir.path(), "digger-01", &waits(100))),
    )
    .unwrap();
    let mesh = mesh.restart().await;
    let done = mesh.agent("digger-01").task_in(&id, &["completed"]).await;
    assert_eq!(message(&done), "used 7", "{done:#}");
}

#[tokio::test]
async fn what_an_agent_may_not_begin_another_does() {
    let dir = directory();
    let team = format!(
        "agents:\n{}{}",
        agent(dir.path(), "digger-01", ", quotas: [{ tasks: 1, per: month }]"),
        agent(dir.path(), "digger-02", ", quotas: [{ tasks: 2, per: month }]"),
    );
    let mesh = Process::up(&team).await;
    let first = mesh.agent("digger-01");
    assert_eq!(state(&first.ask(dig(1)).await), "completed");
    let done = first.ask(dig(2)).await;
    assert_eq!((state(&done).as_str(), message(&done).as_str()), ("completed", "used 2"), "{done:#}");
    let by = done["metadata"][protocol::task::EXTENSION]["doer"].as_str();
    assert_eq!(by, Some("digger-02"), "{done:#}");
    assert_eq!(state(&first.ask(dig(3)).await), "completed");
    let failed = first.ask(dig(4)).await;
    assert_eq!(state(&failed), "failed", "{failed:#}");
    assert!(message(&failed).contains("the quota per month is used up"), "{failed:#}");
}

const CALLERS: &str = "mesh:
  callers:
    - { user: anna, apiKey: annas-own-key-0001 }
    - { user: bert, apiKey: berts-own-key-0001 }
";

#[tokio::test]
async fn requesters_have_quotas_over_all_agents_and_without_the_board_what_they_hold_is_the_end() {
    let dir = directory();
    let quotas = "  quotas: [{ requester: '*', tasks: 40, per: month }, { requester: 'user:bert', tasks: 1, per: month }]\n";
    let mut cluster = Cluster::start().await;
    let yaml = |id: &str| format!("{CALLERS}{quotas}agents:\n{}", agent(dir.path(), id, ""));
    let (one, two) = (cluster.node("one", &yaml("one-01")).await, cluster.node("two", &yaml("two-01")).await);
    let (one, two) = (one.agent("one-01"), two.agent("two-01"));
    let anna = Some("annas-own-key-0001");
    let bert = Some("berts-own-key-0001");
    assert_eq!(ask(&one, bert, 5).await.status, 200);
    is_refused(&ask(&two, bert, 5).await, "the quota per month of user:bert");
    // Two of forty are a share: each agent takes one at a time.
    for agent in [&one, &two, &one] {
        assert_eq!(ask(agent, anna, 5).await.status, 200);
    }
    cluster.board.kill();
    let mut done = 0;
    let refused = loop {
        let answer = ask(&two, anna, 5).await;
        if answer.status != 200 {
            break answer;
        }
        done += 1;
        assert!(done < 5, "no share is larger");
    };
    is_refused(&refused, "this agent has used its share");
    cluster.board.revive().await;
    eventually("the board grants a share again", async || {
        (ask(&two, anna, 5).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_result_that_is_complete_when_its_budget_is_passed_counts() {
    let dir = directory();
    let mesh = Process::up(&format!("agents:\n{}", agent(dir.path(), "digger-01", ""))).await;
    let (code, out, said) = mesh.as_person(&["ask", "60", "--budget", "0.50", "--capability", "dig"]).await;
    assert_eq!((code, out.trim()), (0, "used 60"), "{said}");
    assert!(said.contains("completed, over budget: budget.cost: 0.5 used up: 0.6 used"), "{said}");
    let (code, _, said) = mesh.as_person(&["ask", "60", "--max-tokens", "none"]).await;
    assert!(code != 0 && said.contains("--max-tokens"), "{said}");
    let (code, out, _) = mesh.as_person(&["ask", "60", "--max-tokens", "1k", "--capability", "dig"]).await;
    assert_eq!((code, out.trim()), (0, "used 60"));
}

#[tokio::test]
async fn others_see_what_was_done_for_them_alone() {
    let dir = directory();
    let team = format!("{CALLERS}agents:\n{}", agent(dir.path(), "digger-01", ""));
    let mesh = Process::up(&team).await;
    let digger = mesh.agent("digger-01");
    for key in ["annas-own-key-0001", "berts-own-key-0001"] {
        assert_eq!(ask(&digger, Some(key), 5).await.status, 200);
    }
    let url = format!("{}/a2a/costs?by=requester", digger.url);
    let keys = |answer: &Answer| -> Vec<String> {
        let rows = answer.body["costs"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
        rows.iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
    };
    let all = mesh.call_as_person(Method::GET, &url, None).await;
    assert_eq!(keys(&all), ["user:anna", "user:bert"]);
    let request = crate::harness::client().get(&url).header("x-api-key", "annas-own-key-0001");
    let annas = crate::harness::read_answer(request.send().await.unwrap()).await;
    assert_eq!(keys(&annas), ["user:anna"]);
    let share = json!({ "per": "day", "window": "2026-11-29", "limits": { "tasks": 1 }, "used": {} });
    let refused = call(Method::POST, &format!("{}/board/shares", mesh.url), Some(&share)).await;
    assert_eq!(refused.status, 403, "only agents take shares: {refused:?}");
}

#[tokio::test]
async fn many_at_once_are_taken_within_a_quota_of_the_mesh_and_wait_in_order_beyond_it() {
    let dir = directory();
    let quotas = "mesh:\n  quotas: [{ tasks: 12, per: month, reached: wait }]\n";
    let team = format!("{quotas}agents:\n{}", agent(dir.path(), "digger-01", ", bid: { maxParallel: 4 }"));
    let mesh = Process::up(&team).await;
    let digger = mesh.agent("digger-01");
    // A share is one task: each asks for the next one at once.
    let sent = futures_util::future::join_all((0..15).map(|_| digger.send(dig(1)))).await;
    let done = eventually("twelve are done", async || {
        let mut states = Vec::new();
        for id in &sent {
            states.push(state(&digger.task(id).await));
        }
        (states.iter().filter(|state| *state == "completed").count() == 12).then_some(states)
    })
    .await;
    assert_eq!(done.iter().filter(|state| *state == "submitted").count(), 3, "{done:?}");
    // What waits is told once.
    let waiting = sent.iter().zip(&done).find(|(_, state)| *state == "submitted").unwrap().0;
    let task = digger.task(waiting).await;
    assert!(message(&task).starts_with("queued: the quota per month of the mesh is used up"), "{task:#}");
}
