//! Values of the YAML that have several forms, told apart by their type. The key of a fault inside them is kept.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{
        Error, MapAccess, SeqAccess, Unexpected, Visitor,
        value::{MapAccessDeserializer, MapDeserializer},
    },
};
use std::{borrow::Cow, fmt, marker::PhantomData};

/// A value that is a text, a list or a map; the forms that a type does not have are refused.
pub(super) trait YamlForms<'de>: Sized {
    /// What else is expected, in serde's words.
    const EXPECTED: &'static str;

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        Err(E::invalid_type(Unexpected::Str(text), &Self::EXPECTED))
    }

    fn of_list<A: SeqAccess<'de>>(_list: A) -> Result<Self, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Seq, &Self::EXPECTED))
    }

    fn of_map<A: MapAccess<'de>>(_map: A) -> Result<Self, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Map, &Self::EXPECTED))
    }
}

pub(super) fn deserialize<'de, T: YamlForms<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(FormVisitor(PhantomData))
}

struct FormVisitor<T>(PhantomData<T>);

impl<'de, T: YamlForms<'de>> Visitor<'de> for FormVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::of_text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::of_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::of_map(map)
    }
}

/// A map of settings of which a text is the short form: the map with one key.
pub(super) trait ShortForm {
    const KEY: &'static str;
}

/// A map of settings, given as such or in its short form.
#[derive(Debug)]
pub(super) struct MapOrText<T>(pub(super) T);

impl<'de, T: ShortForm + Deserialize<'de>> YamlForms<'de> for MapOrText<T> {
    const EXPECTED: &'static str = "a map";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        T::deserialize(MapDeserializer::new([(T::KEY, text)].into_iter())).map(Self)
    }

    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Self)
    }
}

impl<'de, T: ShortForm + Deserialize<'de>> Deserialize<'de> for MapOrText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl<T: JsonSchema> JsonSchema for MapOrText<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, generator.subschema_for::<T>()] })
    }
}
