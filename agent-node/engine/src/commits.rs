//! Commits whose result is pending.

use crate::{Ack, ReplyTo, conversation::DecidedStep, retention::state::SweepCommit};
use protocol::{
    ids::{ConversationId, TaskId},
    principal::Principal,
};
use std::ops::Range;
use store_types::Key;

/// Keys of receipts, with the task of each message.
pub(crate) type Receipts<'a> = &'a [(Key, Option<TaskId>)];

/// One conversation's part of a commit.
pub(crate) struct StepCommit {
    pub(crate) conversation: ConversationId,
    pub(crate) decided: Box<DecidedStep>,
    pub(crate) journal_bytes: usize,
    /// The range of its writes in the batch.
    pub(crate) writes: Range<usize>,
}

/// A pending commit of records that belong to no open conversation.
#[derive(Default)]
pub(crate) struct StandaloneRecords {
    /// The receipt in it.
    pub receipt: Option<Key>,
    /// The caller and its answer.
    pub reply: Option<(ReplyTo, Ack)>,
    /// The conversation that it ends; it is parked if the commit is refused.
    pub ends: Option<ConversationId>,
    /// The tombstone in it: task, owner, epoch.
    pub tombstone: Option<(TaskId, Principal, u64)>,
}

/// The purpose of a pending commit.
pub(crate) enum PendingCommit {
    /// Steps of conversations, in one batch.
    Steps(Vec<StepCommit>),
    /// Records that belong to no open conversation.
    Standalone(StandaloneRecords),
    /// The first board cursor.
    BoardCursor,
    /// A part of a sweep.
    Sweep(SweepCommit),
}
