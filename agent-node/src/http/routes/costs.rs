//! `/a2a/costs`: what the brain of the agent of the port has used, and how much of the quotas is used.

use super::person_token::is_persons;
use crate::{
    agent::GetAgentSnapshot,
    http::node_state::{HostedAgent, NodeState},
};
use actix_web::{HttpRequest, HttpResponse, web};
use engine::{
    QuotaStatus,
    costs::{CostKey, costs},
};
use protocol::{principal::Principal, problem::Problem, problem::Reason, quota::QuotaPeriod, time::WallTime};
use serde::Deserialize;
use serde_json::json;
use transport::refusal::Refusal;

/// The query about costs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostQuery {
    #[serde(default)]
    by: CostKey,
    /// The present month if absent.
    since: Option<String>,
}

/// What was used since `since`, summed up by `by`. The person of the mesh sees all, others what was done for them.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    query: web::Query<CostQuery>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?.clone();
    let now = node.clock.wall();
    // Nothing older is kept.
    let kept = i64::try_from(node.limits.keep_costs_ms).unwrap_or(i64::MAX);
    let since = since(query.since.as_deref(), now)?.max(WallTime(now.0.saturating_sub(kept)));
    let sees_all = *by == Principal::local_user() && is_persons(&request, &by);
    let requester = (!sees_all).then(|| Principal::clone(&by));
    let quotas = quotas(&node, &local, requester.as_ref()).await;
    let (id, key) = (local.id.clone(), query.by);
    let read =
        web::block(move || costs(local.store.as_ref(), &local.id, key, (since, now), requester.as_ref()));
    let rows = read.await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
    let rows = rows.map_err(Problem::from)?;
    Ok(HttpResponse::Ok().json(json!({ "agentId": id, "since": since, "costs": rows, "quotas": quotas })))
}

fn since(given: Option<&str>, now: WallTime) -> Result<WallTime, Problem> {
    let month = format!("{}-01T00:00:00Z", QuotaPeriod::Month.window(now).label);
    let text = given.unwrap_or(&month);
    WallTime::parse(text)
        .map_err(|error| Problem::new(Reason::InvalidField, format!("since: {error}")).with("field", "since"))
}

/// The quotas that the caller sees: the agent's and the mesh's are everybody's.
async fn quotas(node: &NodeState, local: &HostedAgent, requester: Option<&Principal>) -> Vec<QuotaStatus> {
    let snapshot = tokio::time::timeout(node.ack(), local.actor.send(GetAgentSnapshot)).await;
    let statuses = snapshot.ok().and_then(Result::ok).flatten().map(|snapshot| snapshot.quotas);
    let is_seen = |status: &QuotaStatus| {
        status.requester.is_none() || requester.is_none() || status.requester.as_ref() == requester
    };
    statuses.unwrap_or_default().into_iter().filter(is_seen).collect()
}
