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

mod answer_command;
pub mod artifacts;
pub mod budget_holder;
pub mod callers;
pub mod clock;
mod console_paths;
pub mod data_dir;
mod grpc_wire;
mod held_up;
pub mod inbox;
mod journal;
mod json_schema;
mod key_records;
pub mod model_talk;
pub mod os_user;
pub mod peers;
pub mod private_dir;
pub mod public_url;
pub mod schedules;
pub mod sent_messages;
pub mod services;
pub mod shared_cell;
mod shell_quote;
pub mod signing_keys;
pub mod start_error;
pub mod tasks;
mod terminal;
mod text_file;
mod token_format;
pub mod tool_login;
pub mod triggers;
pub mod workspace;

pub mod config;
pub mod node;

pub mod demo;

pub mod cli;
pub mod telemetry;
