//! The registered agents as the board knows them: one row per agent, written with the registry's `agent.joined` and
//! deleted with its `agent.left`.

use crate::{
    signals::{self, OWNER},
    store::{Key, Store, Write},
};
use bytes::Bytes;
use protocol::{
    ids::AgentId,
    problem::Problem,
    signal::{Signal, SignalType},
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct RegisteredAgent {
    incarnation: u64,
}

fn key(agent: &str) -> Key {
    Key::new(&[OWNER, "agent", agent])
}

/// Whether `agent` is registered. A row that cannot be read counts as registered.
pub(crate) fn is_registered(store: &dyn Store, agent: &AgentId) -> bool {
    store.latest(&key(agent.as_str())).map_or(true, |row| row.is_some())
}

/// The write that a membership signal of the registry causes. A late signal of an earlier incarnation causes none.
pub(crate) fn membership_write(store: &dyn Store, signal: &Signal) -> Result<Option<Write>, Problem> {
    let (joined, left) = (SignalType::agent_joined(), SignalType::agent_left());
    let Some(agent) = signal.subject.as_deref().filter(|_| signal.kind == joined || signal.kind == left)
    else {
        return Ok(None);
    };
    let incarnation = signal.refs.get("incarnation").and_then(serde_json::Value::as_u64).unwrap_or_default();
    let row = store.latest(&key(agent))?;
    let known = row.and_then(|row| serde_json::from_slice::<RegisteredAgent>(&row.value).ok());
    if known.is_some_and(|known| known.incarnation > incarnation) {
        return Ok(None);
    }
    Ok(if signal.kind == joined {
        let row = Bytes::from(signals::json(&RegisteredAgent { incarnation })?);
        Some(Write::Put(key(agent), row))
    } else {
        known.map(|_| Write::Delete(key(agent)))
    })
}
