//! agent-node

pub mod brain;
pub mod http;
