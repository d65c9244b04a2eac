//! Keeps the cache of peers in step with the registry. While the registry is unavailable, the cache stays as it is.

use crate::{
    clock,
    peers::{Absence, Peer, Peers},
};
use engine::PeerLocation;
use protocol::{
    ids::AgentId,
    problem::{Problem, Reason},
    time::WallTime,
};
use registry::{
    client::{Registry, RegistryWatch},
    entry::{AgentEntry, Presence, RegistryEvent},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use transport::key_ring::KeyRing;

/// Watches the registry until the process ends; logs once, for all agents, if it is unavailable. A peer that snapshots
/// have not confirmed for `timeout` is marked as away.
/// The keys of the agents go to `keys`; one without a right certificate is refused and logged.
/// `key_sync` then reads the registry's records: the registry may have a new key.
pub(super) fn spawn(
    registry: Registry,
    peers: Arc<Peers>,
    (keys, key_sync): (KeyRing, Arc<Notify>),
    timeout: Duration,
) {
    actix::spawn(async move {
        let mut watch = registry.watch();
        let mut is_unavailable = false;
        let mut unconfirmed = UnconfirmedPeers { timeout, due: BTreeMap::new() };
        loop {
            match unconfirmed.next(&mut watch, &peers).await {
                Ok(RegistryEvent::Snapshot(entries)) => {
                    entries.iter().for_each(|entry| {
                        learn(&keys, &key_sync, entry);
                        peers.update(peer(entry));
                    });
                    let confirmed = entries.iter().map(|entry| entry.id().clone()).collect();
                    unconfirmed.record(peers.missing_from(&confirmed), Instant::now());
                    peers.set_synced();
                    if std::mem::take(&mut is_unavailable) {
                        tracing::info!("the registry is back");
                    }
                }
                Ok(RegistryEvent::Change(entry)) => {
                    unconfirmed.due.remove(entry.id());
                    learn(&keys, &key_sync, &entry);
                    peers.update(peer(&entry));
                }
                Err(problem) => {
                    unconfirmed.due.clear();
                    if !std::mem::replace(&mut is_unavailable, true) {
                        match peers.is_synced() {
                            true => {
                                tracing::warn!(%problem, "the registry can't be followed; going on with what is known");
                            }
                            false if problem.reason == Reason::StaleSignature => {
                                tracing::warn!(%problem, "the registry refuses this process until the clocks agree; trying again");
                            }
                            false => tracing::warn!(
                                %problem,
                                "no registry yet; trying until there is one: `mesh up` or `mesh registry` starts it, --registry URL \
                                 (MESH_REGISTRY) says where it is"
                            ),
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    });
}

/// Known peers that the latest snapshot lacks. A registry that restarts without its data has no agents until they
/// register again, so they stay in the cache for a while; then they are away, and have left in the end.
struct UnconfirmedPeers {
    timeout: Duration,
    /// When each becomes absent, or more so.
    due: BTreeMap<AgentId, Instant>,
}

impl UnconfirmedPeers {
    /// Records the peers that a snapshot lacks; those already recorded keep their time.
    fn record(&mut self, missing: BTreeSet<AgentId>, now: Instant) {
        self.due.retain(|id, _| missing.contains(id));
        for id in missing {
            self.due.entry(id).or_insert(now + self.timeout);
        }
    }

    /// The next event of `watch`; meanwhile marks peers as absent when their time is over.
    async fn next(&mut self, watch: &mut RegistryWatch, peers: &Peers) -> Result<RegistryEvent, Problem> {
        while let Some(next) = self.due.values().min().copied() {
            if let Ok(event) = tokio::time::timeout_at(next, watch.next()).await {
                return event;
            }
            let due: Vec<_> = self.due.extract_if(.., |_, at| *at <= next).collect();
            for (agent, _) in due {
                let absence = if let PeerLocation::Away { .. } = peers.locate(&agent) {
                    Absence::Lapsed { since: clock::wall_time() }
                } else {
                    self.due.insert(agent.clone(), next + peers.may_be_away(&agent));
                    Absence::Away { since: clock::wall_time() }
                };
                tracing::info!(%agent, ?absence, "the registry has not confirmed it");
                peers.mark_absent(&agent, absence);
            }
        }
        watch.next().await
    }
}

/// Takes the key of an agent, or gives it up after a reset.
fn learn(keys: &KeyRing, key_sync: &Notify, entry: &AgentEntry) {
    match &entry.key {
        Some(certificate) => {
            if let Err(problem) = keys.learn(certificate) {
                tracing::warn!(agent = %entry.id(), %problem, "its new key is refused");
                key_sync.notify_one();
            }
        }
        None => keys.revoke(entry.id().as_str(), None),
    }
}

/// When the registry heard of it last.
fn seen_at(entry: &AgentEntry) -> WallTime {
    WallTime(clock::wall_time().0.saturating_sub_unsigned(entry.last_seen_ms))
}

fn peer(entry: &AgentEntry) -> Peer {
    let absence = match entry.state {
        Presence::Alive | Presence::Suspect => None,
        Presence::Dead => Some(Absence::Away { since: seen_at(entry) }),
        Presence::Departed if entry.has_lapsed => Some(Absence::Lapsed { since: seen_at(entry) }),
        Presence::Departed => Some(Absence::Left),
    };
    Peer {
        is_alive: entry.state == Presence::Alive && entry.accepting,
        running: entry.running,
        ..Peer::new(entry.card.clone(), entry.incarnation, absence)
    }
}
