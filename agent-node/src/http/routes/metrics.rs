//! `GET /metrics`: what this process counts, as Prometheus reads it. The list is `telemetry/meters/openmetrics.rs`.

use crate::{
    agent::{ActorSnapshot, GetAgentSnapshot},
    http::node_state::Node,
    telemetry::meters::openmetrics::{Metric, MetricsPage},
};
use actix_web::{HttpResponse, http::header, web};
use futures_util::future::join_all;
use registry::entry::{Presence, Query};
use std::collections::BTreeMap;

/// The page.
pub async fn metrics(node: web::Data<Node>) -> HttpResponse {
    let mut page = MetricsPage::default();
    counted(&node, &mut page);
    looked_at(&node, &mut page).await;
    parts(&node, &mut page).await;
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        .body(page.text())
}

fn counted(node: &Node, page: &mut MetricsPage) {
    let meters = node.telemetry.meters();
    page.add(Metric::Accepted, meters.accepted.clone());
    page.add(Metric::Duplicates, meters.duplicates.clone());
    page.add(Metric::Refused, meters.refused.clone());
    page.add(Metric::HttpRefused, meters.http_refused.clone());
    page.add(Metric::Ended, meters.ended.clone());
    page.add(Metric::Commit, meters.commit.clone());
    page.add(Metric::Think, meters.think.clone());
    page.add(Metric::Attempts, meters.attempts.clone());
    page.add(Metric::GivenUp, meters.given_up.clone());
    page.add(Metric::Rounds, meters.rounds.clone());
    page.add(Metric::BidsHeard, meters.bids.clone());
    page.add(Metric::Awards, meters.awards.clone());
    page.add(Metric::BidsMade, meters.offers.clone());
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
    page.one(Metric::SpansWaiting, spans.waiting as u64);
}

/// What the agents say of themselves, together.
async fn looked_at(node: &Node, page: &mut MetricsPage) {
    let looks = node
        .agents
        .values()
        .map(|local| tokio::time::timeout(node.ack(), local.actor.send(GetAgentSnapshot)));
    let seen: Vec<ActorSnapshot> =
        join_all(looks).await.into_iter().filter_map(|seen| seen.ok()?.ok()?).collect();
    let sum = |of: fn(&ActorSnapshot) -> u64| seen.iter().map(of).sum::<u64>();
    let mut patterns: BTreeMap<&str, u64> = BTreeMap::new();
    for (pattern, open) in seen.iter().flat_map(|seen| &seen.conversations) {
        *patterns.entry(pattern).or_default() += *open as u64;
    }
    page.family(Metric::Conversations, patterns);
    page.one(Metric::Running, sum(|seen| u64::from(seen.running)));
    page.one(Metric::Thinking, sum(|seen| seen.thinking as u64));
    page.one(Metric::Steps, sum(|seen| seen.counts.steps));
    page.one(Metric::Panics, sum(|seen| seen.counts.panics));
    page.one(Metric::OutboxWaiting, sum(|seen| seen.outbox.values().map(|waiting| *waiting as u64).sum()));
    let swept = [
        ("records", sum(|seen| seen.removed.records)),
        ("journal_lines", sum(|seen| seen.removed.journal_lines)),
        ("contents", sum(|seen| seen.removed.contents)),
    ];
    page.family(Metric::Swept, swept);
}

async fn parts(node: &Node, page: &mut MetricsPage) {
    if let Some(store) = &node.looked.store {
        page.one(Metric::StoreBytes, store.bytes());
        page.one(Metric::StoreWaiting, store.waiting() as u64);
    }
    if let Some(board) = &node.looked.board
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
    if let Some(registry) = &node.looked.registry
        && let Ok(found) = registry.find(&Query { include_dead: true, ..Query::default() }).await
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
