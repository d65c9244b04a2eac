//! One node: agents as actors behind HTTP, their outbox and brains, and the `mesh` command.
//!
//! Invariants: a step is one commit, and nothing is performed, answered or shown before it is durable; a restart performs
//! open effects again under the same keys; each owner writes only to its part of the store. Only [`node`] wires parts.
//!
//! Modules in the order in which a request passes them:

pub mod grpc;
pub mod http;

pub mod agent;

pub mod brain;
pub mod mcp;

pub mod outbox;

pub mod artifacts;
pub mod clock;
pub mod inbox;
mod journal;
mod json_schema;
pub mod peers;
pub mod shared_cell;
pub mod tasks;
mod terminal;
mod text_file;
mod token_format;
pub mod workspace;

pub mod config;
pub mod node;

pub mod demo;

pub mod cli;
pub mod telemetry;
