//! One agent without I/O: inputs come in, outputs go out, and a store is read through a snapshot.
//!
//! Invariants:
//! - Same inputs, same store, same world: same outputs.
//! - Policy is inside, single attempts are outside: admission, dedup, patterns, commits, lanes and their order, retries,
//!   expiry, dead letters, claims, subscriptions, retention and drain are decided here; the shell performs one attempt at
//!   a time and reports the result.
//! - Nothing is performed, answered or shown before the step that decided it is committed.
//! - Every effect has a key and an open row until its result is recorded; [`Agent::recover`] performs open rows again.
//!
//! In reading order:

mod agent;
mod io;

mod admission;
mod bids;
mod incoming;
mod owner_answer;
mod requests;
mod task_control;

mod commits;
mod context;
mod conversation;
mod conversation_shares;
mod steps;
mod supersede;

mod delivery;
mod perform;
mod timers;
mod turns;

mod auction_queue;
mod open_tasks;
mod subscription;

mod failed_steps;
mod parking;
mod recovery;
mod retention;

mod counts;
mod panics;
mod problems;
mod snapshot;

#[cfg(test)]
mod testing;

pub mod artifacts;
pub mod chunks;
pub mod content;
pub mod object_change;
pub mod records;
pub mod replay;
pub mod states;
pub mod tasks;

pub use agent::{Agent, EngineConfig};
pub use conversation::origin;
pub use counts::{AgentCounts, Removed};
pub use delivery::may_succeed_later;
pub use delivery::{backoff::pause, claims::ClaimRequest};
pub use io::{
    Ack, Attempt, AttemptId, AttemptResult, BidQuestion, BidQuestionId, CommitId, Delivery,
    DeliveryAttemptOutcome, IncomingMessage, Input, InstantAnswer, MessageResult, Observation, Output,
    PeerDirectory, PeerLocation, RelayedApproval, ReplyTo, TimerId, TurnKey, TurnStart, World,
};
pub use panics::catch_panic;
pub use recovery::{RecoverError, newest_time};
pub use snapshot::AgentSnapshot;
pub use turns::oversized_signal;
