//! Claims on open tasks of the blackboard.

use super::invalid;
use crate::mcp::{
    api::encoded,
    tool_call::{McpToolCall, ToolOutcome},
};
use protocol::{problem::Problem, routes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ClaimOpenTask {
    /// The task's id, as the signal task.available has it.
    task_id: String,
    /// Who offered it: refs.publisher of the signal. Without it, it is a task of your own.
    #[serde(default)]
    publisher: Option<String>,
    /// How long the claim holds without a renewal, in seconds, at most 3600.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 1, max = 3600))]
    lease_seconds: u64,
    /// A label for who does it.
    #[serde(default)]
    holder: Option<String>,
}

fn five_minutes() -> u64 {
    300
}

/// What becomes of a claim.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ClaimAction {
    /// Its lease starts again.
    Renew,
    /// The task is done.
    Complete,
    /// The task has failed.
    Fail,
    /// The task is offered again.
    Release,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UpdateClaim {
    /// The task's id.
    task_id: String,
    /// Who offered it, as in the claim.
    #[serde(default)]
    publisher: Option<String>,
    /// The epoch of the claim.
    epoch: u64,
    /// renew, complete, fail or release.
    action: ClaimAction,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimOutput {
    task_id: String,
    publisher: String,
    /// held, released, expired, completed or failed.
    state: String,
    holder: String,
    /// Every later change of the claim names it.
    epoch: u64,
    lease_ms: u64,
    remaining_ms: u64,
}

pub(super) async fn claim(
    call: &mut McpToolCall<'_>,
    arguments: ClaimOpenTask,
) -> Result<ToolOutcome, Problem> {
    let ClaimOpenTask { task_id, publisher, lease_seconds, holder } = arguments;
    let mut body = json!({ "leaseMs": lease_seconds.saturating_mul(1_000) });
    if let Some(holder) = holder {
        body["holder"] = holder.into();
    }
    post(call, &task_id, "", publisher, &body).await
}

pub(super) async fn update(
    call: &mut McpToolCall<'_>,
    arguments: UpdateClaim,
) -> Result<ToolOutcome, Problem> {
    let UpdateClaim { task_id, publisher, epoch, action } = arguments;
    let verb = match action {
        ClaimAction::Renew => "/renew",
        ClaimAction::Complete => "/complete",
        ClaimAction::Fail => "/fail",
        ClaimAction::Release => "/release",
    };
    post(call, &task_id, verb, publisher, &json!({ "epoch": epoch })).await
}

async fn post(
    call: &mut McpToolCall<'_>,
    task: &str,
    verb: &str,
    publisher: Option<String>,
    body: &serde_json::Value,
) -> Result<ToolOutcome, Problem> {
    let query = publisher.map(|publisher| format!("?publisher={}", encoded(&publisher))).unwrap_or_default();
    let board = call.api.board().await?;
    let path = format!("{}/{}{verb}{query}", routes::CLAIMS, encoded(task));
    let claim = call.api.post(&board, &path, body).await?;
    let unreadable = |error: serde_json::Error| invalid(format!("the board's answer can't be read: {error}"));
    ToolOutcome::data(&serde_json::from_value::<ClaimOutput>(claim).map_err(unreadable)?)
}
