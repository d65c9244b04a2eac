//! The wire types and the rules of the mesh: what agents send to each other, and how each reacts.
//!
//! Nothing here does I/O, reads a clock, or draws a random number; time, chance and identities come in as arguments.
//! That is why every rule can be tested by its properties and replayed from its journal.
//!
//! What a brain is told and says, too, is defined in the crate `wire`. In reading order:

pub use wire::answer;

pub mod fence;
pub mod file_name;
pub mod ids;
pub mod problem;
pub mod time;

pub mod json;
pub mod limits;
pub mod log_throttle;
pub mod routes;
pub mod run_root;
pub mod trace;
pub mod words;

pub mod address_policy;
pub mod deputy;
pub mod envelope;
pub mod handoff;
pub mod identity;
pub mod message;
pub mod model_line;
pub mod principal;
pub mod signature;

pub mod acceptance;
pub mod artifact;
pub mod bid;
pub mod budget;
pub mod card;
pub mod compaction;
pub mod question;
pub mod quota;
pub mod signal;
pub mod spaces;
pub mod task;
pub mod usage;

pub mod a2a;
