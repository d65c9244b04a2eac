//! What a seat can read of its space: as much as its stage tells it, on every way.

use super::*;

/// Searches for `port`, reads its brief from its node, and returns both.
const READER: &str = r#"
import json, os, sys, urllib.request
turn = json.loads(sys.stdin.readline())
if not turn.get("answers"):
    if turn["task"]["description"] == "post":
        print(json.dumps({"type": "post", "content": "port 443 is mine"}))
    print(json.dumps({"type": "find", "id": "f", "text": "port"}))
else:
    url = os.environ["MESH_NODE_URL"] + "/a2a/spaces/default/brief"
    request = urllib.request.Request(url, headers={"authorization": "Bearer " + os.environ["MESH_BRAIN_TOKEN"]})
    read = {"found": turn["answers"][-1]["text"], "brief": json.load(urllib.request.urlopen(request))["text"]}
    print(json.dumps({"type": "done", "message": json.dumps(read)}))
"#;

#[tokio::test]
async fn a_seat_reads_what_its_stage_lets_it_know_by_search_and_from_its_node() {
    let dir = directory();
    let brain = file(dir.path(), "reader.py", READER);
    let running = Process::up(&format!(
        "agents: [{{ agent: one-01, open: true, brain: {{ exec: [python3, '{}'] }} }}]",
        brain.display()
    ))
    .await;
    let token = running.data.join("token");
    let envs = [("MESH_URL", running.url.as_str()), ("MESH_TOKEN_FILE", token.to_str().unwrap())];
    for entry in [
        &["finding", "port 80 is taken", "--severity", "high"][..],
        &["decision", "port 25 is closed", "--type", "scope"],
        &["memory", "port scans are slow", "--type", "learning", "--scope", "team"],
    ] {
        let (code, _, errors) = mesh(&[&["space", "post"], entry].concat(), &envs);
        assert_eq!(code, 0, "{entry:?}: {errors}");
    }
    let one = running.agent("one-01");
    one.ask(json!({ "taskId": "t-0", "description": "post" })).await;
    let (finding, decision, memory, own) =
        ("port 80 is taken", "port 25 is closed", "port scans are slow", "port 443 is mine");
    let all = [finding, decision, memory, own];
    // What is found, and what is in the brief, in which own findings are findings.
    let cases: [(Value, &[&str], &[&str]); 5] = [
        (json!({}), &all, &all),
        (json!({ "sealed": true }), &[decision, own], &[decision]),
        (json!({ "sealed": true, "brief": ["findings", "memory"] }), &[decision, own], &[decision]),
        (json!({ "brief": ["decisions"] }), &[decision, own], &[decision]),
        (json!({ "brief": ["findings"] }), &[decision, finding, own], &[decision, finding, own]),
    ];
    for (number, (more, found, brief)) in cases.into_iter().enumerate() {
        let mut stage = json!({ "id": "stage", "seats": ["one-01"] });
        stage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let task = one
            .ask(session(&format!("t-{}", number + 1), json!({ "findings": "shared", "stages": [stage] })))
            .await;
        assert_eq!(state(&task), "completed", "{task:#}");
        let read: Value = serde_json::from_str(&message(&task)).unwrap();
        for (what, expected) in [("found", found), ("brief", brief)] {
            let text = read[what].as_str().unwrap();
            for part in all {
                assert_eq!(text.contains(part), expected.contains(&part), "{more} {what} {part}: {text}");
            }
        }
    }
    let task = one.ask(json!({ "taskId": "t-9", "description": "read" })).await;
    let read: Value = serde_json::from_str(&message(&task)).unwrap();
    assert!(
        all.iter().all(|part| read["brief"].as_str().unwrap().contains(part)),
        "a task is no seat: {read:#}"
    );
    let own_findings = json!({ "taskId": "t-10", "description": "post", "capability": "session",
        "input": { "seats": ["one-01"] } });
    one.ask(own_findings).await;
    let (code, brief, errors) = mesh(&["brief", "one-01", "--session", "t-10"], &envs);
    assert!(code == 0 && brief.contains(own) && !brief.contains(finding), "{brief}{errors}");
}
