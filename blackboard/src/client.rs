//! The handle of the blackboard. A local and a remote board take the same calls and give the same results.

use crate::{
    board::{Board, BoardSnapshot, SignalPage},
    claims::ClaimView,
};
use futures_util::Stream;
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::Problem,
    signal::{Cursor, Selector, Signal, SignalRecord},
    task::OpenTaskKey,
};
use std::{pin::Pin, time::Duration};
use transport::{
    http_client::HttpClient,
    operation::{Caller, Operation, Service},
};

mod local;
mod remote;
mod space_requests;
mod spaces;
mod task_end;

pub use remote::{Backoff, BoardAddress};
pub use spaces::BoardChanges;

/// The most signals in one request.
pub const MAX_SIGNALS: usize = 64;

/// A stream of signals. It holds at most one page in memory and ends after an error.
pub type SignalStream = Pin<Box<dyn Stream<Item = Result<SignalRecord, Problem>> + Send>>;

/// The blackboard, local or remote. Cheap to clone.
#[derive(Clone)]
pub struct Blackboard(BoardBackend);

#[derive(Clone)]
enum BoardBackend {
    Local(Board),
    Remote(remote::RemoteBoard),
}

impl Blackboard {
    /// The board of this process.
    pub fn local(board: Board) -> Self {
        Self(BoardBackend::Local(board))
    }

    /// The board at `base` (`http://127.0.0.1:8000`); `client_of` gives the HTTP client of a principal.
    pub fn remote(
        base: impl Into<BoardAddress>,
        client_of: impl Fn(&Principal) -> HttpClient + Send + Sync + 'static,
        backoff: Backoff,
    ) -> Self {
        Self(BoardBackend::Remote(remote::RemoteBoard::new(base.into(), client_of, backoff)))
    }

    /// Publishes `signal` and returns its revision. The same id from the same publisher returns the first revision, or
    /// `message_id_reused` if the content differs.
    pub async fn publish(&self, by: &Principal, signal: Signal) -> Result<u64, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.publish(by, signal).await,
            BoardBackend::Remote(remote) => remote.publish(by, &signal).await,
        }
    }

    /// Publishes `signals`, up to [`MAX_SIGNALS`], in order and in one request. Returns their revisions; if a signal is refused,
    /// its problem is the last, and those behind it are not published. The list may be shorter, too, if they do not fit into
    /// one request.
    pub async fn publish_all(
        &self,
        by: &Principal,
        signals: Vec<Signal>,
    ) -> Result<Vec<Result<u64, Problem>>, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.publish_all(by, signals).await,
            BoardBackend::Remote(remote) => remote.publish_all(by, &signals).await,
        }
    }

    /// Up to `limit` signals after `after`, oldest first. Without `after`, from the oldest signal that is kept.
    /// With a limit of 0, `next` is `after` or the board's head.
    pub async fn read(
        &self,
        by: &Principal,
        selector: &Selector,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<SignalPage, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.read(by, selector.clone(), after, limit).await,
            BoardBackend::Remote(remote) => remote.read(by, selector, (after, None), limit).await,
        }
    }

    /// Up to `limit` signals after `after`, or from the oldest, and up to the revision `until`, oldest first. What is no longer kept
    /// is left out.
    pub async fn read_range(
        &self,
        by: &Principal,
        selector: &Selector,
        (after, until): (Option<Cursor>, u64),
        limit: usize,
    ) -> Result<SignalPage, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.read_range(by, selector.clone(), (after, until), limit).await,
            BoardBackend::Remote(remote) => remote.read(by, selector, (after, Some(until)), limit).await,
        }
    }

    /// Every signal of `selector` after `after` (absent: the head), once and in order. A remote stream
    /// reconnects from the last revision.
    pub async fn subscribe(
        &self,
        by: &Principal,
        selector: Selector,
        after: Option<Cursor>,
    ) -> Result<SignalStream, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => Ok(local::signals(board, board.subscribe(by, selector, after)?)),
            BoardBackend::Remote(remote) => remote.subscribe(by, selector, after).await,
        }
    }

    /// Claims the open task for `holder`. One caller wins; others get `already_claimed` with `holder`, `epoch` and
    /// `remainingMs`. A caller that lost the answer finds its epoch by [`Blackboard::claim_of`].
    pub async fn claim(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        holder: &AgentId,
        lease: Duration,
    ) -> Result<ClaimView, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.claim(by, task, holder, lease).await,
            BoardBackend::Remote(remote) => remote.claim(by, task, holder, lease).await,
        }
    }

    /// Restarts the lease; `fenced` if `epoch` is not in force.
    pub async fn renew(&self, by: &Principal, task: &OpenTaskKey, epoch: u64) -> Result<ClaimView, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.renew(by, task, epoch).await,
            BoardBackend::Remote(remote) => remote.change(by, task, "renew", epoch).await,
        }
    }

    /// Releases the claim and offers the task again if it was offered; `fenced` if `epoch` is not in force.
    pub async fn release(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        epoch: u64,
    ) -> Result<ClaimView, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.release(by, task, epoch).await,
            BoardBackend::Remote(remote) => remote.change(by, task, "release", epoch).await,
        }
    }

    /// Ends the claim as completed; `fenced` if `epoch` is not in force.
    pub async fn complete(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        epoch: u64,
    ) -> Result<ClaimView, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.complete(by, task, epoch).await,
            BoardBackend::Remote(remote) => remote.change(by, task, "complete", epoch).await,
        }
    }

    /// Ends the claim as failed; `fenced` if `epoch` is not in force.
    pub async fn fail(&self, by: &Principal, task: &OpenTaskKey, epoch: u64) -> Result<ClaimView, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.fail(by, task, epoch).await,
            BoardBackend::Remote(remote) => remote.change(by, task, "fail", epoch).await,
        }
    }

    /// The claim on `task`; `claim_not_found` if there is none.
    pub async fn claim_of(&self, by: &Principal, task: &OpenTaskKey) -> Result<ClaimView, Problem> {
        match &self.0 {
            BoardBackend::Local(board) => board.claim_of(by, task).await,
            BoardBackend::Remote(remote) => remote.claim_of(by, task).await,
        }
    }

    /// Performs `operation` as the agent `by`.
    pub async fn call<O: Operation>(&self, by: &AgentId, operation: O) -> Result<O::Answer, Problem>
    where
        Board: Service<O>,
    {
        match &self.0 {
            BoardBackend::Local(board) => board.call(&Caller::agent(by), operation).await,
            BoardBackend::Remote(remote) => remote.perform(by, operation).await,
        }
    }

    /// The board's state, if it runs in this process.
    pub async fn snapshot(&self) -> Option<Result<BoardSnapshot, Problem>> {
        match &self.0 {
            BoardBackend::Local(board) => Some(board.snapshot().await),
            BoardBackend::Remote(_) => None,
        }
    }
}
