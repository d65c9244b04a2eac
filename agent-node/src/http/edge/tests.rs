//! Tests of the edge on real sockets with hostile peers.

mod harness;
mod load;
mod malformed_head;
mod sender;
mod shape_and_size;
mod speed;
