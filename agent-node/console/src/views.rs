//! The views, one file each.

pub mod agent;
pub mod agents;
pub mod board;
pub mod brief;
pub mod bulk;
pub mod chat;
pub mod cost;
pub mod elsewhere;
pub mod health;
pub mod inbox;
pub mod mesh;
pub mod refused;
pub mod session;
pub mod sessions;
pub mod space;
pub mod start;
pub mod task;
pub mod task_line;
pub mod tasks;
