//! Values of the YAML that have several forms, told apart by their type. The key of a fault inside them is kept.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{
        Error, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, MapDeserializer, SeqAccessDeserializer, StrDeserializer},
    },
};
use std::{borrow::Cow, fmt, iter::once, marker::PhantomData};

/// A map of settings of which the value of one key alone is the short form: a text or a list.
pub(super) trait ShortForm {
    const KEY: &'static str;
}

/// A map of settings, given as such or in its short form.
#[derive(Debug)]
pub(super) struct MapOrShort<T>(pub(super) T);

impl<'de, T: ShortForm + Deserialize<'de>> Deserialize<'de> for MapOrShort<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FormVisitor(PhantomData))
    }
}

/// One, or a list of them.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(#[schemars(length(min = 1))] Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FormVisitor(PhantomData))
    }
}

impl<T> OneOrMany<T> {
    /// The values with their keys: `key`, or in a list `key[0]` and so on.
    pub(super) fn keyed(&self, key: &str) -> impl Iterator<Item = (String, &T)> {
        let (values, is_list) = match self {
            Self::One(one) => (std::slice::from_ref(one), false),
            Self::Many(many) => (many.as_slice(), true),
        };
        let key_of = move |at| if is_list { format!("{key}[{at}]") } else { key.to_owned() };
        values.iter().enumerate().map(move |(at, value)| (key_of(at), value))
    }
}

/// The forms of a type.
trait YamlForms<'de>: Sized {
    fn of_text<E: Error>(text: StrDeserializer<'_, E>) -> Result<Self, E>;
    fn of_list<A: SeqAccess<'de>>(list: SeqAccessDeserializer<A>) -> Result<Self, A::Error>;
    fn of_map<A: MapAccess<'de>>(map: MapAccessDeserializer<A>) -> Result<Self, A::Error>;
}

impl<'de, T: ShortForm + Deserialize<'de>> YamlForms<'de> for MapOrShort<T> {
    fn of_text<E: Error>(text: StrDeserializer<'_, E>) -> Result<Self, E> {
        T::deserialize(MapDeserializer::new(once((T::KEY, text)))).map(Self)
    }

    fn of_list<A: SeqAccess<'de>>(list: SeqAccessDeserializer<A>) -> Result<Self, A::Error> {
        T::deserialize(MapDeserializer::new(once((T::KEY, list)))).map(Self)
    }

    fn of_map<A: MapAccess<'de>>(map: MapAccessDeserializer<A>) -> Result<Self, A::Error> {
        T::deserialize(map).map(Self)
    }
}

impl<'de, T: Deserialize<'de>> YamlForms<'de> for OneOrMany<T> {
    fn of_text<E: Error>(text: StrDeserializer<'_, E>) -> Result<Self, E> {
        T::deserialize(text).map(Self::One)
    }

    fn of_list<A: SeqAccess<'de>>(list: SeqAccessDeserializer<A>) -> Result<Self, A::Error> {
        Vec::deserialize(list).map(Self::Many)
    }

    fn of_map<A: MapAccess<'de>>(map: MapAccessDeserializer<A>) -> Result<Self, A::Error> {
        T::deserialize(map).map(Self::One)
    }
}

struct FormVisitor<T>(PhantomData<T>);

impl<'de, T: YamlForms<'de>> Visitor<'de> for FormVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list or a map")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::of_text(text.into_deserializer())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::of_list(SeqAccessDeserializer::new(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::of_map(MapAccessDeserializer::new(map))
    }
}

impl<T: ShortForm + JsonSchema> JsonSchema for MapOrShort<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = T::json_schema(generator).to_value();
        json_schema!({ "anyOf": [map["properties"][T::KEY], map] })
    }
}
