//! What holds the work of an agent up: quotas that are used up, schedules that begin nothing, and tool servers that have failed.

use super::DoctorFinding;
use crate::{
    brain::brain_tools::BrainTools,
    cli::client::MeshClient,
    held_up::{HeldUp, held_up},
};
use protocol::routes;
use serde_json::Value;

/// The quotas, schedules and tool servers of the agent `id`. One of an earlier version, which has none, is not looked at.
pub(super) async fn check(client: &MeshClient, id: &str, endpoint: &str) -> Vec<DoctorFinding> {
    let costs: Option<Value> = client.get(endpoint, routes::COSTS).await.ok();
    let schedules: Option<Value> = client.get(endpoint, routes::SCHEDULES).await.ok();
    let list = |answer: &Option<Value>, name: &str| {
        answer.as_ref().and_then(|answer| answer[name].as_array().cloned()).unwrap_or_default()
    };
    let found = held_up(&list(&costs, "quotas"), &list(&schedules, "schedules"));
    let finding = |HeldUp { is_wrong, what }| match is_wrong {
        true => DoctorFinding::wrong(id, what),
        false => DoctorFinding::right(id, what),
    };
    let tools: Option<BrainTools> = client.get(endpoint, routes::TOOLS).await.ok();
    let failed = tools.into_iter().flat_map(|tools| tools.servers).filter_map(|server| {
        let why = server.why?;
        let what = format!("its tool server {} has failed: {why} (`mesh tools {id}`)", server.name);
        Some(DoctorFinding::wrong(id, what))
    });
    found.into_iter().map(finding).chain(failed).collect()
}
