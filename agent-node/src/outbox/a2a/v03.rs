//! Calls of agents that speak A2A 0.3: where an operation is, what it is asked with, and its result as that of 1.0.

use protocol::a2a::{
    card::AgentInterface,
    request::A2aOperation,
    v03::{self, V03Form},
    version::ProtocolVersion,
};
use reqwest::Method;
use serde_json::{Value, json};

/// The header's value for an agent of 0.3.
pub(super) const VERSION: &str = "0.3";

/// Whether an interface speaks 0.3.
pub(super) fn is_spoken(interface: &AgentInterface) -> bool {
    interface.version() == Some(ProtocolVersion::V03)
}

/// The method, the URL and the body of a call over HTTP+JSON.
pub(super) fn rest(
    interface: &AgentInterface,
    operation: A2aOperation,
    task: &str,
    params: Value,
) -> (Method, String, Option<String>) {
    let (method, path) = v03::path(operation, task);
    let verb = if method == "GET" { Method::GET } else { Method::POST };
    let body = if operation == A2aOperation::CancelTask {
        Some(json!({ "name": format!("tasks/{task}") }))
    } else {
        operation.sends().then(|| v03::params_to_v03(operation, params, V03Form::Proto))
    };
    let url = format!("{}/{path}", interface.url.trim_end_matches('/'));
    (verb, url, body.map(|body| body.to_string()))
}

/// The method and the parameters of a call over JSON-RPC.
pub(super) fn rpc(operation: A2aOperation, params: Value) -> (&'static str, Value) {
    (v03::method(operation).unwrap_or_default(), v03::params_to_v03(operation, params, V03Form::Schema))
}

/// A result as that of 1.0.
pub(super) fn result(operation: A2aOperation, result: Value) -> Value {
    if matches!(operation, A2aOperation::GetTask | A2aOperation::CancelTask) {
        return v03::task_to_v1(result);
    }
    v03::event_to_v1(result)
}
