//! Liveness, readiness, and snapshots of the actors.

use crate::{
    agent::{ActorSnapshot, GetAgentSnapshot},
    http::node_state::{HostedAgent, NodeState},
};
use actix_web::{HttpRequest, HttpResponse, web};
use futures_util::future::join_all;
use protocol::{
    a2a::limits::declared,
    principal::Principal,
    problem::{Problem, Reason},
    signal::sees_all,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};
use transport::refusal::Refusal;

/// The name of the check of this process's own store; the other checks are of other services.
pub const OWN_CHECK: &str = "store";
const DRAINING: &str = "draining";

/// Time limit of a check; a slower one counts as failed.
const CHECK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The body of `/readyz`, whose status is 503 if `ready` is false.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// Whether every check passes and an agent can work.
    pub ready: bool,
    /// Whether a request to `/readyz` has found it ready since its start.
    #[serde(default)]
    pub was_ready: bool,
    /// The checks, by name.
    #[serde(default)]
    pub checks: BTreeMap<String, CheckResult>,
    /// Parked conversations with the reason, by agent and conversation. They do not affect `ready`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parked: Map<String, Value>,
    /// Agents that accept no work yet, and what each waits for. They affect `ready` only if all agents wait.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waiting: BTreeMap<String, String>,
    /// What reads have found damaged in the stores since the start. It does not affect `ready`: the rest can be read, and a
    /// restart mends nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// The result of one check.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckResult {
    pub ok: bool,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Readiness {
    /// Whether it is ready, or was ready and neither its own store fails nor it drains.
    pub fn is_steady(&self) -> bool {
        let is_own = |name: &str| name == OWN_CHECK || name == DRAINING;
        self.ready || self.was_ready && self.checks.iter().all(|(name, result)| result.ok || !is_own(name))
    }
}

impl CheckResult {
    fn failed(why: impl Into<String>) -> Self {
        Self { ok: false, why: Some(why.into()) }
    }
}

/// Answers while the process lives.
pub async fn health() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

/// Runs the checks; 503 names the failed ones.
pub async fn ready(node: web::Data<NodeState>) -> HttpResponse {
    let body = readiness(&node).await;
    if body.ready { HttpResponse::Ok().json(body) } else { HttpResponse::ServiceUnavailable().json(body) }
}

/// Runs the checks.
pub(in crate::http) async fn readiness(node: &NodeState) -> Readiness {
    let results = node.checks.iter().map(|(name, check)| async move {
        let result = match tokio::time::timeout(CHECK_TIMEOUT, check()).await {
            Ok(Ok(_)) => CheckResult { ok: true, why: None },
            Ok(Err(why)) => CheckResult::failed(why),
            Err(_) => CheckResult::failed(format!("no answer within {} ms", CHECK_TIMEOUT.as_millis())),
        };
        ((*name).to_owned(), result)
    });
    let mut checks: BTreeMap<_, _> = join_all(results).await.into_iter().collect();
    if node.agents.values().any(|local| local.status.is_draining()) {
        checks.insert(DRAINING.to_owned(), CheckResult::failed("the node is leaving"));
    }
    for (id, local) in &node.agents {
        if let Some(why) = local.status.failed() {
            checks.insert(format!("agent {id}"), CheckResult::failed(why));
        }
    }
    let parked = node.agents.iter().map(|(id, local)| (id.to_string(), json!(local.status.parked())));
    let parked = parked.filter(|(_, parked)| *parked != json!({})).collect();
    let waiting: BTreeMap<_, _> = node
        .agents
        .iter()
        .filter_map(|(id, local)| Some((id.to_string(), local.status.waits_for()?)))
        .collect();
    let can_work = node.agents.is_empty() || waiting.len() < node.agents.len();
    let ready = can_work && checks.values().all(|result| result.ok);
    let was_ready = node.was_ready.fetch_or(ready, Ordering::Relaxed) || ready;
    let damaged = node.local_services.stores.iter().flat_map(|store| store.damage()).collect();
    Readiness { ready, was_ready, checks, parked, waiting, damaged }
}

/// What an agent is at. Fails with why it does not say.
pub(in crate::http) async fn snapshot_of(
    node: &NodeState,
    local: &HostedAgent,
) -> Result<ActorSnapshot, String> {
    match tokio::time::timeout(node.ack(), local.actor.send(GetAgentSnapshot)).await {
        Ok(Ok(Some(snapshot))) => Ok(snapshot),
        Ok(Ok(None)) => Err("it starts again".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// Returns the limits; to the user of this machine and to the mesh a snapshot of every actor, too. It names the conversations and
/// readers of all principals, so no other user sees it.
pub async fn state(node: web::Data<NodeState>, by: web::ReqData<Principal>) -> HttpResponse {
    if !sees_all(&by) {
        return HttpResponse::Ok().json(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "limits": node.limits.as_ref(),
            "a2aLimits": declared(&node.limits),
        }));
    }
    let mut agents = Map::new();
    for (id, local) in &node.agents {
        let snapshot = snapshot_of(&node, local).await;
        agents.insert(
            id.to_string(),
            snapshot.map_or_else(|why| json!({ "error": why }), |snapshot| json!(snapshot)),
        );
    }
    let mut parts = Map::new();
    for (name, check) in &node.checks {
        parts.insert((*name).to_owned(), check().await.unwrap_or_else(|why| json!({ "error": why })));
    }
    HttpResponse::Ok().json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "limits": node.limits.as_ref(),
        "a2aLimits": declared(&node.limits),
        "agents": agents,
        "connections": node.connections.counts(),
        "readers": node.streams.counts(),
        "parts": parts,
        "telemetry": node.telemetry.counts(),
        "peers": node.peers.present().keys().collect::<Vec<_>>(),
    }))
}

/// Returns where the registry and the board are.
pub async fn services(node: web::Data<NodeState>) -> HttpResponse {
    HttpResponse::Ok().json(node.services.addresses())
}

/// Returns the card of the port's agent.
pub async fn card(request: HttpRequest, node: web::Data<NodeState>) -> Result<HttpResponse, Refusal> {
    match node.default_agent(&request) {
        Ok(local) => Ok(HttpResponse::Ok().json(local.card.get().as_ref())),
        Err(_) => Err(Problem::new(Reason::AgentNotFound, "no agent lives here").into()),
    }
}
