//! A foreign A2A agent over real HTTP, played by the test. It records every call.

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::ServerHandle, web};
use bytes::Bytes;
use futures_util::StreamExt;
use protocol::a2a::card_signature;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// What the agent does with every message.
#[derive(Clone, Debug)]
pub enum ForeignBehavior {
    /// Completes at once with this text.
    Answers(&'static str),
    /// Completes at once with these artifacts.
    Makes(Value),
    /// Completes after so many polls.
    Works(usize, &'static str),
    /// Streams these chunks of one text and completes; the first connection breaks after so many of them.
    Streams(&'static [&'static str], Option<usize>),
    /// Asks this question and completes when it is answered.
    Asks(&'static str),
    /// Fails with this reason.
    Fails(&'static str),
    /// Rejects with this reason.
    Rejects(&'static str),
    /// Works until it is cancelled.
    Never,
    /// Streams chunks of one artifact without end.
    Floods,
    /// Takes a message and never answers.
    Mute,
    /// Completes and calls the webhook.
    CallsBack(&'static str),
    /// Answers with this value.
    Returns(Value),
}

/// A received call.
#[derive(Clone, Debug)]
pub struct ReceivedCall {
    pub method: String,
    pub params: Value,
    pub headers: BTreeMap<String, String>,
    pub at: Instant,
}

#[derive(Default)]
struct ForeignState {
    heard: Vec<ReceivedCall>,
    /// For each task: polls, state, answer.
    tasks: BTreeMap<String, (usize, String, Option<String>)>,
    streams: usize,
    /// The full and the conditional requests for the card.
    looks: (usize, usize),
    /// So many further calls are answered 503, with this `Retry-After`.
    busy: (usize, u64),
    /// Whether messages that name a context are refused.
    refuses_contexts: bool,
    /// What its card says beside.
    card_more: Option<Value>,
}

struct ForeignServer {
    card: Value,
    behavior: Mutex<ForeignBehavior>,
    memory: Mutex<ForeignState>,
}

/// A foreign agent; stops when dropped.
pub struct ForeignAgent {
    pub url: String,
    inner: Arc<ForeignServer>,
    server: ServerHandle,
}

impl Drop for ForeignAgent {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

/// A card with one skill, overridden by the members of `more`.
fn card(url: &str, name: &str, skill: Value, more: Value) -> Value {
    let card = json!({
        "name": name, "description": format!("{name}, from elsewhere"), "version": "1.0.0",
        "supportedInterfaces": [{ "url": format!("{url}/rpc"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "capabilities": { "streaming": false }, "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain", "application/json"], "skills": [skill],
    });
    super::with(card, more)
}

/// `card` signed by a key of its own host, then changed.
fn forged(url: &str, card: Value) -> Value {
    let jku = format!("{url}/.well-known/jwks.json");
    let signature = card_signature::sign(&card, &key(), Some(&jku));
    super::with(card, json!({ "signatures": [signature], "description": "somebody else wrote this" }))
}

fn key() -> card_signature::SigningKey {
    card_signature::SigningKey::from_seed(&[7; 32])
}

async fn keys() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "keys": [key().public().to_jwk()] }))
}

/// A skill.
pub fn skill(id: &str, description: &str, tags: &[&str], examples: &[&str]) -> Value {
    json!({ "id": id, "name": id.replace('_', " "), "description": description, "tags": tags, "examples": examples })
}

impl ForeignAgent {
    pub async fn start(name: &str, skill: Value, more: Value, behavior: ForeignBehavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut card = card(&url, name, skill, more);
        if card.as_object_mut().unwrap().remove("forged").is_some() {
            card = forged(&url, card);
        }
        let inner =
            Arc::new(ForeignServer { card, behavior: Mutex::new(behavior), memory: Mutex::default() });
        let server = Self::serve(inner.clone(), listener);
        Self { url, inner, server }
    }

    fn serve(shared: Arc<ForeignServer>, listener: TcpListener) -> ServerHandle {
        let server = HttpServer::new(move || {
            App::new()
                .app_data(web::Data::from(shared.clone()))
                .route("/.well-known/agent-card.json", web::get().to(serve_card))
                .route("/serve/7", web::post().to(rpc))
                .route("/serve/7/.well-known/agent-card.json", web::get().to(serve_card))
                .route("/.well-known/jwks.json", web::get().to(keys))
                .route("/rpc", web::post().to(rpc))
        })
        .workers(1)
        .disable_signals()
        .listen(listener)
        .unwrap()
        .run();
        let handle = server.handle();
        actix::spawn(server);
        handle
    }

    /// Closes all connections and is unreachable for this time.
    pub async fn gone_for(&mut self, absence: Duration) {
        self.server.stop(false).await;
        tokio::time::sleep(absence).await;
        let at = self.url.strip_prefix("http://").unwrap();
        self.server = Self::serve(self.inner.clone(), TcpListener::bind(at).unwrap());
    }

    /// Closes all connections and stops.
    pub async fn leave(&self) {
        self.server.stop(false).await;
    }

    /// Listens again.
    pub(crate) fn come_back(&mut self) {
        let at = self.url.strip_prefix("http://").unwrap();
        self.server = Self::serve(self.inner.clone(), TcpListener::bind(at).unwrap());
    }

    /// Answers the next so many calls with 503 and `Retry-After` in seconds.
    pub fn refuse_calls(&self, calls: usize, seconds: u64) {
        self.inner.memory.lock().unwrap().busy = (calls, seconds);
    }

    /// Refuses messages that name a context, as an agent that has forgotten it.
    pub fn refuse_contexts(&self) {
        self.inner.memory.lock().unwrap().refuses_contexts = true;
    }

    /// The received calls of this method.
    pub fn received(&self, method: &str) -> Vec<ReceivedCall> {
        let memory = self.inner.memory.lock().unwrap();
        memory.heard.iter().filter(|heard| heard.method == method).cloned().collect()
    }

    /// The number of all received calls.
    pub fn calls(&self) -> usize {
        self.inner.memory.lock().unwrap().heard.len()
    }

    /// The full and the conditional requests for the card.
    pub fn card_requests(&self) -> (usize, usize) {
        self.inner.memory.lock().unwrap().looks
    }

    /// From now on its card says this, too.
    pub fn set_card(&self, more: Value) {
        self.inner.memory.lock().unwrap().card_more = Some(more);
    }

    /// Changes what the agent does.
    pub fn set_behavior(&self, behavior: ForeignBehavior) {
        *self.inner.behavior.lock().unwrap() = behavior;
    }
}

/// Serves the card; the extra member `noCache` makes its host forbid caching.
async fn serve_card(request: HttpRequest, inner: web::Data<ForeignServer>) -> HttpResponse {
    let is_known = request.headers().get("if-none-match").is_some_and(|etag| etag == ETAG);
    {
        let looks = &mut inner.memory.lock().unwrap().looks;
        *if is_known { &mut looks.1 } else { &mut looks.0 } += 1;
    }
    let more = inner.memory.lock().unwrap().card_more.clone();
    let card = more.map_or_else(|| inner.card.clone(), |more| super::with(inner.card.clone(), more));
    let mut answer = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    if inner.card.get("noCache").is_some() {
        answer.insert_header(("cache-control", "no-cache")).insert_header(("etag", ETAG));
    }
    if is_known { answer.finish() } else { answer.json(card) }
}

const ETAG: &str = "\"this-one\"";

fn status(state: &str, text: &str) -> Value {
    let mut status =
        json!({ "state": format!("TASK_STATE_{state}"), "timestamp": "2026-11-21T08:00:00.000Z" });
    if !text.is_empty() {
        status["message"] = json!({ "messageId": "s", "role": "ROLE_AGENT", "parts": [{ "text": text }] });
    }
    status
}

fn task(id: &str, state: &str, text: &str, artifacts: Value) -> Value {
    let mut task = json!({ "id": id, "contextId": format!("context-{id}"), "status": status(state, text) });
    if artifacts.as_array().is_some_and(|all| !all.is_empty()) {
        task["artifacts"] = artifacts;
    }
    task
}

fn text(id: &str, text: &str) -> Value {
    json!([{ "artifactId": id, "name": id, "parts": [{ "text": text }] }])
}

impl ForeignServer {
    /// The task in its current state; counts a poll if asked to.
    fn task(&self, id: &str, counts: bool) -> Value {
        let behavior = self.behavior.lock().unwrap().clone();
        let mut memory = self.memory.lock().unwrap();
        let (looks, state, answer) = memory.tasks.entry(id.to_owned()).or_default();
        *looks += usize::from(counts);
        if state == "CANCELED" {
            return task(id, "CANCELED", "as you wish", json!([]));
        }
        match behavior {
            ForeignBehavior::Answers(said) | ForeignBehavior::CallsBack(said) => {
                task(id, "COMPLETED", "", text("result", said))
            }
            ForeignBehavior::Makes(artifacts) => task(id, "COMPLETED", "", artifacts),
            ForeignBehavior::Works(needed, said) if *looks >= needed => {
                task(id, "COMPLETED", "", text("result", said))
            }
            ForeignBehavior::Works(..)
            | ForeignBehavior::Never
            | ForeignBehavior::Floods
            | ForeignBehavior::Mute => task(id, "WORKING", "busy over there", json!([])),
            ForeignBehavior::Streams(pieces, _) => task(
                id,
                "COMPLETED",
                "",
                json!([{
                    "artifactId": "result", "name": "result",
                    "parts": pieces.iter().map(|piece| json!({ "text": piece })).collect::<Vec<_>>(),
                }]),
            ),
            ForeignBehavior::Asks(question) => match answer {
                Some(answer) => task(id, "COMPLETED", "", text("result", &format!("so it is {answer}"))),
                None => task(id, "INPUT_REQUIRED", question, json!([])),
            },
            ForeignBehavior::Fails(why) => task(id, "FAILED", why, json!([])),
            ForeignBehavior::Rejects(why) => task(id, "REJECTED", why, json!([])),
            ForeignBehavior::Returns(value) => value,
        }
    }
}

async fn rpc(request: HttpRequest, inner: web::Data<ForeignServer>, body: Bytes) -> HttpResponse {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let (method, params, id) =
        (body["method"].as_str().unwrap().to_owned(), body["params"].clone(), body["id"].clone());
    let headers = request.headers().iter();
    let headers =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
    let heard = ReceivedCall {
        method: method.clone(),
        params: params.clone(),
        headers: headers.collect(),
        at: Instant::now(),
    };
    let count = {
        let mut memory = inner.memory.lock().unwrap();
        memory.heard.push(heard);
        memory.heard.len()
    };
    let busy = {
        let mut memory = inner.memory.lock().unwrap();
        let (calls, seconds) = memory.busy;
        memory.busy.0 = calls.saturating_sub(1);
        (calls > 0).then(|| seconds.to_string())
    };
    if let Some(seconds) = busy {
        return HttpResponse::ServiceUnavailable().insert_header(("retry-after", seconds)).body("later");
    }
    let error = |code: i64, message: &str| {
        HttpResponse::Ok()
            .json(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }))
    };
    let result =
        |result: Value| HttpResponse::Ok().json(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    if request.headers().get("a2a-version").is_none_or(|version| version != "1.0") {
        return error(-32009, "which version?");
    }
    if inner.card.get("securityRequirements").is_some()
        && request.headers().get("x-key").is_none_or(|key| key != "s3cret-w0rd")
    {
        return HttpResponse::Unauthorized()
            .json(json!({ "error": { "code": 401, "message": "who are you?" } }));
    }
    if inner.memory.lock().unwrap().refuses_contexts && params["message"].get("contextId").is_some() {
        return error(-32602, "no such context");
    }
    let known = params["id"].as_str().or(params["message"]["taskId"].as_str()).map(str::to_owned);
    let task_id = known.clone().unwrap_or_else(|| format!("foreign-{count}"));
    let behavior = inner.behavior.lock().unwrap().clone();
    match method.as_str() {
        "SendMessage" | "SendStreamingMessage" => {
            if known.is_some() {
                let said = params["message"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
                inner.memory.lock().unwrap().tasks.entry(task_id.clone()).or_default().2 = Some(said);
            }
            if let (ForeignBehavior::CallsBack(_), Some(push)) =
                (&behavior, params["configuration"].get("taskPushNotificationConfig"))
            {
                call_back(push.clone(), inner.task(&task_id, false));
                return result(json!({ "task": task(&task_id, "WORKING", "", json!([])) }));
            }
            if let (ForeignBehavior::Returns(value), "SendMessage") = (&behavior, method.as_str()) {
                return result(value.clone());
            }
            if let ForeignBehavior::Mute = behavior {
                std::future::pending::<()>().await;
            }
            if method == "SendStreamingMessage" {
                return stream(&inner, &id, &task_id, true);
            }
            result(json!({ "task": inner.task(&task_id, false) }))
        }
        "SubscribeToTask" => stream(&inner, &id, &task_id, false),
        "GetTask" => result(inner.task(&task_id, true)),
        "CancelTask" => {
            inner.memory.lock().unwrap().tasks.entry(task_id.clone()).or_default().1 = "CANCELED".to_owned();
            result(inner.task(&task_id, false))
        }
        _ => error(-32601, "no such method"),
    }
}

fn call_back(push: Value, task: Value) {
    actix::spawn(async move {
        let call = super::client().post(push["url"].as_str().unwrap()).json(&json!({ "task": task }));
        let answer =
            call.header("x-a2a-notification-token", push["token"].as_str().unwrap()).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    });
}

/// The stream of a task. A task that never ends stays open; a connection that breaks is cut in the middle.
fn stream(inner: &ForeignServer, id: &Value, task_id: &str, is_first: bool) -> HttpResponse {
    let behavior = inner.behavior.lock().unwrap().clone();
    let first = {
        let mut memory = inner.memory.lock().unwrap();
        memory.streams += 1;
        memory.streams == 1
    };
    let wrapped = |result: Value| {
        Bytes::from(format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": id, "result": result })))
    };
    let status_update = |state: &str, text: &str| {
        wrapped(
            json!({ "statusUpdate": { "taskId": task_id, "contextId": format!("context-{task_id}"), "status": status(state, text) } }),
        )
    };
    let mut events = Vec::new();
    let mut stays_open = false;
    if let ForeignBehavior::Floods = behavior {
        let begun = wrapped(json!({ "task": inner.task(task_id, false) }));
        let (id, task_id) = (id.clone(), task_id.to_owned());
        let pieces = futures_util::stream::iter(0..).map(move |at: usize| {
            let update = json!({ "taskId": task_id, "contextId": format!("context-{task_id}"), "append": at > 0,
                "artifact": { "artifactId": "flood", "parts": [{ "text": "x".repeat(1_000) }] } });
            let said = json!({ "jsonrpc": "2.0", "id": id, "result": { "artifactUpdate": update } });
            Bytes::from(format!("data: {said}\n\n"))
        });
        let all = futures_util::stream::iter([begun]).chain(pieces).map(Ok::<_, actix_web::Error>);
        return HttpResponse::Ok().content_type("text/event-stream").streaming(all);
    }
    match &behavior {
        ForeignBehavior::Streams(pieces, breaks) if is_first || breaks.is_none() => {
            events.push(wrapped(json!({ "task": task(task_id, "WORKING", "listening", json!([])) })));
            for (at, piece) in pieces.iter().enumerate() {
                let update = json!({ "taskId": task_id, "contextId": format!("context-{task_id}"), "append": at > 0,
                    "lastChunk": at + 1 == pieces.len(),
                    "artifact": { "artifactId": "result", "name": "result", "parts": [{ "text": piece }] } });
                events.push(wrapped(json!({ "artifactUpdate": update })));
            }
            events.push(status_update("COMPLETED", ""));
            if let (Some(after), true) = (breaks, first) {
                events.truncate(1 + after);
            }
        }
        ForeignBehavior::Never => {
            events.push(wrapped(json!({ "task": inner.task(task_id, false) })));
            stays_open = true;
        }
        ForeignBehavior::Returns(value) => {
            events.push(wrapped(json!({ "task": task(task_id, "WORKING", "", json!([])) })));
            events.push(wrapped(value.clone()));
        }
        ForeignBehavior::Floods
        | ForeignBehavior::Mute
        | ForeignBehavior::Answers(_)
        | ForeignBehavior::Makes(_)
        | ForeignBehavior::Works(..)
        | ForeignBehavior::Streams(..)
        | ForeignBehavior::Asks(_)
        | ForeignBehavior::Fails(_)
        | ForeignBehavior::Rejects(_)
        | ForeignBehavior::CallsBack(_) => {
            events.push(wrapped(json!({ "task": inner.task(task_id, false) })))
        }
    }
    let told = futures_util::stream::iter(events).then(|event| async move {
        tokio::time::sleep(Duration::from_millis(15)).await;
        Ok::<_, actix_web::Error>(event)
    });
    let response = &mut HttpResponse::Ok();
    response.content_type("text/event-stream");
    match stays_open {
        true => response.streaming(told.chain(futures_util::stream::pending())),
        false => response.streaming(told),
    }
}
