//! A server that says what a mesh would. Task ids say what becomes of them.

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use serde_json::{Value, json};
use std::{convert::Infallible, sync::mpsc, time::Duration};

/// Starts one on a free port, for as long as the test process lives; its URL.
pub(crate) fn start() -> String {
    let (ready, started) = mpsc::channel();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let state = web::Data::new(url.clone());
            let server = HttpServer::new(move || App::new().app_data(state.clone()).configure(routes))
                .workers(1)
                .disable_signals()
                .listen(listener)
                .unwrap()
                .run();
            ready.send(url).unwrap();
            server.await.unwrap();
        });
    });
    started.recv().unwrap()
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/registry/agents", web::get().to(agents))
        .route("/readyz", web::get().to(|| async { HttpResponse::Ok().json(json!({ "ready": true })) }))
        .route("/a2a/messages", web::post().to(accept))
        .route("/a2a/tasks", web::get().to(tasks))
        .route("/a2a/tasks/{id}", web::get().to(show))
        .route("/a2a/tasks/{id}/events", web::get().to(events))
        .route("/a2a/tasks/{id}/award", web::get().to(award))
        .route("/a2a/tasks/{id}/cancel", web::post().to(show))
        .route("/a2a/tasks/{id}/answer", web::post().to(show))
        .route(
            "/a2a/dead-letters",
            web::get().to(|| async { HttpResponse::Ok().json(json!({ "deadLetters": [letter()] })) }),
        )
        .route("/a2a/dead-letters/m-1", web::get().to(|| async { HttpResponse::Ok().json(letter()) }))
        .route("/board/signals", web::get().to(signals))
        .route("/board/signals/stream", web::get().to(signal_stream))
        .default_service(web::to(|| async { refusal(404, "message_not_found", "no such thing") }));
}

fn refusal(status: u16, reason: &str, message: &str) -> HttpResponse {
    let status = actix_web::http::StatusCode::from_u16(status).unwrap();
    HttpResponse::build(status)
        .json(json!({ "error": { "code": status.as_u16(), "message": message }, "reasonCode": reason }))
}

async fn agents(url: web::Data<String>) -> HttpResponse {
    let card = json!({
        "agentId": "planner-01", "endpoint": url.as_str(), "open": true, "skills": [{ "id": "plan" }],
    });
    HttpResponse::Ok().json(json!({ "agents": [{
        "card": card, "incarnation": 1, "state": "alive", "running": 0, "accepting": true, "lastSeenMs": 5,
    }] }))
}

fn state_of(id: &str) -> &'static str {
    match id {
        "failed" => "TASK_STATE_FAILED",
        "canceled" => "TASK_STATE_CANCELED",
        "rejected" => "TASK_STATE_REJECTED",
        "asking" => "TASK_STATE_INPUT_REQUIRED",
        "endless" => "TASK_STATE_WORKING",
        _ => "TASK_STATE_COMPLETED",
    }
}

fn status(state: &str, text: &str) -> Value {
    json!({ "state": state, "timestamp": "2026-02-24T10:30:00Z", "message": { "parts": [{ "text": text }] } })
}

fn final_status(id: &str) -> Value {
    let text = match id {
        "failed" => "no bids",
        "asking" => "which colour?",
        "told" => "blue,\n  or green",
        _ => "",
    };
    status(state_of(id), text)
}

fn artifact(id: &str) -> Value {
    match id {
        "escaping" => json!({ "artifactId": "e", "name": "../evil.txt", "parts": [
            { "text": "gotcha" }, { "text": "again" }, { "text": "run", "filename": ".git/config" },
            { "text": "linked", "filename": "link/a.txt" },
        ] }),
        _ => json!({ "artifactId": "main.rs", "name": "main.rs", "parts": [{ "text": "fn main() {}\n" }] }),
    }
}

fn task(id: &str) -> Value {
    let artifacts = if id == "told" { Vec::new() } else { vec![artifact(id)] };
    json!({
        "id": id, "contextId": "c-1", "status": final_status(id), "artifacts": artifacts,
        "metadata": { "urn:agent-mesh:ext:task:v1": { "description": "say \u{1b}[31mred", "path": [] } },
    })
}

async fn tasks(request: HttpRequest) -> HttpResponse {
    match request.query_string().split('&').any(|member| member == "limit=13") {
        true => refusal(429, "rate_limited", "too often"),
        false => HttpResponse::Ok().json(json!({ "tasks": [task("done")] })),
    }
}

async fn accept(body: web::Json<Value>) -> HttpResponse {
    let task = body["payload"]["taskId"].as_str().unwrap();
    if task == "refused" {
        return refusal(404, "agent_not_found", "no agent planner-01 here");
    }
    HttpResponse::Accepted().json(json!({ "messageId": body["messageId"], "accepted": true, "taskId": task }))
}

async fn show(id: web::Path<String>) -> HttpResponse {
    match id.as_str() {
        "nope" => refusal(404, "task_not_found", "no task nope of yours"),
        id => HttpResponse::Ok().json(task(id)),
    }
}

async fn award(id: web::Path<String>) -> HttpResponse {
    HttpResponse::Ok().json(json!({ "award": { "task": id.as_str() } }))
}

fn letter() -> Value {
    json!({
        "messageId": "m-1", "to": "builder-01", "type": "award", "reason": "expired", "message": "gone\u{1b}[2J",
        "attempts": 3, "at": "2026-02-24T10:30:00Z",
    })
}

async fn events(id: web::Path<String>, request: HttpRequest) -> HttpResponse {
    let id = id.into_inner();
    let all = [
        json!({ "task": { "id": id, "status": status("TASK_STATE_SUBMITTED", "") } }),
        json!({ "statusUpdate": { "taskId": id, "status": status("TASK_STATE_WORKING", "at it") } }),
        json!({ "artifactUpdate": { "taskId": id, "artifact": artifact(&id) } }),
        json!({ "statusUpdate": { "taskId": id, "status": final_status(&id) } }),
    ];
    let seen =
        request.headers().get("last-event-id").map_or(0, |last| last.to_str().unwrap().parse().unwrap());
    let upto = if id == "broken" && seen == 0 { 2 } else { all.len() };
    let frames: Vec<_> = (seen..upto).map(|at| format!("id: {}\ndata: {}\n\n", at + 1, all[at])).collect();
    let is_endless = id == "endless";
    let body = futures_util::stream::unfold(frames.into_iter(), move |mut frames| async move {
        match frames.next() {
            Some(frame) => Some((Ok::<_, Infallible>(web::Bytes::from(frame)), frames)),
            None if is_endless => std::future::pending().await,
            None => None,
        }
    });
    HttpResponse::Ok().content_type("text/event-stream").streaming(body)
}

fn signal(revision: u64) -> Value {
    json!({
        "revision": revision, "id": format!("s-{revision}"), "type": "task.complete", "from": "planner-01",
        "taskId": "done", "refs": { "note": "\u{1b}[31m" }, "at": "2026-02-24T10:30:00Z",
    })
}

async fn signals(request: HttpRequest) -> HttpResponse {
    let is_first = !request.query_string().contains("after=");
    let signals = if is_first { vec![signal(7)] } else { Vec::new() };
    HttpResponse::Ok().json(json!({ "signals": signals, "next": 7 }))
}

async fn signal_stream() -> HttpResponse {
    let body = futures_util::stream::unfold(1, |revision| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let frame = format!("id: {revision}\ndata: {}\n\n", signal(revision));
        Some((Ok::<_, Infallible>(web::Bytes::from(frame)), revision + 1))
    });
    HttpResponse::Ok().content_type("text/event-stream").streaming(body)
}
