//! Every limit, with its default. All are configurable and all are served at `/state` and in the card. A member is the key `mesh.limits`
//! of the YAML, and its doc comment the description in the published JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a node takes, and for how long it waits; bytes, counts and milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// A message's body, bytes. At most 1 MiB.
    pub max_body_bytes: usize,
    /// The body of a request of A2A, with the files in its parts (`raw`), bytes. Beside the files it may have `maxBodyBytes`.
    pub max_a2a_body_bytes: usize,
    /// A signal's JSON, bytes.
    pub max_signal_bytes: usize,
    /// An artifact put by reference, and a file of a message, bytes.
    pub max_artifact_bytes: usize,
    /// Artifacts, and large requests and later messages of a user, of one principal at one agent, bytes; the next is answered 429. 0 is no limit.
    pub max_artifact_bytes_per_principal: u64,
    /// Nesting of arrays and objects.
    pub max_depth: usize,
    /// Agents a task may pass through.
    pub max_hops: usize,
    /// Conversations open at once, per agent, of which one principal has as many as are left; the next task is answered 503.
    pub max_open_conversations: usize,
    /// Requests in flight per node; the next is answered 503.
    pub max_in_flight: usize,
    /// Messages waiting for one recipient; the next is dead at once, with its reason.
    pub max_outbox_per_peer: usize,
    /// Requests a second of one user with a credential; the next is answered 429. `user:local` and agents have no limit.
    pub max_rate_per_second: u32,
    /// Credentials that prove nothing, a second and address; requests beyond it are answered 429. 0 is no limit.
    pub max_failed_auth_per_second: u32,
    /// Streams that one principal may read at once, per node; the next is answered 429. 0 is no limit.
    pub max_readers_per_principal: usize,
    /// How long the sender of a message waits for its acknowledgement.
    pub ack_ms: u64,
    /// How long a request's head may take.
    pub head_ms: u64,
    /// How long a request's body may take.
    pub body_ms: u64,
    /// How long `Prefer: wait` may hold an answer.
    pub max_wait_ms: u64,
    /// How long an undelivered message lives.
    pub message_life_ms: u64,
    /// How long a message id is remembered; longer than a message lives.
    pub dedup_ms: u64,
    /// How long a finished task's record, result and award are kept.
    pub keep_tasks_ms: u64,
    /// How long a context is kept after its last turn: what a seat of a session has of its earlier turns.
    pub keep_contexts_ms: u64,
    /// How long it is kept what tasks have used, for `mesh cost`; at least a month, for quotas.
    pub keep_costs_ms: u64,
    /// How long a finished task's journal is kept.
    pub keep_journals_ms: u64,
    /// How many bytes of journals are kept; the oldest finished ones go first.
    pub keep_journal_bytes: u64,
    /// How long the board keeps signals.
    pub keep_signals_ms: u64,
    /// How many bytes of signals the board keeps; the oldest go first.
    pub keep_signal_bytes: u64,
    /// How long the board keeps an entry of a space that is neither pending nor in force, after its last change.
    pub keep_entries_ms: u64,
    /// How long the board keeps the changes of entries, for streams that go on from a cursor.
    pub keep_entry_changes_ms: u64,
    /// Entries of one author in one space; the next is refused with `entry_quota`. 0 is no limit.
    pub max_entries_per_author: u64,
    /// How long an artifact that was put is kept when no record refers to it.
    pub keep_artifacts_ms: u64,
    /// How often an agent lets go of what is old.
    pub sweep_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const SECOND: u64 = 1_000;
        const HOUR: u64 = 3_600 * SECOND;
        Self {
            max_body_bytes: 256 * 1024,
            max_a2a_body_bytes: 16 * 1024 * 1024,
            max_signal_bytes: 16 * 1024,
            max_artifact_bytes: 10 * 1024 * 1024,
            max_artifact_bytes_per_principal: 1 << 30,
            max_depth: 32,
            max_hops: 16,
            max_open_conversations: 10_000,
            max_in_flight: 1_024,
            max_outbox_per_peer: 10_000,
            max_rate_per_second: 100,
            max_failed_auth_per_second: 10,
            max_readers_per_principal: 4_096,
            ack_ms: 5 * SECOND,
            head_ms: 5 * SECOND,
            body_ms: 30 * SECOND,
            max_wait_ms: 300 * SECOND,
            message_life_ms: 24 * HOUR,
            dedup_ms: 25 * HOUR,
            keep_tasks_ms: 14 * 24 * HOUR,
            keep_contexts_ms: 30 * 24 * HOUR,
            keep_costs_ms: 400 * 24 * HOUR,
            keep_journals_ms: 7 * 24 * HOUR,
            keep_journal_bytes: 1 << 30,
            keep_signals_ms: 7 * 24 * HOUR,
            keep_signal_bytes: 256 << 20,
            keep_entries_ms: 365 * 24 * HOUR,
            keep_entry_changes_ms: 30 * 24 * HOUR,
            max_entries_per_author: 20_000,
            keep_artifacts_ms: 7 * 24 * HOUR,
            sweep_ms: 60 * SECOND,
        }
    }
}

impl Limits {
    /// How long the sender of a message waits for its acknowledgement.
    pub fn ack(&self) -> Duration {
        Duration::from_millis(self.ack_ms)
    }

    /// How often an agent lets go of what is old.
    pub fn sweep(&self) -> Duration {
        Duration::from_millis(self.sweep_ms.max(1))
    }

    /// How long an artifact that was put is kept when no record refers to it.
    pub fn keep_artifacts(&self) -> Duration {
        Duration::from_millis(self.keep_artifacts_ms)
    }

    /// How long an undelivered message lives.
    pub fn message_life(&self) -> Duration {
        Duration::from_millis(self.message_life_ms)
    }
}

/// Content above this many bytes is stored once, by digest, and records refer to it. DESIGN §4 allows up to 16 KiB; a request
/// is in so many records that a smaller bound pays from 1 KiB on.
pub const INLINE_CONTENT_BYTES: usize = 1024;

/// The same bound for the chunks of artifacts, which are recorded once.
pub const INLINE_CHUNK_BYTES: usize = 16 * 1024;
