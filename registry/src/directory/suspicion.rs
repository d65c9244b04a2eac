//! What peers say who could not reach an agent (RELIABILITY §1.7, Lifeguard): two of them shorten the wait for it to one
//! heartbeat, one alone changes nothing, and one word of the agent itself refutes them all.

use super::{Directory, Refused};
use protocol::{ids::AgentId, time::NodeTime};
use std::{collections::BTreeMap, time::Duration};

/// How many must say so.
const ENOUGH: usize = 2;

/// Who reported whom, and when.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Suspicion(BTreeMap<AgentId, BTreeMap<AgentId, NodeTime>>);

impl Directory {
    /// `reporter` could not reach that life of `id`. Only who is here itself is listened to, and nobody about itself.
    pub fn suspect(
        &mut self,
        reporter: &AgentId,
        id: &AgentId,
        incarnation: u64,
        now: NodeTime,
    ) -> Result<(), Refused> {
        let row = self.speaking(id, incarnation)?;
        let is_here = self.known.get(reporter).is_some_and(|known| known.presence().is_live());
        if row.gone.is_some() || reporter == id {
            return Ok(());
        }
        if !is_here {
            return Err(Refused::Unknown(reporter.clone()));
        }
        self.suspicion.0.entry(id.clone()).or_default().insert(reporter.clone(), now);
        Ok(())
    }

    /// Whether enough peers have missed `id` for as long as a heartbeat takes, and it was not heard of since.
    pub(super) fn is_missed(&self, id: &AgentId, seen: NodeTime, now: NodeTime) -> bool {
        let Some(reports) = self.suspicion.0.get(id) else { return false };
        let mut valid: Vec<_> =
            reports.values().filter(|at| **at >= seen && self.is_recent(**at, now)).collect();
        valid.sort();
        // Heartbeats jitter by a fifth: one that is on its way is waited for.
        valid.get(ENOUGH - 1).is_some_and(|second| {
            now.since(**second) >= Duration::from_millis(self.config.heartbeat_ms * 6 / 5)
        })
    }

    /// Forgets what is too old to count.
    pub(super) fn forget_reports(&mut self, now: NodeTime) {
        let lease = self.config.lease();
        for reports in self.suspicion.0.values_mut() {
            reports.retain(|_, at| now.since(*at) < lease);
        }
        let known = &self.known;
        self.suspicion.0.retain(|id, reports| {
            !reports.is_empty() && known.get(id).is_some_and(|known| known.row.gone.is_none())
        });
    }

    fn is_recent(&self, at: NodeTime, now: NodeTime) -> bool {
        now.since(at) < self.config.lease()
    }
}
