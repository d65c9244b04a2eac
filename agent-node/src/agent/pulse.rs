//! What can be known of an agent without asking it.

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
pub struct Pulse {
    pub(super) running: AtomicU32,
    draining: AtomicBool,
    pub(super) late_acks: AtomicU64,
    parked: Mutex<BTreeMap<ConversationId, String>>,
    waits: Mutex<Option<String>>,
    forgotten: AtomicU64,
}

impl Pulse {
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

    pub(super) fn park(&self, id: ConversationId, why: String) {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).insert(id, why);
    }

    /// Takes nothing new from here on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// How often it has let go of tasks; whoever remembers which there were looks again.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    pub(super) fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::Release);
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
