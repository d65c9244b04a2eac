//! Whether the process lives, whether it can work, and what every actor is doing.

use crate::{agent::GetAgentSnapshot, http::node_state::Node};
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::refusal::Refusal;
use futures_util::future::join_all;
use protocol::{
    a2a::limits::declared,
    problem::{Problem, Reason},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

/// The name of the look at what is this process's own; all else is somebody else's.
pub const OWN_CHECK: &str = "store";
const DRAINING: &str = "draining";

/// How long a look may take before what it looks at counts as broken.
const LOOK: Duration = Duration::from_millis(1_500);

/// Whether a process can do its work: what `/readyz` answers, with 503 if it can not.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// Whether everything works.
    pub ready: bool,
    /// Whether it was ready at any time since its start, as far as it was asked.
    #[serde(default)]
    pub was_ready: bool,
    /// Everything that must work, by name.
    #[serde(default)]
    pub checks: BTreeMap<String, Seen>,
    /// Conversations that can't go on, by agent and conversation. They do not keep the others from it; somebody should
    /// know all the same.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parked: Map<String, Value>,
    /// Agents that take no work yet, and what each waits for. They do not keep the others from it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waiting: BTreeMap<String, String>,
}

/// What a look at one thing has shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seen {
    /// Whether it works.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Readiness {
    /// Whether the process itself does its part: it is ready, or was, and nothing of its own is broken since.
    pub fn is_steady(&self) -> bool {
        let is_own = |name: &str| name == OWN_CHECK || name == DRAINING;
        self.ready || self.was_ready && self.checks.iter().all(|(name, seen)| seen.ok || !is_own(name))
    }
}

impl Seen {
    fn broken(why: impl Into<String>) -> Self {
        Self { ok: false, why: Some(why.into()) }
    }
}

/// The process answers: it lives.
pub async fn health() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

/// Whether everything it needs works; 503 names what is broken.
pub async fn ready(node: web::Data<Node>) -> HttpResponse {
    let looks = node.checks.iter().map(|(name, look)| async move {
        let seen = match tokio::time::timeout(LOOK, look()).await {
            Ok(Ok(_)) => Seen { ok: true, why: None },
            Ok(Err(why)) => Seen::broken(why),
            Err(_) => Seen::broken(format!("no answer within {} ms", LOOK.as_millis())),
        };
        ((*name).to_owned(), seen)
    });
    let mut checks: BTreeMap<_, _> = join_all(looks).await.into_iter().collect();
    if node.agents.values().any(|local| local.status.is_draining()) {
        checks.insert(DRAINING.to_owned(), Seen::broken("the node is leaving"));
    }
    for (id, local) in &node.agents {
        if let Some(why) = local.status.failed() {
            checks.insert(format!("agent {id}"), Seen::broken(why));
        }
    }
    let parked = node.agents.iter().map(|(id, local)| (id.to_string(), json!(local.status.parked())));
    let parked = parked.filter(|(_, parked)| *parked != json!({})).collect();
    let waiting: BTreeMap<_, _> = node
        .agents
        .iter()
        .filter_map(|(id, local)| Some((id.to_string(), local.status.waits_for()?)))
        .collect();
    let has_work = node.agents.is_empty() || waiting.len() < node.agents.len();
    let ready = has_work && checks.values().all(|seen| seen.ok);
    let was_ready = node.was_ready.fetch_or(ready, Ordering::Relaxed) || ready;
    let told = Readiness { ready, was_ready, checks, parked, waiting };
    if told.ready { HttpResponse::Ok().json(told) } else { HttpResponse::ServiceUnavailable().json(told) }
}

/// A snapshot of every actor, and every limit.
pub async fn state(node: web::Data<Node>) -> HttpResponse {
    let mut agents = Map::new();
    for (id, local) in &node.agents {
        let seen = match tokio::time::timeout(node.ack(), local.actor.send(GetAgentSnapshot)).await {
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
        "a2aLimits": declared(&node.limits),
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
        Ok(local) => Ok(HttpResponse::Ok().json(local.card.get().as_ref())),
        Err(_) => Err(Problem::new(Reason::AgentNotFound, "no agent lives here").into()),
    }
}
