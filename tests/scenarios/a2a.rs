//! A2A clients: the bindings return the same tasks, callers see their own tasks only, no event is lost.

use crate::harness::{Process, client, eventually, receive_notification};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::net::TcpListener;

const TEAM: &str = "
agents:
  - agent: front-01
    open: true
    skills: [front]
    brain: { scripted: script.yaml }
    bid: { maxParallel: 8 }
    a2a: { direct: true }
  - { agent: smith-01, skills: [forge], brain: { scripted: script.yaml }, bid: { maxParallel: 4 } }
mesh:
  outside: { allow: [127.0.0.0/8] }
  callers:
    - { user: alice, apiKey: alices-own-key-0001 }
    - { user: bob, bearer: bobs-own-token-0001 }
";

const SCRIPT: &str = "
turns:
  - { when: { contains: just say }, end: { message: said } }
  - { when: { contains: refuse }, end: { rejected: not for me } }
  - { when: { messageId: last-word }, end: { done: so it is } }
  - { when: { contains: ask me }, say: [{ type: question, id: q, text: which? }] }
  - { when: { contains: show a key }, say: [{ type: question, id: k, kind: credential, text: your key? }] }
  - { when: { contains: slowly }, say: [{ type: status, message: one }, { type: status, message: two }], delayMs: 300, end: { done: done } }
  - { say: [{ type: artifact, name: a.txt, text: made }], end: { done: done } }
";

async fn up() -> Process {
    Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await
}

fn at(mesh: &Process, agent: &str, path: &str) -> String {
    format!("{}{path}", mesh.agents[agent])
}

fn versioned(request: RequestBuilder) -> RequestBuilder {
    request.header("a2a-version", "1.0")
}

fn said(text: &str) -> Value {
    json!({ "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{ "text": text }] })
}

async fn json(response: Response) -> Value {
    response.json().await.unwrap()
}

async fn rest(mesh: &Process, path: &str, body: &Value) -> Value {
    let url = at(mesh, "front-01", &format!("/a2a/v1/{path}"));
    json(versioned(client().post(url).json(body)).send().await.unwrap()).await
}

async fn look(mesh: &Process, path: &str) -> Value {
    let url = at(mesh, "front-01", &format!("/a2a/v1/{path}"));
    json(versioned(client().get(url)).send().await.unwrap()).await
}

async fn rpc(mesh: &Process, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let url = at(mesh, "front-01", "/a2a/rpc");
    json(versioned(client().post(url).json(&body)).send().await.unwrap()).await
}

fn reason(body: &Value) -> &str {
    body["error"]["details"][0]["reason"].as_str().unwrap_or_default()
}

/// Reads a stream to its end.
async fn events(response: Response) -> Vec<Value> {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn both_bindings_return_the_same_task() {
    let mesh = up().await;
    let answer = rpc(&mesh, "SendMessage", json!({ "message": said("make it") })).await;
    let task = &answer["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "made");
    let id = task["id"].as_str().unwrap();
    assert_eq!(look(&mesh, &format!("tasks/{id}")).await, *task);
    let house =
        json(client().get(at(&mesh, "front-01", &format!("/a2a/tasks/{id}"))).send().await.unwrap()).await;
    assert_eq!(house, *task, "there is one task");
}

#[tokio::test]
async fn a_skill_the_agent_lacks_is_awarded_and_the_award_is_sent_on_request() {
    let mesh = up().await;
    let body = json!({ "message": said("a horseshoe"), "metadata": { "skill": "forge" } });
    let send = |ours: bool| {
        let request = versioned(client().post(at(&mesh, "front-01", "/a2a/v1/message:send")).json(&body));
        if ours { request.header("a2a-extensions", "urn:agent-mesh:ext:task:v1") } else { request }
    };
    eventually("the smith is known", || async {
        let answer = json(send(false).send().await.unwrap()).await;
        (answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED").then_some(())
    })
    .await;
    let mut other = body.clone();
    other["message"]["messageId"] = "once".into();
    let response = versioned(client().post(at(&mesh, "front-01", "/a2a/v1/message:send")).json(&other))
        .header("a2a-extensions", "urn:agent-mesh:ext:task:v1")
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["a2a-extensions"], "urn:agent-mesh:ext:task:v1");
    let task = json(response).await["task"].clone();
    let ours = &task["metadata"]["urn:agent-mesh:ext:task:v1"];
    assert_eq!(ours["doer"], "smith-01", "{task}");
    assert!(ours["award"]["rounds"].is_array(), "{ours}");
    let again = json(
        versioned(client().post(at(&mesh, "front-01", "/a2a/v1/message:send")).json(&other))
            .header("a2a-extensions", "urn:agent-mesh:ext:task:v1")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(again["task"]["id"], task["id"], "who asks for our extension may repeat a message");
}

#[tokio::test]
async fn an_agent_answers_rejects_or_waits_as_its_brain_decides() {
    let mesh = up().await;
    let answer = rest(&mesh, "message:send", &json!({ "message": said("just say it") })).await;
    assert_eq!(answer["message"]["parts"][0]["text"], "said", "{answer}");
    assert!(answer["message"]["contextId"].is_string());
    assert_eq!(look(&mesh, "tasks").await["totalSize"], 0, "an answer is no task");
    let refused = rest(&mesh, "message:send", &json!({ "message": said("refuse it") })).await;
    assert_eq!(refused["task"]["status"]["state"], "TASK_STATE_REJECTED");
    let waits = rest(&mesh, "message:send", &json!({ "message": said("show a key") })).await;
    assert_eq!(waits["task"]["status"]["state"], "TASK_STATE_AUTH_REQUIRED");
    assert_eq!(waits["task"]["status"]["message"]["parts"][0]["text"], "your key?");
}

#[tokio::test]
async fn a_task_continues_by_its_id_alone_and_keeps_its_history() {
    let mesh = up().await;
    let first = rest(&mesh, "message:send", &json!({ "message": said("ask me") })).await;
    let (id, context) = (first["task"]["id"].clone(), first["task"]["contextId"].clone());
    assert_eq!(first["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let mut foreign = said("the red one");
    foreign["taskId"] = id.clone();
    foreign["contextId"] = "another".into();
    let refused = rest(&mesh, "message:send", &json!({ "message": foreign })).await;
    assert_eq!(
        refused["error"]["details"][1]["fieldViolations"][0]["field"], "message.contextId",
        "{refused}"
    );
    let mut last = said("the red one");
    last["taskId"] = id.clone();
    last["messageId"] = "last-word".into();
    let done = rest(&mesh, "message:send", &json!({ "message": last })).await;
    assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(done["task"]["contextId"], context);
    let said: Vec<_> = done["task"]["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["parts"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["ask me", "which?", "the red one"]);
    let over = rest(&mesh, "message:send", &json!({ "message": last })).await;
    assert_eq!(reason(&over), "UNSUPPORTED_OPERATION", "{over}");
}

#[tokio::test]
async fn a_subscriber_gets_every_event_once() {
    let mesh = up().await;
    let body = json!({ "message": said("slowly"), "configuration": { "returnImmediately": true } });
    let begun = rest(&mesh, "message:send", &body).await;
    let id = begun["task"]["id"].as_str().unwrap();
    let subscribe = |_: usize| {
        let url = at(&mesh, "front-01", &format!("/a2a/v1/tasks/{id}:subscribe"));
        async move { events(versioned(client().post(url)).send().await.unwrap()).await }
    };
    for heard in futures_util::future::join_all((0..4).map(subscribe)).await {
        assert!(heard[0]["task"].is_object(), "{heard:?}");
        let texts: Vec<_> = heard
            .iter()
            .map(|event| if event["task"].is_object() { &event["task"] } else { &event["statusUpdate"] })
            .map(|task| task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len(), "{texts:?}");
        assert_eq!(*texts.last().unwrap(), "done");
    }
    let late = rest(&mesh, &format!("tasks/{id}:subscribe"), &json!({})).await;
    assert_eq!(reason(&late), "UNSUPPORTED_OPERATION");
}

#[tokio::test]
async fn callers_see_only_their_own_tasks() {
    let mesh = up().await;
    let url = at(&mesh, "front-01", "/a2a/v1/message:send");
    let send = versioned(client().post(url).json(&json!({ "message": said("ask me") })));
    let task =
        json(send.header("x-api-key", "alices-own-key-0001").send().await.unwrap()).await["task"].clone();
    let id = task["id"].as_str().unwrap();
    for (method, path) in [
        ("GET", format!("tasks/{id}")),
        ("POST", format!("tasks/{id}:cancel")),
        ("POST", format!("tasks/{id}:subscribe")),
        ("GET", format!("tasks/{id}/pushNotificationConfigs")),
        ("GET", format!("tasks/{id}/pushNotificationConfigs/x")),
        ("DELETE", format!("tasks/{id}/pushNotificationConfigs/x")),
    ] {
        let ask = |path: &str, who: Option<&str>| {
            let url = at(&mesh, "front-01", &format!("/a2a/v1/{path}"));
            let request = versioned(client().request(method.parse().unwrap(), url));
            if let Some(who) = who { request.bearer_auth(who) } else { request }
        };
        let missing = path.replace(id, "task-that-is-not-there");
        for who in [None, Some("bobs-own-token-0001")] {
            let theirs = ask(&path, who).send().await.unwrap();
            let none = ask(&missing, who).send().await.unwrap();
            assert_eq!(theirs.status(), 404, "{method} {path}");
            assert_eq!(theirs.status(), none.status());
            let same = |body: Value, id: &str| body.to_string().replace(id, "<id>");
            assert_eq!(
                same(json(theirs).await, id),
                same(json(none).await, "task-that-is-not-there"),
                "{path}"
            );
        }
    }
    assert_eq!(look(&mesh, "tasks").await["totalSize"], 0);
    let wrong =
        versioned(client().get(at(&mesh, "front-01", "/a2a/v1/tasks"))).bearer_auth("a-guess-of-a-token");
    let wrong = wrong.send().await.unwrap();
    assert_eq!(
        (wrong.status().as_u16(), wrong.headers()["www-authenticate"].to_str().unwrap()),
        (401, "Bearer")
    );
}

#[tokio::test]
async fn a_tenant_sees_its_own_tasks_and_an_agent_id_as_tenant_selects_the_agent() {
    let mesh = up().await;
    let acme = rest(&mesh, "acme/message:send", &json!({ "message": said("ask me") })).await;
    let id = acme["task"]["id"].as_str().unwrap();
    assert_eq!(look(&mesh, &format!("acme/tasks/{id}")).await["id"], id);
    assert_eq!(reason(&look(&mesh, &format!("tasks/{id}")).await), "TASK_NOT_FOUND");
    assert_eq!(look(&mesh, "other/tasks").await["totalSize"], 0);
    let smith = rest(
        &mesh,
        "smith-01/message:send",
        &json!({ "message": said("nails"), "metadata": { "skill": "forge" } }),
    )
    .await;
    assert_eq!(smith["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{smith}");
    assert_eq!(look(&mesh, "smith-01/tasks").await["totalSize"], 1);
}

#[tokio::test]
async fn the_extended_card_needs_a_credential() {
    let mesh = up().await;
    let url = at(&mesh, "front-01", "/a2a/v1/extendedAgentCard");
    let ask = || versioned(client().get(&url));
    let nobody = ask().send().await.unwrap();
    assert_eq!(nobody.status(), 401);
    assert!(nobody.headers().contains_key("www-authenticate"));
    let known = json(ask().header("x-api-key", "alices-own-key-0001").send().await.unwrap()).await;
    assert!(known["capabilities"]["extensions"][0]["params"]["terms"].is_object(), "{known}");
    let url = at(&mesh, "front-01", "/.well-known/agent-card.json");
    let first = client().get(&url).send().await.unwrap();
    let tag = first.headers()["etag"].clone();
    let card = json(first).await;
    assert_eq!(card["capabilities"]["extendedAgentCard"], true);
    assert!(card["capabilities"]["extensions"][0]["params"]["terms"].is_null());
    let again = client().get(&url).header("if-none-match", tag).send().await.unwrap();
    assert_eq!(again.status(), 304);
}

#[tokio::test]
async fn every_request_needs_the_version_header() {
    let mesh = up().await;
    let rest = |version: Option<&str>| {
        let request = client().get(at(&mesh, "front-01", "/a2a/v1/tasks"));
        if let Some(version) = version { request.header("a2a-version", version) } else { request }
    };
    for version in [None, Some("0.3"), Some("2.0")] {
        let refused = json(rest(version).send().await.unwrap()).await;
        assert_eq!(reason(&refused), "VERSION_NOT_SUPPORTED", "{version:?}");
    }
    assert_eq!(rest(Some("1.0.9")).send().await.unwrap().status(), 200);
    for by_query in ["A2A-Version", "a2a-version"] {
        let by_query = at(&mesh, "front-01", &format!("/a2a/v1/tasks?{by_query}=1.0"));
        assert_eq!(client().get(by_query).send().await.unwrap().status(), 200);
    }
    let body = json!({ "jsonrpc": "2.0", "id": "a", "method": "GetTask", "params": { "id": "x" } });
    let unversioned = client().post(at(&mesh, "front-01", "/a2a/rpc")).json(&body).send().await.unwrap();
    assert_eq!(json(unversioned).await["error"]["code"], -32009);
}

#[tokio::test]
async fn every_error_has_its_own_code() {
    let mesh = up().await;
    for (body, code) in [
        ("{", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageSize":101}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageToken":"x"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}"#, -32001),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}"#, -32010),
    ] {
        let request =
            client().post(at(&mesh, "front-01", "/a2a/rpc")).header("content-type", "application/json");
        let answer = json(versioned(request.body(body)).send().await.unwrap()).await;
        assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
        assert!(answer["error"]["data"][0]["@type"].is_string());
    }
    let plain =
        client().post(at(&mesh, "front-01", "/a2a/rpc")).header("content-type", "text/plain").body("hi");
    assert_eq!(json(versioned(plain).send().await.unwrap()).await["error"]["code"], -32005);
}

#[tokio::test]
async fn pages_of_a_list_contain_every_task_once_newest_first() {
    let mesh = up().await;
    for at in 0..7 {
        rest(&mesh, "message:send", &json!({ "message": said(&format!("make {at}")) })).await;
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = look(&mesh, &format!("tasks?pageSize=3&pageToken={token}")).await;
        assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(7), &json!(3)));
        for task in page["tasks"].as_array().unwrap() {
            assert!(task.get("artifacts").is_none());
            seen.push((task["status"]["timestamp"].as_str().unwrap().to_owned(), task["id"].to_string()));
        }
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.is_sorted_by(|a, b| a.0 >= b.0));
    assert_eq!(seen.iter().map(|(_, id)| id).collect::<BTreeSet<_>>().len(), 7);
    let with = look(&mesh, "tasks?includeArtifacts=true&status=TASK_STATE_COMPLETED&pageSize=1").await;
    assert_eq!(with["tasks"][0]["artifacts"][0]["parts"][0]["text"], "made");
}

#[tokio::test]
async fn a_waiting_task_can_be_subscribed_to_after_a_restart() {
    let mesh = up().await;
    let first = rest(&mesh, "message:send", &json!({ "message": said("ask me") })).await;
    let id = first["task"]["id"].as_str().unwrap().to_owned();
    let mesh = mesh.restart().await;
    let url = at(&mesh, "front-01", &format!("/a2a/v1/tasks/{id}:subscribe"));
    let response = versioned(client().get(url)).send().await.unwrap();
    let mut last = said("enough");
    last["taskId"] = id.as_str().into();
    last["messageId"] = "last-word".into();
    let last = json!({ "message": last });
    let (heard, done) = tokio::join!(events(response), rest(&mesh, "message:send", &last));
    assert_eq!(heard[0]["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{heard:?}");
    assert_eq!(heard.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{heard:?}");
    assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn a_cancel_ends_the_stream_of_its_task() {
    let mesh = up().await;
    let url = at(&mesh, "front-01", "/a2a/rpc");
    let body = json!({ "jsonrpc": "2.0", "id": "s", "method": "SendStreamingMessage", "params": { "message": said("slowly") } });
    let stream = versioned(client().post(url).json(&body)).send().await.unwrap();
    let id = eventually("the task is there", || async {
        look(&mesh, "tasks").await["tasks"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let cancel =
        async { rpc(&mesh, "CancelTask", json!({ "id": id, "metadata": { "reason": "enough" } })).await };
    let (heard, ended) = tokio::join!(events(stream), cancel);
    assert_eq!(ended["result"]["status"]["state"], "TASK_STATE_CANCELED", "{ended}");
    let last = &heard.last().unwrap()["result"]["statusUpdate"]["status"];
    assert_eq!(
        (&last["state"], &last["message"]["parts"][0]["text"]),
        (&json!("TASK_STATE_CANCELED"), &json!("enough"))
    );
    assert!(heard.iter().all(|event| event["id"] == "s" && event["jsonrpc"] == "2.0"));
    assert_eq!(rpc(&mesh, "CancelTask", json!({ "id": id })).await["error"]["code"], -32002);
}

#[tokio::test]
async fn a_webhook_gets_every_event_despite_failures() {
    let mesh = up().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?secret=1", listener.local_addr().unwrap());
    let webhook =
        json!({ "url": url, "authentication": { "scheme": "Bearer", "credentials": "top-secret" } });
    let body =
        json!({ "message": said("ask me"), "configuration": { "taskPushNotificationConfig": webhook } });
    let begun = rest(&mesh, "message:send", &body).await;
    let id = begun["task"]["id"].as_str().unwrap().to_owned();
    let (head, first) = receive_notification(&listener, 200).await;
    assert!(
        head.contains("authorization: bearer top-secret") && head.contains("application/a2a+json"),
        "{head}"
    );
    assert_eq!(first["statusUpdate"]["taskId"], id.as_str());
    // The webhook fails, and the node is killed before the next attempt.
    let (_, refused) = receive_notification(&listener, 500).await;
    assert_eq!(refused["statusUpdate"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let mesh = mesh.restart().await;
    let (_, again) = receive_notification(&listener, 200).await;
    assert_eq!(again, refused, "an event that it was not sent comes again");
    let mut last = said("enough");
    last["taskId"] = id.as_str().into();
    last["messageId"] = "last-word".into();
    rest(&mesh, "message:send", &json!({ "message": last })).await;
    let mut states = Vec::new();
    while states.last().is_none_or(|state| state != "TASK_STATE_COMPLETED") {
        let (_, event) = receive_notification(&listener, 200).await;
        states.push(event["statusUpdate"]["status"]["state"].as_str().unwrap_or_default().to_owned());
    }
    assert!(
        !mesh.log().contains("top-secret") && !mesh.log().contains("secret=1"),
        "no secret is in the log"
    );
}

#[tokio::test]
async fn a_webhook_that_refuses_is_told_the_end_in_plain_json_and_knows_repeats_by_their_id() {
    let mesh = up().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = json!({ "url": format!("http://{}/hook", listener.local_addr().unwrap()) });
    let body =
        json!({ "message": said("make it"), "configuration": { "taskPushNotificationConfig": webhook } });
    rest(&mesh, "message:send", &body).await;
    let id = |head: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix("webhook-id: "))
            .expect("an id of the event")
            .to_owned()
    };
    // A gateway whose service is deployed anew: it takes nothing, then plain JSON alone.
    let (head, event) = loop {
        let (head, event) = receive_notification(&listener, 404).await;
        if event["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED" {
            break (head, event);
        }
    };
    let (again, same) = receive_notification(&listener, 415).await;
    assert_eq!((id(&again), same), (id(&head), event.clone()), "the end is told again, under its id");
    let (plain, same) = receive_notification(&listener, 200).await;
    assert!(plain.contains("content-type: application/json"), "{plain}");
    assert_eq!((id(&plain), same), (id(&head), event));
}

#[tokio::test]
async fn a_node_that_shuts_down_calls_its_webhooks_first() {
    let mut mesh = up().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = json!({ "url": format!("http://{}/hook", listener.local_addr().unwrap()) });
    let body =
        json!({ "message": said("make it"), "configuration": { "taskPushNotificationConfig": webhook } });
    let done = rest(&mesh, "message:send", &body).await;
    assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done:#}");
    // The first call is still unanswered.
    mesh.signal("TERM");
    let mut last = json!(null);
    while last != "TASK_STATE_COMPLETED" {
        let (_, event) = receive_notification(&listener, 200).await;
        last = event["statusUpdate"]["status"]["state"].clone();
    }
    assert_eq!(mesh.ended().await, 0, "{}", mesh.log());
}

#[tokio::test]
async fn a_webhook_at_a_private_address_is_refused_before_the_task_starts() {
    let mesh = up().await;
    for url in
        ["http://10.1.2.3/x", "https://[::1]/", "ftp://example.org/", "not a url", "https://169.254.169.254/"]
    {
        let body = json!({ "message": said("make it"), "configuration": { "taskPushNotificationConfig": { "url": url } } });
        let refused = rest(&mesh, "message:send", &body).await;
        assert_eq!(refused["error"]["code"], 400, "{url}: {refused}");
        assert_eq!(
            refused["error"]["details"][1]["fieldViolations"][0]["field"],
            "configuration.taskPushNotificationConfig.url"
        );
    }
    assert_eq!(look(&mesh, "tasks").await["totalSize"], 0);
}

/// A task request with a `replyTo`, which waits for the end of the task.
async fn asked_with(mesh: &Process, reply_to: &str) -> (u16, Value) {
    let request = json!({
        "fromAgentId": "me", "toAgentId": "front-01", "type": "task-request", "replyTo": reply_to,
        "payload": { "description": "make it", "capability": "front" },
    });
    let post = client().post(at(mesh, "front-01", "/a2a/messages")).header("prefer", "wait=60");
    let answer = post.json(&request).send().await.unwrap();
    (answer.status().as_u16(), json(answer).await)
}

#[tokio::test]
async fn the_response_of_a_users_task_is_delivered_to_its_reply_to() {
    let mesh = up().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/answers", listener.local_addr().unwrap());
    let (status, task) = asked_with(&mesh, &url).await;
    assert_eq!((status, &task["warnings"]), (200, &Value::Null), "{task:#}");
    let (_, refused) = receive_notification(&listener, 503).await;
    let mesh = mesh.restart().await;
    let (head, response) = receive_notification(&listener, 200).await;
    assert_eq!(response, refused, "it is tried again, after a restart too");
    assert!(head.contains("application/json") && !head.contains("signature"), "{head}");
    assert_eq!((&response["type"], &response["fromAgentId"]), (&json!("task-response"), &json!("front-01")));
    assert_eq!((&response["toAgentId"], &response["payload"]["taskId"]), (&json!("me"), &task["id"]));
    assert_eq!(response["payload"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(response["payload"]["artifacts"][0]["parts"][0]["text"], "made");

    for (url, why) in [
        ("https://10.1.2.3/x".to_owned(), "10.1.2.3"),
        (at(&mesh, "smith-01", "/a2a/messages"), "an endpoint of the mesh"),
    ] {
        let (status, task) = asked_with(&mesh, &url).await;
        let warning = task["warnings"][0].as_str().unwrap_or_default();
        assert!(status == 200 && warning.contains("replyTo") && warning.contains(why), "{url}: {task:#}");
    }
}

#[tokio::test]
async fn the_reply_to_of_an_agent_is_its_registered_endpoint() {
    let mesh = up().await;
    let (front, own) = (at(&mesh, "front-01", ""), at(&mesh, "smith-01", "/a2a/messages"));
    let smith = mesh.client_as("smith-01");
    let ask = async |reply_to: &str| {
        let request = json!({
            "messageId": uuid::Uuid::now_v7(), "fromAgentId": "smith-01", "toAgentId": "front-01",
            "type": "help-request", "replyTo": reply_to, "payload": { "question": "how?" },
        });
        smith.call(reqwest::Method::POST, (&front, "/a2a/messages"), "front-01", Some(&request)).await
    };
    let refused = ask("http://127.0.0.1:9/a2a/messages").await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("replyTo"), "{refused:?}");
    assert_eq!(ask(&own).await.status, 202);
}
