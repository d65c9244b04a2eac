//! Commits whose result is pending.

use crate::{
    Ack, CommitId, Output, ReplyTo, context::Context, conversation::DecidedStep,
    retention::state::SweepCommit,
};
use protocol::{
    ids::{ConversationId, TaskId},
    principal::Principal,
};
use std::{collections::BTreeMap, ops::Range};
use store_types::{Batch, Key, Lane};

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
    pub(crate) receipt: Option<Key>,
    /// The caller and its answer.
    pub(crate) reply: Option<(ReplyTo, Ack)>,
    /// The conversation that it ends; it is parked if the commit is refused.
    pub(crate) ends: Option<ConversationId>,
    /// The tombstone in it: task, owner, epoch.
    pub(crate) tombstone: Option<(TaskId, Principal, u64)>,
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

/// The commits that the store has not answered.
#[derive(Default)]
pub(crate) struct Commits {
    last: u64,
    pending: BTreeMap<CommitId, PendingCommit>,
}

impl Commits {
    pub(crate) fn issue(&mut self, lane: Lane, batch: Batch, pending: PendingCommit, cx: &mut Context<'_>) {
        self.last += 1;
        let id = CommitId(self.last);
        self.pending.insert(id, pending);
        cx.out.push(Output::Commit(id, lane, batch));
    }

    /// The purpose of a commit that the store has answered.
    pub(crate) fn settled(&mut self, id: CommitId) -> Option<PendingCommit> {
        self.pending.remove(&id)
    }

    /// The epoch up to which an uncommitted tombstone refuses awards of this task of `by`.
    pub(crate) fn tombstone(&self, task: &TaskId, by: &Principal) -> Option<u64> {
        let epochs = self.pending.values().filter_map(|pending| match pending {
            PendingCommit::Standalone(StandaloneRecords { tombstone: Some((of, owner, epoch)), .. }) => {
                (of == task && owner == by).then_some(*epoch)
            }
            PendingCommit::Standalone(_)
            | PendingCommit::Steps(_)
            | PendingCommit::BoardCursor
            | PendingCommit::Sweep(_) => None,
        });
        epochs.max()
    }
}
