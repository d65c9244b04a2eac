//! Distributes the agents of one process over as many threads as there are cores.

use crate::agent::{AgentActor, AgentParts};
use actix::{Actor, Addr, Arbiter};

/// The threads that run agents; the first is the caller's own.
pub(super) struct ArbiterPool {
    others: Vec<Arbiter>,
    started: usize,
}

impl ArbiterPool {
    /// Starts threads for `agents` agents, at most one per core.
    pub(super) fn for_agents(agents: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let others = agents.min(cores).saturating_sub(1);
        Self { others: (0..others).map(|_| Arbiter::new()).collect(), started: 0 }
    }

    /// Ends the threads and drops their agents, so that the store is closed before the process exits.
    pub(super) async fn stop(self) {
        for arbiter in &self.others {
            arbiter.stop();
        }
        let join = || self.others.into_iter().all(|arbiter| arbiter.join().is_ok());
        if !tokio::task::spawn_blocking(join).await.unwrap_or_default() {
            tracing::error!("a thread of agents panicked");
        }
    }

    pub(super) fn start(&mut self, parts: AgentParts) -> Addr<AgentActor> {
        let next = self.started % (self.others.len() + 1);
        self.started += 1;
        match next.checked_sub(1).and_then(|other| self.others.get(other)) {
            None => AgentActor::new(parts).start(),
            Some(other) => AgentActor::start_in_arbiter(&other.handle(), |_| AgentActor::new(parts)),
        }
    }
}
