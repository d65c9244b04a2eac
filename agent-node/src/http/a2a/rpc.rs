//! The JSON-RPC binding (A2A §9); the method tells 1.0 from 0.3. Errors are in the body, mostly with status 200. Every operation of A2A has a response, so
//! a request without an id, which is a notification (JSON-RPC 2.0 §4.1), is refused.

use super::{
    call::{A2aCall, named_version, text},
    dispatch::A2aResponse,
    json_body::{self, JsonRpcId},
    stream,
    v03::AnswerFormat,
};
use crate::http::node_state::NodeState;
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
        v03::{self, V03Form},
        version::{self, ProtocolVersion},
    },
    principal::Principal,
};
use serde_json::{Map, Value};

/// Handles one call.
pub(super) async fn post(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> HttpResponse {
    let (mut id, mut format) = (JsonRpcId::default(), AnswerFormat::default());
    let drain = node.drain.clone();
    match perform(&request, node, by.into_inner(), &body, (&mut id, &mut format)).await {
        Ok((A2aResponse::Single(result), extensions)) => {
            let mut answer = HttpResponse::Ok();
            if let Some(extensions) = extensions {
                answer.insert_header((format.extensions_header(), extensions));
            }
            match format.result(&result) {
                Ok(result) => answer.content_type(JSON).body(response_text(&id, "result", &result)),
                Err(error) => refusal(&error, &id),
            }
        }
        Ok((A2aResponse::Stream(events), extensions)) => {
            let extensions = extensions.map(|uris| (format.extensions_header(), uris));
            stream::answer(format.stream(*events), &drain, extensions, move |event| match event {
                Ok(event) => response_text(&id, "result", &format.event(&event)),
                Err(error) => response_text(&id, "error", &error.to_rpc().to_string()),
            })
        }
        Err(error) => refusal(&format.error(error), &id),
    }
}

const JSON: &str = "application/json";

fn response_text(id: &JsonRpcId, member: &str, value: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#)
}

/// An error response: status 401, 403 or 503 for these errors, 200 for all others (A2A §9.5).
fn refusal(error: &A2aError, id: &JsonRpcId) -> HttpResponse {
    let has_http_status = [A2aErrorKind::Unauthenticated, A2aErrorKind::Forbidden, A2aErrorKind::Unavailable]
        .contains(&error.kind);
    let status = if has_http_status { error.kind.http_status() } else { 200 };
    let mut answer = HttpResponseBuilder::new(StatusCode::from_u16(status).unwrap_or(StatusCode::OK));
    if error.kind == A2aErrorKind::Unauthenticated {
        answer.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    if let Some(wait) = error.retry_after {
        answer.insert_header((header::RETRY_AFTER, wait.as_secs().max(1).to_string()));
    }
    answer.content_type(JSON).body(response_text(id, "error", &error.to_rpc().to_string()))
}

async fn perform(
    request: &HttpRequest,
    node: web::Data<NodeState>,
    by: Principal,
    body: &[u8],
    (id, format): (&mut JsonRpcId, &mut AnswerFormat),
) -> Result<(A2aResponse, Option<String>), A2aError> {
    let media_type = text(request.headers(), header::CONTENT_TYPE).unwrap_or_default();
    if !is_json(media_type) {
        let message = "Content-Type must be application/json";
        return Err(A2aError::new(A2aErrorKind::ContentTypeNotSupported, message));
    }
    let parsed = json_body::parse(body, node.limits.max_depth).map_err(|invalid| {
        *id = invalid.id;
        invalid.error
    })?;
    let Value::Object(mut members) = parsed else {
        return Err(invalid("a request is one JSON object; batches are not taken"));
    };
    let Some(value) = members.remove("id") else {
        return Err(invalid(
            "id is missing: every operation has an answer, so none is taken as a notification",
        ));
    };
    *id =
        json_body::request_id(body, value).ok_or_else(|| invalid("id must be a string, a number or null"))?;
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
    let named = named_version(request);
    let version = ProtocolVersion::requested(named.as_deref())?;
    let (operation, params) = match (version, v03::operation(&method), A2aOperation::from_name(&method)) {
        (ProtocolVersion::V1, _, Some(operation)) => (operation, params),
        (ProtocolVersion::V03, Some(operation), _) => {
            *format = AnswerFormat::of(version, V03Form::Schema);
            format.read(operation, params)
        }
        (ProtocolVersion::V03, None, Some(_)) => {
            return Err(version::not_v1(named.as_deref()));
        }
        (_, _, None) => return Err(no_method(&method, version)),
    };
    let call = A2aCall::from_http(request, node, by, version)?;
    call.perform(operation, params).await
}

fn no_method(method: &str, version: ProtocolVersion) -> A2aError {
    let method: String = method.chars().take(80).collect();
    let known = A2aOperation::ALL.iter().filter_map(|operation| match version {
        ProtocolVersion::V1 => Some(operation.name()),
        ProtocolVersion::V03 => v03::method(*operation),
    });
    let message = format!("no method {method:?}; there are {}", known.collect::<Vec<_>>().join(", "));
    A2aError::new(A2aErrorKind::MethodNotFound, message)
}

/// Whether a body of this type is JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/a2a+json"].iter().any(|json| essence.eq_ignore_ascii_case(json))
}

fn invalid(message: &str) -> A2aError {
    A2aError::new(A2aErrorKind::InvalidRequest, message)
}
