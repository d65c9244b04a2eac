//! The contract net: who is asked, who wins and why, and what happens when a winner does not deliver (SEEDS §9, 13-21).

use crate::harness::{
    Agent, Process,
    bidder::Bidder,
    call, client,
    cluster::{gated_brain, started_turns},
    directory, eventually, file, message, state,
};
use reqwest::Method;
use serde_json::{Value, json};

const EXTENSION: &str = protocol::task::EXTENSION;

fn doer(task: &Value) -> &str {
    task["metadata"][EXTENSION]["doer"].as_str().unwrap_or_default()
}

/// A manager without the skill, with these auction settings.
fn manager(auction: &str) -> String {
    format!(
        "
agents:
  - agent: manager-01
    skills: [manage]
    brain: {{ echo: {{}} }}
mesh: {{ auction: {{ {auction} }} }}
"
    )
}

/// A builder with these terms.
fn builder(id: &str, bid: &str) -> String {
    format!("  - agent: {id}\n    skills: [build]\n    brain: {{ echo: {{}} }}\n    bid: {{ {bid} }}\n")
}

fn team(auction: &str, builders: &[(&str, &str)]) -> String {
    let builders: String = builders.iter().map(|(id, bid)| builder(id, bid)).collect();
    format!(
        "
mesh: {{ auction: {{ {auction} }} }}
agents:
  - agent: manager-01
    skills: [manage]
    brain: {{ echo: {{}} }}
{builders}"
    )
}

fn build(id: &str) -> Value {
    json!({ "taskId": id, "description": "build it", "capability": "build" })
}

/// The result of `agent` in its last round of the award.
fn fate(award: &Value, agent: &str) -> Value {
    let rounds = award["rounds"].as_array().into_iter().flatten().rev();
    let mut entries = rounds.flat_map(|round| round["candidates"].as_array().into_iter().flatten());
    entries.find(|entry| entry["agent"] == agent).cloned().unwrap_or_default()
}

/// Waits until an ignored message of `from` is recorded; returns the reason.
async fn ignored(at: &Agent, task: &str, from: &str, kind: &str) -> String {
    eventually(&format!("{kind} from {from} ignored"), async || {
        let award = at.award(task).await;
        let ignored = award["ignored"].as_array()?;
        let entry = ignored.iter().find(|entry| entry["from"] == from && entry["type"] == kind)?;
        entry["why"].as_str().map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn without_a_capable_agent_the_task_fails_at_once_with_no_bids() {
    let mesh = Process::up(&team("bidWindowMs: 600000", &[])).await;
    let manager = mesh.agent("manager-01");
    let task = manager.ask(build("t-1")).await;
    assert_eq!(state(&task), "failed");
    assert!(message(&task).contains("no bids"), "{}", message(&task));
    assert!(message(&task).contains("build"), "it names the capability: {}", message(&task));
    let award = manager.award("t-1").await;
    assert_eq!(award["rounds"].as_array().map(Vec::len), Some(1), "{award:#}");
    assert!(award["outcome"].as_str().unwrap().contains("no bids"));
    let failed = mesh.signal_where("task.failed", |signal| signal["taskId"] == "t-1").await;
    assert_eq!(failed["from"], "manager-01");
}

#[tokio::test]
async fn the_award_does_not_wait_for_the_window_once_all_have_bid() {
    let team = team("bidWindowMs: 600000", &[("builder-01", "cost: 1"), ("builder-02", "cost: 2")]);
    let mesh = Process::up(&team).await;
    let task = mesh.agent("manager-01").ask(build("t-1")).await;
    assert_eq!(state(&task), "completed", "{task:#}");
}

#[tokio::test]
async fn without_a_bid_the_task_ends_visibly_after_three_rounds() {
    let mesh = Process::up(&manager("bidWindowMs: 1000")).await;
    let silent = Bidder::join(&mesh, "silent-01", "build", json!({})).await;
    let manager = mesh.agent("manager-01");
    let task = manager.ask(build("t-1")).await;
    assert_eq!(state(&task), "failed");
    assert!(message(&task).contains("unassigned after 3 rounds"), "{}", message(&task));
    assert_eq!(silent.received("cfp").len(), 3);
    let award = manager.award("t-1").await;
    let rounds = award["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 3);
    assert!(rounds.iter().all(|round| round["candidates"][0]["fate"] == "no-answer"), "{award:#}");
    let windows: Vec<_> = rounds.iter().map(|round| round["windowMs"].as_u64().unwrap()).collect();
    assert_eq!(windows, [1_000, 2_000, 4_000]);
    mesh.signal_where("task.failed", |signal| signal["taskId"] == "t-1").await;
}

#[tokio::test]
async fn uninvited_and_late_bids_are_recorded_and_ignored() {
    let mesh = Process::up(&manager("bidWindowMs: 600000")).await;
    let asked = Bidder::join(&mesh, "asked-01", "build", json!({})).await;
    let foreign = Bidder::join(&mesh, "foreign-01", "paint", json!({})).await;
    let manager = mesh.agent("manager-01");
    manager.send(build("t-1")).await;
    let cfp = asked.wait_for("cfp", 1).await;
    foreign.bid(&manager, &cfp, 0.0, 1).await;
    assert_eq!(ignored(&manager, "t-1", "foreign-01", "bid").await, "it was not asked");
    asked.bid(&manager, &cfp, 1.0, 1_000).await;
    let award = asked.wait_for("award", 1).await;
    asked.bid(&manager, &cfp, 0.0, 1).await;
    assert_eq!(ignored(&manager, "t-1", "asked-01", "bid").await, "the auction is closed");
    let epoch = award["payload"]["epoch"].clone();
    let done = json!({ "taskId": "t-1", "seq": 1, "epoch": epoch, "state": "TASK_STATE_COMPLETED", "message": "built" });
    let foreign_word = foreign.answer(&manager, &award, "task-response", done.clone()).await;
    assert!(foreign_word.is_ok(), "it is heard, and changes nothing: {foreign_word:?}");
    assert_eq!(ignored(&manager, "t-1", "foreign-01", "task-response").await, "it does not have the award");
    asked.answer(&manager, &award, "task-response", done).await.unwrap();
    let task = manager.task_in("t-1", &["completed"]).await;
    assert_eq!(doer(&task), "asked-01");
    assert_eq!(fate(&manager.award("t-1").await, "asked-01")["bid"]["cost"], 1.0);
}

#[tokio::test]
async fn the_faster_builder_wins_unless_the_strategy_is_cheapest() {
    let builders = [("builder-01", "cost: 0, eta: 5min"), ("builder-02", "cost: 0.02, eta: 2min")];
    for (strategy, winner, loser) in
        [("weighted", "builder-02", "builder-01"), ("cheapest", "builder-01", "builder-02")]
    {
        let mesh = Process::up(&team(&format!("strategy: {strategy}"), &builders)).await;
        let manager = mesh.agent("manager-01");
        let task = manager.ask(build("t-1")).await;
        assert_eq!((state(&task).as_str(), doer(&task)), ("completed", winner), "{strategy}: {task:#}");
        let award = manager.award("t-1").await;
        assert_eq!(award["strategy"], strategy);
        assert_eq!(fate(&award, winner)["fate"], "completed");
        let lost = fate(&award, loser);
        assert_eq!((&lost["fate"], &lost["rank"]), (&json!("outbid"), &json!(2)), "{award:#}");
        for component in ["total", "match", "trackRecord", "eta", "cost", "load"] {
            assert!(lost["score"][component].is_number(), "{component} in {lost:#}");
        }
    }
}

#[tokio::test]
async fn ties_are_broken_deterministically_and_by_task() {
    let ids: Vec<_> = (1..=5).map(|n| format!("builder-0{n}")).collect();
    let winners = async |order: Vec<&String>| {
        let builders: Vec<_> = order.into_iter().map(|id| (id.as_str(), "cost: 1, maxParallel: 8")).collect();
        let mesh = Process::up(&team("strategy: best-match", &builders)).await;
        let manager = mesh.agent("manager-01");
        let mut winners = Vec::new();
        for n in 0..12 {
            let task = manager.ask(build(&format!("t-{n}"))).await;
            winners.push(doer(&task).to_owned());
        }
        winners
    };
    let (one, other) = tokio::join!(winners(ids.iter().collect()), winners(ids.iter().rev().collect()));
    assert_eq!(one, other, "the order of arrival decides nothing");
    let different: std::collections::BTreeSet<_> = one.iter().collect();
    assert!(different.len() >= 3, "{one:?}");
}

#[tokio::test]
async fn losers_get_a_reject() {
    let mesh = Process::up(&team("bidWindowMs: 600000", &[("builder-01", "cost: 1, eta: 1s")])).await;
    let loser = Bidder::join(&mesh, "loser-01", "build", json!({ "cost": 9, "eta": 900_000 })).await;
    let manager = mesh.agent("manager-01");
    manager.send(build("t-1")).await;
    let cfp = loser.wait_for("cfp", 1).await;
    loser.bid(&manager, &cfp, 9.0, 900_000).await;
    let reject = loser.wait_for("reject", 1).await;
    assert_eq!(reject["payload"]["taskId"], "t-1");
    assert!(reject["payload"]["reason"].as_str().unwrap().contains("builder-01"), "{reject:#}");
    manager.task_in("t-1", &["completed"]).await;
    assert_eq!(fate(&manager.award("t-1").await, "loser-01")["fate"], "outbid");
    assert!(loser.received("award").is_empty());
}

#[tokio::test]
async fn an_award_that_is_not_accepted_goes_to_the_runner_up() {
    let builder = [("builder-01", "cost: 9, eta: 1h")];
    let mesh = Process::up(&team("bidWindowMs: 600000, acceptMs: 5000", &builder)).await;
    let idle = Bidder::join(&mesh, "idle-01", "build", json!({})).await;
    let manager = mesh.agent("manager-01");
    manager.send(build("t-1")).await;
    let cfp = idle.wait_for("cfp", 1).await;
    idle.bid(&manager, &cfp, 0.0, 1).await;
    let award = idle.wait_for("award", 1).await;
    let task = manager.task_in("t-1", &["completed"]).await;
    assert_eq!(doer(&task), "builder-01");
    let record = manager.award("t-1").await;
    assert_eq!(fate(&record, "idle-01")["fate"], "accept-timeout", "{record:#}");
    let (first, second) =
        (fate(&record, "idle-01")["epoch"].as_u64(), fate(&record, "builder-01")["epoch"].as_u64());
    assert_eq!(first, award["payload"]["epoch"].as_u64());
    assert!(first < second, "epochs grow: {first:?} {second:?}");
    let told = idle.wait_for("task-cancel", 1).await;
    assert_eq!(told["payload"]["epoch"].as_u64(), first, "it is told that it lost the award");
}

#[tokio::test]
async fn a_sole_bidder_that_hands_back_its_award_may_win_in_the_next_round() {
    let mesh = Process::up(&manager("bidWindowMs: 600000")).await;
    let moody = Bidder::join(&mesh, "moody-01", "build", json!({})).await;
    let manager = mesh.agent("manager-01");
    manager.send(build("t-1")).await;
    moody.bid(&manager, &moody.wait_for("cfp", 1).await, 1.0, 1_000).await;
    let award = moody.wait_for("award", 1).await;
    let epoch = &award["payload"]["epoch"];
    let no = json!({ "taskId": "t-1", "epoch": epoch, "reason": "not in the mood" });
    moody.answer(&manager, &award, "award-decline", no).await.unwrap();
    moody.bid(&manager, &moody.wait_for("cfp", 2).await, 1.0, 1_000).await;
    let award = moody.wait_for("award", 2).await;
    let epoch = &award["payload"]["epoch"];
    let yes = json!({ "taskId": "t-1", "epoch": epoch });
    moody.answer(&manager, &award, "award-accept", yes).await.unwrap();
    let done = json!({ "taskId": "t-1", "seq": 1, "epoch": epoch, "state": "TASK_STATE_COMPLETED", "message": "built" });
    moody.answer(&manager, &award, "task-response", done).await.unwrap();
    let task = manager.task_in("t-1", &["completed"]).await;
    assert_eq!(message(&task), "built");
    let record = manager.award("t-1").await;
    let fates: Vec<_> =
        record["rounds"].as_array().unwrap().iter().map(|round| &round["candidates"][0]["fate"]).collect();
    assert_eq!(fates, ["declined", "completed"], "{record:#}");
    assert!(record["rounds"][0]["candidates"][0]["why"].as_str().unwrap().contains("not in the mood"));
}

#[tokio::test]
async fn a_lasting_failure_is_not_awarded_again_and_is_all_that_the_requester_reads() {
    let dir = directory();
    let script = r#"#!/bin/sh
read -r ask
echo turn >> "$1"
echo '{"type":"failed","reason":"the provider answered 401","lasting":true}'
"#;
    let (brain, turns) = (file(dir.path(), "refused.sh", script), dir.path().join("turns"));
    let refused = format!(
        "  - agent: builder-01\n    skills: [build]\n    brain: {{ exec: [sh, '{}', '{}'] }}\n    bid: {{ cost: 0 }}\n",
        brain.display(),
        turns.display()
    );
    let mesh = Process::up(&(team("bidWindowMs: 600000", &[]) + &refused)).await;
    let manager = mesh.agent("manager-01");
    let task = manager.ask(build("t-1")).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert_eq!(message(&task), "builder-01 did not manage: the provider answered 401");
    assert_eq!(std::fs::read_to_string(&turns).unwrap().lines().count(), 1, "it is not tried again");
    let award = manager.award("t-1").await;
    assert_eq!(fate(&award, "builder-01")["fate"], "not-eligible", "{award:#}");
    drop(mesh);

    let mesh = Process::up(&(team("bidWindowMs: 600000", &[("builder-02", "cost: 1")]) + &refused)).await;
    let task = mesh.agent("manager-01").ask(build("t-1")).await;
    assert_eq!((state(&task).as_str(), doer(&task)), ("completed", "builder-02"), "{task:#}");
    assert_eq!(
        std::fs::read_to_string(&turns).unwrap().lines().count(),
        2,
        "the cheaper one was tried first"
    );
}

#[tokio::test]
async fn a_silent_winner_loses_its_lease_and_its_late_response_is_fenced() {
    let dir = crate::harness::directory();
    let script = gated_brain(dir.path(), "builder-01");
    let yaml = format!(
        "
mesh: {{ auction: {{ bidWindowMs: 600000, leaseMs: 6000 }} }}
agents:
  - {{ agent: manager-01, skills: [manage], brain: {{ echo: {{}} }} }}
  - {{ agent: builder-01, skills: [build], brain: {{ exec: [/bin/sh, '{script}'] }}, bid: {{ cost: 9, eta: 1h }} }}
"
    );
    let mesh = Process::up(&yaml).await;
    let silent = Bidder::join(&mesh, "silent-01", "build", json!({})).await;
    let manager = mesh.agent("manager-01");
    manager.send(build("t-1")).await;
    silent.bid(&manager, &silent.wait_for("cfp", 1).await, 0.0, 1).await;
    let award = silent.wait_for("award", 1).await;
    let epoch = &award["payload"]["epoch"];
    let yes = json!({ "taskId": "t-1", "epoch": epoch });
    silent.answer(&manager, &award, "award-accept", yes).await.unwrap();
    eventually("the runner-up at work", async || (!started_turns(dir.path()).is_empty()).then_some(())).await;
    assert_eq!(fate(&manager.award("t-1").await, "silent-01")["fate"], "lease-expired");
    let late = json!({ "taskId": "t-1", "seq": 1, "epoch": epoch, "state": "TASK_STATE_COMPLETED", "message": "mine after all" });
    let refused = silent.answer(&manager, &award, "task-response", late).await.unwrap_err();
    assert_eq!((refused.reason.status(), refused.reason.code()), (409, "fenced"), "{refused}");
    assert_eq!(state(&manager.task("t-1").await), "working", "nothing has changed");
    std::fs::write(dir.path().join("open"), "").unwrap();
    let task = manager.task_in("t-1", &["completed"]).await;
    assert_eq!(crate::harness::artifact(&task, "out.txt").as_deref(), Some("made by builder-01"));
    assert_eq!(doer(&task), "builder-01");
}

#[tokio::test]
async fn exactly_one_of_many_simultaneous_claims_wins() {
    let mesh = Process::up(&team("", &[])).await;
    let url = format!("{}/board/claims/open-1", mesh.url);
    let early = call(Method::POST, &url, Some(&json!({ "leaseMs": 60_000 }))).await;
    assert_eq!((early.status, &early.body["reasonCode"]), (404, &json!("claim_not_found")), "{early:?}");
    let offer = json!({ "type": "task.available", "taskId": "open-1", "subject": "dig" });
    let offered = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&offer)).await;
    assert_eq!(offered.status, 201, "{offered:?}");
    let client = client();
    let claims = (0..32).map(|n| {
        let claim = json!({ "holder": format!("holder-{n}"), "leaseMs": 60_000 });
        let request = client.post(&url).json(&claim).send();
        async move {
            let answer = request.await.unwrap();
            (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
        }
    });
    let answers = futures_util::future::join_all(claims).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 200);
    assert_eq!(won.len(), 1, "{won:?}");
    let winner = won[0].1["holder"].as_str().unwrap();
    for (status, refusal) in lost {
        assert_eq!((status, &refusal["reasonCode"]), (409, &json!("already_claimed")), "{refusal:#}");
        assert!(refusal["error"]["message"].as_str().unwrap().contains(winner), "{refusal:#}");
    }
    let epoch = &won[0].1["epoch"];
    let stale = json!({ "epoch": epoch.as_u64().unwrap() - 1 });
    let refused = call(Method::POST, &format!("{url}/complete"), Some(&stale)).await;
    assert_eq!((refused.status, &refused.body["reasonCode"]), (409, &json!("fenced")), "{refused:?}");
    let completed = call(Method::POST, &format!("{url}/complete"), Some(&json!({ "epoch": epoch }))).await;
    assert_eq!(completed.status, 200, "{completed:?}");
    let again = call(Method::POST, &url, Some(&json!({ "leaseMs": 1_000 }))).await;
    assert_eq!(again.status, 409, "what is done is not claimed again: {again:?}");
}

#[tokio::test]
async fn a_burst_beyond_capacity_waits_and_completes() {
    let dir = crate::harness::directory();
    let worker = |id: &str| {
        let script = gated_brain(dir.path(), id);
        format!(
            "  - {{ agent: {id}, skills: [build], brain: {{ exec: [/bin/sh, '{script}'] }}, bid: {{ maxParallel: 1 }} }}\n"
        )
    };
    let team = format!("{}{}{}", team("", &[]), worker("builder-01"), worker("builder-02"));
    let mesh = Process::up(&team).await;
    let manager = mesh.agent("manager-01");
    let ids: Vec<_> = (1..=20).map(|n| format!("t-{n}")).collect();
    for id in &ids {
        manager.send(build(id)).await;
    }
    eventually("both at work, the others in the queue", async || {
        let mut waiting = 0;
        for id in &ids {
            let task = manager.task(id).await;
            waiting += usize::from(message(&task) == "waiting for a bidder" && state(&task) == "submitted");
        }
        (started_turns(dir.path()).len() == 2 && waiting == 18).then_some(())
    })
    .await;
    std::fs::write(dir.path().join("open"), "").unwrap();
    for id in &ids {
        assert_eq!(state(&manager.task_in(id, &["completed", "failed"]).await), "completed", "{id}");
    }
    assert_eq!(started_turns(dir.path()).len(), 20, "nothing was done twice");
}

#[tokio::test]
async fn work_sent_to_a_full_agent_goes_to_an_idle_one_and_back_to_it_when_it_is_free() {
    let dir = crate::harness::directory();
    let worker = |id: &str| {
        let script = gated_brain(dir.path(), id);
        format!(
            "  - {{ agent: {id}, skills: [build], brain: {{ exec: [/bin/sh, '{script}'] }}, bid: {{ maxParallel: 1 }} }}\n"
        )
    };
    let mesh = Process::up(&format!("agents:\n{}{}", worker("builder-01"), worker("builder-02"))).await;
    let first = mesh.agent("builder-01");
    for id in ["t-1", "t-2"] {
        first.send(build(id)).await;
    }
    let doers = eventually("both at work", async || {
        let mut agents: Vec<_> = started_turns(dir.path()).into_iter().map(|(_, _, agent)| agent).collect();
        agents.sort();
        (agents.len() == 2).then_some(agents)
    })
    .await;
    assert_eq!(doers, ["builder-01", "builder-02"]);
    first.send(build("t-3")).await;
    eventually("t-3 in the queue", async || {
        (message(&first.task("t-3").await) == "waiting for a bidder").then_some(())
    })
    .await;
    std::fs::write(dir.path().join("open-builder-01"), "").unwrap();
    let task = first.task_in("t-3", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), doer(&task)), ("completed", "builder-01"), "{task:#}");
    std::fs::write(dir.path().join("open"), "").unwrap();
    assert_eq!(doer(&first.task_in("t-2", &["completed"]).await), "builder-02");
}

#[tokio::test]
async fn what_the_addressed_agents_brain_fails_technically_another_agent_does() {
    let yaml = "
agents:
  - { agent: builder-01, skills: [build], brain: { exec: [/bin/sh, -c, 'exit 3'] } }
  - { agent: builder-02, skills: [build], brain: { echo: {} } }
";
    let mesh = Process::up(yaml).await;
    let first = mesh.agent("builder-01");
    let task = first.ask(build("t-1")).await;
    assert_eq!((state(&task).as_str(), doer(&task)), ("completed", "builder-02"), "{task:#}");
    let award = first.award("t-1").await;
    assert_eq!(award["rounds"][0]["candidates"][0]["fate"], "failed", "{award:#}");
}
