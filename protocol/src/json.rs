//! JSON as strangers send it: nesting and duplicate members are refused while parsing, at the first byte that shows
//! them, so neither the stack nor memory grows with what is refused.

pub mod any_version;
pub mod number;

use crate::problem::{Problem, Reason};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, map::Entry, value::RawValue};
use std::fmt;

/// The deepest nesting of arrays and objects taken anywhere.
pub const MAX_DEPTH: usize = 32;

/// The one value that `bytes` hold, nested at most `max_depth` deep. 400 `malformed_json` for anything else: not JSON,
/// not UTF-8, bytes after the value, a member named twice in one object, a NUL character in a text (C programs, shells
/// among them, would take it for the text's end); the message says which and where.
pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Value, Problem> {
    let mut source = serde_json::Deserializer::from_slice(bytes);
    StrictJsonSeed { left: max_depth, max: max_depth }
        .deserialize(&mut source)
        .and_then(|value| source.end().map(|()| value))
        .map_err(|error| Problem::new(Reason::MalformedJson, format!("malformed JSON: {error}")))
}

/// The one object that `bytes` hold, as [`parse`] reads it; 400 `invalid_field` for a value of another type.
pub fn parse_object(bytes: &[u8], max_depth: usize) -> Result<Map<String, Value>, Problem> {
    match parse(bytes, max_depth)? {
        Value::Object(members) => Ok(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Problem::new(Reason::InvalidField, "the body must be a JSON object"))
        }
    }
}

/// The elements of the array that `bytes` hold, each as it stands there. 400 `malformed_json` for anything else.
pub fn elements(bytes: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    let elements: Vec<&RawValue> = serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(Reason::MalformedJson, format!("malformed JSON: {error}")))?;
    Ok(elements.into_iter().map(|element| element.get().as_bytes()).collect())
}

/// Builds a value of which `left` more levels are taken.
#[derive(Clone, Copy)]
pub(crate) struct StrictJsonSeed {
    pub(crate) left: usize,
    /// The limit, for the error message.
    pub(crate) max: usize,
}

impl StrictJsonSeed {
    fn inside<E: Error>(self) -> Result<Self, E> {
        match self.left.checked_sub(1) {
            Some(left) => Ok(Self { left, ..self }),
            None => Err(E::custom(format_args!("nested more than {} levels deep", self.max))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for StrictJsonSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictJsonSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        match value.as_bytes().contains(&0) {
            true => Err(E::custom("a text holds a NUL character")),
            false => Ok(Value::String(value)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inside)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            match object.entry(name) {
                Entry::Vacant(place) => {
                    if place.key().as_bytes().contains(&0) {
                        return Err(A::Error::custom("the name of a member holds a NUL character"));
                    }
                    place.insert(members.next_value_seed(inside)?);
                }
                Entry::Occupied(twice) => {
                    let name: String = twice.key().chars().take(80).collect();
                    return Err(A::Error::custom(format_args!("duplicate member {name:?}")));
                }
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn refusal(bytes: &[u8]) -> String {
        let problem = parse(bytes, MAX_DEPTH).unwrap_err();
        assert_eq!(problem.reason, Reason::MalformedJson);
        problem.message
    }

    #[test]
    fn nesting_is_refused_at_the_first_level_too_many_however_deep_it_goes() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
            assert!(parse(nested(32).as_bytes(), 32).is_ok());
            for levels in [33, 129, 100_000] {
                assert!(refusal(nested(levels).as_bytes()).contains("more than 32 levels"), "{levels}");
                assert!(refusal(open.repeat(levels).as_bytes()).contains("more than 32 levels"), "{levels}");
            }
        }
        assert!(parse(b"[]", 0).is_err());
        assert_eq!(parse(b"1", 0), Ok(json!(1)));
    }

    #[test]
    fn a_nul_character_is_refused_wherever_a_text_stands() {
        for bad in [r#"{"a":"x\u0000y"}"#, r#"["\u0000"]"#, r#"{"a\u0000":1}"#] {
            assert!(refusal(bad.as_bytes()).contains("NUL character"), "{bad}");
        }
        assert_eq!(parse(br#"["\\u0000"]"#, 2), Ok(json!(["\\u0000"])));
    }

    #[test]
    fn a_member_named_twice_is_named() {
        for twice in [
            r#"{"type":1,"type":1}"#,
            r#"[{"a":{"x":0,"type":1,"b":{},"type":2}}]"#,
            r#"{"type":1,"t\u0079pe":2}"#,
        ] {
            assert!(refusal(twice.as_bytes()).contains("duplicate member \"type\""), "{twice}");
        }
        assert!(parse(br#"[{"a":1},{"a":{"a":1}}]"#, 32).is_ok());
    }

    #[test]
    fn what_is_not_one_json_text_is_refused() {
        for bad in [
            &b""[..],
            b" ",
            b"{",
            b"{} {}",
            b"{}x",
            b"nul",
            b"01",
            b"1e999",
            b"'a'",
            b"{a:1}",
            b"[1,]",
            b"\xff",
            b"\"\xff\"",
            b"\"\xed\xa0\x80\"",
            b"\"\\ud800\"",
            b"\xef\xbb\xbf{}",
            b"\"\0\"",
            b"{}\0",
        ] {
            refusal(bad);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..8)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn without_duplicates_it_reads_what_serde_json_reads(value in any_json()) {
            let text = serde_json::to_vec(&value).unwrap();
            let holds_nul = text.windows(6).any(|six| six == br"\u0000");
            let theirs = serde_json::from_slice(&text).ok().filter(|_: &Value| !holds_nul);
            prop_assert_eq!(parse(&text, MAX_DEPTH).ok(), theirs);
        }

        #[test]
        fn of_anything_it_takes_no_more_than_serde_json_and_never_panics(
            text in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..64),
                prop::collection::vec(prop::sample::select(br#"[]{}",:\u0123e-. nulltrefas"#.to_vec()), 0..64),
            ],
        ) {
            let theirs: Option<Value> = serde_json::from_slice(&text).ok();
            match parse(&text, MAX_DEPTH) {
                Ok(ours) => prop_assert_eq!(Some(ours), theirs),
                Err(problem) => prop_assert!(
                    theirs.is_none() || ["duplicate", "NUL"].iter().any(|why| problem.message.contains(why))
                ),
            }
        }
    }

    /// `cargo test -p protocol --release -- --ignored --nocapture costs`
    #[test]
    #[ignore = "prints a measure"]
    fn what_strictness_costs() {
        let text = serde_json::to_vec(&json!({
            "messageId": "planner-01:c1:1:0", "fromAgentId": "planner-01", "toAgentId": "builder-01",
            "type": "task-update", "timestamp": "2026-11-21T08:00:00Z",
            "payload": { "taskId": "t-1", "seq": 1, "status": { "state": "working", "message": "half way there" } },
        }))
        .unwrap();
        let rounds = 200_000;
        for (name, read) in [
            ("serde_json", (|text| serde_json::from_slice(text).unwrap()) as fn(&[u8]) -> Value),
            ("strict", |text| parse(text, MAX_DEPTH).unwrap()),
        ] {
            let start = std::time::Instant::now();
            for _ in 0..rounds {
                std::hint::black_box(read(std::hint::black_box(&text)));
            }
            println!("{name}: {:?}", start.elapsed() / rounds);
        }
    }
}
