//! The writer's queue: two bounded lanes of batches, and trims.

use super::super::{Batch, Error, Lane, Revision};
use super::{StoreOptions, trim::TrimJob};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The most queued trims.
const MAX_TRIMS: usize = 64;
/// A group is complete at this size.
const MAX_GROUP_BYTES: usize = 4 << 20;

/// A batch and the channel for its outcome.
pub(super) struct QueuedCommit {
    pub(super) batch: Batch,
    pub(super) done: oneshot::Sender<Result<Vec<Revision>, Error>>,
}

impl QueuedCommit {
    fn size(&self) -> usize {
        self.batch.writes.iter().map(|write| write.size()).sum()
    }
}

/// The writer's next work.
pub(super) struct WriterWork {
    /// The next group of batches, in order.
    pub(super) group: Vec<QueuedCommit>,
    pub(super) trims: VecDeque<TrimJob>,
    /// The queue is closed and empty.
    pub(super) is_finished: bool,
}

#[derive(Default)]
struct QueueState {
    progress: VecDeque<QueuedCommit>,
    admission: VecDeque<QueuedCommit>,
    bytes: usize,
    trims: VecDeque<TrimJob>,
    closed: Option<String>,
}

/// The writer's queue.
pub(super) struct WriteQueue {
    waiting: Mutex<QueueState>,
    added: Condvar,
    progress: usize,
    admission: usize,
    bytes: usize,
    group: usize,
}

impl WriteQueue {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self {
            waiting: Mutex::default(),
            added: Condvar::new(),
            progress: options.progress,
            admission: options.admission,
            bytes: options.waiting_bytes,
            group: options.group.max(1),
        }
    }

    fn open(&self) -> Result<MutexGuard<'_, QueueState>, Error> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &waiting.closed {
            Some(why) => Err(Error::Closed(why.clone())),
            None => Ok(waiting),
        }
    }

    pub(super) fn commit(&self, lane: Lane, commit: QueuedCommit) -> Result<(), Error> {
        let mut waiting = self.open()?;
        let bytes = waiting.bytes + commit.size();
        let (queue, limit) = match lane {
            Lane::Progress => (&mut waiting.progress, self.progress),
            Lane::Admission => (&mut waiting.admission, self.admission),
        };
        if queue.len() >= limit || bytes > self.bytes {
            return Err(Error::Full);
        }
        queue.push_back(commit);
        waiting.bytes = bytes;
        drop(waiting);
        self.added.notify_one();
        Ok(())
    }

    pub(super) fn trim(&self, trim: TrimJob) -> Result<(), Error> {
        let mut waiting = self.open()?;
        if waiting.trims.len() >= MAX_TRIMS {
            return Err(Error::Full);
        }
        waiting.trims.push_back(trim);
        drop(waiting);
        self.added.notify_one();
        Ok(())
    }

    /// Queued commits.
    pub(super) fn waiting(&self) -> usize {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.progress.len() + waiting.admission.len()
    }

    /// Refuses further work; queued work is still done.
    pub(super) fn close(&self, why: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.closed.get_or_insert_with(|| why.to_owned());
        drop(waiting);
        self.added.notify_one();
    }

    /// The next group and all new trims. Waits for work unless the writer is `busy` with a trim.
    pub(super) fn take(&self, busy: bool) -> WriterWork {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let is_idle =
                waiting.progress.is_empty() && waiting.admission.is_empty() && waiting.trims.is_empty();
            if !is_idle || busy || waiting.closed.is_some() {
                let trims = std::mem::take(&mut waiting.trims);
                let is_finished = is_idle && !busy && waiting.closed.is_some();
                return WriterWork { group: self.group(&mut waiting), trims, is_finished };
            }
            waiting = self.added.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn group(&self, waiting: &mut QueueState) -> Vec<QueuedCommit> {
        let mut group = Vec::new();
        let mut size = 0;
        while group.len() < self.group && size < MAX_GROUP_BYTES {
            let Some(commit) = waiting.progress.pop_front().or_else(|| waiting.admission.pop_front()) else {
                break;
            };
            size += commit.size();
            group.push(commit);
        }
        waiting.bytes -= size;
        group
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::conformance::append;
    use super::*;

    fn commit(value: &str) -> QueuedCommit {
        QueuedCommit { batch: append("a.log.x", value), done: oneshot::channel().0 }
    }

    #[test]
    fn work_in_progress_goes_first_and_each_lane_is_bounded() {
        let options = StoreOptions {
            progress: 2,
            admission: 1,
            group: 2,
            waiting_bytes: 1000,
            ..StoreOptions::default()
        };
        let queue = WriteQueue::new(&options);
        queue.commit(Lane::Admission, commit("new")).unwrap();
        assert!(matches!(queue.commit(Lane::Admission, commit("more")), Err(Error::Full)));
        queue.commit(Lane::Progress, commit("1")).unwrap();
        assert!(matches!(queue.commit(Lane::Progress, commit(&"x".repeat(1000))), Err(Error::Full)));
        queue.commit(Lane::Progress, commit("2")).unwrap();
        assert!(matches!(queue.commit(Lane::Progress, commit("3")), Err(Error::Full)));

        let sizes = |work: &WriterWork| work.group.iter().map(QueuedCommit::size).collect::<Vec<_>>();
        let (first, second) = (queue.take(false), queue.take(false));
        assert_eq!((sizes(&first), sizes(&second)), (vec![8, 8], vec![10]));
        assert!(!second.is_finished && queue.take(true).group.is_empty());
        queue.close("done");
        assert!(queue.take(false).is_finished);
        assert!(matches!(queue.commit(Lane::Progress, commit("late")), Err(Error::Closed(_))));
    }
}
