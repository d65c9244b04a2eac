//! Tells the registry whom this node's agents could not reach, once a heartbeat each: two who say so spare everybody the
//! rest of a lease (RELIABILITY §1.7).

use crate::peers::{Missed, Peers};
use protocol::ids::AgentId;
use registry::client::Registry;
use std::{collections::BTreeMap, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// Reports that wait; more of them say nothing new.
const WAITING: usize = 64;

/// Passes on what `peers` are missed, each by the registry's handle of who missed it, for as long as the process lives.
pub(super) fn report(registries: BTreeMap<AgentId, Registry>, peers: &Peers, every: Duration) {
    let (to, mut missed) = mpsc::channel::<Missed>(WAITING);
    peers.report_missed(to);
    actix::spawn(async move {
        let mut told = BTreeMap::new();
        while let Some(report) = missed.recv().await {
            told.retain(|_, at: &mut Instant| at.elapsed() < every);
            let Some(registry) = registries.get(&report.by).filter(|_| !told.contains_key(&report)) else {
                continue;
            };
            let Missed { by, whom, incarnation } = &report;
            if let Err(problem) = registry.report_suspicion(by, whom, *incarnation).await {
                tracing::debug!(%by, %whom, %problem, "a suspicion was not heard");
            }
            told.insert(report, Instant::now());
        }
    });
}
