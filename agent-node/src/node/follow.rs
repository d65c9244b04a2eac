//! Feeds the cached view of the others from the registry; when the registry is away, the view stays as it was.

use crate::peers::{Peer, Peers};
use registry::{
    client::Registry,
    entry::{Entry, News},
};
use std::sync::Arc;

/// Follows the registry for as long as the process lives. That it can't be is said here, once for all agents.
pub(super) fn keep(registry: Registry, peers: Arc<Peers>) {
    actix::spawn(async move {
        let mut watch = registry.watch();
        let mut is_away = false;
        loop {
            match watch.next().await {
                Ok(News::Snapshot(entries)) => {
                    entries.iter().for_each(|entry| peers.learn(peer(entry)));
                    peers.set_synced();
                    if std::mem::take(&mut is_away) {
                        tracing::info!("the registry is back");
                    }
                }
                Ok(News::Change(entry)) => peers.learn(peer(&entry)),
                Err(problem) => {
                    if !std::mem::replace(&mut is_away, true) {
                        match peers.is_synced() {
                            true => {
                                tracing::warn!(%problem, "the registry can't be followed; going on with what is known");
                            }
                            false => tracing::warn!(%problem, "no registry yet; trying until there is one"),
                        }
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
            }
        }
    });
}

fn peer(entry: &Entry) -> Peer {
    Peer {
        card: entry.card.clone(),
        incarnation: entry.incarnation,
        is_alive: entry.state == registry::entry::Presence::Alive && entry.accepting,
        has_departed: !entry.state.is_live(),
        running: entry.running,
    }
}
