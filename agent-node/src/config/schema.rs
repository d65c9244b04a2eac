//! The JSON Schema of the YAML.

use super::file::{AgentFile, TeamFile};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

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

/// The schema of `T`, with subschemas inlined.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
