//! An agent's store, with the time between a commit that was given and its outcome made explicit.
//!
//! A commit waits, is executed, and settles. Two states are kept: with all that was executed, and with all that settled.
//! An agent reads either. A crash keeps any prefix of what has not settled, in the order of execution.

use engine::CommitId;
use std::collections::VecDeque;
use store_types::{Batch, Error, Filter, Lane, MemoryState, Revision};

/// What is written.
#[derive(Debug, Clone)]
pub(crate) enum What {
    Commit(Lane, Batch),
    Trim(Filter, Revision),
}

/// A commit or a trim on its way.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub id: CommitId,
    pub what: What,
}

/// What became of it.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Committed(Result<Vec<Revision>, Error>),
    Trimmed(u64),
}

/// One that was executed, and whether it changed anything.
#[derive(Debug, Clone)]
struct Executed {
    operation: Operation,
    outcome: Outcome,
    is_written: bool,
}

/// One agent's store.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// With all that was executed.
    pub executed: MemoryState,
    /// With all that settled, or survived a crash.
    pub settled: MemoryState,
    waiting: VecDeque<Operation>,
    unsettled: VecDeque<Executed>,
}

impl Store {
    pub(crate) fn give(&mut self, operation: Operation) {
        self.waiting.push_back(operation);
    }

    /// Whether everything has settled.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.unsettled.is_empty()
    }

    /// Executes the next: work in progress first. With `refusal` nothing is written, unless its outcome is unknown and
    /// `is_written` says that it was.
    pub(crate) fn execute(&mut self, refusal: Option<(Error, bool)>) {
        let in_progress = |one: &Operation| matches!(&one.what, What::Commit(Lane::Progress, _));
        let at = self.waiting.iter().position(in_progress).unwrap_or(0);
        let Some(operation) = self.waiting.remove(at) else { return };
        let refusal = refusal.filter(|_| matches!(operation.what, What::Commit(..)));
        let (outcome, is_written) = match refusal {
            Some((error, false)) => (Outcome::Committed(Err(error)), false),
            Some((error, true)) => {
                let is_written = is_written(&write(&mut self.executed, &operation.what));
                (Outcome::Committed(Err(error)), is_written)
            }
            None => {
                let outcome = write(&mut self.executed, &operation.what);
                let is_written = is_written(&outcome);
                (outcome, is_written)
            }
        };
        self.unsettled.push_back(Executed { operation, outcome, is_written });
    }

    /// The oldest that was executed settles: what was written, if anything was, and what became of it.
    pub(crate) fn settle(&mut self) -> Option<(CommitId, Outcome, Option<What>)> {
        let Executed { operation, outcome, is_written } = self.unsettled.pop_front()?;
        if is_written {
            write(&mut self.settled, &operation.what);
        }
        Some((operation.id, outcome, is_written.then_some(operation.what)))
    }

    /// A crash: the first `kept` of what has not settled survive. Returns what survived that way.
    pub(crate) fn crash(&mut self, kept: usize) -> Vec<What> {
        while self.waiting.iter().any(|_| true) && self.unsettled.len() < kept {
            self.execute(None);
        }
        let mut survived = Vec::new();
        for _ in 0..kept {
            survived.extend(self.settle().and_then(|(_, _, what)| what));
        }
        self.waiting.clear();
        self.unsettled.clear();
        self.executed = self.settled.clone();
        survived
    }

    /// How many have not settled.
    pub(crate) fn unsettled(&self) -> usize {
        self.waiting.len() + self.unsettled.len()
    }
}

fn is_written(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Committed(Err(_)))
}

fn write(state: &mut MemoryState, what: &What) -> Outcome {
    match what {
        What::Commit(_, batch) => {
            let written = state.commit(batch.clone());
            Outcome::Committed(written.map(|all| all.into_iter().map(|(revision, _)| revision).collect()))
        }
        What::Trim(filter, before) => Outcome::Trimmed(state.trim(filter, *before)),
    }
}
