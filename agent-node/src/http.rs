//! The HTTP interface of a node: the edge, which checks every request, and the routes behind it.

pub mod a2a;
pub mod connections;
pub mod drain;
pub mod edge;
pub mod events;
mod headers;
pub mod mcp;
pub mod node_state;
pub mod openapi;
pub mod prefer;
pub mod routes;
pub mod server;
