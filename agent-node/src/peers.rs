//! The cache of peers, filled from the registry, so that agents reach each other while the registry is unavailable.

use dashmap::{DashMap, DashSet};
use engine::PeerLocation;
use patterns::Candidate;
use protocol::{
    card::Card,
    ids::{AgentId, Capability},
    time::WallTime,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// One peer, as the registry last reported it.
#[derive(Debug, Clone)]
pub struct Peer {
    pub card: Arc<Card>,
    pub incarnation: u64,
    /// Whether it is alive and accepts work.
    pub is_alive: bool,
    /// `None` while it is there.
    pub absence: Option<Absence>,
    /// Since when it is away, if it may come back. It may even if it has been away for longer than its card says: it has not left
    /// on purpose.
    pub away_since: Option<WallTime>,
    /// Number of running tasks, from its last heartbeat.
    pub running: u32,
}

/// How a peer is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Its lease is over, or it has drained, or the registry does not know it: it may come back.
    Away { since: WallTime },
    /// It has been away for longer than it may be, and counts as left. It may come back.
    Lapsed { since: WallTime },
    /// It has left on purpose.
    Left,
}

/// An agent could not reach a peer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreachableReport {
    pub reporter: AgentId,
    /// The peer that could not be reached.
    pub peer: AgentId,
    pub incarnation: u64,
}

/// The peers of a node's agents. Every handle shares it.
#[derive(Default)]
pub struct Peers {
    all: DashMap<AgentId, Peer>,
    /// The names of all agents that are or were registered, in lower case.
    names: DashSet<String>,
    by_capability: DashMap<Capability, BTreeSet<AgentId>>,
    is_synced: AtomicBool,
    changed: tokio::sync::Notify,
    reports: OnceLock<mpsc::Sender<UnreachableReport>>,
}

impl Peer {
    /// The peer with this card, there or not.
    pub fn new(card: Arc<Card>, incarnation: u64, absence: Option<Absence>) -> Self {
        Self { card, incarnation, is_alive: absence.is_none(), absence, away_since: None, running: 0 }
    }
}

impl Peers {
    /// Stores what the registry reports about one peer.
    pub fn update(&self, mut peer: Peer) {
        let known_since = || self.all.get(&peer.card.agent_id)?.away_since;
        peer.away_since = match peer.absence {
            None | Some(Absence::Left) => None,
            Some(Absence::Away { since } | Absence::Lapsed { since }) => known_since().or(Some(since)),
        };
        let id = peer.card.agent_id.clone();
        self.names.insert(id.as_str().to_ascii_lowercase());
        if let Some(old) = self.all.insert(id.clone(), peer.clone()) {
            for capability in capabilities(&old.card) {
                if let Some(mut agents) = self.by_capability.get_mut(&capability) {
                    agents.remove(&id);
                }
            }
        }
        if peer.absence.is_none() || peer.away_since.is_some() {
            for capability in capabilities(&peer.card) {
                self.by_capability.entry(capability).or_default().insert(id.clone());
            }
        }
        self.changed.notify_waiters();
    }

    /// The peers that have not left, and are not in `snapshot`.
    pub fn missing_from(&self, snapshot: &BTreeSet<AgentId>) -> BTreeSet<AgentId> {
        let there = self.all.iter().filter(|peer| matches!(peer.absence, None | Some(Absence::Away { .. })));
        there.map(|peer| peer.key().clone()).filter(|id| !snapshot.contains(id)).collect()
    }

    /// Marks `agent` as absent until the registry reports it again.
    pub fn mark_absent(&self, agent: &AgentId, absence: Absence) {
        let known = self.all.get(agent).map(|peer| peer.clone());
        if let Some(peer) = known {
            self.update(Peer { is_alive: false, absence: Some(absence), running: 0, ..peer });
        }
    }

    /// How long `agent` may be away before it counts as left.
    pub fn may_be_away(&self, agent: &AgentId) -> Duration {
        self.all.get(agent).map_or(Duration::ZERO, |peer| peer.card.may_be_away())
    }

    /// Records that a snapshot of the registry has been received.
    pub fn set_synced(&self) {
        self.is_synced.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whether a snapshot of the registry has been received.
    pub fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    /// Waits for the first snapshot of the registry.
    pub async fn wait_until_synced(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_synced() {
                return;
            }
            changed.await;
        }
    }

    /// Waits until the first snapshot has been received and `agents` are present, for at most `timeout`.
    pub async fn wait_for_agents(&self, agents: &[AgentId], timeout: Duration) {
        let ready = async {
            loop {
                let changed = self.changed.notified();
                let is_present = |id: &AgentId| matches!(self.locate(id), PeerLocation::At(_));
                if self.is_synced() && agents.iter().all(is_present) {
                    return;
                }
                changed.await;
            }
        };
        drop(tokio::time::timeout(timeout, ready).await);
    }

    /// Sets the channel that [`Self::report_unreachable`] sends to; only the first call has an effect.
    pub fn set_report_channel(&self, sender: mpsc::Sender<UnreachableReport>) {
        drop(self.reports.set(sender));
    }

    /// Reports that `reporter` could not reach `peer`; dropped if the channel is full or not set.
    pub fn report_unreachable(&self, reporter: &AgentId, peer: &AgentId) {
        if let (Some(sender), Some(known)) = (self.reports.get(), self.all.get(peer)) {
            let (reporter, peer, incarnation) = (reporter.clone(), peer.clone(), known.incarnation);
            drop(sender.try_send(UnreachableReport { reporter, peer, incarnation }));
        }
    }

    /// The address of `agent`, or that it is absent or unknown.
    pub fn locate(&self, agent: &AgentId) -> PeerLocation {
        match self.all.get(agent) {
            Some(peer) => match peer.absence {
                None => PeerLocation::At(peer.card.endpoint.clone()),
                Some(Absence::Away { since }) => PeerLocation::Away { since },
                Some(Absence::Lapsed { .. } | Absence::Left) => PeerLocation::Left,
            },
            None => PeerLocation::Unknown,
        }
    }

    /// Whether `label` is the name of an agent that is or was registered, compared without case. No user may use it.
    pub fn knows(&self, label: &AgentId) -> bool {
        self.names.contains(&label.as_str().to_ascii_lowercase())
    }

    /// The agents with `capability` that are there or may come back, by id. The track record is left at 0; the engine fills it in.
    pub fn candidates(&self, capability: &Capability) -> Vec<Candidate> {
        let agents = self.by_capability.get(capability).map(|agents| agents.clone()).unwrap_or_default();
        let candidate = |id: &AgentId| {
            let peer = self.all.get(id)?.clone();
            Some(Candidate {
                running: peer.running,
                is_alive: peer.is_alive,
                away_since: peer.away_since,
                ..Candidate::new(&peer.card, capability)
            })
        };
        agents.iter().filter_map(candidate).collect()
    }

    /// The number of running tasks of `agent`, from its last heartbeat.
    pub fn running(&self, agent: &AgentId) -> u32 {
        self.all.get(agent).map_or(0, |peer| peer.running)
    }

    /// The skill ids of all present agents, without tags.
    pub fn skills(&self) -> BTreeSet<Capability> {
        let present = self.present();
        present.values().flat_map(|card| card.skills.iter().map(|skill| skill.id.clone())).collect()
    }

    /// Whether a present agent has `capability`.
    pub fn has(&self, capability: &Capability) -> bool {
        let agents = self.by_capability.get(capability).map(|agents| agents.clone()).unwrap_or_default();
        agents.iter().any(|id| self.all.get(id).is_some_and(|peer| peer.absence.is_none()))
    }

    /// The cards of all agents that are or were registered, by id.
    pub fn cards(&self) -> Vec<Arc<Card>> {
        let mut cards: Vec<_> = self.all.iter().map(|peer| peer.card.clone()).collect();
        cards.sort_by(|a, b| a.agent_id.cmp(&b.agent_id));
        cards
    }

    /// The present agents and their cards.
    pub fn present(&self) -> BTreeMap<AgentId, Arc<Card>> {
        let present = self.all.iter().filter(|peer| peer.absence.is_none());
        present.map(|peer| (peer.key().clone(), peer.card.clone())).collect()
    }
}

fn capabilities(card: &Card) -> BTreeSet<Capability> {
    card.skills.iter().flat_map(|skill| std::iter::once(&skill.id).chain(&skill.tags)).cloned().collect()
}
