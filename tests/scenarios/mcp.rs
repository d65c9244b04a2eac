//! The mesh as an MCP server, by raw JSON: the present stateless revision and an older one with a session.

use crate::harness::{Process, client, eventually, file, state};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

const TEAM: &str = "
agents:
  - { agent: front-01, entrance: true, skills: [front], description: Answers, brain: { scripted: script.yaml } }
  - { agent: echo-01, skills: [echo], brain: { echo: {} } }
mesh:
  callers: [{ user: alice, apiKey: alices-own-key-0001 }]
";
const SCRIPT: &str = "
turns:
  - { when: { contains: delete, turn: 1 }, say: [{ type: question, id: rm, kind: approval, text: delete it?, call: { name: rm } }] }
  - { when: { contains: color, turn: 1 }, say: [{ type: question, id: c, kind: choice, text: which?, options: [red, blue] }] }
  - when: { contains: both, turn: 1 }
    say:
      - { type: question, id: rm, kind: approval, text: delete it?, call: { name: rm } }
      - { type: question, id: c, kind: text, text: which? }
  - { when: { contains: key, turn: 1 }, say: [{ type: question, id: k, kind: credential, text: your key? }] }
  - { when: { contains: large }, say: [{ type: artifact, name: big.txt, text: TEXT }], end: { done: made } }
  - { when: { contains: hang }, hang: true }
  - { say: [{ type: artifact, name: a.txt, text: made }], end: { done: thanks } }
";

const STATELESS: &str = "2026-07-28";
const WITH_SESSION: &str = "2025-06-18";

async fn up() -> Process {
    let script = SCRIPT.replace("TEXT", &"z".repeat(40_000));
    Process::up_beside(TEAM, &[("script.yaml", &script)]).await
}

/// A client of one revision.
struct McpClient {
    url: String,
    key: Option<String>,
    capabilities: Value,
    session: Option<String>,
}

impl McpClient {
    /// A client of the present revision.
    fn stateless(node: &Process, capabilities: Value) -> Self {
        Self { url: format!("{}/mcp", node.url), key: None, capabilities, session: None }
    }

    /// A client of an older revision, with its session.
    async fn with_session(node: &Process, key: Option<&str>, capabilities: Value) -> Self {
        let key = key.map(str::to_owned);
        let mut this = Self { key, ..Self::stateless(node, capabilities) };
        let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": WITH_SESSION, "capabilities": this.capabilities,
            "clientInfo": { "name": "test", "version": "1" } } });
        let answer = this.http(&begin).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
        this.session = Some(answer.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        let text = answer.text().await.unwrap();
        assert!(text.contains(&format!(r#""protocolVersion":"{WITH_SESSION}""#)), "{text}");
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(this.http(&ready).send().await.unwrap().status(), 202);
        this
    }

    fn http(&self, message: &Value) -> RequestBuilder {
        let mut request =
            client().post(&self.url).json(message).header("accept", "application/json, text/event-stream");
        let version = match (&self.session, message["method"] == "initialize") {
            (None, true) => return self.authorized(request),
            (Some(session), _) => {
                request = request.header("mcp-session-id", session);
                WITH_SESSION
            }
            (None, false) => STATELESS,
        };
        request = request.header("mcp-protocol-version", version);
        if let (None, Some(method)) = (&self.session, message["method"].as_str()) {
            request = request.header("mcp-method", method);
            if let Some(name) = message["params"]["name"].as_str().or(message["params"]["taskId"].as_str()) {
                request = request.header("mcp-name", name);
            }
        }
        self.authorized(request)
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) if key.starts_with("mesh-") => request.bearer_auth(key),
            Some(key) => request.header("x-api-key", key),
            None => request,
        }
    }

    fn message(&self, method: &str, mut params: Value) -> Value {
        if self.session.is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
    }

    /// The response to a request; `elicited` answers a request of the server.
    async fn request(&self, method: &str, params: Value, elicited: impl Fn(&Value) -> Value) -> Value {
        let mut answer = self.http(&self.message(method, params)).send().await.unwrap();
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        if kind.starts_with("application/json") {
            return answer.json().await.unwrap();
        }
        let mut text = String::new();
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text += std::str::from_utf8(&chunk).unwrap();
            while let Some((line, rest)) = text.split_once('\n') {
                let message =
                    line.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data).ok());
                text = rest.to_owned();
                match message {
                    Some(message) if message["id"] == 7 && message["method"].is_null() => return message,
                    Some(message) if message["method"] == "elicitation/create" => {
                        let result = elicited(&message["params"]);
                        let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                        assert_eq!(self.http(&reply).send().await.unwrap().status(), 202);
                    }
                    Some(_) | None => {}
                }
            }
        }
        panic!("the stream ended without a response");
    }

    async fn tool(&self, name: &str, arguments: Value) -> Value {
        self.tool_asking(name, arguments, |_| json!({ "action": "cancel" })).await
    }

    async fn tool_asking(&self, name: &str, arguments: Value, elicited: impl Fn(&Value) -> Value) -> Value {
        let answer =
            self.request("tools/call", json!({ "name": name, "arguments": arguments }), elicited).await;
        assert!(answer["result"].is_object(), "{answer:#}");
        answer["result"].clone()
    }
}

fn forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

fn token(node: &Process) -> String {
    std::fs::read_to_string(node.data.join("token")).unwrap().trim().to_owned()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn both_revisions_serve_the_same_tools() {
    let node = up().await;
    let old = McpClient::with_session(&node, None, json!({})).await;
    let new = McpClient::stateless(&node, json!({}));
    let found = new.request("server/discover", json!({}), |_| Value::Null).await;
    assert!(found["result"]["supportedVersions"].to_string().contains(STATELESS), "{found:#}");
    for client in [old, new] {
        let tools = client.request("tools/list", json!({}), |_| Value::Null).await;
        let names: Vec<_> = tools["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names.len(), 16, "{names:?}");
        let agents = client.tool("list_agents", json!({ "capability": "front" })).await;
        assert_eq!(agents["structuredContent"]["agents"][0]["agentId"], "front-01", "{agents:#}");
        let done = client.tool("send_task", json!({ "description": "make it" })).await;
        assert_eq!(done["structuredContent"]["state"], "completed", "{done:#}");
        assert!(text(&done).contains("made") && done["isError"] == false, "{done:#}");
        let echoed = client.tool("send_task", json!({ "description": "hi", "capability": "echo" })).await;
        assert_eq!(echoed["structuredContent"]["state"], "completed", "{echoed:#}");
        let wrong = client.tool("send_task", json!({ "description": "x", "capabilty": "echo" })).await;
        assert!(wrong["isError"] == true && text(&wrong).contains("capabilty"), "{wrong:#}");
        let unknown = client.request("tools/call", json!({ "name": "no_such" }), |_| Value::Null).await;
        assert!(unknown["error"]["message"].as_str().unwrap().contains("send_task"), "{unknown:#}");
    }
}

#[tokio::test]
async fn a_task_is_followed_listed_and_cancelled_and_a_large_artifact_is_read_in_pieces() {
    let node = up().await;
    let client = McpClient::stateless(&node, json!({}));
    let hanging = json!({ "description": "hang", "taskId": "t-hang", "waitSeconds": 0 });
    let sent = client.tool("send_task", hanging.clone()).await;
    assert_eq!(
        (&sent["structuredContent"]["taskId"], &sent["structuredContent"]["ended"]),
        (&json!("t-hang"), &json!(false))
    );
    assert_eq!(
        client.tool("send_task", hanging).await["structuredContent"]["taskId"],
        "t-hang",
        "it is sent once"
    );
    let listed = client.tool("list_tasks", json!({})).await;
    assert_eq!(listed["structuredContent"]["tasks"].as_array().unwrap().len(), 1, "{listed:#}");
    let waited = client.tool("get_task", json!({ "taskId": "t-hang", "waitSeconds": 1 })).await;
    assert_eq!(waited["structuredContent"]["ended"], false, "{waited:#}");
    let cancelled = client.tool("cancel_task", json!({ "taskId": "t-hang", "reason": "enough" })).await;
    assert_eq!(cancelled["structuredContent"]["state"], "canceled", "{cancelled:#}");
    let missing = client.tool("get_task", json!({ "taskId": "none" })).await;
    assert!(text(&missing).contains("task_not_found"), "{missing:#}");

    let large = client.tool("send_task", json!({ "description": "large", "taskId": "t-large" })).await;
    let artifact = &large["structuredContent"]["artifacts"][0];
    assert_eq!((&artifact["bytes"], &artifact["cut"]), (&json!(40_000), &json!(true)));
    assert!(large.to_string().len() < 40_000, "a result is bounded");
    let mut read = 0;
    let mut offset = Some(0);
    while let Some(at) = offset {
        let piece = client
            .tool("read_artifact", json!({ "taskId": "t-large", "artifact": "big.txt", "offset": at }))
            .await;
        read += piece["structuredContent"]["text"].as_str().unwrap().len();
        offset = piece["structuredContent"]["next"].as_u64();
    }
    assert_eq!(read, 40_000);
    let put = client.tool("put_artifact", json!({ "text": "notes", "mediaType": "text/markdown" })).await;
    let digest = &put["structuredContent"]["sha256"];
    let piece = client.tool("read_artifact", json!({ "sha256": digest })).await;
    assert_eq!(
        (&piece["structuredContent"]["text"], &piece["structuredContent"]["mediaType"]),
        (&json!("notes"), &json!("text/markdown"))
    );
}

#[tokio::test]
async fn entries_are_posted_and_read_by_callers_and_bind_nobody() {
    let node = up().await;
    let keyed = |key: &str| McpClient { key: Some(key.to_owned()), ..McpClient::stateless(&node, json!({})) };
    let (person, alice) = (keyed(&token(&node)), keyed("alices-own-key-0001"));
    let nobody = McpClient::stateless(&node, json!({}));
    let refused = nobody.tool("list_entries", json!({})).await;
    assert!(refused["isError"] == true && text(&refused).contains("unauthenticated"), "{refused:#}");
    let post = async |client: &McpClient, entry: Value| client.tool("post_entry", entry).await;
    let long = format!("carts {}", "ä".repeat(1_000));
    let finding =
        json!({ "kind": "finding", "content": long, "severity": "high", "tags": ["shop"], "id": "f-1" });
    let posted = post(&alice, finding.clone()).await["structuredContent"].clone();
    assert_eq!((&posted["state"], &posted["duplicate"]), (&json!("open"), &json!(false)), "{posted:#}");
    let again = post(&alice, finding).await["structuredContent"].clone();
    assert_eq!((&again["id"], &again["duplicate"]), (&posted["id"], &json!(true)));
    let listed = person.tool("list_entries", json!({ "text": "carts", "kind": "finding,proposal" })).await;
    let entry = &listed["structuredContent"]["entries"][0];
    assert_eq!((&entry["id"], &entry["cut"]), (&posted["id"], &json!(true)), "{listed:#}");
    assert!(entry["content"].as_str().unwrap().len() <= 1024);
    let read = person.tool("read_entry", json!({ "id": posted["id"] })).await;
    assert_eq!(read["structuredContent"]["entry"]["content"], json!(long), "{read:#}");
    let proposal = json!({ "kind": "proposal", "type": "scope", "slug": "no-coupons", "content": "None." });
    let proposed = post(&alice, proposal.clone()).await["structuredContent"].clone();
    assert_eq!((&proposed["state"], &proposed["slug"]), (&json!("pending"), &json!("no-coupons")));
    assert_eq!(post(&alice, proposal).await["structuredContent"]["version"], 2);
    // Not even with the person's token: the arguments are a model's.
    let decision = post(&person, json!({ "kind": "decision", "type": "scope", "content": "x" })).await;
    assert!(decision["isError"] == true && text(&decision).contains("kind"), "{decision:#}");
    let vault = json!({ "kind": "memory", "type": "learning", "scope": "own", "content": "alices secret" });
    let own = post(&alice, vault).await["structuredContent"]["id"].clone();
    assert_eq!(alice.tool("read_entry", json!({ "id": own })).await["isError"], json!(false));
    let hidden = person.tool("read_entry", json!({ "id": own })).await;
    assert!(text(&hidden).contains("entry_not_found"), "{hidden:#}");
    let first = person.tool("list_entries", json!({ "limit": 1 })).await["structuredContent"].clone();
    let rest = person.tool("list_entries", json!({ "after": first["next"] })).await;
    let ids = |page: &Value| page["entries"].as_array().unwrap().iter().map(|e| e["id"].clone()).collect();
    let (first, rest): (Vec<_>, Vec<_>) = (ids(&first), ids(&rest["structuredContent"]));
    assert_eq!((first, rest), (vec![proposed["id"].clone()], vec![posted["id"].clone()]), "no vault");
    for (arguments, named) in [
        (json!({ "limit": 51 }), "limit"),
        (json!({ "space": "nobodys" }), "space_not_found"),
        (json!({ "kind": "note" }), "finding"),
    ] {
        let refused = person.tool("list_entries", arguments).await;
        assert!(refused["isError"] == true && text(&refused).contains(named), "{named}: {refused:#}");
    }
}

#[tokio::test]
async fn open_tasks_are_offered_seen_claimed_and_completed() {
    let node = up().await;
    let client = McpClient::stateless(&node, json!({}));
    let head = client.tool("read_signals", json!({ "types": ["task.available"], "after": "now" })).await;
    let next = head["structuredContent"]["next"].clone();
    let waiting =
        client.tool("read_signals", json!({ "types": ["task.available"], "after": next, "waitSeconds": 60 }));
    let offer = json!({ "type": "task.available", "taskId": "open-1", "capability": "nobodys", "refs": { "description": "do it" } });
    let (seen, offered) = tokio::join!(waiting, client.tool("publish_signal", offer));
    assert!(offered["structuredContent"]["revision"].is_u64(), "{offered:#}");
    assert_eq!(seen["structuredContent"]["signals"][0]["taskId"], "open-1", "{seen:#}");
    let publisher = &seen["structuredContent"]["signals"][0]["refs"]["publisher"];
    let claim = client
        .tool("claim_open_task", json!({ "taskId": "open-1", "publisher": publisher, "holder": "claude" }))
        .await;
    let epoch = &claim["structuredContent"]["epoch"];
    assert_eq!(claim["structuredContent"]["state"], "held", "{claim:#}");
    let again = client.tool("claim_open_task", json!({ "taskId": "open-1" })).await;
    assert!(text(&again).contains("already_claimed"), "{again:#}");
    let update = async |action: &str, epoch: &Value| {
        client.tool("update_claim", json!({ "taskId": "open-1", "epoch": epoch, "action": action })).await
    };
    assert_eq!(update("renew", epoch).await["structuredContent"]["state"], "held");
    assert!(text(&update("complete", &json!(1)).await).contains("fenced"));
    assert_eq!(update("complete", epoch).await["structuredContent"]["state"], "completed");
    node.signal_where("task.complete", |signal| signal["taskId"] == "open-1").await;
    let forged = client.tool("publish_signal", json!({ "type": "task.complete", "taskId": "open-1" })).await;
    assert!(text(&forged).contains("only the mesh publishes"), "{forged:#}");
}

#[tokio::test]
async fn a_question_is_elicited_in_a_session_and_by_a_result_without_one() {
    let node = up().await;
    let old = McpClient::with_session(&node, None, json!({ "elicitation": {} })).await;
    let done = old
        .tool_asking("send_task", json!({ "description": "which color" }), |asked| {
            assert_eq!(asked["requestedSchema"]["properties"]["answer"]["enum"], json!(["red", "blue"]));
            json!({ "action": "accept", "content": { "answer": "blue" } })
        })
        .await;
    assert_eq!(done["structuredContent"]["state"], "completed", "{done:#}");
    let open = old.tool("send_task", json!({ "description": "which color" })).await;
    assert_eq!(open["structuredContent"]["state"], "input-required", "cancelled: {open:#}");
    let inbox = old.tool("inbox", json!({})).await;
    assert_eq!(inbox["structuredContent"]["items"].as_array().unwrap().len(), 1, "{inbox:#}");
    let answer = json!({ "taskId": open["structuredContent"]["taskId"], "text": "red",
        "questionId": open["structuredContent"]["questions"][0]["id"] });
    let answered = old.tool("answer_question", answer).await;
    assert_eq!(answered["isError"], false, "{answered:#}");

    let new = McpClient::stateless(&node, forms());
    let call = json!({ "name": "send_task", "arguments": { "description": "which color" } });
    let asks = new.request("tools/call", call.clone(), |_| Value::Null).await["result"].clone();
    assert_eq!(asks["resultType"], "input_required", "{asks:#}");
    let (id, asked) = asks["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let mut again = call;
    again["requestState"] = asks["requestState"].clone();
    again["inputResponses"] = json!({ id: { "action": "accept", "content": { "answer": "red" } } });
    let done = new.request("tools/call", again, |_| Value::Null).await["result"].clone();
    assert_eq!(done["structuredContent"]["state"], "completed", "{done:#}");
    let key = new.tool("send_task", json!({ "description": "a key" })).await;
    assert_eq!(
        key["structuredContent"]["questions"][0]["kind"], "credential",
        "a credential is no form: {key:#}"
    );
    assert_eq!(key["structuredContent"]["state"], "auth-required");
}

#[tokio::test]
async fn a_person_approves_by_elicitation_with_the_rights_of_the_credential() {
    let node = up().await;
    let approve = |_: &Value| json!({ "action": "accept", "content": { "decision": "approve" } });
    let delete = json!({ "description": "delete it" });
    // Without the person's token nobody is asked.
    let never = |asked: &Value| panic!("{asked:#}");
    for local in [McpClient::with_session(&node, None, forms()).await, McpClient::stateless(&node, forms())] {
        let open = local.tool_asking("send_task", delete.clone(), never).await;
        let (task, question) = (&open["structuredContent"], &open["structuredContent"]["questions"][0]["id"]);
        assert_eq!(task["state"], "input-required", "{open:#}");
        let command = format!("mesh answer {} --question {}", task["taskId"], question).replace('"', "");
        assert!(text(&open).contains(&format!("{command} --approve")), "{open:#}");
        let decision = json!({ "taskId": task["taskId"], "questionId": question, "decision": "approve" });
        let refused = local.tool_asking("answer_question", decision, never).await;
        assert!(refused["isError"] == true && text(&refused).contains(&command), "{refused:#}");
    }
    for key in [token(&node), "alices-own-key-0001".to_owned()] {
        let person = McpClient::with_session(&node, Some(&key), forms()).await;
        let done = person.tool_asking("send_task", delete.clone(), approve).await;
        assert_eq!(done["structuredContent"]["state"], "completed", "{done:#}");
    }
    // A tool's arguments are a model's: they never approve, whatever the credential.
    let person = McpClient::with_session(&node, Some(&token(&node)), json!({})).await;
    let open = person.tool("send_task", delete).await["structuredContent"].clone();
    let decision =
        json!({ "taskId": open["taskId"], "questionId": open["questions"][0]["id"], "decision": "approve" });
    let by_model = person.tool("answer_question", decision.clone()).await;
    assert!(by_model["isError"] == true && text(&by_model).contains("--approve"), "{by_model:#}");
    let asked = McpClient::with_session(&node, Some(&token(&node)), forms()).await;
    let denied = asked.tool_asking("answer_question", decision, |_| json!({ "action": "decline" })).await;
    assert_eq!(denied["structuredContent"]["questions"], Value::Null, "{denied:#}");
}

/// Without the person's token an approval is not asked: what a client responds to it decides nothing.
#[tokio::test]
async fn a_response_to_a_question_that_was_not_asked_is_not_taken() {
    let node = up().await;
    let client = McpClient::stateless(&node, forms());
    let call = json!({ "name": "send_task", "arguments": { "description": "both", "taskId": "t-1" } });
    let asks = client.request("tools/call", call.clone(), |_| Value::Null).await["result"].clone();
    let asked: Vec<_> = asks["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert!(asked.len() == 1 && asked[0].starts_with("c-"), "{asks:#}");
    let task = node.agent("front-01").task("t-1").await;
    let questions = &task["metadata"][protocol::task::EXTENSION]["questions"];
    let approval = questions[0]["id"].as_str().unwrap();
    let mut again = call;
    again["requestState"] = asks["requestState"].clone();
    again["inputResponses"] = json!({ asked[0].clone(): { "action": "accept", "content": { "answer": "red" } }, approval: { "action": "decline" } });
    let open = client.request("tools/call", again, |_| Value::Null).await["result"].clone();
    let left = &open["structuredContent"]["questions"];
    assert!(left.as_array().unwrap().len() == 1 && left[0]["kind"] == "approval", "{open:#}");
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let update = json!({ "taskId": "t-1", "inputResponses": { approval: { "action": "decline" } } });
    let refused = McpClient::stateless(&node, tasks).request("tasks/update", update, |_| Value::Null).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("that is asked here"), "{refused:#}");
    assert_eq!(state(&node.agent("front-01").task("t-1").await), "input_required");
}

#[tokio::test]
async fn a_task_of_the_mesh_is_a_task_of_the_extension() {
    let node = up().await;
    let tasks =
        json!({ "elicitation": { "form": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let client = McpClient::stateless(&node, tasks);
    let call = json!({ "name": "send_task", "arguments": { "description": "which color", "taskId": "t-1" } });
    let created = client.request("tools/call", call, |_| Value::Null).await["result"].clone();
    assert_eq!((&created["resultType"], &created["taskId"]), (&json!("task"), &json!("t-1")), "{created:#}");
    let in_state = async |state: &str| {
        eventually(state, async || {
            let seen = client.request("tasks/get", json!({ "taskId": "t-1" }), |_| Value::Null).await;
            let seen = seen["result"].clone();
            (seen["status"] == state).then_some(seen)
        })
        .await
    };
    let asks = in_state("input_required").await;
    let id = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let responses = json!({ id: { "action": "accept", "content": { "answer": "red" } } });
    let update = json!({ "taskId": "t-1", "inputResponses": responses });
    let updated = client.request("tasks/update", update.clone(), |_| Value::Null).await;
    assert!(updated["result"].is_object(), "{updated:#}");
    let done = in_state("completed").await;
    assert_eq!(done["result"]["structuredContent"]["state"], "completed", "{done:#}");
    let late = client.request("tasks/update", update, |_| Value::Null).await;
    assert!(late["error"]["message"].as_str().unwrap().contains("not_awaiting_answer"), "{late:#}");
    let call = json!({ "name": "send_task", "arguments": { "description": "hang", "taskId": "t-1b" } });
    client.request("tools/call", call, |_| Value::Null).await;
    client.request("tasks/cancel", json!({ "taskId": "t-1b" }), |_| Value::Null).await;
    let seen = client.request("tasks/get", json!({ "taskId": "t-1b" }), |_| Value::Null).await;
    assert_eq!(seen["result"]["status"], "cancelled", "{seen:#}");
}

#[tokio::test]
async fn hostile_requests_are_refused_and_a_session_is_its_callers() {
    let node = up().await;
    let session = McpClient::with_session(&node, None, json!({})).await;
    let list = session.message("tools/list", json!({}));
    let refusal = async |request: RequestBuilder| {
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.unwrap();
        (status, body["reasonCode"].as_str().unwrap_or_default().to_owned())
    };
    let is = |status: u16, reason: &str| (status, reason.to_owned());
    let foreign = session.http(&list).header("origin", "https://evil.example");
    assert_eq!(refusal(foreign).await, is(403, "foreign_origin"));
    let other = McpClient {
        key: Some("alices-own-key-0001".to_owned()),
        session: session.session.clone(),
        ..McpClient::stateless(&node, json!({}))
    };
    assert_eq!(refusal(other.http(&list)).await, is(404, "session_not_found"), "a session is its caller's");
    let unproven = McpClient { key: Some(token(&node)), ..other };
    assert_eq!(refusal(unproven.http(&list)).await, is(404, "session_not_found"), "and of the same proof");
    let made_up = McpClient { session: Some("0".repeat(36)), ..McpClient::stateless(&node, json!({})) };
    assert_eq!(refusal(made_up.http(&list)).await, is(404, "session_not_found"));
    let brain = McpClient { key: Some("mesh-brain-0".to_owned()), ..McpClient::stateless(&node, json!({})) };
    assert_eq!(refusal(brain.http(&list)).await, is(401, "unauthenticated"));
    let raw =
        |body: String| client().post(&session.url).header("content-type", "application/json").body(body);
    assert_eq!(refusal(raw("x".repeat(300_000))).await, is(413, "payload_too_large"));
    assert_eq!(
        refusal(raw(r#"{"jsonrpc":"2.0","jsonrpc":"2.0"}"#.to_owned())).await,
        is(400, "malformed_json")
    );
    assert_eq!(
        refusal(raw(format!("{}1{}", "[".repeat(99), "]".repeat(99)))).await,
        is(400, "malformed_json")
    );
    assert_eq!(refusal(raw(list.to_string())).await, is(406, "not_acceptable"));
    let ended = client()
        .delete(&session.url)
        .header("mcp-session-id", session.session.as_ref().unwrap())
        .send()
        .await;
    assert!(ended.unwrap().status().is_success());
    assert_eq!(refusal(session.http(&list)).await, is(404, "session_not_found"));
    // Sessions of one caller have an end.
    let mut last = 200;
    for _ in 0..70 {
        let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": WITH_SESSION, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
        last = McpClient::stateless(&node, json!({})).http(&begin).send().await.unwrap().status().as_u16();
    }
    assert_eq!(last, 429);
}

#[tokio::test]
async fn the_command_serves_the_same_tools_on_standard_input_and_output() {
    let node = up().await;
    let secret = file(node.dir(), "person", &token(&node));
    let mut child = Command::new(env!("CARGO_BIN_EXE_mesh"))
        .args(["mcp", "--url", &node.url, "--token", &secret.to_string_lossy()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) =
        (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    let mut send = |message: Value| writeln!(input, "{message}").unwrap();
    let mut next = || serde_json::from_str::<Value>(&output.next().unwrap().unwrap()).unwrap();
    send(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": WITH_SESSION, "capabilities": forms(), "clientInfo": { "name": "test", "version": "1" } } }));
    assert_eq!(next()["result"]["serverInfo"]["name"], "agent-mesh");
    send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "send_task", "arguments": { "description": "delete it" } } }));
    let asked = next();
    assert_eq!(asked["method"], "elicitation/create", "{asked:#}");
    send(json!({ "jsonrpc": "2.0", "id": asked["id"],
        "result": { "action": "accept", "content": { "decision": "approve" } } }));
    let done = next();
    assert_eq!(done["result"]["structuredContent"]["state"], "completed", "{done:#}");
    drop(input);
    assert!(child.wait().unwrap().success());
}
