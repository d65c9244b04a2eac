//! Who is there: a directory of agents with leases and incarnations, the actor that keeps it, and a handle to it.
//!
//! Invariants: an incarnation never goes down, and a smaller one never changes anything; a change of who is there
//! shares its commit with the signal that tells of it; a heartbeat costs no disk write; mass expiry is throttled.
//!
//! In reading order:

pub mod config;
pub mod entry;

pub mod application;
pub mod directory;

pub mod registrar;

pub mod client;
pub mod http;
