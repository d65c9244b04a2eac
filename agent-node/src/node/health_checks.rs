//! The checks of `/readyz`: store, blackboard, registry.

use super::NodeSetup;
use crate::http::{node_state::ReadinessChecks, routes::health::OWN_CHECK};
use blackboard::client::Blackboard;
use protocol::{ids::AgentId, principal::Principal};
use registry::client::Registry;
use std::sync::Arc;
use store::probe::WriteProbe;

pub(super) fn checks(
    setup: &NodeSetup,
    board_for: &impl Fn(&AgentId) -> Blackboard,
    registry_for: &impl Fn(&AgentId) -> Option<Registry>,
    services: &AgentId,
) -> ReadinessChecks {
    let agent = setup.agents.first().map_or(services, |spec| &spec.id);
    let mut checks: ReadinessChecks = Vec::new();
    let (store, probe) = (setup.store.clone(), WriteProbe::new(setup.store.clone(), setup.gauge.clone()));
    checks.push((
        OWN_CHECK,
        Arc::new(move || {
            let (store, probe) = (store.clone(), probe.clone());
            Box::pin(async move {
                probe.check().await.map_err(|error| error.to_string())?;
                Ok(serde_json::json!({ "revision": store.head(), "generation": store.generation() }))
            })
        }),
    ));
    let (board, by) = (board_for(agent), Principal::local_user());
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
    if let Some(registry) = registry_for(agent) {
        checks.push((
            "registry",
            Arc::new(move || {
                let registry = registry.clone();
                Box::pin(async move {
                    let found = registry
                        .read(registry::entry::AgentQuery::default())
                        .await
                        .map_err(|problem| problem.message)?;
                    Ok(serde_json::json!({ "agents": found.agents.len() }))
                })
            }),
        ));
    }
    checks
}
