//! The blackboard on top of the store.
//!
//! Invariants: nothing is acknowledged before it is durable; revisions only grow; an owner writes only under its own prefix.
//!
//! The modules, in reading order:

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
pub mod shares;

/// The owner of the board's keys.
pub const OWNER: &str = "board";
