//! JSON as `google.protobuf`'s own messages.

use prost_types::{ListValue, NullValue, Struct, Value as Any, value::Kind};
use serde_json::{Map, Value};

/// An object; none if there is nothing in it.
pub(super) fn structure(members: Map<String, Value>) -> Option<Struct> {
    (!members.is_empty()).then(|| whole(members))
}

fn whole(members: Map<String, Value>) -> Struct {
    Struct { fields: members.into_iter().map(|(name, member)| (name, value(member))).collect() }
}

/// Any value.
pub(super) fn value(json: Value) -> Any {
    let kind = match json {
        Value::Null => Kind::NullValue(NullValue::NullValue.into()),
        Value::Bool(flag) => Kind::BoolValue(flag),
        // JSON's numbers are doubles there (A2A §5.5).
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => Kind::ListValue(ListValue { values: items.into_iter().map(value).collect() }),
        Value::Object(members) => Kind::StructValue(whole(members)),
    };
    Any { kind: Some(kind) }
}
