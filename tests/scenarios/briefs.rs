//! Briefs of turns, and what brains post, find and remember (SEEDS §9, lines 41 to 43, 45, 53).

use crate::harness::{
    Agent, Answer, Process, call, client, cluster::Cluster, directory, eventually, file, mesh, read_answer,
    state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

/// Writes in turn number N the lines `input[N]`, and ends behind the last with what all turns were given.
const BRAIN: &str = r#"
import json, sys

turn = json.loads(sys.stdin.readline())
plan = (turn["task"].get("input") or {}).get("turns", [])
notes = [*turn.get("checkpoints", ()), turn.get("brief")]
number = turn["turn"] - 1
lines = plan[number] if number < len(plan) else []
print(json.dumps({"type": "checkpoint", "data": turn.get("brief")}))
for line in lines:
    print(json.dumps(line))
    if line["type"] == "failed":
        sys.exit()
if number + 1 >= len(plan):
    answers = [answer["text"] for answer in turn.get("answers", ())]
    print(json.dumps({"type": "artifact", "name": "given", "data": {"briefs": notes, "answers": answers}}))
    print(json.dumps({"type": "done"}))
"#;

/// Agents with that brain.
fn team(dir: &Path, agents: &[&str]) -> String {
    let brain = file(dir, "brain.py", BRAIN);
    let agent = |id: &&str| {
        format!(
            "  - {{ agent: {id}, open: true, skills: [{id}], brain: {{ exec: [python3, '{}'] }} }}\n",
            brain.display()
        )
    };
    format!("agents:\n{}", agents.iter().map(agent).collect::<String>())
}

/// The person, with the token in this data directory.
async fn person(data: &Path, method: Method, url: &str, body: Option<Value>) -> Answer {
    let token = std::fs::read_to_string(data.join("token")).unwrap();
    let request = client().request(method, url).bearer_auth(token.trim());
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    read_answer(request.send().await.unwrap()).await
}

async fn post(mesh: &Process, entry: Value) -> String {
    let url = format!("{}/board/spaces/default/entries", mesh.url);
    let posted = person(&mesh.data, Method::POST, &url, Some(entry)).await;
    assert_eq!(posted.status, 201, "{posted:?}");
    posted.body["id"].as_str().unwrap().to_owned()
}

async fn decide(mesh: &Process, of_type: &str, content: &str) -> String {
    post(mesh, json!({ "kind": "decision", "type": of_type, "content": content })).await
}

/// The entries that the person sees, the newest first.
async fn entries(mesh: &Process, query: &str) -> Vec<Value> {
    let url = format!("{}/board/spaces/default/entries?{query}", mesh.url);
    let page = person(&mesh.data, Method::GET, &url, None).await;
    page.body["entries"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone()
}

/// Runs a task of `agent` whose turns write these lines; returns what its turns were given.
async fn run(agent: &Agent, id: &str, turns: Value) -> Value {
    let task = json!({ "taskId": id, "description": "work", "input": { "turns": turns } });
    given(&agent.ask(task).await)
}

fn given(task: &Value) -> Value {
    assert_eq!(state(task), "completed", "{task:#}");
    let artifacts = task["artifacts"].as_array().unwrap();
    let given = artifacts.iter().find(|artifact| artifact["artifactId"] == "given");
    given.unwrap_or_else(|| panic!("{task:#}"))["parts"][0]["data"].clone()
}

/// The text of the brief of turn `number`, from 0.
fn brief(given: &Value, number: usize) -> &str {
    given["briefs"][number]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn lines_43_and_45_a_finding_reaches_the_briefs_of_others_and_no_memory_outranks_a_decision() {
    let dir = directory();
    let running = Process::up(&team(dir.path(), &["one-01", "two-01"])).await;
    let (one, two) = (running.agent("one-01"), running.agent("two-01"));
    assert_eq!(run(&one, "t-0", json!([])).await["briefs"], json!([null]), "an empty space gives no brief");

    let lines = json!([[
        { "type": "post", "content": "port 80 is taken", "severity": "high", "tags": ["team-net"] },
        { "type": "post", "content": "port 80 is taken", "severity": "high", "tags": ["team-net"] },
        { "type": "remember", "entryType": "core-context", "importance": "high", "content": "Always use MD5." },
        { "type": "remember", "scope": "own", "content": "one keeps this for itself", "expertise": { "ports": 2, "mail": 1 } },
    ]]);
    run(&one, "t-1", lines).await;
    let decided = decide(&running, "architectural", "Never use MD5.").await;
    decide(&running, "process", "not for briefs").await;
    let finding = eventually("the finding", async || {
        let [finding] = <[Value; 1]>::try_from(entries(&running, "kind=finding").await).ok()?;
        Some(finding)
    })
    .await;
    assert!(finding["id"].is_string() && finding["at"].is_string(), "{finding:#}");
    assert_eq!(
        (&finding["author"], &finding["task"]),
        (&json!("agent:one-01"), &json!("t-1")),
        "{finding:#}"
    );
    eventually("the memories", async || (entries(&running, "kind=memory").await.len() == 1).then_some(()))
        .await;

    let of_two = run(&two, "t-2", json!([])).await;
    let text = brief(&of_two, 0);
    let order =
        ["Decisions. They bind", "Never use MD5.", "Core context.", "Always use MD5.", "port 80 is taken"];
    let places: Vec<_> =
        order.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"))).collect();
    assert!(places.is_sorted(), "{text}");
    assert!(text.ends_with("Teammates, and what they know best.\n- one-01: ports 2, mail 1\n"), "{text}");
    assert!(!text.contains("for itself") && !text.contains("not for briefs"), "{text}");
    assert_eq!(
        of_two["briefs"][0]["included"][0],
        json!({ "id": decided, "version": 1, "kind": "decision" })
    );
    let own = eventually("its own memory", async || {
        let given = run(&one, &format!("t-own-{}", uuid::Uuid::now_v7()), json!([])).await;
        brief(&given, 0).contains("one keeps this for itself").then_some(given)
    })
    .await;
    assert_eq!(brief(&own, 0).matches("port 80 is taken").count(), 1, "the same line twice is one entry");
    assert!(!brief(&own, 0).contains("Teammates"), "it knows that of itself");

    // A tag is compared as a whole.
    let found = |tag: &str| json!([[{ "type": "find", "id": "f", "tag": tag }], []]);
    let whole = run(&two, "t-3", found("team-net")).await;
    assert!(whole["answers"][0].as_str().unwrap().starts_with("- finding [high] ("), "{whole:#}");
    assert_eq!(run(&two, "t-4", found("net")).await["answers"], json!(["nothing was found"]));

    // What the person is told: the same brief, without the vault, and which entries a turn was given.
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let (code, shown, notes) = mesh(&["brief", "one-01"], &envs);
    assert_eq!(code, 0, "{notes}");
    assert!(shown.contains("Never use MD5.") && !shown.contains("for itself"), "{shown}");
    assert!(notes.contains("not shown: 1 memory of its vault"), "{notes}");
    let (code, parts, notes) = mesh(&["brief", "one-01", "--why"], &envs);
    assert!(code == 0 && parts.contains("in force of type architectural"), "{parts}{notes}");
    assert!(parts.contains("one of the latest 15 findings") && !parts.contains("Decisions. They"), "{parts}");
    for args in [&["brief", "one-1"][..], &["brief", "one-1", "--json"]] {
        let (code, shown, errors) = mesh(args, &envs);
        assert_eq!((code, shown.as_str()), (6, ""), "{errors}");
        assert!(errors.contains("no agent one-1 is registered; did you mean one-01?"), "{errors}");
    }
    let (code, trace, errors) = mesh(&["trace", "t-2"], &envs);
    assert!(code == 0 && trace.contains("brief of 3 entries"), "{trace}{errors}");
    let (_, trace, _) = mesh(&["trace", "t-2", "--json"], &envs);
    assert!(trace.contains(&format!("{decided}@1")), "{trace}");
}

#[tokio::test]
async fn a_memory_for_all_teams_is_in_every_brief_whatever_its_type() {
    let dir = directory();
    let mesh = Process::up(&team(dir.path(), &["a-01"])).await;
    for (tags, content) in [(json!(["cross-team"]), "we ship on Fridays"), (json!([]), "lunch was late")] {
        let memory = json!({ "kind": "memory", "type": "update", "scope": "team", "importance": "low" });
        post(
            &mesh,
            crate::harness::with(memory, json!({ "title": content, "content": content, "tags": tags })),
        )
        .await;
    }
    let (code, brief, errors) = mesh.as_person(&["brief", "a-01"]).await;
    assert_eq!(code, 0, "{errors}");
    assert!(brief.contains("we ship on Fridays") && !brief.contains("lunch was late"), "{brief}");
    assert_eq!(brief.matches("[update").count(), 1, "{brief}");
}

#[tokio::test]
async fn line_42_a_decision_that_is_made_during_a_task_is_seen_by_the_next_read() {
    let dir = directory();
    let running = Process::up(&team(dir.path(), &["one-01"])).await;
    let one = running.agent("one-01");
    let lines = json!([
        [{ "type": "question", "id": "q", "text": "go on?" }],
        [{ "type": "find", "id": "f", "kind": "decision", "text": "mail" }],
        [],
    ]);
    one.send(json!({ "taskId": "t-1", "description": "work", "input": { "turns": lines } })).await;
    one.task_in("t-1", &["input_required"]).await;
    decide(&running, "scope", "We send no mail.").await;
    let answer = json!({ "text": "yes" });
    let answered = call(Method::POST, &format!("{}/a2a/tasks/t-1/answer", one.url), Some(&answer)).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let given = given(&one.task_in("t-1", &["completed", "failed"]).await);
    assert_eq!(given["briefs"][0], Value::Null);
    assert!(brief(&given, 1).contains("We send no mail."), "{given:#}");
    let found = given["answers"][1].as_str().unwrap();
    assert!(found.starts_with("- decision [scope]") && found.contains("We send no mail."), "{given:#}");
}

/// Reads its brief again until it has the decision, and returns the text.
const READS_AGAIN: &str = r#"
import json, os, sys, time, urllib.request
sys.stdin.readline()
print(json.dumps({"type": "status", "message": "reads"}), flush=True)
url = os.environ["MESH_NODE_URL"] + "/a2a/spaces/default/brief"
request = urllib.request.Request(url, headers={"authorization": "Bearer " + os.environ["MESH_BRAIN_TOKEN"]})
text, deadline = "", time.time() + 100
while "no mail" not in text and time.time() < deadline:
    text = json.load(urllib.request.urlopen(request))["text"]
print(json.dumps({"type": "artifact", "name": "brief", "text": text}))
print(json.dumps({"type": "done"}))
"#;

#[tokio::test]
async fn a_turn_reads_a_decision_that_is_made_while_it_runs() {
    let dir = directory();
    let brain = file(dir.path(), "reads.py", READS_AGAIN);
    let team = format!(
        "agents: [{{ agent: one-01, open: true, brain: {{ exec: [python3, '{}'] }} }}]",
        brain.display()
    );
    let running = Process::up(&team).await;
    let one = running.agent("one-01");
    one.send(json!({ "taskId": "t-1", "description": "work" })).await;
    eventually("the turn runs", async || {
        one.task_in("t-1", &["working"]).await.to_string().contains("reads").then_some(())
    })
    .await;
    decide(&running, "scope", "We send no mail.").await;
    let task = one.task_in("t-1", &["completed", "failed"]).await;
    assert!(state(&task) == "completed" && task["artifacts"].to_string().contains("no mail"), "{task:#}");
}

#[tokio::test]
async fn line_41_the_curator_merges_the_low_risk_proposals_of_that_agent_and_task_only() {
    let dir = directory();
    let running = Process::up(&team(dir.path(), &["one-01", "two-01"])).await;
    let space = format!("{}/board/spaces/default", running.url);
    let put = person(&running.data, Method::PUT, &space, Some(json!({ "autoMerge": ["learning"] }))).await;
    assert_eq!(put.status, 200, "{put:?}");
    let propose = |entry_type: &str, title: &str| json!({ "type": "propose", "entryType": entry_type, "title": title, "content": format!("{title}.") });
    // A task that fails leaves its proposals to a person.
    let failing = json!([[propose("learning", "Of a failed task"), { "type": "failed", "reason": "no" }]]);
    let failed =
        running.agent("two-01").ask(json!({ "description": "work", "input": { "turns": failing } })).await;
    assert_eq!(state(&failed), "failed", "{failed:#}");
    eventually("its proposal", async || (entries(&running, "kind=proposal").await.len() == 1).then_some(()))
        .await;

    let lines = json!([[
        propose("learning", "Tests need a clock"),
        propose("architectural", "Use SQLite"),
        propose("pattern", "Retry twice")
    ]]);
    run(&running.agent("one-01"), "t-1", lines).await;
    let merged =
        eventually("the merge", async || entries(&running, "kind=proposal&status=merged").await.pop()).await;
    assert_eq!(
        (&merged["title"], &merged["changedBy"]),
        (&json!("Tests need a clock"), &json!("service:board"))
    );
    let memories = entries(&running, "kind=memory").await;
    assert_eq!(memories[0]["id"], merged["links"]["became"], "{memories:#?}");
    assert_eq!(memories[0]["links"]["mergedFrom"], merged["id"], "{memories:#?}");
    let mut pending: Vec<_> = entries(&running, "kind=proposal&status=pending").await;
    pending.sort_by_key(|entry| entry["title"].to_string());
    let titles: Vec<_> = pending.iter().map(|entry| entry["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Of a failed task", "Retry twice", "Use SQLite"]);
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let (code, inbox, notes) = mesh(&["inbox"], &envs);
    assert!(code == 0 && notes.contains("mesh space merge PROPOSAL"), "{inbox}{notes}");
    let proposed = ["use-sqlite", "retry-twice", "of-a-failed-task"];
    assert!(proposed.iter().all(|slug| inbox.contains(slug)) && !inbox.contains("tests-need"), "{inbox}");
    // What was merged is in the next brief of everybody.
    let of_two = run(&running.agent("two-01"), "t-2", json!([])).await;
    assert!(brief(&of_two, 0).contains("Tests need a clock."), "{of_two:#}");
    assert!(!brief(&of_two, 0).contains("Use SQLite"), "a proposal binds nobody");
}

#[tokio::test]
async fn line_53_a_vault_survives_kill_9_and_only_its_owner_reads_it() {
    let dir = directory();
    let mut running = Process::up(&team(dir.path(), &["one-01", "two-01"])).await;
    let secret = json!([[{ "type": "remember", "scope": "own", "content": "the key is under the mat" }]]);
    run(&running.agent("one-01"), "t-1", secret).await;
    let in_brief = async |running: &Process, agent: &str| {
        let given = run(&running.agent(agent), &format!("t-{}", uuid::Uuid::now_v7()), json!([])).await;
        brief(&given, 0).contains("under the mat")
    };
    eventually("the memory", async || in_brief(&running, "one-01").await.then_some(())).await;
    running.kill();
    let running = running.restart().await;
    assert!(in_brief(&running, "one-01").await);
    assert!(!in_brief(&running, "two-01").await);
    assert_eq!(entries(&running, "kind=memory").await, Vec::<Value>::new(), "not even the person");
}

#[tokio::test]
async fn line_53_a_damaged_memory_is_reported_and_kept_and_hides_no_other() {
    let dir = directory();
    let mut running = Process::up(&team(dir.path(), &["one-01"])).await;
    let remember = |content: &str| json!({ "type": "remember", "scope": "own", "content": content });
    let lines = json!([[remember("the key is under the mat"), remember("the dog is asleep")]]);
    run(&running.agent("one-01"), "t-1", lines).await;
    let read = async |running: &Process| {
        let given = run(&running.agent("one-01"), &format!("t-{}", uuid::Uuid::now_v7()), json!([])).await;
        brief(&given, 0).to_owned()
    };
    let is_whole = |text: &str| text.contains("under the mat") && text.contains("asleep");
    eventually("both memories", async || is_whole(&read(&running).await).then_some(())).await;
    running.kill();
    let store = rusqlite::Connection::open(running.data.join("spaces/store.sqlite")).unwrap();
    let of_mat = "key LIKE 'board.entry.%' AND instr(value, CAST('under the mat' AS BLOB)) > 0";
    let damage = format!("UPDATE state SET value = CAST('{{broken' AS BLOB) WHERE {of_mat}");
    assert_eq!(store.execute(&damage, []).unwrap(), 1);
    drop(store);
    let mut running = running.restart().await;
    let text = read(&running).await;
    assert!(text.contains("asleep") && !text.contains("under the mat"), "{text}");
    assert!(running.log().contains("an entry can't be read and is left out"), "{}", running.log());
    running.kill();
    let store = rusqlite::Connection::open(running.data.join("spaces/store.sqlite")).unwrap();
    let kept = "SELECT count(*) FROM state WHERE instr(value, CAST('{broken' AS BLOB)) > 0";
    assert_eq!(store.query_row(kept, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[tokio::test]
async fn with_the_board_away_a_turn_is_given_the_decisions_known_last_and_posts_when_it_is_back() {
    let mut cluster = Cluster::start().await;
    let node = cluster.node("node", &team(cluster.dir.path(), &["one-01"])).await;
    let one = node.agent("one-01").seen_by_the_person_of(&cluster.registry);
    // The registry makes the token, the board and the node accept it.
    eventually("the token at the node", async || {
        let tasks =
            person(&cluster.registry.data, Method::GET, &format!("{}/a2a/tasks", one.url), None).await;
        (tasks.status == 200).then_some(())
    })
    .await;
    let url = format!("{}/board/spaces/default/entries", cluster.board.url);
    let decision = json!({ "kind": "decision", "type": "scope", "content": "We send no mail." });
    eventually("the decision", async || {
        let posted = person(&cluster.registry.data, Method::POST, &url, Some(decision.clone())).await;
        (posted.status == 201).then_some(())
    })
    .await;
    let fresh = run(&one, "t-1", json!([])).await;
    assert!(
        brief(&fresh, 0).contains("We send no mail.") && fresh["briefs"][0]["knownAt"].is_null(),
        "{fresh:#}"
    );
    cluster.board.kill();
    let lines = json!([[{ "type": "post", "content": "made without the board" }]]);
    let away = run(&one, "t-2", lines).await;
    assert!(
        brief(&away, 0).starts_with("The board can't be reached. This is what was known at "),
        "{away:#}"
    );
    assert!(
        brief(&away, 0).contains("We send no mail.") && away["briefs"][0]["knownAt"].is_string(),
        "{away:#}"
    );
    cluster.board.revive().await;
    eventually("the finding", async || {
        let page = person(&cluster.registry.data, Method::GET, &format!("{url}?kind=finding"), None).await;
        let found = page.body["entries"][0]["content"] == "made without the board";
        found.then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_a_space_refuses_is_shown_and_the_work_goes_on() {
    let dir = directory();
    let spaces = "mesh: { spaces: { shop: { members: { one-01: observer } } } }\n";
    let running = Process::up(&format!("{spaces}{}", team(dir.path(), &["one-01"]))).await;
    let one = running.agent("one-01");
    // An observer only reads.
    let lines = json!([
        [{ "type": "post", "content": "of an observer" }, { "type": "question", "id": "q", "text": "?" }],
        [],
    ]);
    let request = json!({
        "fromAgentId": "me", "toAgentId": "one-01", "type": "task-request", "spaceId": "shop",
        "payload": { "taskId": "t-1", "description": "work", "input": { "turns": lines } },
    });
    let sent = person(&running.data, Method::POST, &format!("{}/a2a/messages", one.url), Some(request)).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    one.task_in("t-1", &["input_required"]).await;
    let answer = json!({ "text": "go on" });
    call(Method::POST, &format!("{}/a2a/tasks/t-1/answer", one.url), Some(&answer)).await;
    let given = given(&one.task_in("t-1", &["completed", "failed"]).await);
    assert_eq!(given["answers"], json!(["go on"]), "{given:#}");
    let events = client().get(format!("{}/a2a/tasks/t-1/events", one.url)).send().await.unwrap();
    let events = events.text().await.unwrap();
    assert!(events.contains("the space refused an entry: "), "{events}");
    let token = running.data.join("token").to_string_lossy().into_owned();
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.as_str())];
    let (_, trace, _) = mesh(&["trace", "t-1"], &envs);
    assert!(trace.contains("forbidden"), "{trace}");
}

#[tokio::test]
async fn work_in_a_private_space_needs_a_credential_of_one_who_may_read_it() {
    let dir = directory();
    let spaces = "mesh: { spaces: { shop: { members: { member-01: member } } } }\n";
    let mesh = Process::up(&format!("{spaces}{}", team(dir.path(), &["member-01", "other-01"]))).await;
    let url = format!("{}/board/spaces/shop/entries", mesh.url);
    let entry =
        json!({ "kind": "decision", "type": "scope", "title": "secret", "content": "The code is 7141." });
    assert_eq!(person(&mesh.data, Method::POST, &url, Some(entry)).await.status, 201);
    let member = mesh.agent("member-01");
    let request = |to: &str, id: &str| {
        json!({
            "fromAgentId": "me", "toAgentId": to, "type": "task-request", "spaceId": "shop",
            "payload": { "taskId": id, "description": "what do you know?", "input": { "turns": [] } },
        })
    };
    let at = |agent: &Agent| format!("{}/a2a/messages", agent.url);
    let refused = call(Method::POST, &at(&member), Some(&request("member-01", "t-1"))).await;
    assert_eq!(refused.status, 401, "{refused:?}");
    let other = mesh.agent("other-01");
    let refused = person(&mesh.data, Method::POST, &at(&other), Some(request("other-01", "t-2"))).await;
    assert_eq!(
        (refused.status, refused.body["reasonCode"].as_str()),
        (404, Some("space_not_found")),
        "{refused:?}"
    );
    let accepted = person(&mesh.data, Method::POST, &at(&member), Some(request("member-01", "t-3"))).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let task = member.task_in("t-3", &["completed", "failed"]).await;
    assert!(task.to_string().contains("The code is 7141."), "{task:#}");
}
