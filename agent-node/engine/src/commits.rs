//! What an agent waits to hear from its store.

use crate::{Ack, ReplyTo, conversation::DecidedStep, retention::state::SweepCommit};
use protocol::{
    ids::{ConversationId, TaskId},
    principal::Principal,
};
use std::ops::Range;
use store_types::Key;

/// Messages of a step, by the keys of their receipts, with the task that each is about.
pub(crate) type Receipts<'a> = &'a [(Key, Option<TaskId>)];

/// One conversation's part of a commit.
pub(crate) struct StepCommit {
    pub(crate) conversation: ConversationId,
    pub(crate) decided: Box<DecidedStep>,
    pub(crate) journal_bytes: usize,
    /// Its writes among all.
    pub(crate) writes: Range<usize>,
}

/// What waits for records that belong to no open conversation.
#[derive(Default)]
pub(crate) struct StandaloneRecords {
    /// The receipt among them.
    pub receipt: Option<Key>,
    /// Who waits, and for which answer.
    pub reply: Option<(ReplyTo, Ack)>,
    /// The awards that they refuse, of a principal's task.
    pub tombstone: Option<(TaskId, Principal, u64)>,
}

/// What a commit was for.
pub(crate) enum PendingCommit {
    /// Steps of conversations: all are durable, or none is.
    Steps(Vec<StepCommit>),
    /// Records that belong to no open conversation.
    Standalone(StandaloneRecords),
    /// Where the board is followed from.
    BoardCursor,
    /// A part of a sweep.
    Sweep(SweepCommit),
}
