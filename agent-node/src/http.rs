//! The HTTP side of a node: the edge that every request passes, and the routes behind it.

pub mod a2a;
pub mod edge;
pub mod events;
mod headers;
pub mod leaving;
pub mod node_state;
pub mod prefer;
pub mod routes;
pub mod server;
