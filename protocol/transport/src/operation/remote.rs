//! The remote client of every operation.

use super::{Caller, Operation, OperationInfo, Service};
use crate::http_client::{ClientRequest, HttpClient};
use protocol::problem::{Problem, Reason};
use reqwest::Method;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A service of another process. The caller is whoever its client signs as.
#[derive(Clone)]
pub struct RemoteService {
    base: Arc<str>,
    /// Its id, to which requests are signed.
    recipient: &'static str,
    pub wire: HttpClient,
}

impl RemoteService {
    /// The service `recipient` at `base`.
    pub fn new(base: &str, recipient: &'static str, wire: HttpClient) -> Self {
        Self { base: base.trim_end_matches('/').into(), recipient, wire }
    }

    /// Its base URL, without a `/` at the end.
    pub fn base(&self) -> &str {
        &self.base
    }
}

impl<O: Operation> Service<O> for RemoteService {
    async fn call(&self, _by: &Caller, operation: O) -> Result<O::Answer, Problem> {
        let OperationInfo { method, status, .. } = O::INFO;
        let unwritable = |error: &dyn ToString| Problem::new(Reason::Internal, error.to_string());
        let members = serde_json::to_value(operation).map_err(|error| unwritable(&error))?;
        let Value::Object(mut members) = members else {
            return Err(unwritable(&"an operation is an object"));
        };
        let mut url = format!("{}{}", self.base, path(O::INFO.path, &mut members));
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| unwritable(&error))?;
        let has_query = method == Method::GET || method == Method::DELETE;
        if has_query && !members.is_empty() {
            let query = serde_html_form::to_string(&members).map_err(|error| unwritable(&error))?;
            url = format!("{url}?{query}");
        }
        let call = ClientRequest::new(method, &url, self.recipient);
        let call = if has_query { call } else { call.body(Value::Object(members).to_string().into()) };
        if status == 204 {
            self.wire.bytes(call).await?;
            return serde_json::from_value(Value::Null).map_err(|error| unwritable(&error));
        }
        self.wire.json(call).await
    }
}

/// `template` with the members that it names, which are taken out of `members`.
fn path(template: &str, members: &mut Map<String, Value>) -> String {
    let mut path = String::new();
    for (at, part) in template.split(['{', '}']).enumerate() {
        match at % 2 {
            0 => path.push_str(part),
            // Ids need no escaping.
            _ => path.push_str(members.remove(part).as_ref().and_then(Value::as_str).unwrap_or_default()),
        }
    }
    path
}
