//! Encodes equal messages as equal bytes: entries of a map are written in the order of their keys. Protobuf leaves that
//! order open; the official A2A kit compares the bytes of two streams.

use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint},
};
use prost_reflect::{DynamicMessage, Kind, ReflectMessage as _, Value};

/// The bytes of `message`.
pub(super) fn encode(message: &DynamicMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (field, value) in message.fields() {
        let number = field.number();
        match (value, field.kind()) {
            (Value::Map(map), Kind::Message(entry)) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    let mut one = DynamicMessage::new(entry.clone());
                    one.set_field(&entry.map_entry_key_field(), key.clone().into());
                    one.set_field(&entry.map_entry_value_field(), value.clone());
                    write(number, &one, &mut bytes);
                }
            }
            (Value::List(items), Kind::Message(_)) => {
                items.iter().filter_map(Value::as_message).for_each(|item| write(number, item, &mut bytes));
            }
            (Value::Message(inner), _) => write(number, inner, &mut bytes),
            (other, _) => {
                let mut alone = DynamicMessage::new(message.descriptor());
                alone.set_field(&field, other.clone());
                bytes.extend(alone.encode_to_vec());
            }
        }
    }
    bytes
}

fn write(number: u32, inner: &DynamicMessage, bytes: &mut Vec<u8>) {
    let inner = encode(inner);
    encode_key(number, WireType::LengthDelimited, bytes);
    encode_varint(inner.len() as u64, bytes);
    bytes.extend(inner);
}
