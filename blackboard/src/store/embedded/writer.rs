//! The one writer: what has queued up while the last transaction was committed is the next one.

use super::super::{Error, Revision, Write, tail::Tail};
use super::presence::Presence;
use super::queue::{Commit, Queue};
use super::schema::{Opened, Topics};
use super::transaction::Transaction;
use super::trim::{Trim, Trimmer};
use rusqlite::{ErrorCode, ffi};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a failed transaction means for what follows.
pub(super) enum Failure {
    /// Nothing was written; there is no room.
    Room,
    /// Nothing was written; another program has the file.
    Busy,
    /// Nothing was written, because of the batch itself.
    Batch(String),
    /// What reached the device is unknown: no more is written.
    Fatal(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        // The shared index beside the log could not grow: SQLite has no other word for a full disk there.
        let no_index = error.sqlite_error().is_some_and(|e| e.extended_code == ffi::SQLITE_IOERR_SHMSIZE);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Room,
            _ if no_index => Self::Room,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::TooBig | ErrorCode::OutOfMemory | ErrorCode::ConstraintViolation) => {
                Self::Batch(error.to_string())
            }
            _ => Self::Fatal(error.to_string()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Room => Self::StorageFull,
            Failure::Busy => Self::Full,
            Failure::Batch(why) => Self::Refused(why),
            Failure::Fatal(why) => Self::Unknown(why),
        }
    }
}

/// Writes until the queue is closed and empty, or until the device fails.
pub(super) fn run(opened: Opened, queue: &Queue, tail: &Tail, topics: &Topics, presence: &Presence) {
    // Whatever ends the writer, nobody may wait for it for ever.
    let end = catch_unwind(AssertUnwindSafe(|| serve(&opened, queue, tail, topics, presence)));
    let end = end.unwrap_or_else(|_| Err("its writer panicked".to_owned()));
    let why = end.err().unwrap_or_else(|| "it was closed".to_owned());
    queue.close(&why);
    tail.close(&why);
    loop {
        let rest = queue.take(false);
        rest.group.into_iter().for_each(|commit| drop(commit.done.send(Err(Error::Closed(why.clone())))));
        rest.trims.into_iter().for_each(|trim| trim.end(Err(Error::Closed(why.clone()))));
        if rest.over {
            return;
        }
    }
}

fn serve(
    opened: &Opened,
    queue: &Queue,
    tail: &Tail,
    topics: &Topics,
    presence: &Presence,
) -> Result<(), String> {
    let prepared = Transaction::new(&opened.connection, opened.revision, &opened.topics);
    let transaction = prepared.map_err(|error| error.to_string())?;
    let trimmer = Trimmer::new(&opened.connection).map_err(|error| error.to_string())?;
    let mut writer = Writer { transaction, trimmer, tail, topics, presence };
    let mut trims: VecDeque<Trim> = VecDeque::new();
    loop {
        let work = queue.take(!trims.is_empty());
        if work.over {
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
    tail: &'c Tail,
    topics: &'c Topics,
    presence: &'c Presence,
}

impl Writer<'_> {
    /// Commits `group` as one transaction, or each alone if that fails for want of room; an error is the end.
    fn group(&mut self, group: Vec<Commit>) -> Result<(), String> {
        if group.is_empty() {
            return Ok(());
        }
        match self.attempt(&group) {
            Ok(outcomes) => {
                self.settle(group, outcomes);
                Ok(())
            }
            Err(Failure::Fatal(why)) => {
                group.into_iter().for_each(|commit| drop(commit.done.send(Err(Error::Unknown(why.clone())))));
                Err(why)
            }
            Err(failure @ (Failure::Room | Failure::Busy | Failure::Batch(_)))
                if group.len() == 1 || matches!(failure, Failure::Busy) =>
            {
                let error = Error::from(failure);
                group.into_iter().for_each(|commit| drop(commit.done.send(Err(error.clone()))));
                Ok(())
            }
            Err(Failure::Room | Failure::Busy | Failure::Batch(_)) => {
                let mut alone = group.into_iter();
                while let Some(commit) = alone.next() {
                    if let Err(why) = self.group(vec![commit]) {
                        alone.for_each(|commit| drop(commit.done.send(Err(Error::Closed(why.clone())))));
                        return Err(why);
                    }
                }
                Ok(())
            }
        }
    }

    fn attempt(&mut self, group: &[Commit]) -> Result<Vec<Result<Vec<Revision>, Error>>, Failure> {
        let outcomes = self.transact(group);
        if outcomes.is_err() {
            self.transaction.rollback();
        }
        Ok(outcomes?)
    }

    fn transact(&mut self, group: &[Commit]) -> rusqlite::Result<Vec<Result<Vec<Revision>, Error>>> {
        self.presence.note(group.iter().flat_map(|commit| &commit.batch.writes));
        self.transaction.begin()?;
        let applied: rusqlite::Result<Vec<_>> =
            group.iter().map(|commit| self.transaction.apply(&commit.batch)).collect();
        let applied = applied?;
        for (name, topic) in self.transaction.commit()? {
            self.topics.set(&name, topic);
        }
        Ok(applied)
    }

    fn settle(&self, group: Vec<Commit>, outcomes: Vec<Result<Vec<Revision>, Error>>) {
        let written = group
            .iter()
            .zip(&outcomes)
            .filter_map(|(commit, outcome)| Some((commit, outcome.as_ref().ok()?)));
        let records = written.flat_map(|(commit, revisions)| {
            commit.batch.writes.iter().zip(revisions).filter_map(|(write, revision)| match write {
                Write::Append(key, value) | Write::Put(key, value) => Some((*revision, key, value)),
                Write::Delete(_) => None,
            })
        });
        self.tail.publish(self.transaction.revision, records);
        for (commit, outcome) in group.into_iter().zip(outcomes) {
            // Whoever no longer waits has its record all the same.
            drop(commit.done.send(outcome));
        }
    }

    /// One step of the first trim; an error is the end.
    fn trim(&mut self, trims: &mut VecDeque<Trim>) -> Result<(), String> {
        let Some(mut trim) = trims.pop_front() else { return Ok(()) };
        let step = self.transaction.begin().and_then(|()| {
            let over = self.trimmer.step(&mut trim, self.topics)?;
            self.transaction.commit()?;
            Ok(over)
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
                let failure = Failure::from(error);
                let fatal = if let Failure::Fatal(why) = &failure { Err(why.clone()) } else { Ok(()) };
                trim.end(Err(failure.into()));
                fatal
            }
        }
    }
}
