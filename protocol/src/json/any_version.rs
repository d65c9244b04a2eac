//! Reads what a process of a later version has written: members that this version does not know are left out. What people and
//! brains write is read strictly, so that a mistyped member is told.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor,
    value::StrDeserializer,
};
use std::fmt;

/// Reads an object, a list of objects, or an optional one.
pub fn of_any_version<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    T::deserialize(AnyVersion(value))
}

struct AnyVersion<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for AnyVersion<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(KnownMembers { known, visitor })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Within(visitor))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_seq(Within(visitor))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map enum identifier ignored_any
    }
}

/// What is in a list, or there at all.
struct Within<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Within<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(AnyVersion(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Elements(elements))
    }
}

struct Elements<A>(A);

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Element(seed))
    }
}

struct Element<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Element<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(AnyVersion(value))
    }
}

struct KnownMembers<V> {
    known: &'static [&'static str],
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for KnownMembers<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(MembersInUse { known: self.known, members })
    }
}

struct MembersInUse<A> {
    known: &'static [&'static str],
    members: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for MembersInUse<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(name) = self.members.next_key::<String>()? {
            if self.known.contains(&name.as_str()) {
                let name: StrDeserializer<'_, A::Error> = name.as_str().into_deserializer();
                return seed.deserialize(name).map(Some);
            }
            self.members.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.members.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{acceptance::AcceptanceDemand, budget::Budget, limits::Limits, question::Question};
    use serde_json::{Value, json};

    fn with_more(mut value: Value) -> Value {
        value["later"] = json!({ "deep": [1] });
        value
    }

    fn is_read<T: serde::de::DeserializeOwned + serde::Serialize + PartialEq + fmt::Debug>(one: &T) {
        let more = with_more(serde_json::to_value(one).unwrap());
        assert!(T::deserialize(&more).is_err(), "strictly");
        assert_eq!(of_any_version::<T, _>(&more).unwrap(), *one);
        assert_eq!(of_any_version::<Option<Box<T>>, _>(&more).unwrap().as_deref(), Some(one));
        let text = json!([more, more]).to_string();
        let list: Vec<T> = of_any_version(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert!(list.len() == 2 && list[1] == *one);
    }

    #[test]
    fn what_later_versions_know_is_left_out() {
        is_read(&Question::choice("color", "Which?", ["red"]));
        is_read(&Budget::tokens(7));
        is_read(&AcceptanceDemand { schema: Some(json!({})), reviewer: None });
        is_read(&Limits::default());
        assert_eq!(of_any_version::<Option<Budget>, _>(Value::Null).unwrap(), None);
    }

    #[test]
    fn a_known_member_of_a_wrong_type_is_still_an_error() {
        let error = of_any_version::<Budget, _>(json!({ "tokens": "many", "later": 1 })).unwrap_err();
        assert!(error.to_string().contains("many"), "{error}");
    }
}
