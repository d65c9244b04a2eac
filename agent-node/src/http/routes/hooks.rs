//! Receives push notifications of foreign agents (A2A §4.3.3). Those of A2A 0.3 send the task itself.

use crate::http::node_state::NodeState;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use protocol::{
    a2a::{event::StreamResponse, json::FromProtoJson, push::NOTIFICATION_TOKEN, v03},
    json::{MAX_DEPTH, parse},
    problem::{Problem, Reason},
};
use transport::refusal::Refusal;

/// Delivers an event to the remote task with this callback id. A wrong token answers 404, like an unknown id.
pub async fn post(
    request: HttpRequest,
    id: web::Path<String>,
    node: web::Data<NodeState>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let body = parse(&body, MAX_DEPTH)?;
    let is_v03 = ["kind", "status"].iter().any(|name| body.get(name).is_some());
    let event = StreamResponse::from_proto(if is_v03 { v03::event_to_v1(body) } else { body })
        .map_err(|invalid| Problem::new(Reason::InvalidField, invalid.to_string()))?;
    let token = request.headers().get(NOTIFICATION_TOKEN).and_then(|token| token.to_str().ok());
    match node.hooks.deliver(&id, token, event) {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(Problem::new(Reason::RouteNotFound, "nobody waits to be called here").into()),
    }
}
