//! agent-node
