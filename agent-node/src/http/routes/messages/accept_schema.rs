//! The schema that a task request demands of its result is checked when the request comes, not when the work is done.

use crate::brain::llm::output::OutputSchema;
use protocol::{
    envelope::Envelope,
    problem::{Problem, Reason},
};

/// The largest schema, bytes of JSON.
const MAX_SCHEMA: usize = 16 * 1024;

/// Fails if the message is a task request whose `accept.schema` is no JSON Schema, or too large, also when
/// its references are followed.
pub(super) fn check(envelope: &Envelope) -> Result<(), Problem> {
    let Some(schema) = envelope.payload.demanded_schema() else { return Ok(()) };
    let invalid = |what: String| {
        let field = "payload.accept.schema";
        Problem::new(Reason::InvalidField, format!("{field}: {what}")).with("field", field)
    };
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA {
        return Err(invalid(format!("it has {bytes} bytes, at most {MAX_SCHEMA} are allowed")));
    }
    OutputSchema::of_request(schema.clone()).map(drop).map_err(invalid)
}
