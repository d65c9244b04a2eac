//! agent-node

pub mod brain;
pub mod demo;
pub mod http;
