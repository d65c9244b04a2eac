//! Feeds the cached view of the others from the registry; when the registry is away, the view stays as it was.

use crate::peers::{Peer, Peers};
use protocol::{ids::AgentId, problem::Problem};
use registry::{
    client::{Registry, RegistryWatch},
    entry::{AgentEntry, RegistryEvent},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Follows the registry for as long as the process lives. That it can't be is said here, once for all agents. Whom a
/// registry that is there has not named for as long as `patience` is taken for gone.
pub(super) fn keep(registry: Registry, peers: Arc<Peers>, patience: Duration) {
    actix::spawn(async move {
        let mut watch = registry.watch();
        let mut is_away = false;
        let mut unnamed = Unnamed { patience, since: BTreeMap::new() };
        loop {
            match unnamed.next(&mut watch, &peers).await {
                Ok(RegistryEvent::Snapshot(entries)) => {
                    entries.iter().for_each(|entry| peers.learn(peer(entry)));
                    let named = entries.iter().map(|entry| entry.id().clone()).collect();
                    unnamed.note(peers.others(&named), Instant::now());
                    peers.set_synced();
                    if std::mem::take(&mut is_away) {
                        tracing::info!("the registry is back");
                    }
                }
                Ok(RegistryEvent::Change(entry)) => {
                    unnamed.since.remove(entry.id());
                    peers.learn(peer(&entry));
                }
                Err(problem) => {
                    unnamed.since.clear();
                    if !std::mem::replace(&mut is_away, true) {
                        match peers.is_synced() {
                            true => {
                                tracing::warn!(%problem, "the registry can't be followed; going on with what is known");
                            }
                            false => tracing::warn!(%problem, "no registry yet; trying until there is one"),
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    });
}

/// Those whom a snapshot did not name, though they were there before: a registry that comes back without its data knows
/// nobody, until everybody has registered again. So they count as there for a while.
struct Unnamed {
    patience: Duration,
    since: BTreeMap<AgentId, Instant>,
}

impl Unnamed {
    /// A snapshot named neither of these.
    fn note(&mut self, these: BTreeSet<AgentId>, now: Instant) {
        let before = std::mem::take(&mut self.since);
        self.since = these.into_iter().map(|id| (id.clone(), *before.get(&id).unwrap_or(&now))).collect();
    }

    /// What comes next; gives those up whose time is over while nothing does.
    async fn next(&mut self, watch: &mut RegistryWatch, peers: &Peers) -> Result<RegistryEvent, Problem> {
        while let Some(first) = self.since.values().min().copied() {
            let over = first + self.patience;
            if let Ok(news) = tokio::time::timeout_at(over, watch.next()).await {
                return news;
            }
            let gone: Vec<_> = self.since.extract_if(.., |_, since| *since <= first).collect();
            for (agent, _) in gone {
                tracing::info!(%agent, "gone: the registry has not named it again");
                peers.give_up(&agent);
            }
        }
        watch.next().await
    }
}

fn peer(entry: &AgentEntry) -> Peer {
    Peer {
        card: entry.card.clone(),
        incarnation: entry.incarnation,
        is_alive: entry.state == registry::entry::Presence::Alive && entry.accepting,
        has_departed: !entry.state.is_live(),
        running: entry.running,
    }
}
