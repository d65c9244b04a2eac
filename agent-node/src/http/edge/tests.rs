//! Real sockets, hostile peers.

mod harness;
mod load;
mod sender;
mod shape_and_size;
mod speed;
mod unreadable;
