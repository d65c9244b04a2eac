//! The mesh as an MCP server: tools that discover agents, send tasks and follow them, answer questions, claim open tasks, and
//! read and publish signals. `/mcp` serves it over streamable HTTP, `mesh mcp` over standard input and output.
//!
//! A tool is a client of the mesh's own HTTP API and calls it with the credential of its caller, so a caller has by MCP exactly
//! the rights that it has by HTTP.

mod api;
mod elicitation;
mod server;
mod task_extension;
mod task_output;
mod tool_call;
mod tools;
mod waiting;

pub use api::{ApiReach, CredentialLookup, MeshApi, PersonLookup};
pub use server::MeshServer;
