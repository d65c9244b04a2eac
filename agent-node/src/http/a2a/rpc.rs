//! The JSON-RPC binding (A2A §9): every answer is 200, and what went wrong stands in it. Every operation of A2A has an
//! answer, so a request without an id, a notification that must not have one (JSON-RPC 2.0 §4.1), is refused.

use super::{
    body::{self, Id},
    call::{Call, Reply, text},
    stream,
};
use crate::http::node_state::Node;
use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::{StatusCode, header},
    web,
};
use bytes::Bytes;
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        request::A2aOperation,
        version::EXTENSIONS_PARAMETER,
    },
    principal::Principal,
};
use serde_json::{Map, Value};

/// Takes one call.
pub(super) async fn post(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> HttpResponse {
    let mut id = Id::default();
    let leaving = node.leaving.clone();
    match take(&request, node, by.into_inner(), &body, &mut id).await {
        Ok((Reply::One(result), extensions)) => {
            let mut answer = HttpResponse::Ok();
            if let Some(extensions) = extensions {
                answer.insert_header((EXTENSIONS_PARAMETER, extensions));
            }
            match serde_json::to_string(&result) {
                Ok(result) => answer.content_type(JSON).body(answered(&id, "result", &result)),
                Err(error) => refusal(&A2aError::new(A2aErrorKind::Internal, error.to_string()), &id),
            }
        }
        Ok((Reply::Many(heard), extensions)) => {
            stream::answer(*heard, &leaving, extensions, move |event| match event {
                Ok(event) => answered(&id, "result", &event.to_json()),
                Err(error) => answered(&id, "error", &error.to_rpc().to_string()),
            })
        }
        Err(error) => refusal(&error, &id),
    }
}

const JSON: &str = "application/json";

/// An answer whose `member` is the JSON in `value`.
fn answered(id: &Id, member: &str, value: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#)
}

/// An error, with the status that stands for who may not (A2A §9.5 leaves 200 for all others).
fn refusal(error: &A2aError, id: &Id) -> HttpResponse {
    let is_about_the_caller =
        [A2aErrorKind::Unauthenticated, A2aErrorKind::Forbidden, A2aErrorKind::Unavailable]
            .contains(&error.kind);
    let status = if is_about_the_caller { error.kind.http_status() } else { 200 };
    let mut answer = HttpResponseBuilder::new(StatusCode::from_u16(status).unwrap_or(StatusCode::OK));
    if error.kind == A2aErrorKind::Unauthenticated {
        answer.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    if let Some(wait) = error.retry_after {
        answer.insert_header((header::RETRY_AFTER, wait.as_secs().max(1).to_string()));
    }
    answer.content_type(JSON).body(answered(id, "error", &error.to_rpc().to_string()))
}

async fn take(
    request: &HttpRequest,
    node: web::Data<Node>,
    by: Principal,
    body: &[u8],
    id: &mut Id,
) -> Result<(Reply, Option<String>), A2aError> {
    let media_type = text(request.headers(), header::CONTENT_TYPE).unwrap_or_default();
    if !is_json(media_type) {
        let message = "Content-Type must be application/json";
        return Err(A2aError::new(A2aErrorKind::ContentTypeNotSupported, message));
    }
    let parsed = body::parse(body, node.limits.max_depth).map_err(|refused| {
        *id = refused.id;
        refused.error
    })?;
    let Value::Object(mut members) = parsed else {
        return Err(invalid("a request is one JSON object; batches are not taken"));
    };
    let Some(named) = members.remove("id") else {
        return Err(invalid(
            "id is missing: every operation has an answer, so none is taken as a notification",
        ));
    };
    *id = body::called(body, named).ok_or_else(|| invalid("id must be a string, a number or null"))?;
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    let Some(Value::String(method)) = members.remove("method") else {
        return Err(invalid("method must be a string"));
    };
    let params = match members.remove("params") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(params) => params,
    };
    let call = Call::begin(request, node, by)?;
    let Some(operation) = A2aOperation::from_name(&method) else {
        let method: String = method.chars().take(80).collect();
        let known: Vec<_> = A2aOperation::ALL.iter().map(|operation| operation.name()).collect();
        let message = format!("no method {method:?}; there are {}", known.join(", "));
        return Err(A2aError::new(A2aErrorKind::MethodNotFound, message));
    };
    call.perform(operation, params).await
}

/// Whether a body of this type is JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/a2a+json"].iter().any(|json| essence.eq_ignore_ascii_case(json))
}

fn invalid(message: &str) -> A2aError {
    A2aError::new(A2aErrorKind::InvalidRequest, message)
}
