//! What a server and a client of A2A's gRPC binding have in common: `schema` turns protobuf into the ProtoJSON that all bindings read,
//! and back, `status` errors into statuses, and back.

pub(crate) mod schema;
pub(crate) mod status;
