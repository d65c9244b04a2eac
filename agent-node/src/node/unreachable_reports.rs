//! Reports to the registry which peers this node's agents could not reach, at most once per heartbeat interval each: two
//! reports shorten the lease of a peer (RELIABILITY §1.7).

use crate::peers::{Peers, UnreachableReport};
use protocol::ids::AgentId;
use registry::{client::Registry, registrar::ReportSuspicion};
use std::{collections::BTreeMap, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// Most queued reports; further ones are dropped, as they are repeats in all likelihood.
const MAX_QUEUED: usize = 64;

/// Forwards the reports of `peers` until the process ends, each through the registry client of its reporter.
pub(super) fn spawn(registries: BTreeMap<AgentId, Registry>, peers: &Peers, interval: Duration) {
    let (sender, mut reports) = mpsc::channel::<UnreachableReport>(MAX_QUEUED);
    peers.set_report_channel(sender);
    actix::spawn(async move {
        let mut sent = BTreeMap::new();
        while let Some(report) = reports.recv().await {
            sent.retain(|_, at: &mut Instant| at.elapsed() < interval);
            let Some(registry) = registries.get(&report.reporter).filter(|_| !sent.contains_key(&report))
            else {
                continue;
            };
            let UnreachableReport { reporter, peer, incarnation } = &report;
            let suspicion = ReportSuspicion { id: peer.clone(), incarnation: *incarnation };
            if let Err(problem) = registry.call(reporter, suspicion).await {
                tracing::debug!(%reporter, %peer, %problem, "a suspicion could not be reported");
            }
            sent.insert(report, Instant::now());
        }
    });
}
