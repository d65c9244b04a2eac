//! The simulated store of an agent, which makes the time between a commit and its outcome explicit.
//!
//! A commit waits, is executed, and settles. The store keeps two states: one with every executed operation and one with
//! every settled operation. An agent reads either. After a crash any prefix of the unsettled operations survives, in the
//! order of execution.

use engine::CommitId;
use std::collections::VecDeque;
use store_types::{Batch, Error, Lane, MemoryState, Revision};

/// A commit with the id that its outcome is reported under.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub id: CommitId,
    pub lane: Lane,
    pub batch: Batch,
}

/// The outcome of a commit.
pub(crate) type CommitOutcome = Result<Vec<Revision>, Error>;

/// An executed operation, and whether it changed the store.
#[derive(Debug, Clone)]
struct ExecutedOperation {
    operation: Operation,
    outcome: CommitOutcome,
    is_written: bool,
}

/// One agent's store.
#[derive(Debug, Default)]
pub(crate) struct SimulatedStore {
    /// The state after every executed operation.
    pub executed: MemoryState,
    /// The state after every operation that settled or survived a crash.
    pub settled: MemoryState,
    waiting: VecDeque<Operation>,
    unsettled: VecDeque<ExecutedOperation>,
}

impl SimulatedStore {
    pub(crate) fn enqueue(&mut self, operation: Operation) {
        self.waiting.push_back(operation);
    }

    /// Whether everything has settled.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.unsettled.is_empty()
    }

    /// Executes the next operation, work in progress first. `refusal` is the error that a commit fails with, and whether
    /// its writes happen nevertheless (an unknown outcome).
    pub(crate) fn execute(&mut self, refusal: Option<(Error, bool)>) {
        let is_progress = |operation: &Operation| operation.lane == Lane::Progress;
        let at = self.waiting.iter().position(is_progress).unwrap_or(0);
        let Some(operation) = self.waiting.remove(at) else { return };
        let (outcome, is_written) = match refusal {
            Some((error, false)) => (Err(error), false),
            Some((error, true)) => (Err(error), apply(&mut self.executed, &operation.batch).is_ok()),
            None => {
                let outcome = apply(&mut self.executed, &operation.batch);
                let is_written = outcome.is_ok();
                (outcome, is_written)
            }
        };
        self.unsettled.push_back(ExecutedOperation { operation, outcome, is_written });
    }

    /// Settles the oldest executed operation. Returns its outcome, and its batch if that was written.
    pub(crate) fn settle(&mut self) -> Option<(CommitId, CommitOutcome, Option<Batch>)> {
        let ExecutedOperation { operation, outcome, is_written } = self.unsettled.pop_front()?;
        if is_written {
            // It succeeded before, on the same records.
            drop(apply(&mut self.settled, &operation.batch));
        }
        Some((operation.id, outcome, is_written.then_some(operation.batch)))
    }

    /// Drops every unsettled operation but the first `kept`. Returns the surviving batches.
    pub(crate) fn crash(&mut self, kept: usize) -> Vec<Batch> {
        while !self.waiting.is_empty() && self.unsettled.len() < kept {
            self.execute(None);
        }
        let mut survived = Vec::new();
        for _ in 0..kept {
            survived.extend(self.settle().and_then(|(_, _, batch)| batch));
        }
        self.waiting.clear();
        self.unsettled.clear();
        self.executed = self.settled.clone();
        survived
    }

    /// The number of unsettled operations.
    pub(crate) fn unsettled(&self) -> usize {
        self.waiting.len() + self.unsettled.len()
    }
}

fn apply(state: &mut MemoryState, batch: &Batch) -> CommitOutcome {
    let written = state.commit(batch.clone());
    written.map(|all| all.into_iter().map(|(revision, _)| revision).collect())
}
