//! Tasks as their owner sees them: waiting, watching, cancelling, answering; and what others do not see.

use crate::harness::{
    Agent, Answer, Process, artifact, call, cluster::Cluster, eventually, get, mesh as program, message,
    refusal, refusal_text, state, stream, with,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

const WORDS: &str = "
agents:
  - { agent: scripted-01, open: true, bid: { maxParallel: 4 }, brain: { scripted: script.yaml } }
  - { agent: writer-01, skills: [write], bid: { maxParallel: 4 }, brain: { exec: [sh, write.sh] } }
  - { agent: sleeper-01, open: true, skills: [sleep], bid: { maxParallel: 4 }, brain: { exec: [sh, sleep.sh] } }
  - { agent: asker-01, open: true, skills: [ask], bid: { maxParallel: 4 }, brain: { exec: [sh, ask.sh] } }
";

const FILES: &[(&str, &str)] = &[
    (
        "script.yaml",
        "
turns:
  - { when: { contains: hang }, hang: true }
  - { when: { contains: crash }, crash: true }
  - { when: { contains: nothing }, end: { done: null } }
  - { when: { contains: unlock, turn: 1 }, say: [{ type: question, id: q, kind: credential, text: 'which key?' }] }
  - { when: { contains: twice, turn: 1 }, say: [{ type: question, id: first, text: 'go on?' }] }
  - { when: { contains: twice, turn: 2 }, say: [{ type: question, id: second, text: 'go on?' }] }
  - { when: { contains: give it away, turn: 1 }, say: [{ type: delegate, id: d, to: sleeper-01, description: sleep }] }
  - { when: { contains: have it painted, turn: 1 }, say: [{ type: delegate, id: d, to: asker-01, description: paint }] }
  - { when: { contains: find a painter, turn: 1 }, say: [{ type: delegate, id: d, to: 'capability:ask', description: paint }] }
  - { when: { contains: there and back, turn: 1 }, say: [{ type: delegate, id: d, to: asker-01, description: to and fro }] }
  - { when: { contains: to and fro, turn: 1 }, say: [{ type: delegate, id: d, to: scripted-01, description: there and back }] }
  - { end: { done: all is well } }
",
    ),
    (
        "write.sh",
        r#"for i in 1 2 3 4 5 6; do
    echo '{"type":"status","message":"at part '$i'"}'
    echo '{"type":"artifact","name":"text.txt","text":"part '$i'. ","append":true}'
    sleep 0.06
done
echo '{"type":"done","message":"written"}'
"#,
    ),
    ("sleep.sh", "sleep 600 & echo $$ $! > pids.new; mv pids.new pids; wait\n"),
    (
        "ask.sh",
        r#"read -r line
case "$line" in
    *'to and fro'*'"answers":'*)
        echo "$line" > answers
        echo '{"type":"tool","id":"c1","name":"read_map"}'
        echo '{"type":"done","message":"it came back"}' ;;
    *'to and fro'*) echo '{"type":"delegate","id":"d","to":"scripted-01","description":"there and back"}' ;;
    *'"answers":'*)
        said=$(echo "$line" | sed 's/.*"answers":\[[^]]*"text":"\([^"]*\)".*/\1/')
        echo '{"type":"done","message":"so it is '"$said"'"}' ;;
    *'misnamed'*) echo '{"type":"delegate","id":"d","to":"write","description":"a text"}' ;;
    *) echo '{"type":"question","id":"q","text":"red or blue?"}' ;;
esac
"#,
    ),
];

async fn up() -> Process {
    Process::up_beside(WORDS, FILES).await
}

async fn posted(agent: &Agent, path: &str, body: Value) -> Answer {
    call(Method::POST, &format!("{}/a2a/tasks/{path}", agent.url), Some(&body)).await
}

fn events_of(agent: &Agent, task: &str) -> String {
    format!("{}/a2a/tasks/{task}/events", agent.url)
}

/// Waits until the brain and its child run; returns their pids.
async fn pids(mesh: &Process) -> Vec<String> {
    let file = mesh.dir().join("pids");
    let text = eventually("the brain to run", async || std::fs::read_to_string(&file).ok()).await;
    std::fs::remove_file(&file).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

fn lives(pid: &str) -> bool {
    let kill =
        std::process::Command::new("kill").args(["-0", pid]).stderr(std::process::Stdio::null()).status();
    kill.unwrap().success()
}

async fn gone(pids: &[String]) {
    eventually(&format!("{pids:?} gone"), async || (!pids.iter().any(|pid| lives(pid))).then_some(())).await;
}

#[tokio::test]
async fn one_request_with_a_wait_is_the_whole_round_trip() {
    let mesh = up().await;
    let agent = mesh.agent("writer-01");
    let request = agent.request(json!({ "taskId": "t-1", "description": "write", "capability": "write" }));
    let answer = agent.post_raw(request.to_string(), &[("prefer", "respond-async, wait=100")]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((state(&answer.body).as_str(), &answer.body["id"]), ("completed", &json!("t-1")));
    assert_eq!(
        artifact(&answer.body, "text.txt").unwrap(),
        "part 1. part 2. part 3. part 4. part 5. part 6. "
    );
    assert_eq!(message(&answer.body), "written");
    assert_eq!(agent.task("t-1").await, answer.body);
    let again = agent.post_raw(request.to_string(), &[("prefer", "wait=100")]).await;
    assert_eq!((again.status, again.body), (200, answer.body), "a repeat is told the same");
}

#[tokio::test]
async fn an_elapsed_wait_returns_the_current_task() {
    let mesh = up().await;
    let agent = mesh.agent("scripted-01");
    let request = agent.request(json!({ "taskId": "t-1", "description": "hang" }));
    let answer = agent.post_raw(request.to_string(), &[("prefer", "wait=5")]).await;
    assert_eq!((answer.status, state(&answer.body).as_str()), (202, "working"), "{answer:?}");
    assert_eq!(answer.body["id"], "t-1");
}

#[tokio::test]
async fn a_stream_of_events_resumes_anywhere_without_a_gap_or_a_repeat() {
    let mesh = up().await;
    let agent = mesh.agent("writer-01");
    let task = agent.send(json!({ "taskId": "t-1", "description": "write", "capability": "write" })).await;
    let live = stream(&events_of(&agent, &task), None).await;
    let ids: Vec<_> = live.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let text: String = live
        .iter()
        .filter_map(|(_, data)| data["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str())
        .collect();
    assert_eq!(text, "part 1. part 2. part 3. part 4. part 5. part 6. ");
    let (_, last) = live.last().unwrap();
    assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{last:#}");
    let terminal = |data: &Value| data["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED";
    assert_eq!(live.iter().filter(|(_, data)| terminal(data)).count(), 1);

    assert_eq!(stream(&events_of(&agent, &task), None).await, live, "the past is told as it was");
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(stream(&events_of(&agent, &task), Some(id)).await, live[at + 1..], "after {id}");
    }
    let garbage = client_get_with(&events_of(&agent, &task), "not-an-id").await;
    assert_eq!(refusal(&garbage), (400, "invalid_field".into()));
}

async fn client_get_with(url: &str, last: &str) -> Answer {
    let response = crate::harness::client().get(url).header("last-event-id", last).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Answer { status, headers, body: response.json().await.unwrap() }
}

#[tokio::test]
async fn a_cancel_ends_the_task_at_once_and_kills_the_brain_and_its_children() {
    let mesh = up().await;
    let agent = mesh.agent("sleeper-01");
    let task = agent.send(json!({ "description": "sleep" })).await;
    let pids = pids(&mesh).await;
    assert!(pids.len() == 2 && pids.iter().all(|pid| lives(pid)), "{pids:?}");
    let answer = posted(&agent, &format!("{task}/cancel"), json!({ "reason": "no longer wanted" })).await;
    assert_eq!((answer.status, state(&answer.body).as_str()), (200, "canceled"), "{answer:?}");
    assert_eq!(message(&answer.body), "no longer wanted");
    gone(&pids).await;
    let again = posted(&agent, &format!("{task}/cancel"), json!({})).await;
    assert_eq!(refusal(&again), (409, "task_not_cancelable".into()));
    assert!(refusal_text(&again).contains("canceled"), "{again:?}");
    let events = stream(&events_of(&agent, &task), None).await;
    assert_eq!(events.last().unwrap().1["statusUpdate"]["status"]["state"], "TASK_STATE_CANCELED");
}

#[tokio::test]
async fn a_cancel_by_message_equals_a_cancel_by_route() {
    let mesh = up().await;
    let agent = mesh.agent("sleeper-01");
    let task = agent.send(json!({ "description": "sleep" })).await;
    let pids = pids(&mesh).await;
    let cancel = with(
        agent.request(json!({ "taskId": task, "reason": "changed my mind" })),
        json!({ "type": "task-cancel" }),
    );
    assert_eq!(agent.post(&cancel).await.status, 202);
    assert_eq!(message(&agent.task_in(&task, &["canceled"]).await), "changed my mind");
    gone(&pids).await;
}

#[tokio::test]
async fn a_cancel_reaches_the_agent_of_a_delegated_task() {
    let mesh = up().await;
    let parent = mesh.agent("scripted-01");
    let task = parent.send(json!({ "description": "give it away" })).await;
    let pids = pids(&mesh).await;
    let answer = posted(&parent, &format!("{task}/cancel"), json!({ "reason": "enough" })).await;
    assert_eq!((answer.status, state(&answer.body).as_str()), (200, "canceled"), "{answer:?}");
    gone(&pids).await;
    let children = get(&format!("{}/a2a/tasks", mesh.agent("sleeper-01").url)).await;
    let child = children["tasks"][0]["id"].as_str().unwrap().to_owned();
    let child = mesh.agent("sleeper-01").task_in(&child, &["canceled"]).await;
    assert_eq!(message(&child), "enough");
}

#[tokio::test]
async fn a_cancel_withdraws_the_award() {
    let mesh = up().await;
    let manager = mesh.agent("writer-01");
    let task = manager.send(json!({ "taskId": "t-1", "description": "sleep", "capability": "sleep" })).await;
    let pids = pids(&mesh).await;
    let answer = posted(&manager, &format!("{task}/cancel"), json!({ "reason": "enough" })).await;
    assert_eq!((answer.status, state(&answer.body).as_str()), (200, "canceled"), "{answer:?}");
    gone(&pids).await;
    let doer = mesh.agent("sleeper-01");
    eventually("the doer's task to end", async || {
        let tasks = get(&format!("{}/a2a/tasks", doer.url)).await;
        (state(&tasks["tasks"][0]) == "canceled").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_owner_of_a_task_answers_its_question() {
    let mesh = up().await;
    let agent = mesh.agent("asker-01");
    let request = agent.request(json!({ "taskId": "t-1", "description": "paint" }));
    let asked = agent.post_raw(request.to_string(), &[("prefer", "wait=100")]).await;
    assert_eq!((asked.status, state(&asked.body).as_str()), (202, "input_required"), "{asked:?}");
    assert_eq!(message(&asked.body), "red or blue?");
    let empty = posted(&agent, "t-1/answer", json!({})).await;
    assert_eq!(refusal(&empty), (400, "invalid_field".into()));
    let answer = posted(&agent, "t-1/answer", json!({ "text": "blue" })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(message(&agent.task_in("t-1", &["completed"]).await), "so it is blue");
    let late = posted(&agent, "t-1/answer", json!({ "text": "red" })).await;
    assert_eq!(late.status, 409, "{late:?}");
}

#[tokio::test]
async fn a_waiting_caller_gets_a_request_for_a_credential_at_once() {
    let mesh = up().await;
    let agent = mesh.agent("scripted-01");
    let request = agent.request(json!({ "taskId": "t-1", "description": "unlock" })).to_string();
    let answer = agent.post_raw(request, &[("prefer", "wait=100")]);
    let asked =
        tokio::time::timeout(Duration::from_secs(90), answer).await.expect("an answer before the time is up");
    assert_eq!((asked.status, state(&asked.body).as_str()), (202, "auth_required"), "{asked:?}");
    assert_eq!(message(&asked.body), "which key?");
}

#[tokio::test]
async fn a_question_and_its_answer_pass_through_the_manager() {
    let mesh = up().await;
    let manager = mesh.agent("writer-01");
    let task = manager.send(json!({ "description": "paint", "capability": "ask" })).await;
    let asked = manager.task_in(&task, &["input_required", "failed", "completed"]).await;
    assert_eq!((state(&asked).as_str(), message(&asked).as_str()), ("input_required", "red or blue?"));
    let answer = posted(&manager, &format!("{task}/answer"), json!({ "text": "red" })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let done = manager.task_in(&task, &["completed", "failed"]).await;
    assert_eq!((state(&done).as_str(), message(&done).as_str()), ("completed", "so it is red"));
}

#[tokio::test]
async fn a_question_of_a_helper_goes_to_the_owner() {
    let mesh = up().await;
    let agent = mesh.agent("scripted-01");
    for (what, colour) in [("have it painted", "green"), ("find a painter", "white")] {
        let task = agent.send(json!({ "description": what })).await;
        let asked = agent.task_in(&task, &["input_required", "failed", "completed"]).await;
        assert_eq!((state(&asked).as_str(), message(&asked).as_str()), ("input_required", "red or blue?"));
        let answer = posted(&agent, &format!("{task}/answer"), json!({ "text": colour })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(state(&agent.task_in(&task, &["completed", "failed"]).await), "completed");
        let done = get(&format!("{}/a2a/tasks", mesh.agent("asker-01").url)).await;
        assert_eq!(message(&done["tasks"][0]), format!("so it is {colour}"), "{done:#}");
    }
}

#[tokio::test]
async fn an_answer_without_a_question_is_refused() {
    let mesh = up().await;
    let agent = mesh.agent("scripted-01");
    let task = agent.send(json!({ "description": "hang" })).await;
    let answer = posted(&agent, &format!("{task}/answer"), json!({ "text": "yes" })).await;
    assert_eq!(refusal(&answer), (409, "not_awaiting_answer".into()));
}

#[tokio::test]
async fn the_task_of_another_is_like_a_missing_one() {
    let mesh = up().await;
    let agent = mesh.agent("scripted-01");
    let (one, two) = (mesh.client_as("peer-01"), mesh.client_as("peer-02"));
    let request = |from: &str, text: &str| {
        with(
            agent.request(json!({ "taskId": "t-1", "description": text })),
            json!({ "fromAgentId": from, "messageId": format!("m-{from}") }),
        )
    };
    assert_eq!(one.post(&agent, &request("peer-01", "hang")).await.status, 202);
    let missing = |answer: Answer, code: &str| assert_eq!(refusal(&answer), (404, code.into()));
    for path in ["/a2a/tasks/t-1", "/a2a/tasks/t-1/events", "/a2a/tasks/t-1/award"] {
        missing(two.get(&agent, path).await, "task_not_found");
        missing(call(Method::GET, &format!("{}{path}", agent.url), None).await, "task_not_found");
    }
    missing(two.get(&agent, "/a2a/messages/m-peer-01").await, "message_not_found");
    for (path, body) in [("cancel", json!({})), ("answer", json!({ "text": "yes" }))] {
        missing(posted(&agent, &format!("t-1/{path}"), body.clone()).await, "task_not_found");
        let target = format!("/a2a/tasks/t-1/{path}");
        let place = (agent.url.as_str(), target.as_str());
        missing(two.call(Method::POST, place, &agent.id, Some(&body)).await, "task_not_found");
    }
    let cancel = with(
        request("peer-02", ""),
        json!({ "type": "task-cancel", "payload": { "taskId": "t-1" }, "messageId": "c-1" }),
    );
    two.post(&agent, &cancel).await;
    assert_eq!(two.get(&agent, "/a2a/tasks").await.body["tasks"], json!([]));
    assert_eq!(get(&format!("{}/a2a/tasks", agent.url)).await["tasks"], json!([]));

    let own = one.get(&agent, "/a2a/tasks/t-1").await;
    assert_eq!((own.status, state(&own.body).as_str()), (200, "working"), "{own:?}");
    assert_eq!(one.get(&agent, "/a2a/messages/m-peer-01").await.body["taskId"], "t-1");
    let same_name = two.post(&agent, &request("peer-02", "another task of that name")).await;
    assert_eq!(same_name.status, 202, "a task id belongs to its principal: {same_name:?}");
    let other = eventually("the other's task", async || {
        let task = two.get(&agent, "/a2a/tasks/t-1").await.body;
        (state(&task) == "completed").then_some(task)
    })
    .await;
    assert_ne!(other["contextId"], own.body["contextId"]);
}

#[tokio::test]
async fn a_task_does_not_bounce_between_two_agents() {
    let mesh = up().await;
    let first = mesh.agent("scripted-01");
    let task = first.ask(json!({ "description": "there and back" })).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "all is well"));
    let answers = std::fs::read_to_string(mesh.dir().join("answers")).unwrap();
    assert!(answers.contains("scripted-01 is already on the path"), "{answers}");
    let tasks = get(&format!("{}/a2a/tasks", first.url)).await;
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 1, "it never came back: {tasks:#}");
}

#[tokio::test]
async fn a_brain_that_dies_or_returns_nothing_fails_only_its_task() {
    let mesh = up().await;
    let agent = mesh.agent("scripted-01");
    let crashed = agent.ask(json!({ "description": "crash" })).await;
    assert_eq!(state(&crashed), "failed");
    assert!(message(&crashed).contains("died"), "{crashed:#}");
    let empty = agent.ask(json!({ "description": "nothing" })).await;
    assert_eq!(state(&empty), "failed");
    assert!(message(&empty).contains("without a result"), "{empty:#}");
    assert_eq!(state(&agent.ask(json!({ "description": "as usual" })).await), "completed");
}

#[tokio::test]
async fn a_brain_is_stopped_at_the_deadline_of_its_task() {
    let mesh = up().await;
    let agent = mesh.agent("sleeper-01");
    let soon = protocol::time::WallTime(i64::try_from(crate::harness::peer::now()).unwrap() * 1_000 + 8_000);
    let task = agent.send(json!({ "description": "sleep", "deadline": soon.to_string() })).await;
    let pids = pids(&mesh).await;
    let ended = agent.task_in(&task, &["failed"]).await;
    assert!(message(&ended).contains("deadline"), "{ended:#}");
    gone(&pids).await;
}

#[tokio::test]
async fn a_watch_goes_on_past_an_answered_question() {
    let mesh = up().await;
    let agent = mesh.agent("asker-01");
    let watch = ["tasks", "watch", "t-1", "--url", &mesh.url];
    agent.send(json!({ "taskId": "t-1", "description": "paint", "capability": "ask" })).await;
    agent.task_in("t-1", &["input_required"]).await;
    assert_eq!(program(&watch, &[]).0, 7, "it waits");
    assert_eq!(posted(&agent, "t-1/answer", json!({ "text": "red" })).await.status, 200);
    agent.task_in("t-1", &["completed"]).await;
    let (code, _, said) = program(&watch, &[]);
    assert!(code == 0 && said.contains("red or blue?") && said.contains("so it is red"), "{code}: {said}");
}

#[tokio::test]
async fn a_watch_goes_on_past_an_answered_question_to_a_later_one_of_the_same_text() {
    let mesh = up().await;
    let agent = mesh.agent("scripted-01");
    agent.send(json!({ "taskId": "t-1", "description": "ask twice" })).await;
    agent.task_in("t-1", &["input_required"]).await;
    assert_eq!(posted(&agent, "t-1/answer", json!({ "text": "yes" })).await.status, 200);
    agent.task_in("t-1", &["input_required"]).await;
    let (code, _, said) = program(&["tasks", "watch", "t-1", "--url", &mesh.url], &[]);
    let shown = said.lines().filter(|line| line.contains("input-required: go on?")).count();
    assert!(code == 7 && shown == 2 && said.contains("mesh answer t-1 TEXT"), "{code}: {said}");
}

#[tokio::test]
async fn a_watch_shows_who_was_asked_how_that_ended_and_which_tools_were_called() {
    let mesh = up().await;
    let agent = mesh.agent("asker-01");
    agent.ask(json!({ "taskId": "t-1", "description": "to and fro", "capability": "ask" })).await;
    let (code, _, said) = program(&["tasks", "watch", "t-1", "--url", &mesh.url], &[]);
    let asked = said.find("asked scripted-01: there and back\n").unwrap_or_else(|| panic!("{said}"));
    let answered = said.find("scripted-01: ").unwrap_or_else(|| panic!("{said}"));
    let tool = said.find("tool read_map: done\n").unwrap_or_else(|| panic!("{said}"));
    assert!(
        code == 0 && asked < answered && answered < tool && tool < said.find("it came back").unwrap(),
        "{said}"
    );
    let live = stream(&events_of(&agent, "t-1"), None).await;
    let kinds: Vec<_> = live.iter().filter_map(|(_, data)| data["activity"]["kind"].as_str()).collect();
    assert_eq!(kinds, ["asked", "answered", "tool"], "{live:#?}");
    for (at, (id, _)) in live.iter().enumerate() {
        assert_eq!(stream(&events_of(&agent, "t-1"), Some(id)).await, live[at + 1..], "after {id}");
    }
}

#[tokio::test]
async fn a_misspelled_capability_is_answered_with_the_nearest_known_one() {
    let mesh = up().await;
    let misspelled = mesh.agent("asker-01").ask(json!({ "description": "x", "capability": "wriet" })).await;
    assert_eq!(state(&misspelled), "failed");
    assert!(message(&misspelled).contains("capability wriet; did you mean write?"), "{misspelled:#}");
    let as_agent =
        mesh.agent("asker-01").ask(json!({ "description": "misnamed", "capability": "ask" })).await;
    let hint = "no agent write is known; did you mean capability:write?";
    assert!(message(&as_agent).contains(hint), "{as_agent:#}");
}

#[tokio::test]
async fn a_watch_shows_the_times_of_replayed_events() {
    let mesh = up().await;
    let agent = mesh.agent("writer-01");
    agent.ask(json!({ "taskId": "t-1", "description": "a text", "capability": "write" })).await;
    let (code, _, said) = program(&["tasks", "watch", "t-1", "--url", &mesh.url], &[]);
    let seconds = |line: &str| line.trim().split('s').next().and_then(|text| text.parse::<f64>().ok());
    let times: Vec<_> = said.lines().filter_map(seconds).collect();
    assert!(code == 0 && times.is_sorted() && times.last().is_some_and(|last| *last >= 0.3), "{said}");
}

#[tokio::test]
async fn the_command_line_names_the_agents_that_it_does_not_ask() {
    let cluster = Cluster::start().await;
    let team = |id: &str| format!("agents: [{{ agent: {id}, open: true, brain: {{ echo: {{}} }} }}]");
    let (one, mut two) =
        (cluster.node("one", &team("echo-01")).await, cluster.node("two", &team("echo-02")).await);
    one.agent("echo-01").ask(json!({ "taskId": "t-1", "description": "x" })).await;
    let url = cluster.registry.url.as_str();
    let agents = async || get(&format!("{url}/registry/agents")).await["agents"].as_array().map(Vec::len);
    eventually("both are registered", async || (agents().await == Some(2)).then_some(())).await;
    let (code, out, errors) = program(&["tasks", "--url", url], &[]);
    assert_eq!((code, out.contains("t-1"), errors.as_str()), (0, true, ""));
    two.signal("TERM");
    two.ended().await;
    eventually("one is left", async || (agents().await == Some(1)).then_some(())).await;
    for (args, code, said) in [
        (&["tasks", "--url", url][..], 0, "mesh: not asked: echo-02 (away); their tasks are not listed\n"),
        (&["inbox", "--url", url], 0, "mesh: not asked: echo-02 (away); their questions are not listed\n"),
        (
            &["tasks", "show", "t-2", "--url", url],
            6,
            "(task_not_found); not asked: echo-02 (away); sessions are shown only with the person's token (--token DIR/token)\n",
        ),
    ] {
        let (found, out, errors) = program(args, &[]);
        assert!(found == code && errors.contains(said), "mesh {args:?}: {found}: {out} {errors}");
    }
    let (code, _, errors) = program(&["tasks", "--at", &one.agent("echo-01").url], &[]);
    assert_eq!((code, errors.as_str()), (0, ""));
}
