//! What holds the work of an agent up: quotas that are used up, and schedules that begin nothing.

use super::DoctorFinding;
use crate::cli::client::MeshClient;
use protocol::routes;
use serde_json::Value;

/// The quotas and schedules of the agent `id`. One of an earlier version, which has none, is not looked at.
pub(super) async fn check(client: &MeshClient, id: &str, endpoint: &str) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let costs: Option<Value> = client.get(endpoint, routes::COSTS).await.ok();
    for quota in costs.iter().flat_map(|costs| costs["quotas"].as_array()).flatten() {
        let text = |key: &str| quota[key].as_str().unwrap_or_default();
        match text("state") {
            "reached" => findings.push(DoctorFinding::wrong(
                id,
                format!(
                    "{} is used up and opens again at {}: raise it, or wait (`mesh cost --quotas`)",
                    text("quota"),
                    text("opensAt")
                ),
            )),
            "near" => findings.push(DoctorFinding::right(
                id,
                format!("four fifths of {} are used; it opens again at {}", text("quota"), text("opensAt")),
            )),
            _ => {}
        }
    }
    let schedules: Option<Value> = client.get(endpoint, routes::SCHEDULES).await.ok();
    for schedule in schedules.iter().flat_map(|schedules| schedules["schedules"].as_array()).flatten() {
        let name = schedule["name"].as_str().unwrap_or_default();
        let refused = schedule["lastRun"]["refused"].as_str();
        if let Some(why) = schedule["problem"].as_str().or(refused) {
            let what = format!("the schedule {name} begins nothing: {why} (`mesh schedule ls`)");
            findings.push(DoctorFinding::wrong(id, what));
        }
    }
    findings
}
