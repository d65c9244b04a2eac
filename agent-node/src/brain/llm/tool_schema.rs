//! Schemas of arguments as providers take them.

use serde_json::{Map, Value, json};

/// The words of alternatives.
const ALTERNATIVES: [&str; 3] = ["anyOf", "oneOf", "allOf"];
/// How deep a schema is followed.
const MAX_DEPTH: usize = 32;
/// What a plain schema keeps beside members and items.
const PLAIN: [&str; 4] = ["type", "description", "enum", "required"];

/// `schema` with an object at its top and no alternatives there: those are merged, and what only some of them require is not required.
pub(super) fn object(schema: &Value) -> Value {
    let mut merged = schema.as_object().cloned().unwrap_or_default();
    let mut properties = merged.remove("properties").and_then(members).unwrap_or_default();
    let mut required = required_of(&merged);
    for word in ALTERNATIVES {
        let Some(Value::Array(alternatives)) = merged.remove(word) else { continue };
        let alternatives: Vec<Value> = alternatives.iter().map(object).collect();
        let all: Vec<Vec<Value>> =
            alternatives.iter().filter_map(Value::as_object).map(required_of).collect();
        for alternative in alternatives {
            for (name, member) in alternative.get("properties").cloned().and_then(members).unwrap_or_default()
            {
                properties.entry(name).or_insert(member);
            }
        }
        let of_first = all.first().into_iter().flatten();
        let demanded: Vec<Value> = match word {
            "allOf" => all.iter().flatten().cloned().collect(),
            _ => of_first.filter(|name| all.iter().all(|other| other.contains(name))).cloned().collect(),
        };
        required.extend(demanded);
    }
    // What else providers refuse at the top.
    for word in ["not", "if", "then", "else", "enum", "const", "dependentSchemas"] {
        merged.remove(word);
    }
    merged.insert("type".to_owned(), json!("object"));
    merged.insert("properties".to_owned(), Value::Object(properties));
    merged.remove("required");
    if !required.is_empty() {
        let mut seen = Vec::new();
        required.retain(|name| {
            !seen.contains(name) && {
                seen.push(name.clone());
                true
            }
        });
        merged.insert("required".to_owned(), Value::Array(required));
    }
    Value::Object(merged)
}

/// No more than types, members, items, enumerations and descriptions; what is referred to stands in its place.
pub(super) fn plain(schema: &Value) -> Value {
    let whole = object(schema);
    let mut plain = reduced(&whole, &whole, 0);
    plain["type"] = json!("object");
    if !plain["properties"].is_object() {
        plain["properties"] = json!({});
    }
    plain
}

fn reduced(schema: &Value, whole: &Value, depth: usize) -> Value {
    let Some(members) = schema.as_object() else { return json!({}) };
    if depth > MAX_DEPTH {
        return json!({});
    }
    if let Some(to) = members.get("$ref").and_then(Value::as_str) {
        let target = to.strip_prefix('#').and_then(|at| whole.pointer(at));
        return target.map_or_else(|| json!({}), |target| reduced(target, whole, depth + 1));
    }
    let alternatives = ALTERNATIVES.iter().find_map(|word| members.get(*word)?.as_array());
    if let Some(alternatives) = alternatives {
        let is_null = |one: &&Value| one["type"] == "null";
        let first = alternatives.iter().find(|one| !is_null(one));
        let mut first = first.map_or_else(|| json!({}), |first| reduced(first, whole, depth + 1));
        if let (Some(description), None) = (members.get("description"), first.get("description")) {
            first["description"] = description.clone();
        }
        return first;
    }
    let mut kept = Map::new();
    for word in PLAIN {
        if let Some(value) = members.get(word) {
            kept.insert(word.to_owned(), value.clone());
        }
    }
    // One type, the first that says something.
    if let Some(Value::Array(types)) = members.get("type") {
        let said = types.iter().find(|one| **one != "null").cloned().unwrap_or_else(|| json!("string"));
        kept.insert("type".to_owned(), said);
    }
    if let Some(value) = members.get("const") {
        kept.insert("enum".to_owned(), json!([value]));
    }
    // Some providers take texts alone in an enumeration.
    if kept.get("enum").and_then(Value::as_array).is_some_and(|values| !values.iter().all(Value::is_string)) {
        kept.remove("enum");
    }
    if let Some(Value::Object(properties)) = members.get("properties") {
        let properties = properties.iter();
        let properties = properties.map(|(name, member)| (name.clone(), reduced(member, whole, depth + 1)));
        kept.insert("properties".to_owned(), Value::Object(properties.collect()));
    }
    if let Some(items) = members.get("items") {
        kept.insert("items".to_owned(), reduced(items, whole, depth + 1));
    } else if kept.get("type") == Some(&json!("array")) {
        kept.insert("items".to_owned(), json!({ "type": "string" }));
    }
    // A member that is required and not described is refused.
    let known = kept.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(Value::Array(required)) = kept.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| known.contains_key(name)));
    }
    Value::Object(kept)
}

fn members(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

fn required_of(schema: &Map<String, Value>) -> Vec<Value> {
    schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_at_the_top_become_one_object() {
        let schema = json!({
            "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"],
            "anyOf": [
                { "properties": { "b": { "type": "number" }, "c": {} }, "required": ["b", "c"] },
                { "properties": { "c": { "type": "string" } }, "required": ["c"] },
            ],
        });
        let expected = json!({
            "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "number" }, "c": {} },
            "required": ["a", "c"],
        });
        assert_eq!(object(&schema), expected);
        for schema in [
            json!({}),
            json!(null),
            json!({ "type": ["object", "null"], "properties": null }),
            json!({ "type": "string", "enum": ["a"] }),
        ] {
            assert_eq!(object(&schema), json!({ "type": "object", "properties": {} }), "{schema}");
        }
        let simple =
            json!({ "type": "object", "properties": { "a": { "anyOf": [{}, {}] } }, "$defs": { "x": {} } });
        assert_eq!(object(&simple), simple, "what is deeper stays");
    }

    #[test]
    fn a_plain_schema_has_no_references_and_no_alternatives() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "$schema": "x",
            "properties": {
                "a": { "$ref": "#/$defs/A" },
                "b": { "anyOf": [{ "type": "null" }, { "type": "integer", "minimum": 1 }], "description": "d" },
                "c": { "type": ["string", "null"], "format": "uuid" },
                "d": { "type": "array" },
                "e": { "const": "x" },
                "f": { "enum": [1, 2] },
            },
            "required": ["a", "gone"],
            "$defs": { "A": { "type": "object", "properties": { "again": { "$ref": "#/$defs/A" } } } },
        });
        let plain = plain(&schema);
        let text = plain.to_string();
        for word in ["$ref", "anyOf", "additionalProperties", "$defs", "format", "minimum", "const"] {
            assert!(!text.contains(&format!("{word:?}")), "{word} in {text:.500}");
        }
        let of = |name: &str| plain["properties"][name].clone();
        assert_eq!(of("b"), json!({ "type": "integer", "description": "d" }));
        assert_eq!(of("c"), json!({ "type": "string" }));
        assert_eq!(of("d"), json!({ "type": "array", "items": { "type": "string" } }));
        assert_eq!(of("e"), json!({ "enum": ["x"] }));
        assert_eq!((of("f"), &plain["required"]), (json!({}), &json!(["a"])));
    }
}
