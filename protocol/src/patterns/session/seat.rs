//! The messages that travel in the result of a turn, and what marks a task as the turn of a seat.

use crate::{artifact::Artifact, task::TaskSpec};
use serde_json::{Value, json};

/// The key of an artifact's metadata that is about a session.
pub const SESSION: &str = "urn:agent-mesh:ext:session:v1";

/// All seats of a stage, as addressee.
pub const TEAM: &str = "team";

/// What a turn says that has nothing to say.
pub const PASSES: &str = "passes";

/// The most messages of one turn.
pub const MAX_SAYS: u32 = 8;

/// The longest message, bytes.
pub const MAX_SAY_BYTES: usize = 16 * 1024;

/// Whether a task is the turn of a seat.
pub fn is_seat_turn(spec: &TaskSpec) -> bool {
    is_seat_input(spec.input.as_ref())
}

/// Whether the input of a task is that of the turn of a seat.
pub fn is_seat_input(input: Option<&Value>) -> bool {
    input.is_some_and(|input| input.get("seat").is_some_and(Value::is_object))
}

/// A message, as the artifact in which it travels; `None` without addressees or if it is too long.
pub fn say(number: u32, to: &[String], text: &str) -> Option<Artifact> {
    if to.is_empty() || text.trim().is_empty() || text.len() > MAX_SAY_BYTES {
        return None;
    }
    let mut artifact = Artifact::text(&format!("say.{number}"), "text/plain", text);
    artifact.metadata.insert(SESSION.to_owned(), json!({ "say": { "to": to } }));
    Some(artifact)
}

/// The addressees of a message, if the artifact is one.
pub fn addressees(artifact: &Artifact) -> Option<Vec<String>> {
    let to = artifact.metadata.get(SESSION)?.get("say")?.get("to")?.as_array()?;
    Some(to.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}
