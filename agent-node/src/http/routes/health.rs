//! Whether the process lives, whether it can work, and what every actor is doing.

use super::Node;
use crate::agent::Look;
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::refusal::Refusal;
use protocol::problem::{Problem, Reason};
use serde_json::{Map, Value, json};
use std::{future::Future, pin::Pin, sync::Arc};

/// One thing that must work: its name, and a look at it.
pub type Check =
    (&'static str, Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Value, String>>>> + Send + Sync>);

/// Everything that must work.
pub type Checks = Vec<Check>;

/// The process answers: it lives.
pub async fn health() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

/// Whether everything it needs works; 503 names what is broken.
pub async fn ready(node: web::Data<Node>) -> HttpResponse {
    let mut checks = Map::new();
    let mut is_ready = true;
    for (name, look) in &node.checks {
        let seen = match look().await {
            Ok(_) => json!({ "ok": true }),
            Err(why) => {
                is_ready = false;
                json!({ "ok": false, "why": why })
            }
        };
        checks.insert((*name).to_owned(), seen);
    }
    if node.agents.values().any(|local| local.pulse.is_draining()) {
        is_ready = false;
        checks.insert("draining".into(), json!({ "ok": false, "why": "the node is leaving" }));
    }
    let mut body = json!({ "ready": is_ready, "checks": checks });
    // One conversation that can't go on does not keep the others from it; somebody should know all the same.
    let parked = node.agents.iter().map(|(id, local)| (id.to_string(), json!(local.pulse.parked())));
    let parked: Map<_, _> = parked.filter(|(_, parked)| *parked != json!({})).collect();
    if !parked.is_empty() {
        body["parked"] = Value::Object(parked);
    }
    if is_ready { HttpResponse::Ok().json(body) } else { HttpResponse::ServiceUnavailable().json(body) }
}

/// A snapshot of every actor, and every limit.
pub async fn state(node: web::Data<Node>) -> HttpResponse {
    let mut agents = Map::new();
    for (id, local) in &node.agents {
        let seen = match tokio::time::timeout(node.ack(), local.actor.send(Look)).await {
            Ok(Ok(snapshot)) => json!(snapshot),
            Ok(Err(error)) => json!({ "error": error.to_string() }),
            Err(_) => json!({ "error": "it does not answer" }),
        };
        agents.insert(id.to_string(), seen);
    }
    let mut parts = Map::new();
    for (name, look) in &node.checks {
        parts.insert((*name).to_owned(), look().await.unwrap_or_else(|why| json!({ "error": why })));
    }
    HttpResponse::Ok().json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "limits": node.limits.as_ref(),
        "agents": agents,
        "readers": node.readers.open(),
        "parts": parts,
        "telemetry": node.telemetry.counts(),
        "peers": node.peers.present().keys().collect::<Vec<_>>(),
    }))
}

/// Where the registry and the board are; the base URL that was asked, if it is `here`.
pub async fn services(node: web::Data<Node>) -> HttpResponse {
    HttpResponse::Ok().json(node.services.told())
}

/// The card of the port's agent.
pub async fn card(request: HttpRequest, node: web::Data<Node>) -> Result<HttpResponse, Refusal> {
    match node.host(&request) {
        Ok(local) => Ok(HttpResponse::Ok().json(local.card.as_ref())),
        Err(_) => Err(Problem::new(Reason::AgentNotFound, "no agent lives here").into()),
    }
}
