//! The views, one file each.

pub mod agents;
pub mod chat;
pub mod inbox;
pub mod start;
pub mod task;
pub mod task_line;
pub mod tasks;
