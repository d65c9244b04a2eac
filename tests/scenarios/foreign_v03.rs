//! Foreign agents of A2A 0.3: a stand-in that speaks raw JSON, over JSON-RPC and over HTTP+JSON.

use super::foreign::forecast_of;
use crate::harness::{Agent, Process, artifact, call, client, eventually, message};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::ServerHandle, web};
use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    sync::{Arc, Mutex},
};

/// What was called: method or path, body, version.
type Calls = Arc<Mutex<Vec<(String, Value, String)>>>;

struct OldAgent {
    url: String,
    calls: Calls,
    server: ServerHandle,
}

impl Drop for OldAgent {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

#[derive(Clone)]
struct OldServer {
    url: String,
    calls: Calls,
    is_rest: bool,
    /// The id of the request that is answered.
    rpc_id: Value,
}

impl OldServer {
    fn part(&self, text: &str) -> Value {
        if self.is_rest { json!({ "text": text }) } else { json!({ "kind": "text", "text": text }) }
    }

    fn data(&self, data: Value) -> Value {
        if self.is_rest {
            json!({ "data": { "data": data } })
        } else {
            json!({ "kind": "data", "data": data })
        }
    }

    fn status(&self, state: &str, text: Option<&str>) -> Value {
        let name = match (self.is_rest, state) {
            (false, state) => state.to_owned(),
            (true, "canceled") => "TASK_STATE_CANCELLED".to_owned(),
            (true, state) => format!("TASK_STATE_{}", state.to_uppercase().replace('-', "_")),
        };
        let mut status = json!({ "state": name, "timestamp": "2025-09-01T08:00:00.000000" });
        if let Some(text) = text {
            status["message"] = match self.is_rest {
                true => json!({ "messageId": "s", "role": "ROLE_AGENT", "content": [self.part(text)] }),
                false => {
                    json!({ "kind": "message", "messageId": "s", "role": "agent", "parts": [self.part(text)] })
                }
            };
        }
        status
    }

    fn task(&self, state: &str, text: Option<&str>, artifacts: Value) -> Value {
        let mut task = json!({ "id": "old-1", "contextId": "c-1", "status": self.status(state, text), "artifacts": artifacts });
        if !self.is_rest {
            task["kind"] = json!("task");
        }
        task
    }

    fn made(&self) -> Value {
        json!([
            { "artifactId": "result", "name": "result", "parts": [self.part("sunny "), self.part("and warm")] },
            { "artifactId": "numbers", "parts": [self.data(json!({ "degrees": 22 }))] },
        ])
    }

    /// One event, bare as `kind`, or under the member of the proto.
    fn event(&self, kind: &str, name: &str, mut value: Value) -> Value {
        if self.is_rest {
            return json!({ name: value });
        }
        value["kind"] = json!(kind);
        json!({ "jsonrpc": "2.0", "id": self.rpc_id, "result": value })
    }

    fn update(&self, state: &str, text: Option<&str>, is_final: bool) -> Value {
        let update = json!({ "taskId": "old-1", "contextId": "c-1", "status": self.status(state, text), "final": is_final });
        self.event("status-update", "statusUpdate", update)
    }

    fn piece(&self, text: &str, append: bool) -> Value {
        let artifact = json!({ "artifactId": "result", "name": "result", "parts": [self.part(text)] });
        let update = json!({ "taskId": "old-1", "contextId": "c-1", "artifact": artifact, "append": append, "lastChunk": append });
        self.event("artifact-update", "artifactUpdate", update)
    }

    fn single(&self, name: &str, value: Value) -> HttpResponse {
        HttpResponse::Ok().json(match (self.is_rest, name) {
            (false, _) => json!({ "jsonrpc": "2.0", "id": self.rpc_id, "result": value }),
            (true, "") => value,
            (true, name) => json!({ name: value }),
        })
    }

    fn answer(&self, operation: &str, said: &str) -> HttpResponse {
        let working = || self.event("task", "task", self.task("working", Some("listening"), json!([])));
        let streams = |events: Vec<Value>, is_open: bool| {
            let lines: Vec<_> =
                events.iter().map(|event| Ok(Bytes::from(format!("data: {event}\r\n\r\n")))).collect();
            let lines = futures_util::stream::iter(lines);
            let mut answer = HttpResponse::Ok();
            answer.content_type("text/event-stream");
            match is_open {
                true => answer.streaming(futures_util::StreamExt::chain(
                    lines,
                    futures_util::stream::pending::<Result<Bytes, actix_web::Error>>(),
                )),
                false => answer.streaming(lines),
            }
        };
        match (operation, said) {
            ("send", said) if said.contains("which") => {
                self.single("task", self.task("input-required", Some("Which town?"), json!([])))
            }
            ("send", said) if said.contains("say") => self.single("message", match self.is_rest {
                true => json!({ "messageId": "a", "role": "ROLE_AGENT", "content": [self.part("hello")] }),
                false => json!({ "kind": "message", "messageId": "a", "role": "agent", "parts": [self.part("hello")] }),
            }),
            ("send", _) => self.single("task", self.task("completed", None, self.made())),
            ("stream", said) if said.contains("ever") => streams(vec![working()], true),
            ("stream", said) if said.contains("break") => streams(vec![working(), self.piece("sunny ", false)], false),
            ("stream", said) if said.contains("which") => {
                streams(vec![working(), self.update("input-required", Some("Which town?"), true)], false)
            }
            ("stream", _) => streams(
                vec![
                    working(),
                    self.update("working", Some("looking"), false),
                    self.piece("sunny ", false),
                    self.piece("and warm", true),
                    self.update("completed", None, true),
                ],
                false,
            ),
            ("subscribe", _) => streams(
                vec![self.event("task", "task", self.task("working", None, json!([]))), self.piece("sunny ", false),
                    self.piece("and warm", true), self.update("completed", None, true)],
                false,
            ),
            ("cancel", _) => self.single("", self.task("canceled", None, json!([]))),
            _ => self.single("", self.task("completed", None, self.made())),
        }
    }
}

async fn card(server: web::Data<OldServer>) -> HttpResponse {
    let (preferred, url) = if server.is_rest { ("HTTP+JSON", "/rest") } else { ("JSONRPC", "/rpc") };
    HttpResponse::Ok().json(json!({
        "name": "Old Bot", "description": "Speaks A2A 0.3", "version": "1.0.0", "protocolVersion": "0.3.0",
        "url": format!("{}{url}", server.url), "preferredTransport": preferred,
        "capabilities": { "streaming": true, "pushNotifications": true, "stateTransitionHistory": false },
        "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
        "skills": [{ "id": "get_forecast", "name": "Forecast", "description": "Weather", "tags": ["weather"] }],
    }))
}

fn said(message: &Value) -> String {
    let parts = message.get("parts").or(message.get("content"));
    parts.and_then(|parts| parts[0]["text"].as_str()).unwrap_or_default().to_owned()
}

async fn called(request: HttpRequest, server: web::Data<OldServer>, body: Bytes) -> HttpResponse {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let server = OldServer { rpc_id: body["id"].clone(), ..server.as_ref().clone() };
    let version = request.headers().get("a2a-version").map(|v| v.to_str().unwrap().to_owned());
    let name = if server.is_rest {
        format!("{} {}", request.method(), request.path())
    } else {
        body["method"].as_str().unwrap_or_default().to_owned()
    };
    server.calls.lock().unwrap().push((name.clone(), body.clone(), version.unwrap_or_default()));
    let message = if server.is_rest { &body["message"] } else { &body["params"]["message"] };
    let operation = match name.as_str() {
        "message/send" | "POST /rest/v1/message:send" => "send",
        "message/stream" | "POST /rest/v1/message:stream" => "stream",
        "tasks/get" | "GET /rest/v1/tasks/old-1" => "get",
        "tasks/cancel" | "POST /rest/v1/tasks/old-1:cancel" => "cancel",
        "tasks/resubscribe" | "GET /rest/v1/tasks/old-1:subscribe" => "subscribe",
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            return match server.is_rest {
                true => HttpResponse::NotFound().json(error),
                false => {
                    HttpResponse::Ok().json(json!({ "jsonrpc": "2.0", "id": body["id"], "error": error }))
                }
            };
        }
    };
    let wishes = if server.is_rest { &body["configuration"] } else { &body["params"]["configuration"] };
    let push = wishes.get(if server.is_rest { "pushNotification" } else { "pushNotificationConfig" });
    if let (Some(push), "send") = (push.cloned(), operation) {
        // Webhooks have the form of the schema, whatever the binding.
        let task = OldServer { is_rest: false, ..server.clone() };
        let task = task.task("completed", None, task.made());
        actix::spawn(async move {
            let call = client().post(push["url"].as_str().unwrap()).json(&task);
            let token = push["token"].as_str().unwrap().to_owned();
            let answer = call.header("x-a2a-notification-token", token).send().await.unwrap();
            assert!(answer.status().is_success(), "{answer:?}");
        });
        return server.single("task", server.task("working", None, json!([])));
    }
    server.answer(operation, &said(message))
}

impl OldAgent {
    fn start(is_rest: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = OldServer { url: url.clone(), calls: Calls::default(), is_rest, rpc_id: Value::Null };
        let calls = server.calls.clone();
        let running = HttpServer::new(move || {
            App::new()
                .app_data(web::Data::new(server.clone()))
                .route("/.well-known/agent-card.json", web::get().to(card))
                .default_service(web::to(called))
        })
        .workers(1)
        .disable_signals()
        .listen(listener)
        .unwrap()
        .run();
        let handle = running.handle();
        actix::spawn(running);
        Self { url, calls, server: handle }
    }

    /// The bodies of the calls of this method or path.
    fn received(&self, name: &str) -> Vec<Value> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, ..)| called == name).map(|(_, body, _)| body.clone()).collect()
    }
}

async fn up(agent: &OldAgent, how: &str) -> (Process, Agent) {
    let team = format!(
        "
mesh: {{ outside: {{ allow: [127.0.0.0/8] }} }}
agents:
  - {{ agent: desk-01, skills: [desk], brain: {{ echo: {{}} }} }}
  - {{ agent: old-bot, brain: {{ a2a: {{ card: '{}'{how} }} }}, bid: {{ maxParallel: 4 }} }}
",
        agent.url
    );
    let mesh = Process::up(&team).await;
    let desk = mesh.agent("desk-01");
    (mesh, desk)
}

#[actix::test]
async fn an_agent_of_0_3_streams_and_is_spoken_to_in_its_own_words() {
    for is_rest in [false, true] {
        let agent = OldAgent::start(is_rest);
        let (_mesh, desk) = up(&agent, "").await;
        let task = desk.ask(forecast_of("Tomorrow in Bern")).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("sunny and warm"), "{task:#}");
        let name = if is_rest { "POST /rest/v1/message:stream" } else { "message/stream" };
        let calls = agent.calls.lock().unwrap().clone();
        assert!(calls.iter().all(|(_, _, version)| version == "0.3"), "{calls:?}");
        let (_, body, _) = calls.iter().find(|(called, ..)| called == name).unwrap();
        let sent = if is_rest { &body["message"] } else { &body["params"]["message"] };
        match is_rest {
            true => {
                assert_eq!(
                    (&sent["role"], &sent["content"][0]["text"]),
                    (&json!("ROLE_USER"), &json!("Tomorrow in Bern"))
                );
                assert!(!body.to_string().contains("\"kind\""), "{body}");
            }
            false => {
                assert_eq!((&sent["kind"], &sent["role"]), (&json!("message"), &json!("user")));
                assert_eq!(sent["parts"][0], json!({ "kind": "text", "text": "Tomorrow in Bern" }));
                assert_eq!(body["params"]["configuration"]["blocking"], true);
            }
        }
    }
}

#[actix::test]
async fn its_answers_in_one_piece_its_polls_and_its_messages_are_read() {
    for is_rest in [false, true] {
        let agent = OldAgent::start(is_rest);
        for mode in ["sync", "polling"] {
            let (_mesh, desk) = up(&agent, &format!(", mode: {mode}")).await;
            let task = desk.ask(forecast_of("Tomorrow in Bern")).await;
            assert_eq!(artifact(&task, "result").as_deref(), Some("sunny and warm"), "{mode}: {task:#}");
            let numbers =
                task["artifacts"].as_array().unwrap().iter().find(|made| made["artifactId"] == "numbers");
            assert_eq!(numbers.unwrap()["parts"][0]["data"]["degrees"], 22, "{task:#}");
        }
        let (_mesh, desk) = up(&agent, ", mode: sync").await;
        let task = desk.ask(forecast_of("just say it")).await;
        assert!(task.to_string().contains("hello"), "{task:#}");
    }
}

#[actix::test]
async fn a_stream_that_breaks_goes_on_by_resubscribe() {
    for is_rest in [false, true] {
        let agent = OldAgent::start(is_rest);
        let (_mesh, desk) = up(&agent, "").await;
        let task = desk.ask(forecast_of("break")).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("sunny and warm"), "{task:#}");
        let name = if is_rest { "GET /rest/v1/tasks/old-1:subscribe" } else { "tasks/resubscribe" };
        assert_eq!(agent.received(name).len(), 1);
    }
}

#[actix::test]
async fn its_question_is_answered_in_its_task() {
    for is_rest in [false, true] {
        let agent = OldAgent::start(is_rest);
        let (_mesh, desk) = up(&agent, "").await;
        let id = desk.send(forecast_of("which")).await;
        let task = desk.task_in(&id, &["input_required"]).await;
        assert_eq!(message(&task), "Which town?");
        let answer = json!({ "text": "Bern" });
        let url = format!("{}/a2a/tasks/{id}/answer", desk.url);
        assert_eq!(call(Method::POST, &url, Some(&answer)).await.status, 200);
        let task = desk.task_in(&id, &["completed", "failed"]).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("sunny and warm"), "{task:#}");
        let name = if is_rest { "POST /rest/v1/message:stream" } else { "message/stream" };
        let second = agent.received(name)[1].clone();
        let message = if is_rest { &second["message"] } else { &second["params"]["message"] };
        assert_eq!(message["taskId"], "old-1", "{second}");
    }
}

#[actix::test]
async fn its_webhook_is_sent_the_task() {
    for is_rest in [false, true] {
        let agent = OldAgent::start(is_rest);
        let (_mesh, desk) = up(&agent, ", mode: webhook").await;
        let task = desk.ask(forecast_of("Tomorrow in Bern")).await;
        assert_eq!(artifact(&task, "result").as_deref(), Some("sunny and warm"), "{task:#}");
        let polls = if is_rest { "GET /rest/v1/tasks/old-1" } else { "tasks/get" };
        assert!(agent.received(polls).is_empty(), "it was told");
    }
}

#[actix::test]
async fn a_cancel_reaches_its_task() {
    for is_rest in [false, true] {
        let agent = OldAgent::start(is_rest);
        let (_mesh, desk) = up(&agent, "").await;
        let id = desk.send(forecast_of("for ever")).await;
        let task = desk.task_in(&id, &["working"]).await;
        assert_eq!(task["id"], json!(id));
        eventually("the stream is open", async || {
            let shown = desk.task(&id).await;
            (message(&shown) == "listening").then_some(())
        })
        .await;
        call(Method::POST, &format!("{}/a2a/tasks/{id}/cancel", desk.url), Some(&json!({}))).await;
        let name = if is_rest { "POST /rest/v1/tasks/old-1:cancel" } else { "tasks/cancel" };
        eventually("the cancel arrives", async || (!agent.received(name).is_empty()).then_some(())).await;
    }
}
