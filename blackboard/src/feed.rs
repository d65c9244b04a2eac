//! The signals as they come, encoded once for all who follow them.
//!
//! One task follows the store; every subscriber keeps a cursor and nothing else, and is woken when the head moves. Who
//! is behind what is kept here reads its pages from the store, so a slow one costs no more than a fast one.

use crate::{
    signals,
    store::{self, Filter, Record, Revision, Shared},
};
use bytes::Bytes;
use protocol::{
    problem::{Problem, Reason},
    signal::{Selector, SignalRecord},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{sync::watch, task::AbortHandle};

/// A signal and how it goes over the wire.
#[derive(Debug)]
pub(crate) struct Event {
    pub posted: SignalRecord,
    pub frame: Bytes,
}

impl Event {
    fn of(record: &Record) -> Option<Self> {
        let event = signals::posted(record).map(|posted| Self { posted, frame: signals::frame(record) });
        if event.is_none() {
            tracing::error!(revision = record.revision, "a record of the signal log is no signal");
        }
        event
    }
}

/// What the feed keeps at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub events: usize,
    pub bytes: usize,
    pub subscribers: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    revision: Revision,
    has_ended: bool,
}

#[derive(Default)]
struct Recent {
    /// Everything from above this revision…
    floor: Revision,
    /// …up to this one is in `events`.
    last: Revision,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
}

/// The signals as they come.
pub(crate) struct Feed {
    store: Shared,
    bounds: Bounds,
    recent: RwLock<Recent>,
    head: watch::Sender<Head>,
    subscribers: AtomicUsize,
    follower: std::sync::OnceLock<AbortHandle>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.get() {
            follower.abort();
        }
    }
}

impl Feed {
    /// Follows the signals of `store` from here on. Runs on the tokio runtime it is called in.
    pub(crate) fn start(store: Shared, bounds: Bounds) -> Result<Arc<Self>, store::Error> {
        let floor = store.head();
        let watch = store.watch(signals::everything(), floor)?;
        let feed = Arc::new(Self {
            store,
            bounds,
            recent: RwLock::new(Recent { floor, last: floor, ..Recent::default() }),
            head: watch::Sender::new(Head { revision: floor, has_ended: false }),
            subscribers: AtomicUsize::new(0),
            follower: std::sync::OnceLock::new(),
        });
        let task = tokio::spawn(follow(Arc::downgrade(&feed), watch));
        drop(feed.follower.set(task.abort_handle()));
        Ok(feed)
    }

    /// How many follow.
    pub(crate) fn subscribers(&self) -> usize {
        self.subscribers.load(Ordering::Relaxed)
    }

    /// Bytes kept for those who follow.
    pub(crate) fn recent_bytes(&self) -> usize {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        self.head.send_modify(|head| head.has_ended = true);
    }

    fn push(&self, records: &[Record]) {
        let Some(last) = records.last() else { return };
        if self.subscribers() == 0 {
            // Whoever comes later reads it from the store.
            self.skip_to(last.revision);
        } else {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            for event in records.iter().filter_map(Event::of) {
                recent.bytes += event.frame.len();
                recent.events.push_back(Arc::new(event));
            }
            recent.last = last.revision;
            while recent.events.len() > self.bounds.events || recent.bytes > self.bounds.bytes {
                let Some(oldest) = recent.events.pop_front() else { break };
                recent.bytes -= oldest.frame.len();
                recent.floor = oldest.posted.revision;
            }
        }
        self.head.send_modify(|head| head.revision = last.revision);
    }

    /// Starts afresh above `revision`, after something was missed.
    fn skip_to(&self, revision: Revision) {
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        let floor = revision.max(recent.last);
        *recent = Recent { floor, last: floor, ..Recent::default() };
    }
}

async fn follow(feed: Weak<Feed>, mut watch: store::Watch) {
    loop {
        let outcome = watch.next().await;
        let Some(feed) = feed.upgrade() else { return };
        let again = match outcome {
            Ok(records) => {
                feed.push(&records);
                continue;
            }
            Err(store::Error::Trimmed { floor }) => floor,
            Err(store::Error::Corrupt { revision, key }) => {
                tracing::error!(revision, key, "a damaged signal is skipped");
                revision
            }
            Err(error) => {
                tracing::error!(%error, "signals are no longer followed");
                feed.close();
                return;
            }
        };
        feed.skip_to(again);
        match feed.store.watch(signals::everything(), again) {
            Ok(next) => watch = next,
            Err(error) => {
                tracing::error!(%error, "signals are no longer followed");
                feed.close();
                return;
            }
        }
    }
}

/// One reader's place in the feed.
pub(crate) struct Subscription {
    feed: Arc<Feed>,
    selector: Selector,
    filter: Filter,
    cursor: Revision,
    head: watch::Receiver<Head>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The most that is read from the store at once.
const PAGE: usize = 64;

impl Subscription {
    /// Follows `selector` after revision `after`; without one, from here on.
    pub(crate) fn new(
        feed: &Arc<Feed>,
        selector: Selector,
        after: Option<Revision>,
    ) -> Result<Self, Problem> {
        signals::check(&selector)?;
        let filter = signals::filter(&selector);
        let head = feed.head.subscribe();
        let cursor = after.unwrap_or_else(|| feed.store.head());
        reaches(&feed.store, &filter, cursor)?;
        if feed.subscribers.fetch_add(1, Ordering::Relaxed) >= feed.bounds.subscribers {
            feed.subscribers.fetch_sub(1, Ordering::Relaxed);
            let message = format!("the board has {} subscribers, its limit", feed.bounds.subscribers);
            return Err(Problem::new(Reason::Overloaded, message).with("limit", feed.bounds.subscribers));
        }
        Ok(Self { feed: feed.clone(), selector, filter, cursor, head })
    }

    /// The revision up to which everything has been delivered.
    pub(crate) fn cursor(&self) -> Revision {
        self.cursor
    }

    /// The next signals, at least one, of about `max_bytes` together; waits for them.
    pub(crate) async fn next(&mut self, max_bytes: usize) -> Result<Vec<Arc<Event>>, Problem> {
        loop {
            let head = *self.head.borrow_and_update();
            let found = match self.recent(max_bytes) {
                Some(events) => events,
                None => self.page(max_bytes).await?,
            };
            if !found.is_empty() {
                return Ok(found);
            }
            if head.has_ended {
                return Err(Problem::new(Reason::BlackboardUnavailable, "the board is closing"));
            }
            let is_behind = self.cursor < head.revision;
            if !is_behind && self.head.changed().await.is_err() {
                return Err(Problem::new(Reason::BlackboardUnavailable, "the board is closing"));
            }
        }
    }

    /// From what the feed keeps; `None` if the cursor is below it.
    fn recent(&mut self, max_bytes: usize) -> Option<Vec<Arc<Event>>> {
        let recent = self.feed.recent.read().unwrap_or_else(PoisonError::into_inner);
        if self.cursor < recent.floor {
            return None;
        }
        let start = recent.events.partition_point(|event| event.posted.revision <= self.cursor);
        let mut room = Room::new(max_bytes);
        let mut found = Vec::new();
        for event in recent.events.range(start..) {
            if self.selector.admits(&event.posted.signal) {
                if !room.takes(event) {
                    return Some(found);
                }
                found.push(event.clone());
            }
            self.cursor = event.posted.revision;
        }
        self.cursor = self.cursor.max(recent.last);
        Some(found)
    }

    /// From the store.
    async fn page(&mut self, max_bytes: usize) -> Result<Vec<Arc<Event>>, Problem> {
        let (store, filter, after) = (self.feed.store.clone(), self.filter.clone(), self.cursor);
        let (records, head) = blocking(move || {
            let head = store.head();
            let records = store.read(&filter, after, PAGE).map_err(Problem::from)?;
            reaches(&store, &filter, after)?;
            Ok((records, head))
        })
        .await?;
        let is_last = records.len() < PAGE;
        let mut room = Room::new(max_bytes);
        let mut found = Vec::new();
        for record in &records {
            if let Some(event) = Event::of(record).filter(|event| self.selector.admits(&event.posted.signal))
            {
                if !room.takes(&event) {
                    return Ok(found);
                }
                found.push(Arc::new(event));
            }
            self.cursor = record.revision;
        }
        if is_last {
            self.cursor = self.cursor.max(head);
        }
        Ok(found)
    }
}

/// Counts bytes; the first event always fits.
struct Room {
    left: Option<usize>,
    max: usize,
}

impl Room {
    fn new(max: usize) -> Self {
        Self { left: None, max }
    }

    fn takes(&mut self, event: &Event) -> bool {
        let size = event.frame.len();
        let left = match self.left {
            None => self.max.saturating_sub(size),
            Some(left) if left >= size => left - size,
            Some(_) => return false,
        };
        self.left = Some(left);
        true
    }
}

/// Refuses a cursor that misses something, or that comes from another life of the store.
pub(crate) fn reaches(store: &Shared, filter: &Filter, after: Revision) -> Result<(), Problem> {
    let head = store.head();
    if after > head {
        let message =
            format!("revision {after} is not of this board, whose last is {head}: read again from the start");
        return Err(Problem::new(Reason::Trimmed, message)
            .with("floor", 0)
            .with("generation", store.generation()));
    }
    store.watch(filter.clone(), after).map(drop).map_err(Problem::from)
}

/// Runs something that blocks for a page off the threads that serve.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(stopped) => Err(Problem::new(Reason::Internal, format!("reading was stopped: {stopped}"))),
    }
}
