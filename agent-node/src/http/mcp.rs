//! `/mcp`: the mesh as an MCP server over streamable HTTP, of the present stateless revision and of older ones with sessions.
//!
//! A session belongs to the caller that began it: nobody else's request reaches it, so that an answer to an elicitation comes
//! from the caller whose task asks. Sessions are in memory; after a restart a client is answered 404 and begins another one.

use super::{
    edge::release_permit,
    listener::{ListenerAddress, own_url},
    mcp_endpoint::SessionOwner,
    node_state::NodeState,
    routes::person_token,
};
use crate::{
    budget_holder::BudgetHolder,
    mcp::{ApiReach, MeshApi},
};
use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, StatusCode, header},
    web,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use protocol::{
    a2a::agent_policy::API_KEY_HEADER,
    json,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use serde_json::Value;
use std::{future::ready, net::SocketAddr, sync::Arc};
use transport::refusal::Refusal;
use transport::resource::resource;

const SESSION_ID: &str = "mcp-session-id";

const RESPONSE_HEADERS: [&str; 5] = ["content-type", SESSION_ID, "cache-control", "allow", "retry-after"];

/// The routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(resource(
        routes::MCP,
        [(Method::POST, web::to(serve)), (Method::GET, web::to(serve)), (Method::DELETE, web::to(serve))],
    ));
}

/// Passes a request on to rmcp, with its caller.
async fn serve(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    holder: web::ReqData<BudgetHolder>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    if !matches!(*by, Principal::User(_)) {
        let message = format!("MCP is for people and their programs; {} uses /a2a/messages", *by);
        return Err(Problem::new(Reason::Forbidden, message).into());
    }
    let endpoint = &node.mcp;
    let is_persons = person_token::is_persons(&request, &by);
    let owner = SessionOwner { principal: by.clone().into_inner(), is_persons };
    let session = request.headers().get(SESSION_ID).map(|id| id.to_str().unwrap_or_default());
    match session {
        Some(id) => endpoint.check_session(id, &owner)?,
        None if *request.method() == Method::POST => {
            let message = json::parse(&body, endpoint.max_depth)?;
            if message.get("method").and_then(Value::as_str) == Some("initialize") {
                endpoint.check_sessions_of(&owner).await?;
            }
        }
        None => {}
    }
    if session.is_some() && !body.is_empty() {
        json::parse(&body, endpoint.max_depth)?;
    }
    // A tool may wait. The calls that it makes are counted by themselves.
    release_permit(&request);
    let translated = translate(&request, &body, api(&request, &node, is_persons)?, &holder)?;
    let _permit = node.streams.acquire(&holder)?;
    let response = endpoint.service.handle(translated).await;
    let begun = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
    if let (None, Some(id)) = (session, begun) {
        endpoint.sessions.insert(id.to_owned(), owner);
    }
    if *request.method() == Method::DELETE
        && let Some(id) = session
    {
        endpoint.sessions.remove(id);
        if response.status().is_success() {
            // Clients of several versions take 200 and 204 only.
            return Ok(HttpResponse::NoContent().finish());
        }
    }
    Ok(answer(response).await?)
}

/// The API for the tools of a request: that of this process, with the request's credential.
fn api(request: &HttpRequest, node: &NodeState, is_persons: bool) -> Result<MeshApi, Problem> {
    let unknown = || Problem::new(Reason::Internal, "the listener of the request is not known");
    let ListenerAddress(address) = *request.conn_data().ok_or_else(unknown)?;
    let text =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let named = ["authorization", API_KEY_HEADER].into_iter();
    let credentials: Vec<_> = named.filter_map(|name| Some((name, text(name)?))).collect();
    let agents = node.by_port.keys().map(|port| own_url(SocketAddr::new(address.ip(), *port))).collect();
    let lookup = Arc::new(move |_: String| Box::pin(ready(credentials.clone())) as _);
    let api = MeshApi::new(node.mcp.wire.clone(), own_url(address), lookup, ApiReach::Node(agents));
    Ok(api.proven(is_persons))
}

/// The request in the types of rmcp.
fn translate(
    request: &HttpRequest,
    body: &Bytes,
    api: MeshApi,
    holder: &BudgetHolder,
) -> Result<http::Request<Full<Bytes>>, Problem> {
    let mut translated = http::Request::builder().method(request.method().as_str()).uri(request.path());
    for (name, value) in request.headers() {
        translated = translated.header(name.as_str(), value.as_bytes());
    }
    let translated = translated.extension(api).extension(holder.clone()).body(Full::new(body.clone()));
    translated.map_err(|error| Problem::new(Reason::BadRequest, error.to_string()))
}

/// The response in the types of actix. A refusal of rmcp that is no message of MCP gets the mesh's format.
async fn answer<B>(response: http::Response<B>) -> Result<HttpResponse, Problem>
where
    B: http_body::Body<Data = Bytes, Error = std::convert::Infallible> + 'static,
{
    let (head, body) = response.into_parts();
    let kind = head.headers.get("content-type").map(|kind| kind.as_bytes().to_vec()).unwrap_or_default();
    let is_stream = kind.starts_with(b"text/event-stream");
    let status = StatusCode::from_u16(head.status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = HttpResponse::build(status);
    for name in RESPONSE_HEADERS {
        if let Some(value) = head.headers.get(name) {
            answer.insert_header((name, value.as_bytes()));
        }
    }
    if is_stream {
        answer.insert_header((header::CACHE_CONTROL, "no-store"));
        return Ok(answer.streaming(body.into_data_stream()));
    }
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(never) => match never {},
    };
    if status.as_u16() >= 400 && !kind.starts_with(b"application/json") {
        let reason = match status.as_u16() {
            404 => Reason::SessionNotFound,
            405 => Reason::MethodNotAllowed,
            406 => Reason::NotAcceptable,
            413 => Reason::PayloadTooLarge,
            415 => Reason::UnsupportedMediaType,
            400..=499 => Reason::BadRequest,
            _ => Reason::Internal,
        };
        return Err(Problem::new(reason, String::from_utf8_lossy(&bytes).into_owned()));
    }
    Ok(answer.body(bytes))
}
