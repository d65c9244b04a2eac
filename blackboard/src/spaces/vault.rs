//! Decides what the person changes in the vault of an agent.

use super::{
    entry_writes::{EntryBatch, permitted},
    rows::{self, ExpertiseRow},
};
use protocol::{
    ids::{AgentId, EntryId, SpaceId},
    problem::{Problem, Reason},
    spaces::{
        Entry, Reader, Space, SpaceVerb,
        entry_draft::MAX_AREAS,
        may::entry_not_found,
        vault::{VaultChange, is_in_vault, may_open_vault},
    },
    time::WallTime,
};
use store::{Batch, Expectation, Snapshot};

pub(crate) fn decide_vault_change(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    (space, agent): (&SpaceId, &AgentId),
    change: &VaultChange,
    at: WallTime,
) -> Result<Batch, Problem> {
    let space = permitted(store, reader, SpaceVerb::Read, space)?;
    may_open_vault(reader, &space)?;
    let memory = |id: &EntryId| {
        let found = rows::find_entry(store, &space.id, id)?;
        found.filter(|found| is_in_vault(&found.value, agent)).ok_or_else(|| entry_not_found(id))
    };
    let mut batch = EntryBatch::default();
    let mut replace = |id: &EntryId, changed: &dyn Fn(&Entry) -> Result<Entry, Problem>| {
        let old = memory(id)?;
        batch.replace(&old, &changed(&old.value)?)
    };
    let by = &reader.principal;
    match change {
        VaultChange::Edit { id, content } => {
            replace(id, &|entry| entry.edited(by, at, content.clone()))?;
        }
        VaultChange::Archive { id, reason } => {
            replace(id, &|entry| entry.archived(by, at, reason.clone()))?;
        }
        VaultChange::Expertise { areas } => {
            return knowledge(store, &space, agent, |row| {
                for (area, score) in areas {
                    for known in row.of_roots.values_mut() {
                        known.areas.remove(area);
                    }
                    match score {
                        0 => drop(row.knowledge.areas.remove(area)),
                        score => drop(row.knowledge.areas.insert(area.clone(), *score)),
                    }
                }
            });
        }
        VaultChange::Files { forget } => {
            return knowledge(store, &space, agent, |row| {
                let all = row.of_roots.values_mut().chain([&mut row.knowledge]);
                all.for_each(|known| known.files.retain(|file| !forget.contains(file)));
            });
        }
    }
    Ok(batch.0)
}

/// Changes what an agent knows beside its memories.
fn knowledge(
    store: &(impl Snapshot + ?Sized),
    space: &Space,
    agent: &AgentId,
    change: impl FnOnce(&mut ExpertiseRow),
) -> Result<Batch, Problem> {
    let key = rows::expertise_key(&space.id, agent);
    let old = rows::find::<ExpertiseRow>(store, &key)?;
    let expected = match &old {
        None => Expectation::Absent(key.clone()),
        Some(old) => Expectation::At(key.clone(), old.revision),
    };
    let mut row = old.map_or_else(|| ExpertiseRow::new(agent.clone()), |old| old.value);
    change(&mut row);
    if row.knowledge.areas.len() > MAX_AREAS {
        let message = format!("areas: {agent} would have more than {MAX_AREAS} areas");
        return Err(Problem::new(Reason::InvalidField, message).with("field", "areas"));
    }
    Ok(Batch { writes: vec![rows::put(key, &row)?], expectations: vec![expected] })
}
