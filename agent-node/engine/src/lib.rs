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
pub mod context_records;
mod contexts;
mod conversation;
mod conversations;
mod fate;
mod owner_answer;
mod step_schedule;

mod commits;
mod context;
mod internal_events;

mod delivery;
mod timer_purpose;
mod timers;
mod turn_end;
mod turns;

mod auctions;
mod bids;
mod board_cursor;
mod offers;
mod peers;
mod quotas;
mod subscription;

mod retention;

mod counts;
mod panics;
mod problems;

#[cfg(test)]
mod testing;

pub mod artifacts;
pub mod chunks;
pub mod content;
pub mod costs;
pub mod object_change;
pub mod records;
pub mod replay;
pub mod replay_start;
pub mod schedule;
pub mod settings;
pub mod states;
pub mod tasks;

pub use agent::{Agent, AgentSnapshot, EngineConfig, ReadableLayers, RecoverError, newest_time};
pub use conversation::origin;
pub use counts::{AgentCounts, Removed};
pub use delivery::may_succeed_later;
pub use delivery::{backoff::pause, claims::ClaimRequest};
pub use io::{
    Ack, Attempt, AttemptId, AttemptResult, BidQuestion, BidQuestionId, CommitId, Delivery,
    DeliveryAttemptOutcome, IncomingMessage, Input, InstantAnswer, MessageResult, Observation, Output,
    PeerDirectory, PeerLocation, RelayedApproval, ReplyTo, TimerId, TurnKey, TurnStart, World, away,
};
pub use panics::catch_panic;
pub use quotas::{GrantedShare, QuotaNotice, QuotaStatus, ShareRequest};
pub use turn_end::oversized_signal;
