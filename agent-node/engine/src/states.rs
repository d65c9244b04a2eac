//! The recorded state of an open conversation: a row, and what has changed since the row was written.
//!
//! A step that changes little of a large state records the difference to the row in its line of the journal, so that its
//! cost does not depend on the size of the state. The difference is always to the row: the row and the last line are the
//! whole state.

use crate::{
    content,
    records::{ConversationState, Step, keys},
};
use protocol::ids::{AgentId, ConversationId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store_types::{Error, Revision, Snapshot};

/// Members whose change is always written to the row: they are read from it alone.
const IN_ROW: [&str; 3] = ["rules", "task", "hasEnded"];

/// The difference between two JSON objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectChange {
    /// Members that are new or have another value.
    #[serde(rename = "+", default, skip_serializing_if = "Map::is_empty")]
    set: Map<String, Value>,
    /// Members that are gone.
    #[serde(rename = "-", default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
    /// Objects that have changed in part.
    #[serde(rename = "~", default, skip_serializing_if = "Map::is_empty")]
    changed: Map<String, Value>,
}

impl ObjectChange {
    /// The change from `old` to `new`.
    fn between(old: &Map<String, Value>, new: &Map<String, Value>) -> Self {
        let mut change = Self::default();
        change.removed.extend(old.keys().filter(|name| !new.contains_key(*name)).cloned());
        for (name, value) in new {
            match (old.get(name), value) {
                (Some(before), value) if before == value => {}
                (Some(Value::Object(before)), Value::Object(after)) => {
                    let nested = serde_json::to_value(Self::between(before, after)).unwrap_or_default();
                    change.changed.insert(name.clone(), nested);
                }
                (Some(_) | None, value) => drop(change.set.insert(name.clone(), value.clone())),
            }
        }
        change
    }

    fn apply(self, to: &mut Map<String, Value>) -> serde_json::Result<()> {
        self.removed.iter().for_each(|name| drop(to.remove(name)));
        to.extend(self.set);
        for (name, nested) in self.changed {
            if let Some(Value::Object(inner)) = to.get_mut(&name) {
                Self::deserialize(nested)?.apply(inner)?;
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// The row of a state, as it was written.
#[derive(Debug, Clone)]
pub(crate) struct StateRow {
    pub(crate) members: Map<String, Value>,
    pub(crate) bytes: usize,
}

/// How a step records a state.
pub(crate) enum StateRecord {
    /// It equals the row.
    Unchanged,
    /// In the step.
    InStep(ObjectChange),
    /// In a new row.
    InRow,
}

impl StateRow {
    /// How a state with these `members` is recorded: in the step if the difference is less than half of the row.
    pub(crate) fn record(&self, members: &Map<String, Value>) -> Result<StateRecord, Error> {
        if IN_ROW.iter().any(|name| members.get(*name) != self.members.get(*name)) {
            return Ok(StateRecord::InRow);
        }
        let change = ObjectChange::between(&self.members, members);
        if change.is_empty() {
            return Ok(StateRecord::Unchanged);
        }
        let size = serde_json::to_vec(&change).map_err(unwritten)?.len();
        Ok(if 2 * size < self.bytes { StateRecord::InStep(change) } else { StateRecord::InRow })
    }
}

/// The members of a state's JSON.
pub(crate) fn members(state: &ConversationState) -> Result<Map<String, Value>, Error> {
    match serde_json::to_value(state).map_err(unwritten)? {
        Value::Object(members) => Ok(members),
        _ => Err(Error::Refused("a state is an object".to_owned())),
    }
}

fn unwritten(error: serde_json::Error) -> Error {
    Error::Refused(format!("a state can't be written: {error}"))
}

/// A recorded state.
pub(crate) struct RecordedState {
    pub(crate) state: ConversationState,
    pub(crate) row: StateRow,
    /// The number and revision of the last step.
    pub(crate) step: u64,
    pub(crate) head: Revision,
}

/// The recorded state of a conversation; `None` if it has none.
pub fn read(
    store: &dyn Snapshot,
    me: &AgentId,
    id: &ConversationId,
) -> Result<Option<ConversationState>, Error> {
    Ok(load(store, me, id)?.map(|recorded| recorded.state))
}

pub(crate) fn load(
    store: &dyn Snapshot,
    me: &AgentId,
    id: &ConversationId,
) -> Result<Option<RecordedState>, Error> {
    let key = keys::state(me, id);
    let Some(mut record) = store.latest(&key)? else { return Ok(None) };
    loop {
        let Some(journal) = store.latest(&keys::journal(me, id))? else { return Ok(None) };
        // The row may have been written again between the two reads.
        let Some(again) = store.latest(&key)? else { return Ok(None) };
        if again.revision != record.revision {
            record = again;
            continue;
        }
        let step: Step = content::decode(me, store, &journal.value)?;
        let mut members: Map<String, Value> = content::decode(me, store, &record.value)?;
        let row = StateRow { members: members.clone(), bytes: record.value.len() };
        let unreadable = |error| Error::Refused(format!("{key} can't be read: {error}"));
        if let Some(change) = step.state {
            change.apply(&mut members).map_err(unreadable)?;
        }
        let state = serde_json::from_value(Value::Object(members)).map_err(unreadable)?;
        return Ok(Some(RecordedState { state, row, step: step.step, head: journal.revision }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object() -> impl Strategy<Value = Map<String, Value>> {
        let leaf = prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from), "[a-b]".prop_map(Value::from)];
        let value = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-d+~-]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        });
        proptest::collection::btree_map("[a-d]", value, 0..4).prop_map(|members| members.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_change_leads_from_the_old_to_the_new(old in object(), new in object()) {
            let change = ObjectChange::between(&old, &new);
            prop_assert_eq!(change.is_empty(), old == new);
            let text = serde_json::to_string(&change).unwrap();
            let mut changed = old;
            serde_json::from_str::<ObjectChange>(&text).unwrap().apply(&mut changed).unwrap();
            prop_assert_eq!(changed, new);
        }
    }
}
