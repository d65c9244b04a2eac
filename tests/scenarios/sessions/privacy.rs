//! What a seat says to another one, and the session itself, are hidden from callers who have not proven who they are: every brain
//! on the machine can send requests without a credential.

use super::*;

const SECRET: &str = "only for the builder";

#[tokio::test]
async fn no_route_shows_a_session_to_an_unproven_caller_and_none_takes_its_answers() {
    let dir = directory();
    let at = dir.path();
    script(
        at,
        json!({
            "planner-01 table.1.1": [
                { "type": "say", "to": ["builder-01"], "text": SECRET }, pass("use SQLite")
            ],
            "builder-01 table.1.1": [done("agreed")],
            "planner-01 table.1.2": [done("good")],
        }),
    );
    let mesh = Process::up(&agents(at, &["planner-01", "builder-01", "critic-01"])).await;
    let (host, other) = (mesh.agent("planner-01"), mesh.agent("critic-01"));
    let graph = json!({ "stages": [
        { "id": "table", "seats": ["planner-01", "builder-01"], "order": "turns", "gate": ["approve", "decline"] },
    ] });
    let request = host.request(session("t-1", graph)).to_string();
    let sent = host.post_raw(request, &[("prefer", "wait=100")]).await;
    assert!(sent.status == 202 && !sent.body.to_string().contains("good"), "{sent:?}");
    let task = host.task_in("t-1", &["input_required"]).await;
    assert!(task["artifacts"].to_string().contains(SECRET), "the person sees it: {task:#}");

    // A list counts only what it shows, and its pages are full.
    let plain =
        |id: &str| json!({ "taskId": id, "description": "a review", "capability": "planner-01-work" });
    for id in ["t-2", "t-3"] {
        host.send(plain(id)).await;
        host.task_in(id, &["failed"]).await;
    }
    let mut token = String::new();
    for expected in ["t-3", "t-2"] {
        let page = format!("{}/a2a/v1/tasks?A2A-Version=1.0&pageSize=1&pageToken={token}", host.url);
        let page = call(Method::GET, &page, None).await.body;
        assert_eq!((&page["totalSize"], &page["tasks"][0]["id"]), (&json!(2), &json!(expected)), "{page:#}");
        token = page["nextPageToken"].as_str().unwrap().to_owned();
    }
    assert_eq!(token, "", "no page follows");
    let ids = |answer: &Answer| -> Vec<String> {
        let tasks = answer.body["tasks"].as_array().unwrap();
        tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    let url = format!("{}/a2a/tasks?limit=2", host.url);
    assert_eq!(ids(&call(Method::GET, &url, None).await), ["t-3", "t-2"]);
    let turns =
        mesh.call_as_person(Method::GET, &format!("{}/a2a/v1/tasks?A2A-Version=1.0", host.url), None).await;
    let all = ids(&turns);
    assert!(all.contains(&"t-1".to_owned()) && turns.body["totalSize"] == all.len(), "{turns:?}");

    // What the board tells of it leads to nothing.
    let signals = get(&format!("{}/board/signals?limit=1000", mesh.url)).await;
    let digests: std::collections::BTreeSet<_> = strings(&signals)
        .into_iter()
        .filter(|text| text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit()))
        .collect();
    assert!(digests.is_empty(), "{signals:#}");
    let digest = protocol::ids::Digest::of(SECRET.as_bytes());
    for agent in [&host, &other] {
        let answer = call(Method::GET, &format!("{}/a2a/artifacts/{digest}", agent.url), None).await;
        assert_eq!(refusal(&answer).0, 404, "{answer:?}");
    }
    let conversation = task["metadata"][EXTENSION]["conversationId"].as_str().unwrap();
    let message = sent.body["messageId"].as_str().unwrap();
    for path in [
        "/a2a/tasks/t-1".to_owned(),
        "/a2a/tasks/t-1/session".to_owned(),
        "/a2a/tasks/t-1/trace".to_owned(),
        format!("/a2a/conversations/{conversation}/trace"),
        format!("/a2a/messages/{message}"),
        format!("/a2a/messages/{message}/trace"),
    ] {
        let answer = call(Method::GET, &format!("{}{path}", host.url), None).await;
        assert_eq!(refusal(&answer).0, 404, "{path}: {answer:?}");
        let answer = mesh.call_as_person(Method::GET, &format!("{}{path}", host.url), None).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }

    // Nobody answers or ends it by a message, either, and no refusal names its question.
    let question = task["metadata"][EXTENSION]["questions"][0]["id"].as_str().unwrap();
    let deny = json!({ "decision": "deny" });
    for (kind, payload) in [
        ("task-answer", json!({ "taskId": "t-1", "answer": "approve" })),
        ("task-answer", json!({ "taskId": "t-1", "questionId": "x", "answer": deny })),
        ("task-answer", json!({ "taskId": "t-1", "questionId": question, "answer": deny })),
        ("task-cancel", json!({ "taskId": "t-1" })),
    ] {
        let envelope = json!({ "fromAgentId": "me", "toAgentId": host.id, "type": kind, "payload": payload });
        let answer = host.post(&envelope).await;
        assert!(refusal(&answer).0 == 404 && !answer.body.to_string().contains(question), "{answer:?}");
        let named = crate::harness::with(envelope, json!({ "conversationId": conversation }));
        assert_eq!(refusal(&host.post(&named).await).0, 404, "{kind}");
    }
    let approve = json!({ "questionId": question, "decision": "approve" });
    let answer = host.call_on_task(Method::POST, "t-1", "/answer", Some(&approve)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    host.task_in("t-1", &["completed"]).await;
}

#[tokio::test]
async fn a_dead_letter_of_a_session_is_shown_to_the_person_only() {
    let dir = directory();
    let at = dir.path();
    let plan = json!([{ "id": "x", "task": SECRET, "agent": "ghost-01" }]).to_string();
    script(at, json!({ "planner-01": [done(&plan)] }));
    let mesh = Process::up(&agents(at, &["planner-01"])).await;
    let host = mesh.agent("planner-01");
    let children = json!({ "retries": 0 });
    let stage = json!({ "id": "plan", "seats": ["planner-01"], "makes": "work-plan", "children": children });
    host.send(session("t-1", json!({ "stages": [stage] }))).await;
    host.task_in("t-1", &["failed"]).await;
    let letters = format!("{}/a2a/dead-letters", host.url);
    let shown = mesh.call_as_person(Method::GET, &letters, None).await;
    let nobody = call(Method::GET, &letters, None).await;
    assert_eq!(nobody.body["deadLetters"], json!([]), "{nobody:?}");
    let shown = shown.body["deadLetters"].as_array().unwrap();
    assert!(!shown.is_empty());
    for letter in shown {
        let url = format!("{letters}/{}", letter["messageId"].as_str().unwrap());
        assert_eq!(call(Method::GET, &url, None).await.status, 404, "{letter}");
    }
}

/// All strings in a JSON value.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(strings).collect(),
        Value::Object(members) => members.values().flat_map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// The task of an agent that has a session do its work is its requester's. What the session asks there only a proven person answers.
#[tokio::test]
async fn a_session_that_an_agent_asks_for_takes_answers_of_proven_people_only() {
    let dir = directory();
    let at = dir.path();
    script(at, json!({ "builder-01": [{ "type": "failed", "reason": "no" }] }));
    let graph = json!({ "stages": [
        { "id": "work", "seats": ["builder-01"], "retries": 0 },
        { "id": "end", "after": ["work"], "seats": ["builder-01"], "gate": ["approve", "decline"] },
    ] });
    let ask = json!({ "type": "delegate", "id": "d", "to": "planner-01", "capability": "session", "description": "a plan", "input": graph });
    file(at, "ask.json", &ask.to_string());
    let outer = "import json, os, sys\nturn = json.loads(sys.stdin.readline())\n\
                 here = os.path.dirname(os.path.abspath(__file__))\n\
                 print(json.dumps({'type': 'done', 'message': 'over'}) if turn.get('answers') else open(os.path.join(here, 'ask.json')).read())\n";
    let outer = file(at, "outer.py", outer);
    let team = agents(at, &["planner-01", "builder-01"]);
    let outer = format!(
        "  - {{ agent: outer-01, skills: [outer], brain: {{ exec: [python3, '{}'] }} }}\n",
        outer.display()
    );
    let mesh = Process::up(&format!("{team}{outer}")).await;
    let agent = mesh.agent("outer-01");
    agent.send(json!({ "taskId": "t-1", "description": "plan it", "capability": "outer" })).await;
    let task = agent.task_in("t-1", &["input_required", "failed"]).await;
    let question = &task["metadata"][EXTENSION]["questions"][0];
    assert_eq!(question["askedBy"]["stage"], "work", "{task:#}");
    let inbox = get(&format!("{}/a2a/inbox", agent.url)).await;
    assert_eq!(inbox["items"], json!([]), "{inbox:#}");
    let skip = json!({ "questionId": question["id"], "text": "skip" });
    let answer = call(Method::POST, &format!("{}/a2a/tasks/t-1/answer", agent.url), Some(&skip)).await;
    assert!(answer.status == 403 && answer.body.to_string().contains("in a session"), "{answer:?}");
    let answer = agent.call_on_task(Method::POST, "t-1", "/answer", Some(&skip)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
