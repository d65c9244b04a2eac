//! The messages and the service of A2A as its official protobuf has them.
//!
//! Made from `agent-node/proto/a2a.proto`, which is specification v1.0.1's, by tonic-prost-build 0.14.9 with
//! `.build_transport(false).codec_path("crate::grpc::codec::Protobuf")`; the `#[deprecated]` lines are taken out, since
//! even what is deprecated must be told. Nothing is generated at build time, so no `protoc` is needed.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes,
    clippy::wildcard_enum_match_arm,
    reason = "a program wrote it"
)]

include!("lf.a2a.v1.rs");
