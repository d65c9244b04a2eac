//! `GET /metrics`: what this process counts, as Prometheus reads it. The list is `telemetry/meters/page.rs`.

use super::Node;
use crate::{
    agent::{Look, Snapshot},
    telemetry::meters::{
        ATTEMPTS, STATES,
        page::{Metric, Page},
    },
};
use actix_web::{HttpResponse, http::header, web};
use futures_util::future::join_all;
use protocol::{message::Kind, problem::Reason};
use registry::{
    client::Registry,
    entry::{Presence, Query},
};
use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

/// What of this process is looked at beside its agents.
#[derive(Clone, Default)]
pub struct Looked {
    /// The board, if it is here.
    pub board: Option<blackboard::board::Board>,
    /// The registry, if it is here.
    pub registry: Option<Registry>,
    /// The store's files and queue, if it has any.
    pub store: Option<blackboard::store::embedded::Gauge>,
}

/// The page.
pub async fn metrics(node: web::Data<Node>) -> HttpResponse {
    let mut page = Page::default();
    counted(&node, &mut page);
    looked_at(&node, &mut page).await;
    parts(&node, &mut page).await;
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"))
        .body(page.text())
}

fn counted(node: &Node, page: &mut Page) {
    let meters = node.telemetry.meters();
    let reasons = || Reason::ALL.iter().map(|reason| reason.code());
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Relaxed);
    page.family(Metric::Accepted, Kind::ALL.iter().map(|kind| kind.wire()).zip(meters.accepted.counts()));
    page.one(Metric::Duplicates, count(&meters.duplicates));
    page.family(Metric::Refused, reasons().zip(meters.refused.counts()));
    page.family(Metric::HttpRefused, reasons().zip(meters.http_refused.counts()));
    page.family(Metric::Ended, STATES.iter().map(|state| state.word()).zip(meters.ended.counts()));
    page.histogram(Metric::Commit, &meters.commit);
    page.histogram(Metric::Think, &meters.think);
    page.family(Metric::Attempts, ATTEMPTS.into_iter().zip(meters.attempts.counts()));
    page.family(Metric::GivenUp, reasons().zip(meters.given_up.counts()));
    page.one(Metric::Rounds, count(&meters.rounds));
    page.one(Metric::BidsHeard, count(&meters.bids));
    page.one(Metric::Awards, count(&meters.awards));
    page.one(Metric::BidsMade, count(&meters.offers));
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
async fn looked_at(node: &Node, page: &mut Page) {
    let looks = node.agents.values().map(|local| tokio::time::timeout(node.ack(), local.actor.send(Look)));
    let seen: Vec<Snapshot> = join_all(looks).await.into_iter().filter_map(|seen| seen.ok()?.ok()).collect();
    let sum = |of: fn(&Snapshot) -> u64| seen.iter().map(of).sum::<u64>();
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
        ("records", sum(|seen| seen.swept.records)),
        ("journal_lines", sum(|seen| seen.swept.journal_lines)),
        ("contents", sum(|seen| seen.swept.contents)),
    ];
    page.family(Metric::Swept, swept);
}

async fn parts(node: &Node, page: &mut Page) {
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
