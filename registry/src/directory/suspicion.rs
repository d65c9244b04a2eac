//! Reports of peers that could not reach an agent (RELIABILITY §1.7, Lifeguard). The registry then tries the agent's endpoint
//! itself: if nobody listens there, the agent is gone. Otherwise two reports shorten its lease to one heartbeat interval, and one
//! changes nothing. A heartbeat of the agent refutes them all.

use super::{AgentDirectory, DirectoryError};
use protocol::{ids::AgentId, time::NodeTime};
use std::{collections::BTreeMap, time::Duration};
use transport::endpoint_probe::REFUSALS;

/// Reports needed, from different agents.
const REQUIRED_REPORTS: usize = 2;

/// The most agents whose endpoints are tried at a time.
const MAX_TRIED: usize = 64;

/// The reports, and what the registry itself has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SuspicionReports {
    /// The time of each report, by reported agent and reporter.
    reports: BTreeMap<AgentId, BTreeMap<AgentId, NodeTime>>,
    /// How often in a row each reported agent's endpoint has refused the registry, and since when.
    refusals: BTreeMap<AgentId, (u32, NodeTime)>,
}

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
        self.suspicion.reports.entry(id.clone()).or_default().insert(reporter.clone(), now);
        if self.suspicion.refusals.len() < MAX_TRIED {
            self.suspicion.refusals.entry(id.clone()).or_insert((0, now));
        }
        Ok(())
    }

    /// The agents whose endpoints are to be tried, with these.
    pub fn endpoints_to_try(&self) -> Vec<(AgentId, String)> {
        let tried = self.suspicion.refusals.keys();
        tried.filter_map(|id| Some((id.clone(), self.agents.get(id)?.row.card.endpoint.clone()))).collect()
    }

    /// Records whether the endpoint of `id` has refused the registry's connection.
    pub fn endpoint_tried(&mut self, id: &AgentId, refused: bool) {
        match self.suspicion.refusals.get_mut(id) {
            Some((refusals, _)) if refused => *refusals += 1,
            _ => drop(self.suspicion.refusals.remove(id)),
        }
    }

    /// Whether nobody listens at its endpoint, or enough peers reported `id` at least one heartbeat interval ago, and no heartbeat has arrived since.
    pub(super) fn is_reported_unreachable(&self, id: &AgentId, seen: NodeTime, now: NodeTime) -> bool {
        let refused = self.suspicion.refusals.get(id);
        if refused.is_some_and(|(refusals, since)| *refusals >= REFUSALS && *since >= seen) {
            return true;
        }
        let Some(reports) = self.suspicion.reports.get(id) else { return false };
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
        let SuspicionReports { reports, refusals } = &mut self.suspicion;
        for reports in reports.values_mut() {
            reports.retain(|_, at| now.since(*at) < lease);
        }
        let agents = &self.agents;
        let last_seen = |id: &AgentId| {
            let agent = agents.get(id).filter(|agent| agent.row.exit.is_none())?;
            Some(agent.liveness.last_seen)
        };
        reports.retain(|id, reports| !reports.is_empty() && last_seen(id).is_some());
        refusals.retain(|id, (_, since)| last_seen(id).is_some_and(|seen| seen <= *since));
    }

    fn is_recent(&self, at: NodeTime, now: NodeTime) -> bool {
        now.since(at) < self.config.lease()
    }
}
