//! JSON and YAML in the forms people write: a list of resources, a map of them, fields as texts, maps or objects.

use super::{Field, Kind, Operation, Relation, Resource, Spec, fields, text, ties};
use crate::demo::words;
use serde_json::{Map, Value};

const LISTS: [&str; 8] =
    ["resources", "entities", "models", "tables", "schemas", "types", "objects", "collections"];
const NESTS: [&str; 4] = ["plan", "spec", "api", "input"];
const TEXTS: [&str; 4] = ["description", "text", "request", "prompt"];

/// The API that a YAML or JSON text describes, if it is one that does.
pub(super) fn from_text(text: &str) -> Option<Spec> {
    let trimmed = text.trim_start();
    let could_be =
        trimmed.starts_with(['{', '[']) || trimmed.trim_end().contains('\n') && trimmed.contains(':');
    if !could_be {
        return None;
    }
    let value: Value = serde_saphyr::from_str(text).ok()?;
    let is_structure = value.is_array() || value.is_object();
    from_structure(&value, 0).filter(|spec| is_structure && !spec.resources.is_empty())
}

/// The API that `value` describes; a text in it is read as prose.
pub(in crate::demo) fn from_value(value: &Value) -> Option<Spec> {
    let spec = match value {
        Value::String(text) => Some(text::from_text(text)),
        Value::Object(_) | Value::Array(_) => from_structure(value, 0),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    };
    spec.filter(|spec| !spec.resources.is_empty())
}

fn from_structure(value: &Value, depth: usize) -> Option<Spec> {
    let mut spec = Spec::default();
    match value {
        Value::Array(list) => list.iter().for_each(|item| resource(&mut spec, item)),
        Value::Object(map) => {
            if let Some(inner) = NESTS.iter().find_map(|key| map.get(*key)).filter(|_| depth < 4)
                && let Some(found) = from_structure(inner, depth + 1)
            {
                return Some(found);
            }
            spec.title = ["title", "name"]
                .iter()
                .find_map(|key| Some(map.get(*key)?.as_str()?.to_owned()))
                .unwrap_or_default();
            spec.title = words::shortened(&words::words(&spec.title).join(" "), 60);
            match LISTS.iter().find_map(|key| map.get(*key)) {
                Some(Value::Array(list)) => list.iter().for_each(|item| resource(&mut spec, item)),
                Some(Value::Object(named)) => {
                    named.iter().for_each(|(name, value)| self::named(&mut spec, name, value))
                }
                Some(_) => {}
                None => {
                    if let Some(text) = TEXTS.iter().find_map(|key| map.get(*key)?.as_str()) {
                        return Some(text::from_text(text)).filter(|spec| !spec.resources.is_empty());
                    }
                    let is_fields = |value: &Value| value.is_object() || value.is_array();
                    map.iter()
                        .filter(|(_, value)| is_fields(value))
                        .for_each(|(name, value)| named(&mut spec, name, value));
                }
            }
            relations(&mut spec, map);
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    (!spec.resources.is_empty()).then(|| spec.completed())
}

/// One of a list: a name, `{name, fields}`, or `{books: …}`.
fn resource(spec: &mut Spec, item: &Value) {
    match item {
        Value::String(text) => {
            let Some(named) = text::from_text(text).resources.into_iter().next() else { return };
            match spec.resources.len() < super::MAX_RESOURCES {
                true => spec.resources.push(named),
                false => drop(spec.crowded_out.insert(named.name)),
            }
        }
        Value::Object(map) => match map.get("name").or_else(|| map.get("resource")).and_then(Value::as_str) {
            Some(name) => named(spec, name, item),
            None => map.iter().for_each(|(name, value)| named(spec, name, value)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
    }
}

fn named(spec: &mut Spec, name: &str, value: &Value) {
    let Some(resource) = spec.resource(name) else { return };
    let listed = ["fields", "properties", "attributes", "columns"].iter().find_map(|key| value.get(*key));
    if let Some(operations) = value.get("operations") {
        let known: Vec<Operation> = serde_json::from_value(operations.clone()).unwrap_or_default();
        if !known.is_empty() {
            resource.operations = known;
        }
    }
    all_fields(resource, listed.unwrap_or(value));
}

fn all_fields(resource: &mut Resource, value: &Value) {
    match value {
        Value::String(text) => text.split(',').for_each(|phrase| resource.hear(phrase)),
        Value::Array(list) => list.iter().for_each(|item| match item {
            Value::String(text) => resource.hear(text),
            Value::Object(map) => match map.get("name").and_then(Value::as_str) {
                Some(name) => field(name, item).into_iter().for_each(|field| resource.add(field)),
                None => map.iter().for_each(|(name, value)| member(resource, name, value)),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
        }),
        Value::Object(map) => {
            let about_it = ["name", "resource", "operations", "path", "plural", "relations", "description"];
            // `name: string` is a field, `name: book` is what the resource is called.
            let is_typed =
                |value: &Value| value.is_object() || value.as_str().is_some_and(fields::begins_with_kind);
            let rest =
                map.iter().filter(|(name, value)| !about_it.contains(&name.as_str()) || is_typed(value));
            rest.for_each(|(name, value)| member(resource, name, value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `year: int`, `belongs_to: author`.
fn member(resource: &mut Resource, name: &str, value: &Value) {
    let said =
        words::snake(name).zip(value.as_str()).map(|(name, text)| format!("{} {text}", words::spoken(&name)));
    match said.filter(|said| ties::tie(said, false).is_some_and(|tie| tie.is_plain())) {
        Some(said) => resource.hear(&said),
        None => field(name, value).into_iter().for_each(|field| resource.add(field)),
    }
}

fn field(name: &str, value: &Value) -> Option<Field> {
    let mut read = fields::field(&words::snake(name)?);
    let said = ["type", "kind"].iter().find_map(|key| value.get(*key)).unwrap_or(value);
    match said.as_str() {
        Some(text) => {
            read.required = !(text.ends_with('?') || text.contains("optional"));
            let said = text.split([' ', ',', '(']).find_map(fields::kind_named);
            (read.kind, read.is_typed) = (said.unwrap_or(read.kind), said.is_some());
        }
        None if said.is_array() => read.kind = Kind::List,
        None => {}
    }
    if let Some(required) = value.get("required").and_then(Value::as_bool) {
        read.required = required;
    }
    read.required &= value.get("optional").and_then(Value::as_bool) != Some(true);
    let refers = ["refersTo", "references"].iter().find_map(|key| value.get(*key)?.as_str());
    if let Some(target) = refers.and_then(words::snake) {
        read.kind = Kind::Reference;
        read.refers_to = Some(words::singular(&target));
    }
    Some(read)
}

fn relations(spec: &mut Spec, map: &Map<String, Value>) {
    let known: Vec<Relation> =
        map.get("relations").and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or_default();
    spec.relations.extend(known);
    let noted: Vec<String> = map
        .get("assumptions")
        .and_then(|value| serde_json::from_value(value.clone()).ok())
        .unwrap_or_default();
    spec.assumptions.extend(noted);
}
