//! A2A's messages and a client, generated from its official protobuf: a reading of the wire that shares nothing with ours.
//!
//! Made from `agent-node/proto/a2a.proto` by tonic-prost-build 0.14.9 with `.build_server(false).build_transport(false)`;
//! the `#[deprecated]` lines are taken out. To make it again: `tonic_prost_build::configure()` with these options and
//! `.compile_protos(&["a2a.proto"], &["agent-node/proto"])`.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::allow_attributes,
    reason = "a program wrote it"
)]

include!("lf.a2a.v1.rs");
