//! The strict parser accepts only what serde_json accepts, reads the same value, and enforces its own limits.

use protocol::json::{MAX_DEPTH, parse};
use serde_json::Value;

/// Panics if that does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(ours) = parse(bytes, MAX_DEPTH) else { return };
    let theirs: Value = serde_json::from_slice(bytes).expect("serde_json accepts it");
    assert_eq!(ours, theirs);
    assert!(depth(&ours) <= MAX_DEPTH);
    assert!(!contains_nul(&ours));
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn contains_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(contains_nul),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains('\0') || contains_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
