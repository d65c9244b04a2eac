//! The HTTP+JSON binding (A2A §11): method and path name the operation, the status tells the outcome. The version, which
//! is 0.3 if none is named, is in a header.

use super::{
    call::{A2aCall, named_version, text},
    dispatch::A2aResponse,
    json_body,
    rpc::is_json,
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
        json::InvalidField,
        route,
        v03::{self, V03Form},
        version::{self, ProtocolVersion, VERSION_PARAMETER},
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
    let drain = node.drain.clone();
    let mut format = AnswerFormat::default();
    let result = perform(&request, node, by.into_inner(), &body, &mut format).await;
    let media_type =
        if format == AnswerFormat::V1 { response_media_type(&request) } else { "application/json" };
    match result {
        Ok((A2aResponse::Single(value), extensions)) => {
            let text = match format.result(&value) {
                Ok(text) => text,
                Err(error) => return refusal(error, format, media_type),
            };
            let mut answer = HttpResponse::Ok();
            if let Some(extensions) = extensions {
                answer.insert_header((format.extensions_header(), extensions));
            }
            answer.content_type(media_type).body(text)
        }
        Ok((A2aResponse::Stream(events), extensions)) => {
            let extensions = extensions.map(|uris| (format.extensions_header(), uris));
            stream::answer(format.stream(*events), &drain, extensions, move |event| match event {
                Ok(event) => format.event(&event),
                Err(error) => format.rest_error(&error).1,
            })
        }
        Err(error) => refusal(error, format, media_type),
    }
}

fn refusal(error: A2aError, format: AnswerFormat, media_type: &'static str) -> HttpResponse {
    let error = format.error(error);
    let (status, body) = format.rest_error(&error);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
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
    answer.content_type(media_type).body(body)
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
    format: &mut AnswerFormat,
) -> Result<(A2aResponse, Option<String>), A2aError> {
    let depth = node.limits.max_depth;
    let named = named_version(request);
    let version = ProtocolVersion::requested(named.as_deref())?;
    *format = AnswerFormat::of(version, V03Form::Proto);
    let call = A2aCall::from_http(request, node, by, version)?;
    let path = request.uri().path().strip_prefix(routes::A2A_REST).unwrap_or_default();
    let method = if request.method() == "HEAD" { "GET" } else { request.method().as_str() };
    let found = match version {
        ProtocolVersion::V1 => route::find(method, path)?,
        ProtocolVersion::V03 => v03::find_route(method, path)?,
    };
    let mut params = match body.is_empty() || method != "POST" {
        true => Map::new(),
        false => object(request, body, depth)?,
    };
    if method != "POST" {
        let query = route::query(request.query_string())?;
        params.extend(query.into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case(VERSION_PARAMETER)));
    }
    let mut params = Value::Object(params);
    if version == ProtocolVersion::V03 && found.operation.sends() && v03::is_v1_message(&params) {
        // Somebody who speaks 1.0 has forgotten to say so.
        return Err(version::not_v1(named.as_deref()));
    }
    for (name, value) in found.named {
        // A different value in the body or query is an error.
        let given =
            params.get(&name).filter(|given| !given.is_null() && **given != Value::String(String::new()));
        if given.is_some_and(|given| *given != value) {
            return Err(InvalidField::new(name, "is not what the path says").into());
        }
        params[name.as_str()] = value;
    }
    let (operation, params) = format.read(found.operation, params);
    call.perform(operation, params).await
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
