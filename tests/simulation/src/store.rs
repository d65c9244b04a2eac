//! The simulated store of an agent, which makes the time between a commit and its outcome explicit.
//!
//! A commit waits, is executed, and settles. The store keeps two states: one with every executed operation and one with
//! every settled operation. An agent reads either. After a crash any prefix of the unsettled operations survives, in the
//! order of execution.

use engine::CommitId;
use std::collections::VecDeque;
use store_types::{Batch, Error, Filter, Lane, MemoryState, Revision};

/// A write to the store.
#[derive(Debug, Clone)]
pub(crate) enum StoreWrite {
    Commit(Lane, Batch),
    Trim(Filter, Revision),
}

/// A write with the id that its outcome is reported under.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub id: CommitId,
    pub write: StoreWrite,
}

/// The outcome of an operation.
#[derive(Debug, Clone)]
pub(crate) enum OperationOutcome {
    Committed(Result<Vec<Revision>, Error>),
    Trimmed(u64),
}

/// An executed operation, and whether it changed the store.
#[derive(Debug, Clone)]
struct ExecutedOperation {
    operation: Operation,
    outcome: OperationOutcome,
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
        let is_progress =
            |operation: &Operation| matches!(&operation.write, StoreWrite::Commit(Lane::Progress, _));
        let at = self.waiting.iter().position(is_progress).unwrap_or(0);
        let Some(operation) = self.waiting.remove(at) else { return };
        let refusal = refusal.filter(|_| matches!(operation.write, StoreWrite::Commit(..)));
        let (outcome, is_written) = match refusal {
            Some((error, false)) => (OperationOutcome::Committed(Err(error)), false),
            Some((error, true)) => {
                let is_written = is_written(&apply(&mut self.executed, &operation.write));
                (OperationOutcome::Committed(Err(error)), is_written)
            }
            None => {
                let outcome = apply(&mut self.executed, &operation.write);
                let is_written = is_written(&outcome);
                (outcome, is_written)
            }
        };
        self.unsettled.push_back(ExecutedOperation { operation, outcome, is_written });
    }

    /// Settles the oldest executed operation. Returns its outcome, and its write if that happened.
    pub(crate) fn settle(&mut self) -> Option<(CommitId, OperationOutcome, Option<StoreWrite>)> {
        let ExecutedOperation { operation, outcome, is_written } = self.unsettled.pop_front()?;
        if is_written {
            apply(&mut self.settled, &operation.write);
        }
        Some((operation.id, outcome, is_written.then_some(operation.write)))
    }

    /// Drops every unsettled operation but the first `kept`. Returns the surviving writes.
    pub(crate) fn crash(&mut self, kept: usize) -> Vec<StoreWrite> {
        while !self.waiting.is_empty() && self.unsettled.len() < kept {
            self.execute(None);
        }
        let mut survived = Vec::new();
        for _ in 0..kept {
            survived.extend(self.settle().and_then(|(_, _, write)| write));
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

fn is_written(outcome: &OperationOutcome) -> bool {
    !matches!(outcome, OperationOutcome::Committed(Err(_)))
}

fn apply(state: &mut MemoryState, write: &StoreWrite) -> OperationOutcome {
    match write {
        StoreWrite::Commit(_, batch) => {
            let written = state.commit(batch.clone());
            OperationOutcome::Committed(
                written.map(|all| all.into_iter().map(|(revision, _)| revision).collect()),
            )
        }
        StoreWrite::Trim(filter, before) => OperationOutcome::Trimmed(state.trim(filter, *before)),
    }
}
