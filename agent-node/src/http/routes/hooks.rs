//! Receives push notifications of foreign agents (A2A §4.3.3).

use crate::http::node_state::NodeState;
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::refusal::Refusal;
use bytes::Bytes;
use protocol::{
    a2a::{event::StreamResponse, json::FromProtoJson, push::NOTIFICATION_TOKEN},
    json::{MAX_DEPTH, parse},
    problem::{Problem, Reason},
};

/// Delivers an event to the remote task with this callback id. A wrong token answers 404, like an unknown id.
pub async fn post(
    request: HttpRequest,
    id: web::Path<String>,
    node: web::Data<NodeState>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let event = StreamResponse::from_proto(parse(&body, MAX_DEPTH)?)
        .map_err(|invalid| Problem::new(Reason::InvalidField, invalid.to_string()))?;
    let token = request.headers().get(NOTIFICATION_TOKEN).and_then(|token| token.to_str().ok());
    match node.hooks.deliver(&id, token, event) {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(Problem::new(Reason::RouteNotFound, "nobody waits to be called here").into()),
    }
}
