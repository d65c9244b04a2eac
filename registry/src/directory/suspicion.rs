//! Reports of peers that could not reach an agent (RELIABILITY §1.7, Lifeguard). Two reports shorten its lease to one
//! heartbeat interval, one report changes nothing, and a heartbeat of the agent refutes them all.

use super::{AgentDirectory, DirectoryError};
use protocol::{ids::AgentId, time::NodeTime};
use std::{collections::BTreeMap, time::Duration};

/// Reports needed, from different agents.
const REQUIRED_REPORTS: usize = 2;

/// The time of each report, by reported agent and reporter.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SuspicionReports(BTreeMap<AgentId, BTreeMap<AgentId, NodeTime>>);

impl AgentDirectory {
    /// Records that `reporter` could not reach that incarnation of `id`. The reporter must be live; a report about itself
    /// is ignored.
    pub fn suspect(
        &mut self,
        reporter: &AgentId,
        id: &AgentId,
        incarnation: u64,
        now: NodeTime,
    ) -> Result<(), DirectoryError> {
        let row = self.row_of(id, incarnation)?;
        let is_live = self.agents.get(reporter).is_some_and(|agent| agent.presence().is_live());
        if row.exit.is_some() || reporter == id {
            return Ok(());
        }
        if !is_live {
            return Err(DirectoryError::Unknown(reporter.clone()));
        }
        self.suspicion.0.entry(id.clone()).or_default().insert(reporter.clone(), now);
        Ok(())
    }

    /// Whether enough peers reported `id` at least one heartbeat interval ago, and no heartbeat has arrived since.
    pub(super) fn is_reported_unreachable(&self, id: &AgentId, seen: NodeTime, now: NodeTime) -> bool {
        let Some(reports) = self.suspicion.0.get(id) else { return false };
        let mut valid: Vec<_> =
            reports.values().filter(|at| **at >= seen && self.is_recent(**at, now)).collect();
        valid.sort();
        // Heartbeats jitter by a fifth; a heartbeat in flight still counts.
        valid.get(REQUIRED_REPORTS - 1).is_some_and(|second| {
            now.since(**second) >= Duration::from_millis(self.config.heartbeat_ms * 6 / 5)
        })
    }

    /// Drops reports older than a lease, and those about agents that are gone.
    pub(super) fn drop_old_reports(&mut self, now: NodeTime) {
        let lease = self.config.lease();
        for reports in self.suspicion.0.values_mut() {
            reports.retain(|_, at| now.since(*at) < lease);
        }
        let agent = &self.agents;
        self.suspicion.0.retain(|id, reports| {
            !reports.is_empty() && agent.get(id).is_some_and(|agent| agent.row.exit.is_none())
        });
    }

    fn is_recent(&self, at: NodeTime, now: NodeTime) -> bool {
        now.since(at) < self.config.lease()
    }
}
