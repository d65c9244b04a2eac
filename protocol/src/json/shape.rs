//! The same refusals as [`parse`](super::parse), found without building anything.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::{borrow::Cow, fmt};

/// So many members of one object are compared with one another; whatever has more is for [`parse`](super::parse).
const FEW: usize = 32;

/// Whether the bytes that a deserializer reads hold a value that [`parse`](super::parse) takes, of which `left` more
/// levels are taken. Ends at the first thing that is wrong, in no particular words. Objects of more than a few members
/// count as wrong.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) left: usize,
}

impl Shape {
    /// One level further in.
    pub(crate) fn inside<E: Error>(self) -> Result<Self, E> {
        self.left.checked_sub(1).map(|left| Self { left }).ok_or_else(|| E::custom("nested too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Shape {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shape {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    /// A text as it stands in the source has no escapes, and without one there is no NUL in JSON.
    fn visit_borrowed_str<E>(self, _: &'de str) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        without_nul(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while items.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        let mut names = Names::new();
        while names.next(&mut members)?.is_some() {
            members.next_value_seed(inside)?;
        }
        Ok(())
    }
}

fn without_nul<E: Error>(text: &str) -> Result<(), E> {
    match text.as_bytes().contains(&0) {
        true => Err(E::custom("a text holds a NUL character")),
        false => Ok(()),
    }
}

/// The names of an object's members, each once.
pub(crate) struct Names<'de>(Vec<Cow<'de, str>>);

impl<'de> Names<'de> {
    /// Of an object that most likely has no more than this.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(8))
    }

    /// The next one.
    pub(crate) fn next<A: MapAccess<'de>>(&mut self, members: &mut A) -> Result<Option<&str>, A::Error> {
        let Some(name) = members.next_key_seed(Name)? else { return Ok(None) };
        if self.0.len() == FEW || self.0.contains(&name) {
            return Err(A::Error::custom("too many members, or one of them twice"));
        }
        self.0.push(name);
        Ok(self.0.last().map(AsRef::as_ref))
    }
}

/// A name, or a text, that is copied only where it has to be.
pub(crate) struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        without_nul(text).map(|()| Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{MAX_DEPTH, parse},
        *,
    };
    use proptest::prelude::*;

    fn takes(text: &[u8], depth: usize) -> bool {
        let mut source = serde_json::Deserializer::from_slice(text);
        Shape { left: depth }.deserialize(&mut source).and_then(|()| source.end()).is_ok()
    }

    #[test]
    fn it_takes_what_parse_takes() {
        let many = |count: usize| {
            let members: Vec<_> = (0..count).map(|n| format!("\"{n}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        for (text, depth) in [
            (r#"{"a":{"b":[1,-2,3.5,true,null,"x"]}}"#.to_owned(), 3),
            (r#"{"a":{"b":[1]}}"#.to_owned(), 2),
            (r#"{"a":1,"a":2}"#.to_owned(), 2),
            (r#"{"a":1,"\u0061":2}"#.to_owned(), 2),
            (r#"{"a\u0000":1}"#.to_owned(), 2),
            (r#"["\u0000"]"#.to_owned(), 2),
            (r#"["\\u0000"]"#.to_owned(), 2),
            ("1e999".to_owned(), 2),
            ("[".repeat(100_000), 32),
            (many(32), 32),
        ] {
            assert_eq!(takes(text.as_bytes(), depth), parse(text.as_bytes(), depth).is_ok(), "{text:.80}");
        }
        assert!(!takes(many(33).as_bytes(), 32), "these are left to parse");
    }

    proptest! {
        #[test]
        fn of_anything_it_takes_no_more_and_no_less(
            text in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..64),
                prop::collection::vec(prop::sample::select(br#"[]{}",:\u0123e-. nulltrefas"#.to_vec()), 0..64),
            ],
        ) {
            prop_assert_eq!(takes(&text, MAX_DEPTH), parse(&text, MAX_DEPTH).is_ok());
        }
    }
}
