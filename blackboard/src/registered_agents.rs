//! The agents as the board knows them: one row per registered agent, written with the registry's `agent.joined` and deleted
//! with its `agent.left`, and one row per name, which stays.

use crate::{OWNER, signals};
use bytes::Bytes;
use protocol::{
    ids::AgentId,
    problem::Problem,
    signal::{MAX_PARALLEL, Signal, SignalType},
};
use serde::{Deserialize, Serialize};
use store::{Key, Store, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegisteredAgent {
    incarnation: u64,
    /// How many tasks it does at once, as its card says.
    #[serde(default)]
    max_parallel: u32,
}

fn key(agent: &str) -> Key {
    Key::new(&[OWNER, "agent", agent])
}

/// The row of a name that is or was an agent's.
fn name_key(name: &str) -> Key {
    Key::new(&[OWNER, "name", &name.to_ascii_lowercase()])
}

/// Whether `label` is or was an agent's name, compared without case. A row that cannot be read counts as one.
pub(crate) fn is_agents_name(store: &dyn Store, label: &AgentId) -> bool {
    let has_row = |key| store.latest(&key).map_or(true, |row| row.is_some());
    has_row(name_key(label.as_str())) || has_row(key(label.as_str()))
}

/// How many tasks the registered agent `id` does at once; 0 if that is not known.
pub(crate) fn max_parallel(store: &dyn Store, id: &AgentId) -> usize {
    let row = store.latest(&key(id.as_str())).ok().flatten();
    let row = row.and_then(|row| serde_json::from_slice::<RegisteredAgent>(&row.value).ok());
    row.map_or(0, |row| usize::try_from(row.max_parallel).unwrap_or(usize::MAX))
}

/// The writes that a membership signal of the registry causes. A late signal of an earlier incarnation causes none.
pub(crate) fn membership_writes(store: &dyn Store, signal: &Signal) -> Result<Vec<Write>, Problem> {
    let (joined, left) = (SignalType::agent_joined(), SignalType::agent_left());
    let Some(agent) = signal.subject.as_deref().filter(|_| signal.kind == joined || signal.kind == left)
    else {
        return Ok(Vec::new());
    };
    let number = |name: &str| signal.refs.get(name).and_then(serde_json::Value::as_u64).unwrap_or_default();
    let incarnation = number("incarnation");
    let row = store.latest(&key(agent))?;
    let known = row.and_then(|row| serde_json::from_slice::<RegisteredAgent>(&row.value).ok());
    if known.is_some_and(|known| known.incarnation > incarnation) {
        return Ok(Vec::new());
    }
    if signal.kind != joined {
        return Ok(known.map(|_| Write::Delete(key(agent))).into_iter().collect());
    }
    let max_parallel = u32::try_from(number(MAX_PARALLEL)).unwrap_or(u32::MAX);
    let row = Bytes::from(signals::json(&RegisteredAgent { incarnation, max_parallel })?);
    let name = Write::Put(name_key(agent), Bytes::from_static(b"{}"));
    Ok(vec![Write::Put(key(agent), row), name])
}
