//! agent-node

pub mod brain;
pub mod config;
pub mod demo;
pub mod http;
