//! Parses a body as JSON, for both HTTP bindings.

use protocol::{
    a2a::{error::A2aError, json::InvalidField},
    json::number::written,
};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// The id of a JSON-RPC request, as JSON text: a number keeps the digits of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonRpcId(String);

impl Default for JsonRpcId {
    fn default() -> Self {
        Self("null".to_owned())
    }
}

impl fmt::Display for JsonRpcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a body is refused, and its JSON-RPC id if it can be read.
pub(super) struct InvalidBody {
    pub(super) error: A2aError,
    pub(super) id: JsonRpcId,
}

#[derive(Deserialize)]
struct JsonRpcHead {
    #[serde(default)]
    id: Value,
}

/// Parses `body`. Text that is not JSON fails with a parse error. JSON that is not accepted (nested too deep, a duplicate
/// member, a NUL in a text) fails with invalid params and the request's id.
pub(super) fn parse(body: &[u8], depth: usize) -> Result<Value, Box<InvalidBody>> {
    protocol::json::parse(body, depth).map_err(|problem| {
        let head =
            std::str::from_utf8(body).ok().and_then(|text| serde_json::from_str::<JsonRpcHead>(text).ok());
        Box::new(match head {
            Some(JsonRpcHead { id }) => {
                let what = problem.message.trim_start_matches("malformed JSON: ").to_owned();
                let id = request_id(body, id).unwrap_or_default();
                InvalidBody { error: InvalidField::new("", what).into(), id }
            }
            None => InvalidBody { error: problem.into(), id: JsonRpcId::default() },
        })
    })
}

/// `id`, the one in `body`, as a request id; `None` if it is not a string, a number or null.
pub(super) fn request_id(body: &[u8], id: Value) -> Option<JsonRpcId> {
    match &id {
        Value::Number(number) if number.is_f64() => {
            let sent = std::str::from_utf8(body).ok().and_then(|body| written(body, "id"));
            Some(JsonRpcId(sent.map_or_else(|| id.to_string(), str::to_owned)))
        }
        Value::String(_) | Value::Number(_) | Value::Null => Some(JsonRpcId(id.to_string())),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::a2a::error::A2aErrorKind;
    use serde_json::json;

    #[test]
    fn refused_json_is_distinguished_from_invalid_json() {
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
            assert_eq!((refused.error.kind, refused.id), (kind, JsonRpcId(id.to_string())), "{body}");
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
            assert_eq!(request_id(body.as_bytes(), read["id"].clone()), Some(JsonRpcId(id.to_owned())));
        }
        assert_eq!(request_id(b"{}", json!([1])), None);
    }
}
