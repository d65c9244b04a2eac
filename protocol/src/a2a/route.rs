//! The routes of the HTTP+JSON binding (A2A §5.3, §11.3; `google.api.http` of the proto): path and query in, operation
//! and parameters out; and back, for a client.

use super::{
    error::{A2aError, A2aErrorKind},
    json::InvalidField,
    request::A2aOperation,
};
use serde_json::{Map, Value};

/// What a path names.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    pub operation: A2aOperation,
    /// The parameters in the path: `tenant`, `id`, `taskId`.
    pub named: Map<String, Value>,
}

/// The member of an error that lists the allowed methods.
pub const ALLOW: &str = "allow";

/// The route of `method` at `path`, which begins behind the interface's URL. A `POST` may stand for the `GET` of a
/// subscription: the prose and the proto of A2A differ there.
///
/// # Errors
/// Where there are routes for other methods, they are named under [`ALLOW`].
pub fn find(method: &str, path: &str) -> Result<Route, A2aError> {
    let missing = match at(method, path) {
        Ok(route) => return Ok(route),
        Err(missing) => missing,
    };
    let others = [("GET", "GET, HEAD"), ("POST", "POST"), ("DELETE", "DELETE")];
    let others = others.iter().filter(|(method, _)| at(method, path).is_ok()).map(|(_, words)| *words);
    let others = others.collect::<Vec<_>>().join(", ");
    if others.is_empty() {
        return Err(missing);
    }
    let method: String = method.chars().take(20).collect();
    let message = format!("{method} is not taken here, {others} is");
    Err(A2aError::new(A2aErrorKind::MethodNotAllowed, message).with(ALLOW, others))
}

fn at(method: &str, path: &str) -> Result<Route, A2aError> {
    let unknown = || {
        let path: String = path.chars().take(80).collect();
        A2aError::new(A2aErrorKind::MethodNotFound, format!("no operation is at {method} {path:?}"))
    };
    let segments: Option<Vec<String>> = path.trim_start_matches('/').split('/').map(decoded).collect();
    let segments = segments.ok_or_else(unknown)?;
    let mut segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let mut named = Map::new();
    if !is_resource(&segments) && segments.len() > 1 {
        named.insert("tenant".into(), segments.remove(0).into());
    }
    let mut name = |member: &str, id: &str| {
        named.insert(member.into(), id.into());
        !id.is_empty()
    };
    let operation = match (method, segments.as_slice()) {
        ("POST", ["message:send"]) => A2aOperation::SendMessage,
        ("POST", ["message:stream"]) => A2aOperation::SendStreamingMessage,
        ("GET", ["tasks"]) => A2aOperation::ListTasks,
        ("GET", ["extendedAgentCard"]) => A2aOperation::GetExtendedAgentCard,
        (_, ["tasks", last]) => match (method, last.rsplit_once(':')) {
            ("POST", Some((id, "cancel"))) if name("id", id) => A2aOperation::CancelTask,
            ("POST" | "GET", Some((id, "subscribe"))) if name("id", id) => A2aOperation::SubscribeToTask,
            ("GET", _) if name("id", last) => A2aOperation::GetTask,
            _ => return Err(unknown()),
        },
        ("POST", ["tasks", task, "pushNotificationConfigs"]) if name("taskId", task) => {
            A2aOperation::CreateTaskPushNotificationConfig
        }
        ("GET", ["tasks", task, "pushNotificationConfigs"]) if name("taskId", task) => {
            A2aOperation::ListTaskPushNotificationConfigs
        }
        ("GET", ["tasks", task, "pushNotificationConfigs", id]) if name("taskId", task) && name("id", id) => {
            A2aOperation::GetTaskPushNotificationConfig
        }
        ("DELETE", ["tasks", task, "pushNotificationConfigs", id])
            if name("taskId", task) && name("id", id) =>
        {
            A2aOperation::DeleteTaskPushNotificationConfig
        }
        _ => return Err(unknown()),
    };
    Ok(Route { operation, named })
}

/// The method and path of `operation`, with `{name}` for the parameters in the path.
pub fn template(operation: A2aOperation) -> (&'static str, &'static str) {
    match operation {
        A2aOperation::SendMessage => ("POST", "message:send"),
        A2aOperation::SendStreamingMessage => ("POST", "message:stream"),
        A2aOperation::GetTask => ("GET", "tasks/{id}"),
        A2aOperation::ListTasks => ("GET", "tasks"),
        A2aOperation::CancelTask => ("POST", "tasks/{id}:cancel"),
        A2aOperation::SubscribeToTask => ("GET", "tasks/{id}:subscribe"),
        A2aOperation::CreateTaskPushNotificationConfig => ("POST", "tasks/{taskId}/pushNotificationConfigs"),
        A2aOperation::GetTaskPushNotificationConfig => ("GET", "tasks/{taskId}/pushNotificationConfigs/{id}"),
        A2aOperation::ListTaskPushNotificationConfigs => ("GET", "tasks/{taskId}/pushNotificationConfigs"),
        A2aOperation::DeleteTaskPushNotificationConfig => {
            ("DELETE", "tasks/{taskId}/pushNotificationConfigs/{id}")
        }
        A2aOperation::GetExtendedAgentCard => ("GET", "extendedAgentCard"),
    }
}

/// Whether the first segment is one of the binding's own and no tenant.
fn is_resource(segments: &[&str]) -> bool {
    let begins = |segment: Option<&&str>| {
        matches!(segment, Some(&("message:send" | "message:stream" | "extendedAgentCard" | "tasks")))
    };
    segments.first() == Some(&"tasks") && !begins(segments.get(1)) || segments.len() == 1
}

/// The members that a query holds. Booleans are read here, numbers may stay texts.
pub fn query(query: &str) -> Result<Map<String, Value>, InvalidField> {
    let mut members = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = |text: &str| decoded(&text.replace('+', " "));
        let (Some(name), Some(value)) = (text(name), text(value)) else {
            return Err(InvalidField::new("", format!("the query {pair:?} is not percent-encoded UTF-8")));
        };
        let value = match (name.as_str(), value.as_str()) {
            ("includeArtifacts" | "include_artifacts", "true") => Value::Bool(true),
            ("includeArtifacts" | "include_artifacts", "false") => Value::Bool(false),
            // An empty parameter is an unset one.
            (_, "") => continue,
            // A time's offset is written with a plus, which a client may have left as it was.
            ("statusTimestampAfter" | "status_timestamp_after", time) => time.replace(' ', "+").into(),
            _ => Value::String(value),
        };
        if members.insert(name.clone(), value).is_some() {
            return Err(InvalidField::new(name, "is given twice"));
        }
    }
    Ok(members)
}

/// `text` as one segment of a path or one value of a query.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn decoded(text: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            bytes.push(digit(rest.next()?)? << 4 | digit(rest.next()?)?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(method: &str, path: &str) -> Option<(A2aOperation, Value)> {
        find(method, path).ok().map(|route| (route.operation, Value::Object(route.named)))
    }

    #[test]
    fn every_operation_has_its_route_with_and_without_a_tenant() {
        use serde_json::json;
        for (method, path, operation, named) in [
            ("POST", "message:send", A2aOperation::SendMessage, json!({})),
            ("POST", "message:stream", A2aOperation::SendStreamingMessage, json!({})),
            ("GET", "tasks", A2aOperation::ListTasks, json!({})),
            ("GET", "tasks/t-1", A2aOperation::GetTask, json!({ "id": "t-1" })),
            ("POST", "tasks/t-1:cancel", A2aOperation::CancelTask, json!({ "id": "t-1" })),
            ("POST", "tasks/t-1:subscribe", A2aOperation::SubscribeToTask, json!({ "id": "t-1" })),
            ("GET", "tasks/t%3A1:subscribe", A2aOperation::SubscribeToTask, json!({ "id": "t:1" })),
            (
                "POST",
                "tasks/t-1/pushNotificationConfigs",
                A2aOperation::CreateTaskPushNotificationConfig,
                json!({ "taskId": "t-1" }),
            ),
            (
                "GET",
                "tasks/t-1/pushNotificationConfigs",
                A2aOperation::ListTaskPushNotificationConfigs,
                json!({ "taskId": "t-1" }),
            ),
            (
                "GET",
                "tasks/t-1/pushNotificationConfigs/c%2F1",
                A2aOperation::GetTaskPushNotificationConfig,
                json!({ "taskId": "t-1", "id": "c/1" }),
            ),
            (
                "DELETE",
                "tasks/t-1/pushNotificationConfigs/c",
                A2aOperation::DeleteTaskPushNotificationConfig,
                json!({ "taskId": "t-1", "id": "c" }),
            ),
            ("GET", "extendedAgentCard", A2aOperation::GetExtendedAgentCard, json!({})),
        ] {
            assert_eq!(found(method, path), Some((operation, named.clone())), "{path}");
            let mut with_tenant = named;
            with_tenant["tenant"] = "acme".into();
            assert_eq!(
                found(method, &format!("acme/{path}")),
                Some((operation, with_tenant.clone())),
                "{path}"
            );
            // A tenant may be called like what it has.
            for tenant in ["tasks", "message:send", "extendedAgentCard"] {
                with_tenant["tenant"] = tenant.into();
                let path = format!("{}/{path}", encoded(tenant));
                assert_eq!(found(method, &path), Some((operation, with_tenant.clone())), "{path}");
            }
        }
        for (method, path) in [
            ("GET", "message:send"),
            ("POST", "tasks/t-1"),
            ("PUT", "tasks"),
            ("GET", ""),
            ("GET", "a/b/tasks"),
            ("POST", "tasks/:cancel"),
            ("GET", "tasks/%zz"),
            ("DELETE", "tasks/t-1/pushNotificationConfigs"),
        ] {
            assert_eq!(found(method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn the_template_of_an_operation_leads_to_it() {
        for operation in A2aOperation::ALL {
            let (method, path) = template(*operation);
            let path = path.replace("{id}", "c-1").replace("{taskId}", "t-1");
            assert_eq!(found(method, &path).map(|(operation, _)| operation), Some(*operation), "{path}");
        }
    }

    #[test]
    fn a_path_that_is_one_names_its_methods() {
        for (method, path, allowed) in [
            ("PUT", "tasks", Some("GET, HEAD")),
            ("POST", "acme/tasks", Some("GET, HEAD")),
            ("GET", "message:send", Some("POST")),
            ("DELETE", "tasks/t-1", Some("GET, HEAD")),
            ("PATCH", "tasks/t-1:subscribe", Some("GET, HEAD, POST")),
            ("PUT", "tasks/t-1/pushNotificationConfigs", Some("GET, HEAD, POST")),
            ("POST", "tasks/t-1/pushNotificationConfigs/c", Some("GET, HEAD, DELETE")),
            ("PUT", "", None),
            ("GET", "tasks/%zz", None),
            ("GET", "a/b/tasks", None),
        ] {
            let error = find(method, path).unwrap_err();
            assert_eq!(error.metadata.get(ALLOW).map(String::as_str), allowed, "{method} {path}");
            let kind =
                if allowed.is_some() { A2aErrorKind::MethodNotAllowed } else { A2aErrorKind::MethodNotFound };
            assert_eq!(error.kind, kind, "{method} {path}");
        }
    }

    #[test]
    fn a_query_is_read_as_its_members() {
        let read = query("pageSize=5&includeArtifacts=true&contextId=a%20b&pageToken=").unwrap();
        let expected = serde_json::json!({ "pageSize": "5", "includeArtifacts": true, "contextId": "a b" });
        assert_eq!(Value::Object(read), expected);
        assert!(query("a=1&a=2").is_err());
        assert!(query("a=%ff").is_err());
    }

    proptest! {
        #[test]
        fn any_text_survives_a_path(text in ".{1,40}") {
            prop_assert_eq!(decoded(&encoded(&text)), Some(text));
        }
    }
}
