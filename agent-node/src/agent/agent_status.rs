//! The status of an agent that other threads read without a message to its actor.

use crate::{brain::Brain, sent_messages::SentMessages};
use engine::Agent;
use protocol::ids::ConversationId;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

/// The status of an agent, shared between threads.
#[derive(Default)]
pub struct AgentStatus {
    running: AtomicU32,
    unfinished: AtomicU32,
    draining: AtomicBool,
    late_acks: AtomicU64,
    parked: Mutex<BTreeMap<ConversationId, String>>,
    waits_for: Mutex<Option<String>>,
    failed: Mutex<Option<String>>,
    brain: Mutex<Option<Arc<dyn Brain>>>,
    /// What it has sent to other agents.
    pub sent: Arc<SentMessages>,
}

impl AgentStatus {
    /// The number of its running tasks.
    pub fn running(&self) -> u32 {
        self.running.load(Ordering::Relaxed)
    }

    /// The number of its tasks that go on without a person.
    pub fn unfinished(&self) -> u32 {
        self.unfinished.load(Ordering::Relaxed)
    }

    /// Whether it refuses new work.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The conversations that are parked until the next start, and why.
    pub fn parked(&self) -> BTreeMap<ConversationId, String> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn update(&self, agent: &Agent) {
        self.running.store(agent.running(), Ordering::Relaxed);
        self.unfinished.store(agent.unfinished(), Ordering::Relaxed);
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        if !parked.iter().eq(agent.parked()) {
            *parked = agent.parked().map(|(id, why)| (id.clone(), why.clone())).collect();
        }
    }

    /// Why the agent is down until the next start of the node, if it is.
    pub fn failed(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn fail(&self, why: String) {
        self.running.store(0, Ordering::Relaxed);
        self.unfinished.store(0, Ordering::Relaxed);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    pub(super) fn late_acks(&self) -> u64 {
        self.late_acks.load(Ordering::Relaxed)
    }

    /// Makes the agent refuse new work.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Why it can't take work yet; `None` if it can.
    pub fn waits_for(&self) -> Option<String> {
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets or clears the reason why it can't take work yet.
    pub fn set_waits_for(&self, why: Option<String>) {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// The brain that its turns go to.
    pub fn brain(&self) -> Option<Arc<dyn Brain>> {
        self.brain.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the brain that its turns go to.
    pub fn set_brain(&self, brain: Arc<dyn Brain>) {
        *self.brain.lock().unwrap_or_else(PoisonError::into_inner) = Some(brain);
    }

    /// Counts an acknowledgement whose caller had timed out.
    pub fn count_late_ack(&self) {
        self.late_acks.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_given_up_runs_no_task() {
        let status = AgentStatus::default();
        status.running.store(2, Ordering::Relaxed);
        status.fail("panicked".to_owned());
        assert_eq!(status.running(), 0);
    }
}
