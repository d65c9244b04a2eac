//! Keeps one agent registered: registers it, sends heartbeats, registers again when needed, deregisters at shutdown.

use crate::{
    agent::AgentStatus,
    clock::NodeClock,
    http::{key_rotation::CardSigner, running_card::WakeSignal},
    key_records,
    shared_cell::SharedCell,
    signing_keys::SigningKeys,
    start_error::StartError,
};
use protocol::{
    card::Card,
    identity::KeyCertificate,
    ids::AgentId,
    problem::{Problem, Reason},
};
use registry::{
    client::Registry,
    entry::{Heartbeat, LeaseGrant},
    registrar::{Deregister, LeaveReason, RecordHeartbeat},
    registration_request::RegistrationRequest,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;
use transport::key_ring::KeyRing;

/// How often a start replaces a key that the registry refuses.
const MAX_REPLACEMENTS: u32 = 3;

#[derive(Clone)]
pub(super) struct OwnKeys {
    pub(super) keys: KeyRing,
    pub(super) key_files: SigningKeys,
}

impl OwnKeys {
    /// Has the registry pin the key of `agent`. Fails if it has pinned another one. A registry that can't be reached is no
    /// failure.
    pub(super) async fn introduce(&self, agent: &AgentId, registry: &Registry) -> Result<(), StartError> {
        let mut failures = 0;
        loop {
            let Some(identity) = self.keys.own(agent.as_str()) else { return Ok(()) };
            match registry.admit_key(&identity).await {
                Err(problem) if failures < MAX_REPLACEMENTS && self.replaces_key(agent, &problem) => {
                    tokio::time::sleep(pause(failures)).await;
                    failures += 1;
                }
                Err(problem)
                    if [Reason::KeyMismatch, Reason::KeyReset, Reason::AgentIdTaken]
                        .contains(&problem.reason) =>
                {
                    return Err(StartError::KeyRefused { message: problem.message });
                }
                Ok(Some(certificate)) => {
                    if let Err(problem) = key_records::learn_own(&self.keys, registry, &certificate).await {
                        tracing::warn!(%agent, %problem, "its certificate is refused");
                    }
                    return Ok(());
                }
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    fn is_own(&self, certificate: &KeyCertificate) -> bool {
        let claimed = certificate.claimed();
        self.keys.own(claimed.id().as_str()).is_some_and(|own| own.is_same(claimed))
    }

    /// Whether `agent` has another key after the registry has refused its key: the one that was to replace it when the process
    /// ended, or a new one if a person has reset it.
    fn replaces_key(&self, agent: &AgentId, refusal: &Problem) -> bool {
        let was_reset = refusal.reason == Reason::KeyReset;
        if was_reset {
            tracing::warn!(%agent, "its key was reset by a person: it gets a new one");
        }
        let was_interrupted = refusal.reason == Reason::KeyMismatch && self.key_files.has_next(agent);
        (was_reset || was_interrupted) && self.adopt_next(agent)
    }

    /// Takes the key that is to replace that of `agent`, made now if there is none. False if that fails.
    fn adopt_next(&self, agent: &AgentId) -> bool {
        let adopted = || -> anyhow::Result<()> {
            let next = self.key_files.next(agent)?;
            if let Some(refused) = self.keys.own(agent.as_str()) {
                self.key_files.keep_refused(agent, &refused.fingerprint())?;
            }
            self.key_files.promote_next(agent)?;
            self.keys.set_own(next);
            Ok(())
        };
        let failed = adopted().inspect_err(|error| {
            tracing::warn!(%agent, %error, "the key that is to replace its key can't be used");
        });
        failed.is_ok()
    }
}

/// The task that keeps one agent registered.
pub(super) struct RegistrationTask {
    registry: Registry,
    card: SharedCell<Card>,
    incarnation: Arc<Mutex<Option<u64>>>,
    wake: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl RegistrationTask {
    /// Registers `card` and keeps it registered; a changed card is registered anew.
    pub(super) fn spawn(
        registry: Registry,
        card: SharedCell<Card>,
        status: (Arc<AgentStatus>, NodeClock),
        keys: OwnKeys,
        card_signer: CardSigner,
    ) -> Self {
        let incarnation = Arc::new(Mutex::new(None));
        let wake = Arc::new(Notify::new());
        let shared = (incarnation.clone(), wake.clone());
        let task = actix::spawn(run(registry.clone(), card.clone(), (status, keys, card_signer), shared));
        Self { registry, card, incarnation, wake, task }
    }

    /// Sends the next heartbeat now.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// A handle that triggers the next heartbeat.
    pub(super) fn wake_signal(&self) -> WakeSignal {
        WakeSignal(self.wake.clone())
    }

    /// Stops the task and deregisters the agent, if the registry answers within two seconds.
    pub(super) async fn deregister(self) {
        self.task.abort();
        let incarnation = self.incarnation.lock().ok().and_then(|incarnation| *incarnation);
        if let Some(incarnation) = incarnation {
            let id = self.card.get().agent_id.clone();
            let leaving = Deregister { id: id.clone(), incarnation, reason: Some(LeaveReason::Drained) };
            let deregistered = self.registry.call(&id, leaving);
            match tokio::time::timeout(Duration::from_secs(2), deregistered).await {
                Ok(Ok(())) => {}
                Ok(Err(problem)) => {
                    tracing::warn!(agent = %id, %problem, "could not deregister")
                }
                Err(_) => {
                    tracing::warn!(agent = %id, "could not deregister: the registry did not answer")
                }
            }
        }
    }
}

async fn run(
    registry: Registry,
    current: SharedCell<Card>,
    ((status, clock), keys, card_signer): ((Arc<AgentStatus>, NodeClock), OwnKeys, CardSigner),
    (incarnation, wake): (Arc<Mutex<Option<u64>>>, Arc<Notify>),
) {
    let mut card = current.get();
    let mut instance = uuid::Uuid::now_v7().to_string();
    let (mut failures, mut is_refused) = (0, false);
    loop {
        let newest = current.get();
        // Changed skills register as a new instance, which signals `agent.joined`; other changes only update the card.
        if card.skills != newest.skills {
            instance = uuid::Uuid::now_v7().to_string();
        }
        card = newest;
        let request = RegistrationRequest { card: card.clone(), instance: instance.clone() };
        let grant = match registry.call(&card.agent_id, request).await {
            Ok(grant) => grant,
            Err(problem) if keys.replaces_key(&card.agent_id, &problem) => {
                card_signer.use_own_key(&keys.keys, &card);
                tokio::time::sleep(pause(failures)).await;
                failures += 1;
                continue;
            }
            Err(problem) => {
                if [Reason::KeyMismatch, Reason::KeyReset].contains(&problem.reason) {
                    status.set_waits_for(Some(problem.message.clone()));
                    is_refused = true;
                }
                // Warns once; `/readyz` shows the state.
                let is_unavailable = problem.reason == Reason::RegistryUnavailable;
                match failures {
                    // `directory_sync` logs an unavailable registry, once for all agents.
                    0 if !is_unavailable => {
                        tracing::warn!(agent = %card.agent_id, %problem, "not registered yet; trying until it is")
                    }
                    _ => tracing::debug!(agent = %card.agent_id, %problem, failures, "not registered yet"),
                }
                tokio::time::sleep(pause(failures)).await;
                failures += 1;
                continue;
            }
        };
        if std::mem::take(&mut is_refused) {
            status.set_waits_for(None);
        }
        if std::mem::take(&mut failures) > 0 {
            tracing::info!(agent = %card.agent_id, "registered at last");
        }
        if let Some(certificate) = &grant.certificate {
            // For a while the registry takes the key that a rotation has replaced, too.
            if !keys.is_own(certificate)
                && keys.key_files.has_next(&card.agent_id)
                && keys.adopt_next(&card.agent_id)
            {
                card_signer.use_own_key(&keys.keys, &card);
                continue;
            }
            if let Err(problem) = key_records::learn_own(&keys.keys, &registry, certificate).await {
                tracing::warn!(agent = %card.agent_id, %problem, "its certificate is refused");
            }
        }
        if let Ok(mut slot) = incarnation.lock() {
            *slot = Some(grant.incarnation);
        }
        if !send_heartbeats(&registry, (&card, &current), (&status, clock), &grant, &wake).await {
            return;
        }
    }
}

/// Sends heartbeats until the agent has to register again; `false` if another process has taken over the agent.
async fn send_heartbeats(
    registry: &Registry,
    (card, current): (&Arc<Card>, &SharedCell<Card>),
    (status, clock): (&AgentStatus, NodeClock),
    grant: &LeaseGrant,
    wake: &Notify,
) -> bool {
    loop {
        let heartbeat = Heartbeat {
            incarnation: grant.incarnation,
            running: status.running(),
            sent: status.sent.of_last_minute(clock.node()),
            accepting: !status.is_draining() && status.waits_for().is_none() && status.failed().is_none(),
        };
        let id = card.agent_id.clone();
        match registry.call(&card.agent_id, RecordHeartbeat { id, heartbeat }).await {
            Ok(()) => {}
            Err(problem)
                if [Reason::AgentNotFound, Reason::KeyMismatch, Reason::KeyReset]
                    .contains(&problem.reason) =>
            {
                return true;
            }
            Err(problem) if problem.reason == Reason::StaleIncarnation => {
                tracing::error!(agent = %card.agent_id, "another process runs this agent now; this one takes nothing new");
                status.drain();
                return false;
            }
            Err(problem) => tracing::debug!(agent = %card.agent_id, %problem, "a heartbeat was lost"),
        }
        let pause = jittered(Duration::from_millis(grant.heartbeat_ms));
        drop(tokio::time::timeout(pause, wake.notified()).await);
        if !Arc::ptr_eq(card, &current.get()) {
            return true;
        }
    }
}

/// `interval` with a random deviation of up to a fifth (DESIGN §7: heartbeats jitter).
fn jittered(interval: Duration) -> Duration {
    let random = u32::from(uuid::Uuid::now_v7().as_bytes()[15]);
    interval * 4 / 5 + interval * 2 / 5 * random / 255
}

fn pause(failures: u32) -> Duration {
    jittered(Duration::from_millis(100) * 2u32.saturating_pow(failures.min(6)))
}
