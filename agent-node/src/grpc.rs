//! The gRPC binding of A2A (A2A §10): the same operations as over HTTP, on a port of the whole node. This module only
//! translates; what a call may do and what it does is decided where the HTTP bindings decide it.
//!
//! In reading order: `listener` takes connections, `call` admits and answers one call, `schema` turns protobuf into the
//! ProtoJSON that all bindings read and back, `status` turns errors into statuses and back.

mod call;
mod listener;

pub(crate) mod schema;
pub(crate) mod status;

pub use listener::Server;
