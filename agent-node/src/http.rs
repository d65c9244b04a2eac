//! The HTTP interface of a node: the edge, which checks every request, and the routes behind it.

pub mod a2a;
pub mod bulk_runs;
pub(crate) mod client_address;
pub mod connections;
pub mod console;
pub mod drain;
pub mod edge;
pub mod events;
mod headers;
pub mod hosted_peer;
pub(crate) mod key_rotation;
pub(crate) mod listener;
pub mod local_callers;
pub mod mcp;
pub mod mcp_endpoint;
pub mod node_state;
pub mod openapi;
pub mod prefer;
pub mod registry_calls;
pub mod routes;
pub(crate) mod running_card;
pub mod server;
