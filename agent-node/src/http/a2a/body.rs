//! A body as JSON, for both bindings.

use protocol::a2a::{error::A2aError, json::Invalid};
use serde::Deserialize;
use serde_json::Value;

/// A body that is refused, and the id it has as a JSON-RPC request, if that can be told.
pub(super) struct Refused {
    pub(super) error: A2aError,
    pub(super) id: Value,
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
                Refused { error: Invalid::new("", what).into(), id: called(id).unwrap_or_default() }
            }
            None => Refused { error: problem.into(), id: Value::Null },
        })
    })
}

/// `id` if a request may be called so.
pub(super) fn called(id: Value) -> Option<Value> {
    match id {
        Value::String(_) | Value::Number(_) | Value::Null => Some(id),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::a2a::error::Kind;
    use serde_json::json;

    #[test]
    fn what_is_json_and_may_not_be_is_told_from_what_is_none() {
        let deep = format!(r#"{{"id":7,"params":{}{}}}"#, "[".repeat(40), "]".repeat(40));
        for (body, kind, id) in [
            (r#"{"id":"a","x":"\u0000"}"#, Kind::InvalidParams, json!("a")),
            (&deep, Kind::InvalidParams, json!(7)),
            (r#"{"id":1,"x":1,"x":2}"#, Kind::InvalidParams, json!(1)),
            (r#"{"id":[1],"x":1,"x":2}"#, Kind::InvalidParams, json!(null)),
            (r#"{"id":1,"x":"#, Kind::Parse, json!(null)),
            (r#"{"id":1} 2"#, Kind::Parse, json!(null)),
            ("", Kind::Parse, json!(null)),
        ] {
            let refused = parse(body.as_bytes(), 32).unwrap_err();
            assert_eq!((refused.error.kind, refused.id), (kind, id), "{body}");
        }
        assert_eq!(parse(b"\xff", 32).map_err(|refused| refused.error.kind), Err(Kind::Parse));
        assert_eq!(parse(b"{\"id\":1}", 32).ok(), Some(json!({ "id": 1 })));
    }
}
