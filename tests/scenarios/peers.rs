//! Agents among each other (RFC-005): whoever is addressed does it, one that has left ends what waits for it, one that is away is
//! waited for, and a dependent hears of the tasks that it waits for.

use crate::harness::{
    Agent, Process, artifact, eventually, get, message, peer::Peer, receive_notification, refusal,
    refusal_text, state, text,
};
use serde_json::{Value, json};

/// Says its lines if the description is a list of them, waits for a file if it begins with `hold`, else says who it is.
const BRAIN: &str = r#"
import json, os, sys, time
turn = json.loads(sys.stdin.readline())
about = turn.get("task") or turn.get("help") or {}
asked = about.get("description") or about.get("question") or ""
def done(text): print(json.dumps({"type": "done", "message": text}), flush=True)
if turn.get("signal"):
    print(json.dumps({"type": "signal", "signal": "acme.heard", "subject": turn["signal"]["taskId"]}))
    done("heard")
elif turn.get("answers"):
    done(json.dumps(turn["answers"]))
elif asked.startswith("["):
    for line in json.loads(asked): print(json.dumps(line), flush=True)
elif asked.startswith("hold"):
    while not os.path.exists(os.path.join(sys.argv[1], "open")): time.sleep(0.02)
    done("held")
elif asked == "crash":
    sys.exit(3)
else:
    given = "".join(part.get("text", "") for artifact in about.get("artifacts", []) for part in artifact["parts"])
    print(json.dumps({"type": "artifact", "name": "plan.md", "text": "the plan of " + turn["agent"]}))
    done(turn["agent"] + " did it " + given)
"#;

async fn team(agents: &[&str]) -> Process {
    let dir = crate::harness::directory();
    let script = dir.path().join("brain.py");
    std::fs::write(&script, BRAIN).unwrap();
    let brain = format!("brain: {{ exec: [python3, '{}', '{}'] }}", script.display(), dir.path().display());
    let list: Vec<_> = agents.iter().map(|agent| format!("  - {{ {agent}, {brain} }}\n")).collect();
    let team = dir.path().join("team.yaml");
    std::fs::write(&team, format!("agents:\n{}", list.concat())).unwrap();
    let args = ["up", "--port", "0", &team.to_string_lossy()].map(str::to_owned).to_vec();
    Process::run(dir.path().join("data"), args, Some(dir)).await
}

const TEAM: [&str; 6] = [
    "agent: builder-01",
    "agent: reviewer-01, skills: [code-review, audit]",
    "agent: reviewer-02, skills: [code-review]",
    "agent: orchestrator-01, role: coordinator, skills: [orchestrate, plan, delegate, monitor]",
    "agent: strict-01, open: false, skills: [dig, paint]",
    "agent: router-01, open: delegate",
];

/// A request of a turn.
fn delegate(to: &str, description: &str, more: Value) -> String {
    let line = json!({ "type": "delegate", "id": "d", "to": to, "description": description });
    json!([crate::harness::with(line, more)]).to_string()
}

/// What builder-01 is told of the request.
async fn answer(builder: &Agent, lines: String) -> Value {
    let task = builder.ask(json!({ "description": lines })).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    serde_json::from_str::<Value>(&message(&task)).unwrap()[0].clone()
}

#[tokio::test]
async fn what_an_agent_gives_to_an_agent_is_done_by_that_one() {
    let mesh = team(&TEAM).await;
    let builder = mesh.agent("builder-01");
    let plain = answer(&builder, delegate("reviewer-01", "review my code", json!({}))).await;
    assert_eq!((&plain["ok"], &plain["from"]), (&json!(true), &json!("reviewer-01")), "{plain:#}");
    assert!(plain["text"].as_str().unwrap().contains("reviewer-01 did it"), "{plain:#}");
    assert!(plain.get("through").is_none(), "{plain:#}");

    // A brain that fails fails its task: nobody else does it.
    let failed =
        answer(&builder, delegate("reviewer-01", "crash", json!({ "capability": "code-review" }))).await;
    assert_eq!((&failed["ok"], &failed["from"]), (&json!(false), &json!("reviewer-01")), "{failed:#}");

    // A skill that it has not is that of others, and the answer says who it was.
    let other = answer(&builder, delegate("reviewer-01", "plan", json!({ "capability": "plan" }))).await;
    assert_eq!(
        (&other["from"], &other["through"]),
        (&json!("orchestrator-01"), &json!("reviewer-01")),
        "{other:#}"
    );

    let strict = answer(&builder, delegate("strict-01", "anything", json!({}))).await;
    assert_eq!(strict["ok"], false, "{strict:#}");
    assert!(strict["text"].as_str().unwrap().contains("dig, paint"), "{strict:#}");
    let routed = answer(&builder, delegate("router-01", "anything", json!({}))).await;
    assert_eq!(
        (&routed["from"], &routed["through"]),
        (&json!("orchestrator-01"), &json!("router-01")),
        "{routed:#}"
    );
}

#[tokio::test]
async fn the_fifth_equal_request_of_a_run_is_refused_and_its_brain_reads_loop() {
    let mesh = team(&TEAM).await;
    let builder = mesh.agent("builder-01");
    let ask = |number: usize| {
        let id = format!("d{number}");
        json!({ "type": "delegate", "id": id, "to": "reviewer-01", "description": "review my code" })
    };
    let lines = json!((1..=5).map(ask).collect::<Vec<_>>()).to_string();
    for run in ["the first run", "another run"] {
        let task = builder.ask(json!({ "description": lines })).await;
        assert_eq!(state(&task), "completed", "{run}: {task:#}");
        let answers: Vec<Value> = serde_json::from_str(&message(&task)).unwrap();
        let (done, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer["ok"] == true);
        assert_eq!((done.len(), refused.len()), (4, 1), "{run}: {answers:#?}");
        let why = refused[0]["text"].as_str().unwrap();
        assert!(why.starts_with("loop: builder-01 has asked reviewer-01"), "{run}: {why}");
    }
    let other = answer(&builder, delegate("reviewer-01", "review my tests", json!({}))).await;
    assert_eq!(other["ok"], true, "{other:#}");
}

#[tokio::test]
async fn a_full_agent_is_waited_for_unless_it_may_hand_the_work_on() {
    let mesh = team(&TEAM).await;
    let (builder, reviewer) = (mesh.agent("builder-01"), mesh.agent("reviewer-01"));
    let held = reviewer.send(json!({ "description": "hold it" })).await;
    reviewer.task_in(&held, &["working"]).await;
    let lines = |id: &str, hand_on: bool| {
        let more = json!({ "capability": "code-review", "handOn": hand_on });
        json!({ "taskId": id, "description": delegate("reviewer-01", "review my code", more) })
    };
    let handed = reviewer_of(&builder, &builder.send(lines("handed", true)).await).await;
    assert_eq!(
        (&handed["from"], &handed["through"]),
        (&json!("reviewer-02"), &json!("reviewer-01")),
        "{handed:#}"
    );
    let waits = builder.send(lines("waits", false)).await;
    eventually("the task to wait at reviewer-01", async || {
        let tasks = get(&format!("{}/a2a/tasks", reviewer.url)).await;
        tasks.to_string().contains("queued: reviewer-01 is busy").then_some(())
    })
    .await;
    std::fs::write(mesh.data.parent().unwrap().join("open"), "").unwrap();
    let waited = reviewer_of(&builder, &waits).await;
    assert_eq!((&waited["from"], waited.get("through")), (&json!("reviewer-01"), None), "{waited:#}");
}

async fn reviewer_of(builder: &Agent, task: &str) -> Value {
    let task = builder.task_in(task, &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    serde_json::from_str::<Value>(&message(&task)).unwrap()[0].clone()
}

#[tokio::test]
async fn a_user_is_refused_by_an_agent_that_wants_a_skill_and_told_which() {
    let mesh = team(&TEAM).await;
    let strict = mesh.agent("strict-01");
    let refused = strict.post(&strict.request(json!({ "description": "anything" }))).await;
    assert_eq!(refusal(&refused), (422, "capability_needed".into()));
    assert!(refusal_text(&refused).contains("dig, paint"), "{refused:?}");
    let card = mesh.entry_where("orchestrator-01", |_| true).await["card"].clone();
    assert_eq!((&card["role"], &card["open"]), (&json!("coordinator"), &json!(true)), "{card:#}");
    assert_eq!(mesh.entry_where("router-01", |_| true).await["card"]["open"], false);
}

#[tokio::test]
async fn a_request_to_an_agent_that_has_left_ends_at_once_and_one_that_is_away_is_waited_for() {
    let mesh = team(&TEAM).await;
    let builder = mesh.agent("builder-01");
    let peer = Peer::join(&mesh, "peer-01", "dig").await;
    peer.drain(&mesh).await;
    let waits = builder.send(json!({ "description": delegate("peer-01", "dig", json!({})) })).await;
    let shown = eventually("the task to say for whom it waits", async || {
        let said = message(&builder.task(&waits).await);
        said.contains("waits for peer-01, which is away since 20").then_some(said)
    });
    shown.await;
    let help = json!([{ "type": "help", "id": "h", "to": "peer-01", "question": "how?" }]).to_string();
    let asks = builder.send(json!({ "description": help })).await;

    // A person says that it will not come back.
    let (code, _, said) = mesh.as_person(&["forget", "builder-01"]).await;
    assert!(code != 0 && said.contains("agent builder-01 is there: stop it first"), "{code} {said}");
    let (code, said, errors) = mesh.as_person(&["forget", "peer-01"]).await;
    assert!(code == 0 && said.contains("peer-01 is forgotten"), "{code} {said} {errors}");
    for task in [&waits, &asks] {
        let answer = reviewer_of(&builder, task).await;
        assert_eq!(answer["ok"], false, "{answer:#}");
        assert!(answer["text"].as_str().unwrap().contains("peer-01 has left"), "{answer:#}");
    }
    let letters = get(&format!("{}/a2a/dead-letters", builder.url)).await;
    let reasons: Vec<_> =
        letters["deadLetters"].as_array().unwrap().iter().map(|one| one["reason"].clone()).collect();
    assert_eq!(reasons, ["agent_departed", "agent_departed"], "{letters:#}");
    eventually("it to leave the lists", async || {
        let all = get(&format!("{}/registry/agents?includeDead=true", mesh.url)).await;
        (!all.to_string().contains("peer-01")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_dependent_hears_of_the_tasks_that_it_waits_for_only() {
    let mesh = team(&[
        "agent: builder-01",
        "agent: tester-01, subscribe: [{ type: task.complete, task: t-plan }]",
        "agent: closer-01, subscribe: [{ type: task.complete, parent: t-root }]",
        "agent: watcher-01, subscribe: [{ conversation: release-7 }]",
    ])
    .await;
    let builder = mesh.agent("builder-01");
    for id in ["t-other", "t-plan"] {
        builder.ask(json!({ "taskId": id, "description": "plan" })).await;
    }
    let root = json!({ "taskId": "t-root", "description": delegate("tester-01", "test", json!({})) });
    let mut message = builder.request(root);
    message["threadId"] = json!("release-7");
    builder.post(&message).await;
    builder.task_in("t-root", &["completed"]).await;
    let heard = async |by: &str, what: &dyn Fn(&Value) -> bool| {
        mesh.signal_where("acme.heard", |signal| signal["from"] == by && what(signal)).await;
        let all = text(&format!("{}/board/signals?type=acme.heard&limit=100", mesh.url)).await;
        let all: Value = serde_json::from_str(&all).unwrap();
        let all = all["signals"].as_array().unwrap().iter().filter(|signal| signal["from"] == by);
        all.map(|signal| signal["subject"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(heard("tester-01", &|signal| signal["subject"] == "t-plan").await, ["t-plan"]);
    let children = heard("closer-01", &|_| true).await;
    assert!(children.len() == 1 && children[0] != "t-plan" && children[0] != "t-root", "{children:?}");
    // Two tasks end, and each end is heard in a turn of its own.
    heard("watcher-01", &|signal| signal["subject"] == children[0].as_str()).await;
    let seen = heard("watcher-01", &|signal| signal["subject"] == "t-root").await;
    assert!(!seen.contains(&"t-plan".to_owned()) && seen.contains(&children[0]), "{seen:?}");
}

#[tokio::test]
async fn a_turn_waits_for_the_end_of_a_task_of_anybodys() {
    let mut mesh = team(&TEAM).await;
    let wait = |task: &str| json!([{ "type": "wait", "task": task }]).to_string();
    let planner = mesh.agent("reviewer-01");
    planner.ask(json!({ "taskId": "t-done", "description": "plan", "capability": "audit" })).await;
    planner.send(json!({ "taskId": "t-plan", "description": "hold", "capability": "audit" })).await;
    let builder = mesh.agent("builder-01");
    let ended = answer(&builder, wait("t-done")).await;
    assert_eq!((&ended["id"], &ended["ok"]), (&json!("t-done"), &json!(true)), "{ended:#}");
    assert_eq!((&ended["from"], &ended["text"]), (&json!("reviewer-01"), &json!("completed: plan.md")));
    let unknown = answer(&builder, wait("t-nobody")).await;
    assert_eq!(unknown["ok"], false);
    assert!(unknown["text"].as_str().unwrap().starts_with("no task t-nobody is known"), "{unknown:#}");

    // It has not ended: it is waited for, also after a crash, and takes no place meanwhile.
    let id = builder.send(json!({ "description": wait("t-plan") })).await;
    eventually("it says for what it waits", async || {
        (message(&builder.task(&id).await) == "waits for task t-plan").then_some(())
    })
    .await;
    answer(&builder, wait("t-done")).await;
    mesh = mesh.restart().await;
    std::fs::write(mesh.data.parent().unwrap().join("open"), "").unwrap();
    let task = mesh.agent("builder-01").task_in(&id, &["completed", "failed"]).await;
    assert!(message(&task).contains(r#""text": "completed""#), "{task:#}");

    let own = mesh.agent("builder-01").ask(json!({ "taskId": "t-own", "description": wait("t-own") })).await;
    let why = "wait: the turn can't wait for the end of its own task, or of one that it is a part of";
    assert_eq!(message(&own), why);
    let line = json!({ "type": "delegate", "id": "d", "to": "reviewer-01", "capability": "audit", "description": wait("t-all") });
    let all = json!({ "taskId": "t-all", "description": json!([line]).to_string() });
    let all = mesh.agent("builder-01").ask(all).await;
    assert!(message(&all).contains(why), "{all:#}");
}

#[tokio::test]
async fn an_artifact_is_named_as_the_board_was_told_of_it() {
    let mesh = team(&TEAM).await;
    let (builder, reviewer) = (mesh.agent("builder-01"), mesh.agent("reviewer-01"));
    let made = reviewer.ask(json!({ "description": "make a plan" })).await;
    assert_eq!(artifact(&made, "plan.md").as_deref(), Some("the plan of reviewer-01"));
    mesh.signal_where("artifact.produced", |signal| signal["subject"] == "plan.md").await;
    let given = builder.ask(json!({ "description": "build it", "artifacts": ["plan.md"] })).await;
    assert!(message(&given).contains("the plan of reviewer-01"), "{given:#}");
    let refused =
        builder.post(&builder.request(json!({ "description": "x", "artifacts": ["plan.txt"] }))).await;
    assert_eq!(refusal(&refused), (404, "artifact_not_found".into()));
    assert!(refusal_text(&refused).contains("plan.txt: the board was told of no artifact"), "{refused:?}");
}

#[tokio::test]
async fn the_reply_to_of_the_local_user_may_be_on_this_machine() {
    let mesh = team(&TEAM).await;
    let reviewer = mesh.agent("reviewer-01");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut request =
        reviewer.request(json!({ "taskId": "t-plan", "description": "plan", "capability": "plan" }));
    request["replyTo"] = json!(format!("http://{}/a2a/messages", listener.local_addr().unwrap()));
    let accepted = reviewer.post(&request).await;
    assert_eq!((accepted.status, accepted.body.get("warnings")), (202, None), "{accepted:?}");
    let (_, response) = receive_notification(&listener, 200).await;
    assert_eq!(
        (&response["type"], &response["payload"]["taskId"]),
        (&json!("task-response"), &json!("t-plan"))
    );
    assert_eq!(response["fromAgentId"], "reviewer-01", "it is accountable");
    assert_eq!(response["payload"]["doer"], "orchestrator-01");
}

#[tokio::test]
async fn whoever_names_nobody_is_sent_to_the_entrance() {
    let mesh = team(&["agent: first-01", "agent: second-01, entrance: true"]).await;
    let (code, said, errors) = mesh.as_person(&["ask", "who are you?"]).await;
    assert!(code == 0 && said.contains("the plan of second-01"), "{code} {said} {errors}");
}
