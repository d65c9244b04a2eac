//! One node: agents as actors behind HTTP, the one driver for every pattern, and the `mesh` command.
//!
//! Invariants: a step is one commit, and nothing is performed, answered or shown before it is durable; effects have ids and
//! a restart performs the open ones again; nobody writes in another's store. Only [`node`] chooses and joins parts.
//!
//! In reading order, the life of a request:

pub mod grpc;
pub mod http;

pub mod agent;

pub mod brain;

pub mod outbox;

pub mod artifacts;
pub mod clock;
pub mod inbox;
mod journal;
pub mod latest;
pub mod peers;
pub mod tasks;

pub mod config;
pub mod node;

pub mod demo;

pub mod cli;
pub mod telemetry;
