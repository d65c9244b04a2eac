//! What a process needs to do its work, each with a look at it.

use super::Setup;
use crate::http::{node_state::ReadinessChecks, routes::health::OWN_CHECK};
use blackboard::{client::Blackboard, store::probe::Probe};
use protocol::{ids::AgentId, principal::Principal};
use registry::client::Registry;
use std::sync::Arc;

pub(super) fn checks(
    setup: &Setup,
    board_for: &impl Fn(&AgentId) -> Blackboard,
    registry_for: &impl Fn(&AgentId) -> Option<Registry>,
    services: &AgentId,
) -> ReadinessChecks {
    let who = setup.seats.first().map_or(services, |seat| &seat.id);
    let mut checks: ReadinessChecks = Vec::new();
    let (store, probe) = (setup.store.clone(), Probe::new(setup.store.clone()));
    checks.push((
        OWN_CHECK,
        Arc::new(move || {
            let (store, probe) = (store.clone(), probe.clone());
            Box::pin(async move {
                probe.look().await.map_err(|error| error.to_string())?;
                Ok(serde_json::json!({ "revision": store.head(), "generation": store.generation() }))
            })
        }),
    ));
    let (board, by) = (board_for(who), Principal::local_user());
    checks.push((
        "blackboard",
        Arc::new(move || {
            let (board, by) = (board.clone(), by.clone());
            Box::pin(async move {
                match board.snapshot().await {
                    Some(snapshot) => snapshot
                        .map(|snapshot| serde_json::json!(snapshot))
                        .map_err(|problem| problem.message),
                    None => {
                        let page = board
                            .read(&by, &Default::default(), None, 0)
                            .await
                            .map_err(|problem| problem.message)?;
                        Ok(serde_json::json!({ "head": page.next }))
                    }
                }
            })
        }),
    ));
    if let Some(registry) = registry_for(who) {
        checks.push((
            "registry",
            Arc::new(move || {
                let registry = registry.clone();
                Box::pin(async move {
                    let found = registry
                        .find(&registry::entry::Query::default())
                        .await
                        .map_err(|problem| problem.message)?;
                    Ok(serde_json::json!({ "agents": found.len() }))
                })
            }),
        ));
    }
    checks
}
