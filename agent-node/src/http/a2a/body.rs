//! A body as JSON, for both bindings.

use protocol::{
    a2a::{error::A2aError, json::InvalidField},
    json::number::written,
};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// What a JSON-RPC request is called, as JSON: a number with the digits that it was sent with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id(String);

impl Default for Id {
    fn default() -> Self {
        Self("null".to_owned())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A body that is refused, and the id it has as a JSON-RPC request, if that can be told.
pub(super) struct Refused {
    pub(super) error: A2aError,
    pub(super) id: Id,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Value,
}

/// The value in `body`. What is no JSON is a parse error; what is JSON and may not be (nested too deep, a member twice, a
/// NUL in a text) is refused as parameters are, by its id.
pub(super) fn parse(body: &[u8], depth: usize) -> Result<Value, Box<Refused>> {
    protocol::json::parse(body, depth).map_err(|problem| {
        let head = std::str::from_utf8(body).ok().and_then(|text| serde_json::from_str::<Head>(text).ok());
        Box::new(match head {
            Some(Head { id }) => {
                let what = problem.message.trim_start_matches("malformed JSON: ").to_owned();
                let id = called(body, id).unwrap_or_default();
                Refused { error: InvalidField::new("", what).into(), id }
            }
            None => Refused { error: problem.into(), id: Id::default() },
        })
    })
}

/// `id`, which is the one in `body`, if a request may be called so.
pub(super) fn called(body: &[u8], id: Value) -> Option<Id> {
    match &id {
        Value::Number(number) if number.is_f64() => {
            let sent = std::str::from_utf8(body).ok().and_then(|body| written(body, "id"));
            Some(Id(sent.map_or_else(|| id.to_string(), str::to_owned)))
        }
        Value::String(_) | Value::Number(_) | Value::Null => Some(Id(id.to_string())),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::a2a::error::A2aErrorKind;
    use serde_json::json;

    #[test]
    fn what_is_json_and_may_not_be_is_told_from_what_is_none() {
        let deep = format!(r#"{{"id":7,"params":{}{}}}"#, "[".repeat(40), "]".repeat(40));
        for (body, kind, id) in [
            (r#"{"id":"a","x":"\u0000"}"#, A2aErrorKind::InvalidParams, json!("a")),
            (&deep, A2aErrorKind::InvalidParams, json!(7)),
            (r#"{"id":1,"x":1,"x":2}"#, A2aErrorKind::InvalidParams, json!(1)),
            (r#"{"id":[1],"x":1,"x":2}"#, A2aErrorKind::InvalidParams, json!(null)),
            (r#"{"id":1,"x":"#, A2aErrorKind::Parse, json!(null)),
            (r#"{"id":1} 2"#, A2aErrorKind::Parse, json!(null)),
            ("", A2aErrorKind::Parse, json!(null)),
        ] {
            let refused = parse(body.as_bytes(), 32).unwrap_err();
            assert_eq!((refused.error.kind, refused.id), (kind, Id(id.to_string())), "{body}");
        }
        assert_eq!(parse(b"\xff", 32).map_err(|refused| refused.error.kind), Err(A2aErrorKind::Parse));
        assert_eq!(parse(b"{\"id\":1}", 32).ok(), Some(json!({ "id": 1 })));
    }

    #[test]
    fn an_id_keeps_the_digits_it_was_sent_with() {
        for id in [
            "7",
            "-3",
            "18446744073709551616",
            "12345678901234567890123",
            "1.50",
            "1e2",
            "-0",
            "\"a\"",
            "null",
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0", "id" : {id} ,"method":"x"}}"#);
            let read = parse(body.as_bytes(), 32).ok().unwrap();
            assert_eq!(called(body.as_bytes(), read["id"].clone()), Some(Id(id.to_owned())));
        }
        assert_eq!(called(b"{}", json!([1])), None);
    }
}
