//! Where foreign agents call back with news of a task (A2A §4.3.3).

use crate::http::node_state::Node;
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::refusal::Refusal;
use bytes::Bytes;
use protocol::{
    a2a::{event::StreamResponse, json::FromProtoJson},
    json::{MAX_DEPTH, parse},
    problem::{Problem, Reason},
};

/// The header that carries the token of a push notification.
const TOKEN: &str = "x-a2a-notification-token";

/// Takes news for the errand whose place this is. A wrong token is answered like a place that is not there.
pub async fn post(
    request: HttpRequest,
    place: web::Path<String>,
    node: web::Data<Node>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let event = StreamResponse::from_proto(parse(&body, MAX_DEPTH)?)
        .map_err(|invalid| Problem::new(Reason::InvalidField, invalid.to_string()))?;
    let token = request.headers().get(TOKEN).and_then(|token| token.to_str().ok());
    match node.hooks.take(&place, token, event) {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(Problem::new(Reason::RouteNotFound, "nobody waits to be called here").into()),
    }
}
