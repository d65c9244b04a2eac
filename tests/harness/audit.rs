//! The replay audit over what a process left on disk: every journal whose first step is still kept must replay to the
//! effects that it recorded.

use engine::{
    content,
    records::{Step, keys},
    replay,
};
use protocol::ids::{AgentId, ConversationId};
use std::path::Path;
use store::{
    Filter, Snapshot,
    embedded::{self, StoreOptions},
};

/// The number of journals that were replayed. Fails with the first that differs from its replay. Reads a copy of the
/// store, so that what a scenario does with the data afterwards is not disturbed. A directory whose store cannot be
/// opened (damaged on purpose, of another format, none) has no journals.
pub fn replay_journals<'a>(data: &Path, agents: impl Iterator<Item = &'a String>) -> Result<usize, String> {
    let copy = super::directory();
    for name in ["store.sqlite", "store.sqlite-wal"] {
        drop(std::fs::copy(data.join(name), copy.path().join(name)));
    }
    let Ok(store) = embedded::open(copy.path(), StoreOptions::default()) else { return Ok(0) };
    let mut replayed = 0;
    for agent in agents {
        let me = AgentId::parse(agent).map_err(|error| error.to_string())?;
        for id in conversations(store.as_ref(), &me)? {
            let steps: Vec<_> = steps(store.as_ref(), &me, &id)?;
            // Retention trims journals from their beginning, and other rules may have written them.
            if steps.iter().any(|step| step.replay_start().is_some()) {
                replay::audit(&steps).map_err(|error| format!("the journal of {id} at {me}: {error}"))?;
                replayed += 1;
            }
        }
    }
    Ok(replayed)
}

fn conversations(store: &dyn Snapshot, me: &AgentId) -> Result<Vec<ConversationId>, String> {
    let (filter, mut after) = (keys::all(me, "journal"), 0);
    let mut found = std::collections::BTreeSet::new();
    loop {
        let page = store.keys(&filter, after, 256).map_err(|error| error.to_string())?;
        let Some((last, _)) = page.last() else { return Ok(found.into_iter().collect()) };
        after = *last;
        let ids = page.iter().filter_map(|(_, key)| key.tokens().into_iter().nth(2));
        found.extend(ids.filter_map(|id| ConversationId::parse(&id).ok()));
    }
}

fn steps(store: &dyn Snapshot, me: &AgentId, id: &ConversationId) -> Result<Vec<Step>, String> {
    let (filter, mut after, mut found) = (Filter::Exactly(keys::journal(me, id)), 0, Vec::new());
    loop {
        let page = store.read(&filter, after, 256).map_err(|error| error.to_string())?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.revision;
        for record in &page {
            found.push(content::decode(me, store, &record.value).map_err(|error| error.to_string())?);
        }
    }
}
