//! The handle on the blackboard: local or remote, the same calls and the same results.

use crate::{
    board::{Board, Page, Snapshot},
    claims::Claim,
    wire::Wire,
};
use futures_util::Stream;
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    problem::Problem,
    signal::{Selector, Signal, SignalRecord},
};
use std::{pin::Pin, time::Duration};

mod local;
mod remote;

pub use remote::{Backoff, Base};

/// Signals as they come. It holds a page at most, however slowly it is read; after an error it ends.
pub type Signals = Pin<Box<dyn Stream<Item = Result<SignalRecord, Problem>> + Send>>;

/// The blackboard, wherever it is. Cheap to clone.
#[derive(Clone)]
pub struct Blackboard(Place);

#[derive(Clone)]
enum Place {
    Here(Board),
    There(remote::Remote),
}

impl Blackboard {
    /// The board of this process.
    pub fn local(board: Board) -> Self {
        Self(Place::Here(board))
    }

    /// The board at `base` (`http://127.0.0.1:8000`); `wire_of` says through which wire a principal speaks.
    pub fn remote(
        base: impl Into<Base>,
        wire_of: impl Fn(&Principal) -> Wire + Send + Sync + 'static,
        backoff: Backoff,
    ) -> Self {
        Self(Place::There(remote::Remote::new(base.into(), wire_of, backoff)))
    }

    /// Puts `signal` on the board; its revision. The same id from the same publisher again is answered with the first
    /// revision, or `message_id_reused` if the content is another.
    pub async fn publish(&self, by: &Principal, signal: Signal) -> Result<u64, Problem> {
        match &self.0 {
            Place::Here(board) => board.publish(by, signal).await,
            Place::There(remote) => remote.publish(by, &signal).await,
        }
    }

    /// Up to `limit` signals after revision `after` (absent: from the oldest that is kept on), oldest first. With a
    /// limit of 0, `next` is the board's head, or `after`.
    pub async fn read(
        &self,
        by: &Principal,
        selector: &Selector,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Page, Problem> {
        match &self.0 {
            Place::Here(board) => board.read(selector.clone(), after, limit).await,
            Place::There(remote) => remote.read(by, selector, after, limit).await,
        }
    }

    /// Follows the board after revision `after` (absent: from here on): every signal that `selector` wants, once, in
    /// order. A remote stream reconnects by itself from the last revision.
    pub async fn subscribe(
        &self,
        by: &Principal,
        selector: Selector,
        after: Option<u64>,
    ) -> Result<Signals, Problem> {
        match &self.0 {
            Place::Here(board) => Ok(local::signals(board, board.subscribe(selector, after)?)),
            Place::There(remote) => remote.subscribe(by, selector, after).await,
        }
    }

    /// Takes the open task for `holder`; one wins, everybody else gets `already_claimed` with `holder`, `epoch` and
    /// `remainingMs`. Whose answer was lost finds its epoch by [`Blackboard::look`].
    pub async fn claim(
        &self,
        by: &Principal,
        task: &TaskId,
        holder: &AgentId,
        lease: Duration,
    ) -> Result<Claim, Problem> {
        match &self.0 {
            Place::Here(board) => board.claim(by, task, holder, lease).await,
            Place::There(remote) => remote.claim(by, task, holder, lease).await,
        }
    }

    /// Starts the lease afresh; `fenced` if `epoch` is not in force.
    pub async fn renew(&self, by: &Principal, task: &TaskId, epoch: u64) -> Result<Claim, Problem> {
        match &self.0 {
            Place::Here(board) => board.renew(by, task, epoch).await,
            Place::There(remote) => remote.change(by, task, "renew", epoch).await,
        }
    }

    /// Gives the task back, and offers it again; `fenced` if `epoch` is not in force.
    pub async fn release(&self, by: &Principal, task: &TaskId, epoch: u64) -> Result<Claim, Problem> {
        match &self.0 {
            Place::Here(board) => board.release(by, task, epoch).await,
            Place::There(remote) => remote.change(by, task, "release", epoch).await,
        }
    }

    /// Ends the claim for good; `fenced` if `epoch` is not in force.
    pub async fn complete(&self, by: &Principal, task: &TaskId, epoch: u64) -> Result<Claim, Problem> {
        match &self.0 {
            Place::Here(board) => board.complete(by, task, epoch).await,
            Place::There(remote) => remote.change(by, task, "complete", epoch).await,
        }
    }

    /// Ends the claim for good, as one that came to nothing; `fenced` if `epoch` is not in force.
    pub async fn fail(&self, by: &Principal, task: &TaskId, epoch: u64) -> Result<Claim, Problem> {
        match &self.0 {
            Place::Here(board) => board.fail(by, task, epoch).await,
            Place::There(remote) => remote.change(by, task, "fail", epoch).await,
        }
    }

    /// How the claim on `task` stands; `claim_not_found` if there never was one.
    pub async fn look(&self, by: &Principal, task: &TaskId) -> Result<Claim, Problem> {
        match &self.0 {
            Place::Here(board) => board.look(task).await,
            Place::There(remote) => remote.look(by, task).await,
        }
    }

    /// What the board is doing, if it is in this process.
    pub async fn snapshot(&self) -> Option<Result<Snapshot, Problem>> {
        match &self.0 {
            Place::Here(board) => Some(board.snapshot().await),
            Place::There(_) => None,
        }
    }
}
