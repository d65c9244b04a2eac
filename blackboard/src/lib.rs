//! What is known: one ordered log of keyed records, and the blackboard on top of it.
//!
//! Invariants: nothing is acknowledged before it is durable; revisions only grow; nobody writes under another's prefix.
//!
//! In reading order:

pub mod store;

pub mod access;
mod attendance;
pub mod claim_writes;
pub mod claims;
pub mod signals;

pub mod board;
mod feed;

pub mod client;
pub mod http;

pub mod refusal;
pub mod resource;
pub mod supervised;
pub mod wire;
