//! A2A v1.0 for every agent of this node, and 0.3 by translation. Each binding reads a request, has `dispatch` perform it, and writes
//! the result; the types and rules are in `protocol::a2a`.
//!
//! In reading order: `rest` and `rpc` are the bindings over HTTP (gRPC's is `crate::grpc`), `call` what all have in
//! common, `dispatch` which operation performs a call, then the operations: `send`, `task_operations` (with `page_token`),
//! `webhooks`. `caller_tasks` is what they read; `stream` has a task's events; `card` serves the agent's card. `v03`
//! translates requests of 0.3 and their answers, for `rest` and `rpc`.

mod call;
mod caller_tasks;
mod card;
mod dispatch;
pub mod facade;
mod files;
mod json_body;
mod page_token;
mod rest;
mod rpc;
mod send;
mod stream;
mod task_operations;
mod v03;
mod webhooks;

pub(crate) use call::{A2aCall, CallHeaders};
pub(crate) use dispatch::A2aResponse;
pub(crate) use stream::TaskEventStream;

use actix_web::{http::Method, web};
use protocol::routes;
use transport::resource::resource;

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
