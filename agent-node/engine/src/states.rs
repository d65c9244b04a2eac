//! The recorded state of an open conversation: a row, and what has changed since the row was written.
//!
//! A small state is written whole. A step that changes little of a large state records the difference to the row in its line
//! of the journal, so that its cost does not depend on the size of the state. The difference is always to the row: the row
//! and the last line are the whole state.

use crate::{
    content,
    object_change::{ObjectChange, RawMembers, raw_members},
    records::{ConversationState, keys},
};
use patterns::AnyPattern;
use protocol::ids::{AgentId, ConversationId};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::fmt::Display;
use store_types::{Error, Revision, Snapshot};

/// Members whose change is always written to the row: they are read from it alone.
const IN_ROW: [&str; 3] = ["rules", "task", "hasEnded"];

/// A state of at most this size is always written whole: its difference would be hardly smaller.
const SMALL_STATE_BYTES: usize = 1024;

/// The row of a state, as it was written: the JSON of the state, before large texts were taken out of it.
#[derive(Debug, Clone)]
pub(crate) struct StateRow(String);

/// How a step records a state.
pub(crate) enum StateRecord {
    /// It equals the row.
    Unchanged,
    InStep(ObjectChange),
    /// In a new row.
    InRow,
}

impl StateRow {
    /// The row of a state.
    pub(crate) fn of(state: &ConversationState) -> Result<Self, Error> {
        serde_json::to_string(state).map(Self).map_err(unwritten)
    }

    /// Its JSON.
    pub(crate) fn json(&self) -> &str {
        &self.0
    }

    /// How a state whose row would be `new` is recorded: in the step if it is large and differs from this row by less than
    /// half.
    pub(crate) fn record(&self, new: &Self) -> Result<StateRecord, Error> {
        if self.0 == new.0 {
            return Ok(StateRecord::Unchanged);
        }
        if new.0.len() <= SMALL_STATE_BYTES {
            return Ok(StateRecord::InRow);
        }
        let (Some(before), Some(after)) = (raw_members(&self.0), raw_members(&new.0)) else {
            return Ok(StateRecord::InRow);
        };
        let text = |members: &RawMembers<'_>, name| members.get(name).map(|value| value.get().to_owned());
        if IN_ROW.iter().any(|name| text(&after, *name) != text(&before, *name)) {
            return Ok(StateRecord::InRow);
        }
        let change = ObjectChange::between(&before, &after).map_err(unwritten)?;
        let size = serde_json::to_vec(&change).map_err(unwritten)?.len();
        Ok(if 2 * size < self.0.len() { StateRecord::InStep(change) } else { StateRecord::InRow })
    }
}

fn unwritten(error: serde_json::Error) -> Error {
    Error::Refused(format!("a state can't be written: {error}"))
}

/// A recorded state.
pub(crate) struct RecordedState {
    pub(crate) state: ConversationState,
    pub(crate) row: StateRow,
    /// Whether other rules have written it.
    pub(crate) is_upgraded: bool,
    /// The number and revision of the last step.
    pub(crate) step: u64,
    pub(crate) head: Revision,
}

/// The members of the last step that a state is read from.
#[derive(Deserialize)]
struct LastStep {
    step: u64,
    #[serde(default)]
    state: Option<ObjectChange>,
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
        let step: LastStep = content::decode(me, store, &journal.value)?;
        let mut members: Map<String, Value> = content::decode(me, store, &record.value)?;
        let row = StateRow(serde_json::to_string(&members).map_err(unwritten)?);
        let unreadable = |error: &dyn Display| Error::Refused(format!("{key} can't be read: {error}"));
        if let Some(change) = step.state {
            change.apply(&mut members).map_err(|error| unreadable(&error))?;
        }
        let state = ConversationState::<Value>::deserialize(Value::Object(members));
        let state = state.map_err(|error| unreadable(&error))?;
        let is_upgraded = state.rules != AnyPattern::RULES;
        let state = state.upgraded().map_err(|error| unreadable(&error))?;
        return Ok(Some(RecordedState { state, row, is_upgraded, step: step.step, head: journal.revision }));
    }
}
