//! The HTTP+JSON binding (A2A §11): path and query say which operation, the status what came of it.

use super::{
    body,
    call::{Call, Reply, text},
    rpc::is_json,
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
        json::InvalidField,
        route,
        version::{EXTENSIONS_PARAMETER, VERSION_PARAMETER},
    },
    principal::Principal,
    routes,
};
use serde_json::{Map, Value};

const A2A_JSON: &str = "application/a2a+json";

/// Takes one request, at whatever path.
pub(super) async fn any(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> HttpResponse {
    let media_type = answered_in(&request);
    let leaving = node.leaving.clone();
    match take(&request, node, by.into_inner(), &body).await {
        Ok((Reply::One(value), extensions)) => {
            let Ok(text) = serde_json::to_string(&value) else { return refusal(&unwritable(), media_type) };
            let mut answer = HttpResponse::Ok();
            if let Some(extensions) = extensions {
                answer.insert_header((EXTENSIONS_PARAMETER, extensions));
            }
            answer.content_type(media_type).body(text)
        }
        Ok((Reply::Many(heard), extensions)) => {
            stream::answer(*heard, &leaving, extensions, |event| match event {
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

/// The type of an answer: A2A's own, unless the client shows that it knows only plain JSON (A2A §11.1).
fn answered_in(request: &HttpRequest) -> &'static str {
    let said = |name: &str| text(request.headers(), name).unwrap_or_default().to_ascii_lowercase();
    let (sent, accepted) = (said("content-type"), said("accept"));
    let names_ours = sent.contains(A2A_JSON) || accepted.contains(A2A_JSON);
    let names_plain = sent.contains("application/json") || accepted.contains("application/json");
    if names_ours || !names_plain { A2A_JSON } else { "application/json" }
}

async fn take(
    request: &HttpRequest,
    node: web::Data<Node>,
    by: Principal,
    body: &[u8],
) -> Result<(Reply, Option<String>), A2aError> {
    let depth = node.limits.max_depth;
    let call = Call::begin(request, node, by)?;
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
        // The path wins; what says otherwise in the body is a slip.
        let said = params.get(&name).filter(|said| !said.is_null() && **said != Value::String(String::new()));
        if said.is_some_and(|said| *said != value) {
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
    let Value::Object(members) = body::parse(body, depth).map_err(|refused| refused.error)? else {
        return Err(InvalidField::new("", "the body must be a JSON object").into());
    };
    Ok(members)
}
