//! How large a JSON Schema is when its references are followed. A value is compared with every part once for each way that
//! leads there, so that a few lines of references can cost years.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a pattern counts.
pub(super) const PATTERN_SIZE: usize = 64;
/// The deepest nesting, references followed.
const MAX_DEPTH: usize = 128;

/// The number of JSON values in `schema`, references followed and patterns counted as [`PATTERN_SIZE`]. Fails if it refers to
/// itself, to anything but its own parts by a JSON pointer (`#/…`), or is nested too deep.
pub(super) fn expanded(schema: &Value) -> Result<usize, String> {
    let mut sizes = BTreeMap::new();
    sizes.insert("#", None);
    SchemaExpansion { root: schema, sizes }.size_of(schema, 0)
}

/// The number of JSON values in `value`.
pub(super) fn values_in(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(values_in).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

struct SchemaExpansion<'a> {
    root: &'a Value,
    /// The sizes of what references lead to; `None` while it is being counted.
    sizes: BTreeMap<&'a str, Option<usize>>,
}

impl<'a> SchemaExpansion<'a> {
    fn size_of(&mut self, value: &'a Value, depth: usize) -> Result<usize, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is nested deeper than {MAX_DEPTH} when its references are followed"));
        }
        let mut size = 1_usize;
        match value {
            Value::Array(items) => {
                for item in items {
                    size = size.saturating_add(self.size_of(item, depth + 1)?);
                }
            }
            Value::Object(members) => {
                size = size.saturating_add(self.size_of_keywords(members, depth)?);
                for member in members.values() {
                    size = size.saturating_add(self.size_of(member, depth + 1)?);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(size)
    }

    /// What the members add beyond their own JSON. A member of another meaning with the name of a keyword counts, too.
    fn size_of_keywords(&mut self, members: &'a Map<String, Value>, depth: usize) -> Result<usize, String> {
        // Both change what the references below them mean.
        for name in ["$id", "$schema"] {
            if depth > 0 && members.get(name).is_some_and(Value::is_string) {
                return Err(format!("{name} is possible at the top only"));
            }
        }
        for name in ["$dynamicRef", "$recursiveRef"] {
            if members.get(name).is_some_and(Value::is_string) {
                return Err(format!("{name} is not possible"));
            }
        }
        let mut size = match members.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.size_of_target(reference, depth)?,
            None => 0,
        };
        if members.get("pattern").is_some_and(Value::is_string) {
            size = size.saturating_add(PATTERN_SIZE);
        }
        if let Some(patterns) = members.get("patternProperties").and_then(Value::as_object) {
            size = size.saturating_add(patterns.len().saturating_mul(PATTERN_SIZE));
        }
        Ok(size)
    }

    fn size_of_target(&mut self, reference: &'a str, depth: usize) -> Result<usize, String> {
        match self.sizes.get(reference) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(format!("it refers to itself ($ref {reference:?})")),
            None => {}
        }
        // A percent-encoded pointer could mean another part than it says.
        let pointer = reference.strip_prefix('#').filter(|rest| rest.starts_with('/') && !rest.contains('%'));
        let target = pointer.and_then(|pointer| self.root.pointer(pointer)).ok_or_else(|| {
            format!("$ref {reference:?} is no JSON pointer to a part of it, like \"#/$defs/name\"")
        })?;
        self.sizes.insert(reference, None);
        let size = self.size_of(target, depth + 1)?;
        self.sizes.insert(reference, Some(size));
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Each of `levels` definitions refers to the next one twice.
    fn doubling(levels: usize) -> Value {
        let mut schema = json!({ "$ref": "#/$defs/a0", "$defs": { format!("a{levels}"): true } });
        for level in 0..levels {
            let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
            schema["$defs"][format!("a{level}")] = json!({ "allOf": [next, next] });
        }
        schema
    }

    #[test]
    fn references_count_as_what_they_lead_to() {
        assert_eq!(expanded(&json!({ "type": "string" })), Ok(2));
        assert_eq!(expanded(&json!({ "pattern": "a", "properties": { "pattern": {} } })), Ok(68));
        assert!((1_000..10_000).contains(&expanded(&doubling(8)).unwrap()));
        assert_eq!(expanded(&doubling(40)).map(|size| size > 1 << 40), Ok(true));
        assert_eq!(
            expanded(&doubling(60)),
            Err("it is nested deeper than 128 when its references are followed".into())
        );
    }

    #[test]
    fn what_refers_to_itself_or_elsewhere_is_refused() {
        for (schema, part) in [
            (json!({ "items": { "$ref": "#" } }), "refers to itself"),
            (json!({ "properties": { "x": { "$ref": "#/properties" } } }), "refers to itself"),
            (json!({ "$ref": "#/$defs/a", "$defs": { "a": { "not": { "$ref": "#/$defs/a" } } } }), "itself"),
            (json!({ "$ref": "https://example.com/schema" }), "is no JSON pointer"),
            (json!({ "$ref": "#name", "$defs": { "a": { "$anchor": "name" } } }), "is no JSON pointer"),
            (json!({ "$ref": "#/$defs/a%25", "$defs": { "a%25": {}, "a%": {} } }), "is no JSON pointer"),
            (json!({ "items": { "$dynamicRef": "#x" } }), "$dynamicRef"),
            (json!({ "items": { "$recursiveRef": "#" } }), "$recursiveRef"),
            (json!({ "items": { "$id": "urn:x", "items": { "$ref": "#/items" } } }), "$id"),
        ] {
            let why = expanded(&schema).unwrap_err();
            assert!(why.contains(part), "{schema}: {why}");
        }
        let twice = json!({ "properties": { "$ref": { "$ref": "#/$defs/a" }, "b": { "$ref": "#/$defs/a" } }, "$defs": { "a": {} } });
        assert!(expanded(&twice).is_ok());
    }
}
