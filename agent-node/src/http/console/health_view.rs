//! What `/readyz`, `/state` and `mesh doctor` say about this process.

use super::scope::ConsoleScope;
use crate::{
    held_up::held_up,
    http::{
        node_state::NodeState,
        routes::{
            costs::{quotas, seen_requester},
            dead_letters,
            health::{self, readiness},
        },
    },
};
use console::views::health::{DeadLetterLine, HealthCheck, HealthData, bytes};
use protocol::{principal::Principal, problem::Problem, signal::sees_all};
use serde_json::{Value, json};

/// The most dead letters of a page.
const MOST_LETTERS: usize = 20;

/// The data of the page.
pub(super) async fn data(scope: &ConsoleScope, node: &NodeState) -> Result<HealthData, Problem> {
    let health::Readiness { ready, checks: ready_checks, parked, waiting, damaged, .. } =
        readiness(node).await;
    let mut checks: Vec<HealthCheck> = ready_checks
        .into_iter()
        .map(|(name, result)| check(name, Some(result.ok), result.why.unwrap_or_default()))
        .collect();
    checks.extend(
        waiting
            .into_iter()
            .map(|(agent, why)| check(format!("agent {agent}"), None, format!("takes no work: {why}"))),
    );
    if sees_all(&scope.by) {
        for (agent, conversations) in &parked {
            for (conversation, why) in conversations.as_object().into_iter().flatten() {
                let what = format!(
                    "{conversation} is parked until the next start: {}",
                    why.as_str().unwrap_or_default()
                );
                checks.push(check(format!("agent {agent}"), Some(false), what));
            }
        }
    }
    checks.extend(damaged.into_iter().map(|what| {
        check(
            "store".to_owned(),
            Some(false),
            format!("{what}: put a copy of its data back; `mesh store check` lists all"),
        )
    }));
    checks.extend(held(scope, node).await);
    let limits = json!(node.limits.as_ref());
    Ok(HealthData {
        is_ready: ready,
        version: env!("CARGO_PKG_VERSION"),
        checks,
        limits: limits.as_object().cloned().unwrap_or_default(),
        dead_letters: if scope.by == Principal::local_user() {
            dead_letters(scope).await?
        } else {
            Vec::new()
        },
        parts: if sees_all(&scope.by) { parts(node) } else { Vec::new() },
    })
}

/// The newest dead letters of the agents.
async fn dead_letters(scope: &ConsoleScope) -> Result<Vec<DeadLetterLine>, Problem> {
    let mut lines = scope
        .read(|scope| {
            let mut lines = Vec::new();
            for local in &scope.agents {
                let newest = dead_letters::newest(local, MOST_LETTERS, scope.proof)?;
                lines.extend(newest.into_iter().map(|dead| DeadLetterLine {
                    agent: local.id.to_string(),
                    message: dead.message_id.to_string(),
                    to: dead.letter.to_agent_id.to_string(),
                    kind: dead.letter.kind().wire().to_owned(),
                    task: dead.letter.payload.task_id().map(ToString::to_string),
                    why: format!("{}: {}", dead.reason, dead.message),
                    at: dead.at,
                }));
            }
            Ok(lines)
        })
        .await?;
    lines.sort_by_key(|line| std::cmp::Reverse(line.at));
    lines.truncate(MOST_LETTERS);
    Ok(lines)
}

fn check(subject: String, is_well: Option<bool>, what: String) -> HealthCheck {
    HealthCheck { subject, is_well, what }
}

/// What holds the work of the agents up.
async fn held(scope: &ConsoleScope, node: &NodeState) -> Vec<HealthCheck> {
    let requester = seen_requester(&scope.by, scope.is_signed_in());
    let list = |value: Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for local in &scope.agents {
        let quotas = list(json!(quotas(node, local, requester.as_ref()).await));
        let schedules =
            local.schedules.list(&scope.by).await.map_or(Vec::new(), |schedules| list(json!(schedules)));
        let of_agent = held_up(&quotas, &schedules).into_iter();
        found.extend(
            of_agent.map(|held| {
                check(format!("agent {}", local.id), (held.is_wrong).then_some(false), held.what)
            }),
        );
    }
    found
}

/// The parts of the process that `/state` and `/metrics` tell about.
fn parts(node: &NodeState) -> Vec<(String, Vec<(String, String)>)> {
    let figures =
        |all: Vec<(&str, String)>| all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut parts = Vec::new();
    if let Some(store) = &node.local_services.store {
        let of_store = vec![
            ("Files", bytes(store.bytes())),
            ("Commits that wait", store.waiting().to_string()),
            ("Refused by the device", store.refused().to_string()),
        ];
        parts.push(("Store".to_owned(), figures(of_store)));
    }
    let spans = node.telemetry.counts();
    let export = vec![
        ("Spans exported", spans.exported.to_string()),
        ("Spans that wait", spans.waiting.to_string()),
        ("Lost, queue full", spans.dropped_full.to_string()),
        ("Lost, not taken", (spans.dropped_failed + spans.dropped_rejected).to_string()),
        (
            "Metrics every",
            node.telemetry
                .metric_interval()
                .map_or("not sent".to_owned(), |every| format!("{} s", every.as_secs())),
        ),
    ];
    parts.push(("Export".to_owned(), figures(export)));
    let connections = node.connections.counts();
    let readers: usize = node.streams.counts().values().sum();
    let http = vec![
        ("Connections", connections.open.to_string()),
        ("Without a credential", connections.without_credential.to_string()),
        ("Refused since the start", connections.refused.to_string()),
        ("Open streams", readers.to_string()),
        ("Agents here", node.agents.len().to_string()),
        ("Agents that are there", node.peers.present().len().to_string()),
    ];
    parts.push(("Process".to_owned(), figures(http)));
    parts
}
