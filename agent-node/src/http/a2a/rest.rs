//! The HTTP+JSON binding (A2A §11): method and path name the operation, the status tells the outcome.

use super::{
    call::{A2aCall, A2aResponse, text},
    json_body,
    rpc::is_json,
    stream,
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
        json::InvalidField,
        route,
        version::{EXTENSIONS_PARAMETER, VERSION_PARAMETER},
    },
    principal::Principal,
    routes,
};
use serde_json::{Map, Value};

const A2A_JSON: &str = "application/a2a+json";

/// Handles a request on any path.
pub(super) async fn any(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> HttpResponse {
    let media_type = response_media_type(&request);
    let drain = node.drain.clone();
    match perform(&request, node, by.into_inner(), &body).await {
        Ok((A2aResponse::Single(value), extensions)) => {
            let Ok(text) = serde_json::to_string(&value) else { return refusal(&unwritable(), media_type) };
            let mut answer = HttpResponse::Ok();
            if let Some(extensions) = extensions {
                answer.insert_header((EXTENSIONS_PARAMETER, extensions));
            }
            answer.content_type(media_type).body(text)
        }
        Ok((A2aResponse::Stream(events), extensions)) => {
            stream::answer(*events, &drain, extensions, |event| match event {
                Ok(event) => event.to_json(),
                Err(error) => error.to_rest().to_string(),
            })
        }
        Err(error) => refusal(&error, media_type),
    }
}

fn unwritable() -> A2aError {
    A2aError::new(A2aErrorKind::Internal, "the answer can't be written as JSON")
}

fn refusal(error: &A2aError, media_type: &'static str) -> HttpResponse {
    let status = StatusCode::from_u16(error.kind.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = HttpResponseBuilder::new(status);
    if error.kind == A2aErrorKind::Unauthenticated {
        answer.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    if let Some(wait) = error.retry_after {
        answer.insert_header((header::RETRY_AFTER, wait.as_secs().max(1).to_string()));
    }
    if let Some(allowed) = error.metadata.get(route::ALLOW) {
        answer.insert_header((header::ALLOW, allowed.as_str()));
    }
    answer.content_type(media_type).body(error.to_rest().to_string())
}

/// The media type of the response: A2A's own, unless the client names only plain JSON (A2A §11.1).
fn response_media_type(request: &HttpRequest) -> &'static str {
    let header_value = |name: &str| text(request.headers(), name).unwrap_or_default().to_ascii_lowercase();
    let (sent, accepted) = (header_value("content-type"), header_value("accept"));
    let names_a2a_json = sent.contains(A2A_JSON) || accepted.contains(A2A_JSON);
    let names_json = sent.contains("application/json") || accepted.contains("application/json");
    if names_a2a_json || !names_json { A2A_JSON } else { "application/json" }
}

async fn perform(
    request: &HttpRequest,
    node: web::Data<NodeState>,
    by: Principal,
    body: &[u8],
) -> Result<(A2aResponse, Option<String>), A2aError> {
    let depth = node.limits.max_depth;
    let call = A2aCall::from_http(request, node, by)?;
    let path = request.uri().path().strip_prefix(routes::A2A_REST).unwrap_or_default();
    let method = if request.method() == "HEAD" { "GET" } else { request.method().as_str() };
    let found = route::find(method, path)?;
    let mut params = match body.is_empty() || method != "POST" {
        true => Map::new(),
        false => object(request, body, depth)?,
    };
    if method != "POST" {
        let query = route::query(request.query_string())?;
        params.extend(query.into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case(VERSION_PARAMETER)));
    }
    for (name, value) in found.named {
        // A different value in the body or query is an error.
        let given =
            params.get(&name).filter(|given| !given.is_null() && **given != Value::String(String::new()));
        if given.is_some_and(|given| *given != value) {
            return Err(InvalidField::new(name, "is not what the path says").into());
        }
        params.insert(name, value);
    }
    call.perform(found.operation, Value::Object(params)).await
}

fn object(request: &HttpRequest, body: &[u8], depth: usize) -> Result<Map<String, Value>, A2aError> {
    if !is_json(text(request.headers(), "content-type").unwrap_or_default()) {
        let message = "Content-Type must be application/a2a+json or application/json";
        return Err(A2aError::new(A2aErrorKind::ContentTypeNotSupported, message));
    }
    let Value::Object(members) = json_body::parse(body, depth).map_err(|invalid| invalid.error)? else {
        return Err(InvalidField::new("", "the body must be a JSON object").into());
    };
    Ok(members)
}
