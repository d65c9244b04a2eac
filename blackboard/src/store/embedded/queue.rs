//! What waits for the writer: two bounded lanes of batches, and trims.

use super::super::{Batch, Error, Lane, Revision};
use super::{Options, trim::Trim};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The most trims that wait.
const MOST_TRIMS: usize = 64;
/// A group stops growing here.
const GROUP_BYTES: usize = 4 << 20;

/// A batch, and who waits for it.
pub(super) struct Commit {
    pub(super) batch: Batch,
    pub(super) done: oneshot::Sender<Result<Vec<Revision>, Error>>,
}

impl Commit {
    fn size(&self) -> usize {
        self.batch.writes.iter().map(|write| write.size()).sum()
    }
}

/// What the writer does next.
pub(super) struct Work {
    /// Those that waited, in order.
    pub(super) group: Vec<Commit>,
    /// New trims.
    pub(super) trims: VecDeque<Trim>,
    /// Nothing waits, and nothing more will come.
    pub(super) over: bool,
}

#[derive(Default)]
struct Waiting {
    progress: VecDeque<Commit>,
    admission: VecDeque<Commit>,
    bytes: usize,
    trims: VecDeque<Trim>,
    closed: Option<String>,
}

/// The writer's queue.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    progress: usize,
    admission: usize,
    bytes: usize,
    group: usize,
}

impl Queue {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            progress: options.progress,
            admission: options.admission,
            bytes: options.waiting_bytes,
            group: options.group.max(1),
        }
    }

    fn open(&self) -> Result<MutexGuard<'_, Waiting>, Error> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &waiting.closed {
            Some(why) => Err(Error::Closed(why.clone())),
            None => Ok(waiting),
        }
    }

    pub(super) fn commit(&self, lane: Lane, commit: Commit) -> Result<(), Error> {
        let mut waiting = self.open()?;
        let bytes = waiting.bytes + commit.size();
        let (queue, most) = match lane {
            Lane::Progress => (&mut waiting.progress, self.progress),
            Lane::Admission => (&mut waiting.admission, self.admission),
        };
        if queue.len() >= most || bytes > self.bytes {
            return Err(Error::Full);
        }
        queue.push_back(commit);
        waiting.bytes = bytes;
        drop(waiting);
        self.filled.notify_one();
        Ok(())
    }

    pub(super) fn trim(&self, trim: Trim) -> Result<(), Error> {
        let mut waiting = self.open()?;
        if waiting.trims.len() >= MOST_TRIMS {
            return Err(Error::Full);
        }
        waiting.trims.push_back(trim);
        drop(waiting);
        self.filled.notify_one();
        Ok(())
    }

    /// Commits that wait.
    pub(super) fn waiting(&self) -> usize {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.progress.len() + waiting.admission.len()
    }

    /// No more is taken; what waits is still done.
    pub(super) fn close(&self, why: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.closed.get_or_insert_with(|| why.to_owned());
        drop(waiting);
        self.filled.notify_one();
    }

    /// All that waits, as far as it fits one transaction; waits for some unless the writer is `busy` with a trim.
    pub(super) fn take(&self, busy: bool) -> Work {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let idle =
                waiting.progress.is_empty() && waiting.admission.is_empty() && waiting.trims.is_empty();
            if !idle || busy || waiting.closed.is_some() {
                let trims = std::mem::take(&mut waiting.trims);
                let over = idle && !busy && waiting.closed.is_some();
                return Work { group: self.group(&mut waiting), trims, over };
            }
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn group(&self, waiting: &mut Waiting) -> Vec<Commit> {
        let mut group = Vec::new();
        let mut size = 0;
        while group.len() < self.group && size < GROUP_BYTES {
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

    fn commit(value: &str) -> Commit {
        Commit { batch: append("a.log.x", value), done: oneshot::channel().0 }
    }

    #[test]
    fn work_in_progress_goes_first_and_each_lane_has_its_bound() {
        let options =
            Options { progress: 2, admission: 1, group: 2, waiting_bytes: 1000, ..Options::default() };
        let queue = Queue::new(&options);
        queue.commit(Lane::Admission, commit("new")).unwrap();
        assert!(matches!(queue.commit(Lane::Admission, commit("more")), Err(Error::Full)));
        queue.commit(Lane::Progress, commit("1")).unwrap();
        assert!(matches!(queue.commit(Lane::Progress, commit(&"x".repeat(1000))), Err(Error::Full)));
        queue.commit(Lane::Progress, commit("2")).unwrap();
        assert!(matches!(queue.commit(Lane::Progress, commit("3")), Err(Error::Full)));

        let sizes = |work: &Work| work.group.iter().map(Commit::size).collect::<Vec<_>>();
        let (first, second) = (queue.take(false), queue.take(false));
        assert_eq!((sizes(&first), sizes(&second)), (vec![8, 8], vec![10]));
        assert!(!second.over && queue.take(true).group.is_empty());
        queue.close("done");
        assert!(queue.take(false).over);
        assert!(matches!(queue.commit(Lane::Progress, commit("late")), Err(Error::Closed(_))));
    }
}
