//! One task.
