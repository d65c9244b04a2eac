//! What an agent knows of the others: the registry's view, cached, so that peers go on talking when the registry is
//! away.

use dashmap::DashMap;
use engine::PeerLocation;
use protocol::{
    card::Card,
    ids::{AgentId, Capability},
    patterns::Candidate,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::mpsc;

/// One peer, as the registry last told.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its card.
    pub card: Arc<Card>,
    /// Which of its lives.
    pub incarnation: u64,
    /// Whether its lease stands.
    pub is_alive: bool,
    /// Whether it has left, or was given up.
    pub has_departed: bool,
    /// Tasks it was doing at its last heartbeat.
    pub running: u32,
}

/// Somebody could not reach somebody.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missed {
    /// Who.
    pub by: AgentId,
    /// Whom.
    pub whom: AgentId,
    /// Which life of it.
    pub incarnation: u64,
}

/// The cached view.
#[derive(Default)]
pub struct Peers {
    all: DashMap<AgentId, Peer>,
    by_capability: DashMap<Capability, BTreeSet<AgentId>>,
    synced: AtomicBool,
    arrived: tokio::sync::Notify,
    missed: OnceLock<mpsc::Sender<Missed>>,
}

impl Peers {
    /// Takes what the registry says of one peer.
    pub fn learn(&self, peer: Peer) {
        let id = peer.card.agent_id.clone();
        if let Some(old) = self.all.insert(id.clone(), peer.clone()) {
            for capability in capabilities(&old.card) {
                if let Some(mut having) = self.by_capability.get_mut(&capability) {
                    having.remove(&id);
                }
            }
        }
        if !peer.has_departed {
            for capability in capabilities(&peer.card) {
                self.by_capability.entry(capability).or_default().insert(id.clone());
            }
        }
        self.arrived.notify_waiters();
    }

    /// Who is thought to be there and is none of `these`.
    pub fn others(&self, these: &BTreeSet<AgentId>) -> BTreeSet<AgentId> {
        let here = self.all.iter().filter(|peer| !peer.has_departed);
        here.map(|peer| peer.key().clone()).filter(|id| !these.contains(id)).collect()
    }

    /// Takes `agent` for gone, until the registry names it again.
    pub fn give_up(&self, agent: &AgentId) {
        let known = self.all.get(agent).map(|peer| peer.clone());
        if let Some(peer) = known {
            self.learn(Peer { is_alive: false, has_departed: true, running: 0, ..peer });
        }
    }

    /// The whole view has been seen at least once.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
        self.arrived.notify_waiters();
    }

    /// Whether the whole view has been seen.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Waits until the whole view has been seen.
    pub async fn synced(&self) {
        loop {
            let arrived = self.arrived.notified();
            if self.is_synced() {
                return;
            }
            arrived.await;
        }
    }

    /// Waits until the whole view has been seen, and all of `these` in it, at most this long.
    pub async fn first_view(&self, these: &[AgentId], patience: std::time::Duration) {
        let seen = async {
            loop {
                let arrived = self.arrived.notified();
                let is_here = |id: &AgentId| matches!(self.locate(id), PeerLocation::At(_));
                if self.is_synced() && these.iter().all(is_here) {
                    return;
                }
                arrived.await;
            }
        };
        drop(tokio::time::timeout(patience, seen).await);
    }

    /// Where it is heard from now on whom nobody could reach.
    pub fn report_missed(&self, to: mpsc::Sender<Missed>) {
        drop(self.missed.set(to));
    }

    /// `by` could not reach `whom`. Said as often as it is seen; when nobody listens, it is of no use to anyone.
    pub fn miss(&self, by: &AgentId, whom: &AgentId) {
        if let (Some(to), Some(peer)) = (self.missed.get(), self.all.get(whom)) {
            drop(to.try_send(Missed { by: by.clone(), whom: whom.clone(), incarnation: peer.incarnation }));
        }
    }

    /// Where `agent` can be reached.
    pub fn locate(&self, agent: &AgentId) -> PeerLocation {
        match self.all.get(agent) {
            Some(peer) if peer.has_departed => PeerLocation::Departed,
            Some(peer) => PeerLocation::At(peer.card.endpoint.clone()),
            None => PeerLocation::Unknown,
        }
    }

    /// Whether `agent` is, or was, a registered agent: nobody else may speak in its name.
    pub fn knows(&self, agent: &AgentId) -> bool {
        self.all.contains_key(agent)
    }

    /// Everyone who could be asked for `capability`, in the order of their ids. What track record each has, only the
    /// asking agent knows.
    pub fn candidates(&self, capability: &Capability) -> Vec<Candidate> {
        let having = self.by_capability.get(capability).map(|having| having.clone()).unwrap_or_default();
        let candidate = |id: &AgentId| {
            let peer = self.all.get(id)?.clone();
            Some(Candidate {
                card: peer.card.as_ref().clone(),
                running: peer.running,
                is_alive: peer.is_alive,
                track_record: 0.0,
            })
        };
        having.iter().filter_map(candidate).collect()
    }

    /// What can be asked for: the skills of all who are there, tags left out.
    pub fn skills(&self) -> BTreeSet<Capability> {
        let present = self.present();
        present.values().flat_map(|card| card.skills.iter().map(|skill| skill.id.clone())).collect()
    }

    /// Whether anyone who is there has `capability`.
    pub fn has(&self, capability: &Capability) -> bool {
        self.by_capability.get(capability).is_some_and(|having| !having.is_empty())
    }

    /// The cards of all who are, or were, registered, in the order of their ids.
    pub fn cards(&self) -> Vec<Arc<Card>> {
        let mut cards: Vec<_> = self.all.iter().map(|peer| peer.card.clone()).collect();
        cards.sort_by(|a, b| a.agent_id.cmp(&b.agent_id));
        cards
    }

    /// All who are there, with their skills.
    pub fn present(&self) -> BTreeMap<AgentId, Arc<Card>> {
        let here = self.all.iter().filter(|peer| !peer.has_departed);
        here.map(|peer| (peer.key().clone(), peer.card.clone())).collect()
    }
}

fn capabilities(card: &Card) -> BTreeSet<Capability> {
    card.skills.iter().flat_map(|skill| std::iter::once(&skill.id).chain(&skill.tags)).cloned().collect()
}
