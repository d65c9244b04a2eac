//! HTTP between the processes of a mesh: the signed client, the keys of others, refusals, and operations as values.

pub mod endpoint_probe;
pub mod http_client;
pub mod key_ring;
pub mod operation;
pub mod refusal;
pub mod resource;
