//! `/a2a/costs`: what the brain of the agent of the port has used, and how much of the quotas is used.

use super::{health::snapshot_of, person_token::is_persons};
use crate::http::node_state::{HostedAgent, NodeState};
use actix_web::{HttpRequest, HttpResponse, web};
use engine::{
    QuotaStatus,
    costs::{CostKey, CostRow, costs},
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

/// Whose costs a caller sees: all for the person of the mesh (`None`), of others those of work for them.
pub(in crate::http) fn seen_requester(by: &Principal, is_proven: bool) -> Option<Principal> {
    (!(*by == Principal::local_user() && is_proven)).then(|| by.clone())
}

/// What the brain of `local` has used since `since`, summed up by `key`, for work of `requester` if one is given. Returns since when
/// it is, too: nothing older is kept than the limits say.
pub(in crate::http) async fn costs_of(
    node: &NodeState,
    local: &HostedAgent,
    key: CostKey,
    since: WallTime,
    requester: Option<Principal>,
) -> Result<(WallTime, Vec<CostRow>), Problem> {
    let now = node.clock.wall();
    let kept = i64::try_from(node.limits.keep_costs_ms).unwrap_or(i64::MAX);
    let since = since.max(WallTime(now.0.saturating_sub(kept)));
    let (store, id) = (local.store.clone(), local.id.clone());
    let read = web::block(move || costs(store.as_ref(), &id, key, (since, now), requester.as_ref())).await;
    let rows = read.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
    Ok((since, rows.map_err(Problem::from)?))
}

/// What was used since `since`, summed up by `by`. The person of the mesh sees all, others what was done for them.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    query: web::Query<CostQuery>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?;
    let since = since(query.since.as_deref(), node.clock.wall())?;
    let requester = seen_requester(&by, is_persons(&request, &by));
    let quotas = quotas(&node, local, requester.as_ref()).await;
    let (since, rows) = costs_of(&node, local, query.by, since, requester).await?;
    Ok(HttpResponse::Ok()
        .json(json!({ "agentId": local.id, "since": since, "costs": rows, "quotas": quotas })))
}

/// When the month of `now` began.
pub(in crate::http) fn month_of(now: WallTime) -> String {
    format!("{}-01T00:00:00Z", QuotaPeriod::Month.window(now).label)
}

fn since(given: Option<&str>, now: WallTime) -> Result<WallTime, Problem> {
    let month = month_of(now);
    let text = given.unwrap_or(&month);
    WallTime::parse(text)
        .map_err(|error| Problem::new(Reason::InvalidField, format!("since: {error}")).with("field", "since"))
}

/// The quotas that the caller sees: the agent's and the mesh's are everybody's.
pub(in crate::http) async fn quotas(
    node: &NodeState,
    local: &HostedAgent,
    requester: Option<&Principal>,
) -> Vec<QuotaStatus> {
    let statuses = snapshot_of(node, local).await.map(|snapshot| snapshot.quotas);
    let is_seen = |status: &QuotaStatus| {
        status.requester.is_none() || requester.is_none() || status.requester.as_ref() == requester
    };
    statuses.unwrap_or_default().into_iter().filter(is_seen).collect()
}
