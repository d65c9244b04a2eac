//! The recorded state of an open conversation: a row, and what has changed since the row was written.
//!
//! A step that changes little of a large state records the difference to the row in its line of the journal, so that its
//! cost does not depend on the size of the state. The difference is always to the row: the row and the last line are the
//! whole state.

use crate::{
    content,
    object_change::ObjectChange,
    records::{ConversationState, Step, keys},
};
use protocol::ids::{AgentId, ConversationId};
use serde::Deserialize;
use serde_json::{Map, Value};
use store_types::{Error, Revision, Snapshot};

/// Members whose change is always written to the row: they are read from it alone.
const IN_ROW: [&str; 3] = ["rules", "task", "hasEnded"];

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
    let value = serde_json::to_value(state).map_err(unwritten)?;
    Map::deserialize(value).map_err(unwritten)
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
