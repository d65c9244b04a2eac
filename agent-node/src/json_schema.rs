//! JSON Schemas of types.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

/// The schema of `T`, with subschemas inlined.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The schema of the arguments of a tool as models and their providers take it: types, words, bounds and the first paragraphs of
/// the descriptions of the arguments.
pub(crate) fn of_arguments<T: JsonSchema>() -> Value {
    let mut schema = of::<T>();
    let mut properties = schema["properties"].take();
    for argument in properties.as_object_mut().into_iter().flat_map(|arguments| arguments.values_mut()) {
        let description = argument["description"].take();
        simplify(argument);
        argument["description"] = json!(description.as_str().and_then(|text| text.split("\n\n").next()));
    }
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Leaves out what is not needed, `null` for an absent argument, and descriptions.
fn simplify(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(Value::Array(forms)) = members.remove("anyOf") {
        let form = forms.into_iter().find(|form| form["type"] != "null");
        for (name, value) in form.as_ref().and_then(Value::as_object).into_iter().flatten() {
            members.entry(name).or_insert_with(|| value.clone());
        }
    }
    if let Some(Value::Array(words)) = members.remove("oneOf") {
        let words = words.iter().map(|word| word["const"].clone()).collect::<Vec<_>>();
        members.entry("type").or_insert_with(|| json!("string"));
        members.entry("enum").or_insert_with(|| json!(words));
    }
    if let Some(Value::Array(types)) = members.get("type") {
        let own = types.iter().find(|name| *name != "null").cloned();
        members.insert("type".to_owned(), json!(own));
    }
    members.retain(|name, value| {
        let is_needed = ["type", "properties", "required", "items", "enum", "minimum", "maximum", "minItems"];
        is_needed.contains(&name.as_str()) || (name == "additionalProperties" && value.is_object())
    });
    for (name, value) in members {
        match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(simplify),
            ("items" | "additionalProperties", schema) => simplify(schema),
            _ => {}
        }
    }
}
