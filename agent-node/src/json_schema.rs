//! JSON Schemas of types.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// The schema of `T`, with subschemas inlined.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
