//! The store (one ordered log of keyed records) and the blackboard on top of it.
//!
//! Invariants: nothing is acknowledged before it is durable; revisions only grow; an owner writes only under its own prefix.
//!
//! The modules, in reading order:

pub mod store;

pub mod access;
pub mod claim_writes;
pub mod claims;
mod registered_agents;
pub mod signals;
pub mod spaces;

pub mod board;
mod feed;

pub mod client;
pub mod http;

pub mod http_client;
pub mod key_ring;
pub mod refusal;
pub mod resource;
pub mod supervisor;
