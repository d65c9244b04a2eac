//! `GET /metrics`: the metrics of this process, for Prometheus. The list is `telemetry/meters/openmetrics.rs`.

use crate::{
    agent::{ActorSnapshot, GetAgentSnapshot},
    http::node_state::NodeState,
    telemetry::meters::openmetrics::{Metric, MetricsPage},
};
use actix_web::{HttpResponse, http::header, web};
use futures_util::future::join_all;
use registry::entry::{AgentList, AgentQuery, Presence};
use std::collections::BTreeMap;

/// Returns the metrics page.
pub async fn metrics(node: web::Data<NodeState>) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        .body(page(&node).await)
}

/// Sends the page to the backend of metrics, if there is one, at its interval and for ever.
pub(crate) async fn send_at_intervals(node: &NodeState) {
    let Some(interval) = node.telemetry.metric_interval() else { return };
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        node.telemetry.send_metrics(page(node).await);
    }
}

async fn page(node: &NodeState) -> String {
    let mut page = MetricsPage::default();
    add_counters(node, &mut page);
    add_agents(node, &mut page).await;
    add_services(node, &mut page).await;
    page.text()
}

fn add_counters(node: &NodeState, page: &mut MetricsPage) {
    let meters = node.telemetry.meters();
    page.add(Metric::Accepted, meters.accepted.clone());
    page.add(Metric::Duplicates, meters.duplicates.clone());
    page.add(Metric::Refused, meters.refused.clone());
    page.add(Metric::HttpRefused, meters.http_refused.clone());
    page.add(Metric::Ended, meters.ended.clone());
    page.add(Metric::Commit, meters.commit.clone());
    page.add(Metric::Think, meters.think.clone());
    meters.models.add_to(page);
    page.add(Metric::Attempts, meters.attempts.clone());
    page.add(Metric::GivenUp, meters.given_up.clone());
    page.add(Metric::Rounds, meters.rounds.clone());
    page.add(Metric::BidsHeard, meters.bids.clone());
    page.add(Metric::Awards, meters.awards.clone());
    page.add(Metric::BidsMade, meters.offers.clone());
    let connections = node.connections.counts();
    let with_credential = (connections.open - connections.without_credential) as u64;
    page.family(
        Metric::Connections,
        [("yes", with_credential), ("no", connections.without_credential as u64)],
    );
    page.family(
        Metric::ConnectionsClosed,
        [("limit", connections.refused), ("idle", connections.closed_idle)],
    );
    let spans = node.telemetry.counts();
    page.one(Metric::SpansExported, spans.exported);
    page.family(
        Metric::SpansDropped,
        [
            ("full", spans.dropped_full),
            ("failed", spans.dropped_failed),
            ("rejected", spans.dropped_rejected),
        ],
    );
    page.one(Metric::SpansCut, spans.cut);
    page.one(Metric::SpansWaiting, spans.waiting as u64);
}

/// Adds the sums over all agents' snapshots.
async fn add_agents(node: &NodeState, page: &mut MetricsPage) {
    let requests = node
        .agents
        .values()
        .map(|local| tokio::time::timeout(node.ack(), local.actor.send(GetAgentSnapshot)));
    let snapshots: Vec<ActorSnapshot> =
        join_all(requests).await.into_iter().filter_map(|answer| answer.ok()?.ok()?).collect();
    let sum = |of: fn(&ActorSnapshot) -> u64| snapshots.iter().map(of).sum::<u64>();
    let mut patterns: BTreeMap<&str, u64> = BTreeMap::new();
    for (pattern, open) in snapshots.iter().flat_map(|agent| &agent.conversations) {
        *patterns.entry(pattern).or_default() += *open as u64;
    }
    page.family(Metric::Conversations, patterns);
    page.one(Metric::Running, sum(|agent| u64::from(agent.running)));
    page.one(Metric::Thinking, sum(|agent| agent.thinking as u64));
    page.one(Metric::Steps, sum(|agent| agent.counts.steps));
    page.one(Metric::Panics, sum(|agent| agent.counts.panics));
    page.one(Metric::OutboxWaiting, sum(|agent| agent.outbox.values().map(|waiting| *waiting as u64).sum()));
    let swept = [
        ("records", sum(|agent| agent.removed.records)),
        ("journal_lines", sum(|agent| agent.removed.journal_lines)),
        ("contents", sum(|agent| agent.removed.contents)),
    ];
    page.family(Metric::Swept, swept);
}

async fn add_services(node: &NodeState, page: &mut MetricsPage) {
    if let Some(store) = &node.local_services.store {
        page.one(Metric::StoreBytes, store.bytes());
        page.one(Metric::StoreWaiting, store.waiting() as u64);
    }
    if let Some(board) = &node.local_services.board
        && let Ok(board) = board.snapshot().await
    {
        let counts = board.counts;
        let signals =
            [("published", counts.published), ("repeated", counts.repeated), ("refused", counts.refused)];
        page.family(Metric::BoardSignals, signals);
        page.one(Metric::BoardSubscribers, board.subscribers as u64);
        let claims = [
            ("claimed", counts.claimed),
            ("lost", counts.lost),
            ("fenced", counts.fenced),
            ("expired", counts.expired),
        ];
        page.family(Metric::BoardClaims, claims);
        page.one(Metric::BoardHeld, board.held_claims as u64);
    }
    if let Some(registry) = &node.local_services.registry
        && let Ok(AgentList { agents: found }) =
            registry.read(AgentQuery { include_dead: true, ..AgentQuery::default() }).await
    {
        let states = [
            ("alive", Presence::Alive),
            ("suspect", Presence::Suspect),
            ("dead", Presence::Dead),
            ("departed", Presence::Departed),
        ];
        let count = |state| found.iter().filter(|entry| entry.state == state).count() as u64;
        page.family(Metric::RegistryAgents, states.map(|(word, state)| (word, count(state))));
    }
}
