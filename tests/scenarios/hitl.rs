//! kagent's human-in-the-loop extension: an A2A client sees open questions in the status message and decides them by id.

use crate::harness::{Process, client};
use serde_json::{Value, json};

const HITL: &str = "https://kagent.dev/extensions/hitl/v1";
const TEAM: &str = "
agents:
  - { agent: front-01, open: true, skills: [front], brain: { scripted: script.yaml } }
mesh:
  callers: [{ user: alice, apiKey: alices-own-key-0001 }]
";
const SCRIPT: &str = "
turns:
  - when: { turn: 1 }
    say:
      - { type: question, id: rm, kind: approval, text: delete it?, call: { name: rm, args: { path: /x } } }
      - { type: question, id: size, kind: choice, text: which?, options: [s, l] }
  - { end: { done: thanks } }
";

/// Calls an operation as alice, or without a credential; `extension` activates the extension.
async fn rpc(node: &Process, as_alice: bool, extension: bool, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let url = format!("{}/a2a/rpc", node.agents["front-01"]);
    let mut request = client().post(url).header("a2a-version", "1.0").json(&body);
    if extension {
        request = request.header("a2a-extensions", HITL);
    }
    if as_alice {
        request = request.header("x-api-key", "alices-own-key-0001");
    }
    let answer = request.send().await.unwrap();
    let activated = answer.headers().get("a2a-extensions").map(|value| value.to_str().unwrap().to_owned());
    let answer: Value = answer.json().await.unwrap();
    if extension && answer["result"].is_object() {
        assert_eq!(activated.as_deref(), Some(HITL));
    }
    answer
}

fn message(task: Option<&str>, response: Option<Value>) -> Value {
    let id = uuid::Uuid::now_v7().to_string();
    let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "go" }] });
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    if let Some(response) = response {
        message["metadata"] = json!({ HITL: response });
        message["extensions"] = json!([HITL]);
    }
    json!({ "message": message })
}

#[tokio::test]
async fn an_a2a_client_approves_and_answers_by_id_with_its_own_rights() {
    let node = Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await;
    let card = crate::harness::get(&format!("{}/.well-known/agent-card.json", node.agents["front-01"])).await;
    assert!(card["capabilities"]["extensions"].to_string().contains(HITL), "{card:#}");
    let plain = rpc(&node, true, false, "SendMessage", message(None, None)).await;
    assert!(plain["result"]["task"]["status"]["message"]["metadata"].is_null(), "not activated: {plain:#}");
    for as_alice in [false, true] {
        let sent = rpc(&node, as_alice, true, "SendMessage", message(None, None)).await;
        let task = sent["result"]["task"]["id"].as_str().unwrap().to_owned();
        let shown = &sent["result"]["task"]["status"]["message"];
        let request = &shown["metadata"][HITL];
        assert_eq!(
            (&request["type"], &shown["extensions"]),
            (&json!("tool_approval_request"), &json!([HITL]))
        );
        assert_eq!(request["tools"][0]["args"], json!({ "path": "/x" }), "{request:#}");
        let tool = request["tools"][0]["id"].as_str().unwrap();
        let approve =
            json!({ "type": "tool_approval_response", "approvals": [{ "id": tool, "approved": true }] });
        let decide = async |response: Value| {
            rpc(&node, as_alice, true, "SendMessage", message(Some(&task), Some(response))).await
        };
        let unknown =
            json!({ "type": "tool_approval_response", "approvals": [{ "id": "other", "approved": true }] });
        assert!(decide(unknown).await["error"].to_string().contains("not asked for"));
        let approved = decide(approve.clone()).await;
        if !as_alice {
            assert!(approved["error"].to_string().contains("person's token"), "{approved:#}");
            continue;
        }
        let asked = &approved["result"]["task"]["status"]["message"]["metadata"][HITL];
        assert_eq!(asked["questions"][0]["choices"], json!(["s", "l"]), "{approved:#}");
        assert!(decide(approve).await["error"].is_object(), "it is decided already");
        let answer =
            json!({ "type": "ask_user_response", "id": asked["id"], "answers": [{ "answer": ["l"] }] });
        let done = decide(answer).await;
        assert_eq!(done["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done:#}");
    }
}

#[tokio::test]
async fn a_stream_shows_the_request_in_the_event_that_ends_it() {
    let node = Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await;
    let url = format!("{}/a2a/rpc", node.agents["front-01"]);
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": message(None, None) });
    let request = client().post(url).header("a2a-version", "1.0").header("a2a-extensions", HITL).json(&body);
    let text = request.send().await.unwrap().text().await.unwrap();
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    let shown = &last["result"]["statusUpdate"]["status"]["message"]["metadata"][HITL];
    assert_eq!(shown["type"], "tool_approval_request", "{last:#}");
}
