//! Finds keys that the schema does not have, and suggests the nearest one.

use super::{
    ConfigFault,
    yaml::{YamlNode, YamlValue},
};
use protocol::words;
use serde_json::{Map, Value};

pub(super) struct UnknownKey {
    pub(super) line: u64,
    pub(super) key: String,
    pub(super) what: String,
}

impl UnknownKey {
    pub(super) fn fault(self, file: &str) -> ConfigFault {
        ConfigFault { file: file.to_owned(), line: Some(self.line), key: self.key, what: self.what }
    }
}

/// Collects every unknown key of `node`, whose path is `path`.
pub(super) fn find(node: &YamlNode, schema: &Value, path: &str, found: &mut Vec<UnknownKey>) {
    let shapes = shapes(schema);
    match &node.value {
        YamlValue::Map(members) => {
            let known: Map<String, Value> = shapes
                .iter()
                .filter_map(|shape| shape["properties"].as_object().cloned())
                .flatten()
                .collect();
            let is_closed = !known.is_empty()
                || shapes.iter().any(|shape| shape["additionalProperties"] == Value::Bool(false));
            let values =
                shapes.iter().map(|shape| &shape["additionalProperties"]).find(|any| any.is_object());
            for (key, line, value) in members {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match (known.get(key), values) {
                    (Some(schema), _) | (None, Some(schema)) => find(value, schema, &below, found),
                    (None, None) if is_closed => {
                        let what = suggestion(key, known.keys().map(String::as_str));
                        found.push(UnknownKey { line: *line, key: below, what });
                    }
                    (None, None) => {}
                }
            }
        }
        YamlValue::List(items) => {
            if let Some(schema) = shapes.iter().map(|shape| &shape["items"]).find(|items| items.is_object()) {
                for (at, item) in items.iter().enumerate() {
                    find(item, schema, &format!("{path}[{at}]"), found);
                }
            }
        }
        _ => {}
    }
}

fn shapes(schema: &Value) -> Vec<&Value> {
    let mut all = vec![schema];
    for choice in ["anyOf", "oneOf", "allOf"] {
        all.extend(schema[choice].as_array().into_iter().flatten().flat_map(shapes));
    }
    all
}

/// Keys of earlier versions, and what replaces each.
const REPLACED: [(&str, &str); 1] =
    [("thinkMs", "is replaced by the agent's own `bounds: { turn: 20m, idle: 2m }`")];

fn suggestion<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> String {
    if let Some((_, what)) = REPLACED.iter().find(|(replaced, _)| *replaced == key) {
        return (*what).to_owned();
    }
    let known: Vec<_> = known.collect();
    match words::nearest(key, known.iter().copied()) {
        Some(name) => format!("unknown key; did you mean `{name}`?"),
        None => format!("unknown key; there are {}", known.join(", ")),
    }
}
