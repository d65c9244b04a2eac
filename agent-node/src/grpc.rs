//! The gRPC binding of A2A (A2A §10): the same operations as over HTTP, on one port for the whole node. This module only
//! translates; `http::edge` and `http::a2a` check and perform calls, as for the HTTP bindings.
//!
//! In reading order: `listener` accepts connections, `frame_limit` cuts floods of frames, `call` admits and answers one call. The messages and the
//! statuses are those of `crate::grpc_wire`.

mod call;
mod frame_limit;
mod listener;

pub use listener::GrpcServer;
