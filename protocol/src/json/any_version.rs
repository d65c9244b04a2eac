//! Reads what a process of a later version has written: members that this version does not know are left out. What people and
//! brains write is read strictly, so that a mistyped member is told.

use serde::{
    Deserialize as _,
    de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor, value::SeqDeserializer},
};
use serde_json::{Error, Value};

/// Reads an object, a list of objects, or an optional one.
pub fn of_any_version<'de, T: DeserializeOwned, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    T::deserialize(KnownMembers(Value::deserialize(value)?)).map_err(D::Error::custom)
}

/// A value of which a struct is given the members that it has a field for.
struct KnownMembers(Value);

impl<'de> Deserializer<'de> for KnownMembers {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Value::Object(members) = &mut self.0 {
            members.retain(|name, _| fields.contains(&name.as_str()));
        }
        self.0.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(elements) => visitor.visit_seq(SeqDeserializer::new(elements.into_iter().map(Self))),
            other => other.deserialize_seq(visitor),
        }
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map enum identifier ignored_any
    }
}

impl IntoDeserializer<'_, Error> for KnownMembers {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{acceptance::AcceptanceDemand, budget::Budget, limits::Limits, question::Question};
    use serde_json::json;

    fn is_read<T: DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug>(one: &T) {
        let mut more = serde_json::to_value(one).unwrap();
        more["later"] = json!({ "deep": [1] });
        assert!(T::deserialize(&more).is_err(), "strictly");
        assert_eq!(of_any_version::<T, _>(&more).unwrap(), *one);
        assert_eq!(of_any_version::<Option<Box<T>>, _>(&more).unwrap().as_deref(), Some(one));
        let list: Vec<T> = of_any_version(&json!([more, more])).unwrap();
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
