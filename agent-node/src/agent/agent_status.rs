//! What can be known of an agent from outside its thread, without asking it.

use engine::Agent;
use protocol::ids::ConversationId;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

/// What can be known of an agent from outside its thread.
#[derive(Debug, Default)]
pub struct AgentStatus {
    running: AtomicU32,
    draining: AtomicBool,
    late_acks: AtomicU64,
    parked: Mutex<BTreeMap<ConversationId, String>>,
    waits: Mutex<Option<String>>,
    failed: Mutex<Option<String>>,
    removed_tasks: AtomicU64,
}

impl AgentStatus {
    /// Tasks it is doing.
    pub fn running(&self) -> u32 {
        self.running.load(Ordering::Relaxed)
    }

    /// Whether it takes nothing new.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The conversations it can't go on with before its next start, and why.
    pub fn parked(&self) -> BTreeMap<ConversationId, String> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows how the agent stands.
    pub(super) fn show(&self, agent: &Agent) {
        self.running.store(agent.running(), Ordering::Relaxed);
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        if parked.len() != agent.count_parked() {
            *parked = agent.parked();
        }
    }

    /// Why the agent is down until the next start of the node, if it is.
    pub fn failed(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn fail(&self, why: String) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    pub(super) fn late_acks(&self) -> u64 {
        self.late_acks.load(Ordering::Relaxed)
    }

    /// Takes nothing new from here on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// How often it has deleted tasks; whoever remembers which there were looks again.
    pub fn removed_tasks(&self) -> u64 {
        self.removed_tasks.load(Ordering::Acquire)
    }

    pub(super) fn note_removed_tasks(&self) {
        self.removed_tasks.fetch_add(1, Ordering::Release);
    }

    /// What it waits for before it takes work at all, if it does.
    pub fn waits(&self) -> Option<String> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what it waits for, or that it does no longer.
    pub fn wait(&self, why: Option<String>) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Counts an acknowledgement that nobody waited for any more.
    pub fn note_late_ack(&self) {
        self.late_acks.fetch_add(1, Ordering::Relaxed);
    }
}
