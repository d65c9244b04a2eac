//! The JSON Schema of the YAML.

use super::file::{AgentFile, TeamFile};
use serde_json::{Value, json};

pub(super) use crate::json_schema::of;

/// The schema of a whole file: a team, or one agent (`mesh validate --schema`, `deploy/config/agent.schema.json`).
pub fn schema() -> Value {
    let (mut team, mut agent) = (of::<TeamFile>(), of::<AgentFile>());
    for part in [&mut team, &mut agent] {
        if let Some(members) = part.as_object_mut() {
            members.remove("$schema");
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Agent Mesh: an agent, or a team of agents",
        "anyOf": [agent, team],
    })
}
