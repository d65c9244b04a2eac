//! The registry: a directory of agents with leases and incarnations, the actor that owns it, and a client.
//!
//! Invariants: an agent's incarnation never decreases, and a request with an older one changes nothing; a membership
//! change shares its commit with its signal; no id is registered before its key is pinned; a heartbeat writes nothing to disk; mass expiry is throttled.
//!
//! In reading order:

pub mod config;
pub mod entry;

pub mod directory;
pub mod pinned_keys;
pub mod registration_request;

pub mod registrar;

pub mod client;
pub mod http;
