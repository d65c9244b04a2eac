//! agent-node

pub mod brain;
