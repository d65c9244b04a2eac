//! The writer thread: the batches queued during one transaction form the next one.

use super::super::{Error, Revision, tail::LogTail};
use super::health::WriterHealth;
use super::queue::{QueuedCommit, WriteQueue};
use super::schema::{StoreFile, Topics};
use super::transaction::Transaction;
use super::trim::{TrimJob, Trimmer};
use rusqlite::{ErrorCode, ffi};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a transaction failed.
pub(super) enum WriteFailure {
    /// Nothing was written; the device is full.
    StorageFull,
    /// Nothing was written; another program has locked the file.
    Busy,
    /// Nothing was written, because of the batch itself.
    Batch(String),
    /// It is unknown what was written; the writer stops.
    Fatal(String),
}

impl From<rusqlite::Error> for WriteFailure {
    fn from(error: rusqlite::Error) -> Self {
        // The WAL index could not grow; SQLite reports a full disk so.
        let no_index = error.sqlite_error().is_some_and(|e| e.extended_code == ffi::SQLITE_IOERR_SHMSIZE);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::StorageFull,
            _ if no_index => Self::StorageFull,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::TooBig | ErrorCode::OutOfMemory | ErrorCode::ConstraintViolation) => {
                Self::Batch(error.to_string())
            }
            _ => Self::Fatal(error.to_string()),
        }
    }
}

impl From<WriteFailure> for Error {
    fn from(failure: WriteFailure) -> Self {
        match failure {
            WriteFailure::StorageFull => Self::StorageFull,
            WriteFailure::Busy => Self::Full,
            WriteFailure::Batch(why) => Self::Refused(why),
            WriteFailure::Fatal(why) => Self::Unknown(why),
        }
    }
}

/// Writes until the queue is closed and empty, or until the device fails.
pub(super) fn run(
    opened: StoreFile,
    queue: &WriteQueue,
    tail: &LogTail,
    topics: &Topics,
    health: &WriterHealth,
) {
    // However the writer ends, every queued caller gets an answer.
    let end = catch_unwind(AssertUnwindSafe(|| serve(&opened, queue, tail, topics, health)));
    let end = end.unwrap_or_else(|_| Err("its writer panicked".to_owned()));
    if let Err(why) = &end {
        health.fail(why);
    }
    let why = end.err().unwrap_or_else(|| "it was closed".to_owned());
    queue.close(&why);
    tail.close(&why);
    loop {
        let work = queue.take(false);
        work.group.into_iter().for_each(|commit| drop(commit.done.send(Err(Error::Closed(why.clone())))));
        work.trims.into_iter().for_each(|trim| trim.end(Err(Error::Closed(why.clone()))));
        if work.is_finished {
            return;
        }
    }
}

fn serve(
    opened: &StoreFile,
    queue: &WriteQueue,
    tail: &LogTail,
    topics: &Topics,
    health: &WriterHealth,
) -> Result<(), String> {
    let prepared = Transaction::new(opened);
    let transaction = prepared.map_err(|error| error.to_string())?;
    let trimmer = Trimmer::new(&opened.connection, topics).map_err(|error| error.to_string())?;
    let mut writer = Writer { transaction, trimmer, tail, topics, health };
    let mut trims: VecDeque<TrimJob> = VecDeque::new();
    loop {
        let work = queue.take(!trims.is_empty());
        if work.is_finished {
            return Ok(());
        }
        trims.extend(work.trims);
        let outcome = writer.group(work.group).and_then(|()| writer.trim(&mut trims));
        if let Err(why) = outcome {
            tracing::error!(%why, "the store has failed and takes no more writes");
            trims.into_iter().for_each(|trim| trim.end(Err(Error::Closed(why.clone()))));
            return Err(why);
        }
    }
}

struct Writer<'c> {
    transaction: Transaction<'c>,
    trimmer: Trimmer<'c>,
    tail: &'c LogTail,
    topics: &'c Topics,
    health: &'c WriterHealth,
}

impl Writer<'_> {
    /// Commits `group` as one transaction. If that fails for lack of room or because of a batch, commits each batch alone.
    /// An error ends the writer.
    fn group(&mut self, group: Vec<QueuedCommit>) -> Result<(), String> {
        if group.is_empty() {
            return Ok(());
        }
        match self.attempt(&group) {
            Ok(outcomes) => {
                self.settle(group, outcomes);
                Ok(())
            }
            Err(WriteFailure::Fatal(why)) => {
                group.into_iter().for_each(|commit| drop(commit.done.send(Err(Error::Unknown(why.clone())))));
                Err(why)
            }
            Err(failure @ (WriteFailure::StorageFull | WriteFailure::Busy | WriteFailure::Batch(_)))
                if group.len() == 1 || matches!(failure, WriteFailure::Busy) =>
            {
                let error = Error::from(failure);
                group.into_iter().for_each(|commit| drop(commit.done.send(Err(error.clone()))));
                Ok(())
            }
            Err(WriteFailure::StorageFull | WriteFailure::Busy | WriteFailure::Batch(_)) => {
                let mut commits = group.into_iter();
                while let Some(commit) = commits.next() {
                    if let Err(why) = self.group(vec![commit]) {
                        commits.for_each(|commit| drop(commit.done.send(Err(Error::Closed(why.clone())))));
                        return Err(why);
                    }
                }
                Ok(())
            }
        }
    }

    fn attempt(&mut self, group: &[QueuedCommit]) -> Result<Vec<Result<Vec<Revision>, Error>>, WriteFailure> {
        let outcomes = self.transact(group);
        let outcomes = outcomes.map_err(WriteFailure::from);
        if let Err(failure) = &outcomes {
            self.transaction.rollback();
            if matches!(failure, WriteFailure::StorageFull) {
                self.health.note_refusal();
            }
        }
        outcomes
    }

    fn transact(&mut self, group: &[QueuedCommit]) -> rusqlite::Result<Vec<Result<Vec<Revision>, Error>>> {
        self.transaction.begin()?;
        let Self { transaction, trimmer, .. } = self;
        let applied = group.iter().map(|commit| transaction.apply(&commit.batch, trimmer));
        let applied = applied.collect::<rusqlite::Result<Vec<_>>>()?;
        for (name, topic) in self.transaction.commit()? {
            self.topics.set(&name, topic);
        }
        Ok(applied)
    }

    fn settle(&self, group: Vec<QueuedCommit>, outcomes: Vec<Result<Vec<Revision>, Error>>) {
        let written = group
            .iter()
            .zip(&outcomes)
            .filter_map(|(commit, outcome)| Some((commit, outcome.as_ref().ok()?)));
        let records = written.flat_map(|(commit, revisions)| {
            let writes = commit.batch.writes.iter().zip(revisions);
            writes.filter_map(|(write, revision)| Some((*revision, write.key(), write.value()?)))
        });
        self.tail.publish(self.transaction.revision, records);
        for (commit, outcome) in group.into_iter().zip(outcomes) {
            // The caller may have dropped the receiver; the batch is written.
            drop(commit.done.send(outcome));
        }
    }

    /// Performs one step of the first trim. An error ends the writer.
    fn trim(&mut self, trims: &mut VecDeque<TrimJob>) -> Result<(), String> {
        let Some(mut trim) = trims.pop_front() else { return Ok(()) };
        let step = self.transaction.begin().and_then(|()| {
            let is_complete = self.trimmer.step(&mut trim)?;
            self.transaction.commit()?;
            Ok(is_complete)
        });
        match step {
            Ok(true) => {
                let trimmed = trim.trimmed;
                trim.end(Ok(trimmed));
                Ok(())
            }
            Ok(false) => {
                trims.push_front(trim);
                Ok(())
            }
            Err(error) => {
                self.transaction.rollback();
                let failure = WriteFailure::from(error);
                let fatal = if let WriteFailure::Fatal(why) = &failure { Err(why.clone()) } else { Ok(()) };
                trim.end(Err(failure.into()));
                fatal
            }
        }
    }
}
