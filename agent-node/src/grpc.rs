//! The gRPC binding of A2A (A2A §10): the same operations as over HTTP, on a port that the whole node has. Only words are
//! translated here; what a call may do and what it does is decided where HTTP's bindings decide it.
//!
//! In reading order: `door` takes connections, `gate` lets calls in, `service` is one call, `read` turns what it asks into
//! ProtoJSON, which all bindings read alike, `write` turns what comes of it into protobuf, `status` what went wrong.

mod door;
mod gate;
mod service;

pub(crate) mod read;
pub(crate) mod status;
mod write;

pub(crate) mod codec;
pub mod wire;

#[cfg(test)]
mod tests;

pub use door::Server;
