//! agent-node

pub mod brain;
pub mod http;
pub mod demo;
