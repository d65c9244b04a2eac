//! Keeps one agent registered: registers, says that it lives, registers again when told to, and says goodbye.

use crate::{agent::AgentStatus, latest::Latest};
use protocol::{card::Card, problem::Reason};
use registry::{
    client::Registry,
    entry::{Heartbeat, Registered},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

/// One agent's standing with the registry.
pub(super) struct Presence {
    registry: Registry,
    card: Latest<Card>,
    incarnation: Arc<Mutex<Option<u64>>>,
    hurry: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Presence {
    /// Registers `card` and keeps it registered; another one in its place is registered instead.
    pub(super) fn keep(registry: Registry, card: Latest<Card>, status: Arc<AgentStatus>) -> Self {
        let incarnation = Arc::new(Mutex::new(None));
        let hurry = Arc::new(Notify::new());
        let known = (incarnation.clone(), hurry.clone());
        let task = actix::spawn(run(registry.clone(), card.clone(), status, known));
        Self { registry, card, incarnation, hurry, task }
    }

    /// Says how it stands at once, instead of at the next heartbeat.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// What tells it to look at once.
    pub(super) fn nudge(&self) -> Nudge {
        Nudge(self.hurry.clone())
    }

    /// Says goodbye, if the registry can be reached.
    pub(super) async fn leave(self) {
        self.task.abort();
        let incarnation = self.incarnation.lock().ok().and_then(|incarnation| *incarnation);
        if let Some(incarnation) = incarnation {
            let id = self.card.get().agent_id.clone();
            let goodbye = self.registry.leave_drained(&id, incarnation);
            match tokio::time::timeout(Duration::from_secs(2), goodbye).await {
                Ok(Ok(())) => {}
                Ok(Err(problem)) => {
                    tracing::warn!(agent = %id, %problem, "left without a goodbye")
                }
                Err(_) => {
                    tracing::warn!(agent = %id, "left without a goodbye: the registry did not answer")
                }
            }
        }
    }
}

/// Tells a presence to look at once.
pub(super) struct Nudge(Arc<Notify>);

impl Nudge {
    /// Does.
    pub(super) fn nudge(&self) {
        self.0.notify_one();
    }
}

async fn run(
    registry: Registry,
    shown: Latest<Card>,
    status: Arc<AgentStatus>,
    (incarnation, hurry): (Arc<Mutex<Option<u64>>>, Arc<Notify>),
) {
    let mut card = shown.get();
    let mut instance = uuid::Uuid::now_v7().to_string();
    let mut failures = 0;
    loop {
        let newest = shown.get();
        // Who can do something else than before comes anew; what else a card says is known without a word on the board.
        if card.skills != newest.skills {
            instance = uuid::Uuid::now_v7().to_string();
        }
        card = newest;
        let registered = match registry.register(card.clone(), instance.clone()).await {
            Ok(registered) => registered,
            Err(problem) => {
                // Once; `/readyz` says it for as long as it lasts.
                let is_away = problem.reason == Reason::RegistryUnavailable;
                match failures {
                    // Whoever follows the registry says for all that it is away.
                    0 if !is_away => {
                        tracing::warn!(agent = %card.agent_id, %problem, "not registered yet; trying until it is")
                    }
                    _ => tracing::debug!(agent = %card.agent_id, %problem, failures, "not registered yet"),
                }
                tokio::time::sleep(pause(failures)).await;
                failures += 1;
                continue;
            }
        };
        if std::mem::take(&mut failures) > 0 {
            tracing::info!(agent = %card.agent_id, "registered at last");
        }
        if let Ok(mut slot) = incarnation.lock() {
            *slot = Some(registered.incarnation);
        }
        if !beat(&registry, (&card, &shown), &status, &registered, &hurry).await {
            return;
        }
    }
}

/// Heartbeats until the registry wants a new registration, or there is another card to show; `false` when another process has taken this agent over.
async fn beat(
    registry: &Registry,
    (card, shown): (&Arc<Card>, &Latest<Card>),
    status: &AgentStatus,
    registered: &Registered,
    hurry: &Notify,
) -> bool {
    loop {
        let heartbeat = Heartbeat {
            incarnation: registered.incarnation,
            running: status.running(),
            accepting: !status.is_draining() && status.waits_for().is_none() && status.failed().is_none(),
        };
        match registry.heartbeat(&card.agent_id, heartbeat).await {
            Ok(()) => {}
            Err(problem) if problem.reason == Reason::AgentNotFound => return true,
            Err(problem) if problem.reason == Reason::StaleIncarnation => {
                tracing::error!(agent = %card.agent_id, "another process runs this agent now; this one takes nothing new");
                status.drain();
                return false;
            }
            Err(problem) => tracing::debug!(agent = %card.agent_id, %problem, "a heartbeat was lost"),
        }
        let pause = jittered(Duration::from_millis(registered.heartbeat_ms));
        // Told to hurry or not: it is time for the next one.
        drop(tokio::time::timeout(pause, hurry.notified()).await);
        if !Arc::ptr_eq(card, &shown.get()) {
            return true;
        }
    }
}

/// Within a fifth of `interval` (DESIGN §7: heartbeats jitter).
fn jittered(interval: Duration) -> Duration {
    let chance = u32::from(uuid::Uuid::now_v7().as_bytes()[15]);
    interval * 4 / 5 + interval * 2 / 5 * chance / 255
}

fn pause(failures: u32) -> Duration {
    jittered(Duration::from_millis(100) * 2u32.saturating_pow(failures.min(6)))
}
