//! A2A v1.0 for every agent of this node. Each binding reads a request, has `call` perform it, and writes the result; the
//! types and rules are in `protocol::a2a`.
//!
//! In reading order: `rest` and `rpc` are the bindings over HTTP (gRPC's is `crate::grpc`), `call` what all have in
//! common, then the operations: `send`, `task_operations` (with `page_token`), `webhooks`; `stream` has a task's events;
//! `card` serves the agent's card.

mod call;
mod card;
pub mod facade;
mod files;
mod json_body;
mod page_token;
mod rest;
mod rpc;
mod send;
mod stream;
mod task_operations;
mod webhooks;

pub(crate) use call::{A2aCall, A2aResponse, CallHeaders};
pub(crate) use stream::TaskEventStream;

use actix_web::{http::Method, web};
use blackboard::resource::resource;
use protocol::routes;

/// The route of JSON-RPC.
pub fn rpc(config: &mut web::ServiceConfig) {
    for path in [routes::A2A_RPC.to_owned(), format!("{}/", routes::A2A_RPC)] {
        config.service(resource(&path, [(Method::POST, web::to(rpc::post))]));
    }
}

/// The other routes of A2A.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource([routes::A2A_REST.to_owned(), format!("{}/{{path:.*}}", routes::A2A_REST)])
                .to(rest::any),
        )
        .service(resource(routes::AGENT_CARD, [(Method::GET, web::to(card::public))]));
}
