//! Live signals, encoded once for all subscribers.
//!
//! One task watches the store. A subscriber keeps only a cursor and is woken when the head moves. A subscriber that is
//! behind the signals in memory reads pages from the store, so a slow one needs no more memory than a fast one.

use crate::signals;
use bytes::Bytes;
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
    signal::{self, BoardPosition, Cursor, Selector, SignalRecord},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{self, Filter, Record, Revision, SharedStore};
use tokio::{sync::watch, task::AbortHandle};

/// A signal and its encoded server-sent event.
#[derive(Debug)]
pub(crate) struct FeedEvent {
    pub posted: SignalRecord,
    pub frame: Bytes,
}

impl FeedEvent {
    fn of(record: &Record, generation: &str) -> Option<Self> {
        let event = signals::parse_record(record)
            .map(|posted| Self { posted, frame: signals::frame(record, generation) });
        if event.is_none() {
            tracing::error!(revision = record.revision, "a record of the signal log is no signal");
        }
        event
    }
}

/// Limits of the feed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FeedLimits {
    pub events: usize,
    pub bytes: usize,
    pub subscribers: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FeedHead {
    revision: Revision,
    has_ended: bool,
}

#[derive(Default)]
struct RecentSignals {
    /// Every signal above this revision…
    floor: Revision,
    /// …and up to this one is in `events`.
    last: Revision,
    events: VecDeque<Arc<FeedEvent>>,
    bytes: usize,
}

/// The recent signals in memory, for all subscribers.
pub(crate) struct Feed {
    store: SharedStore,
    /// The generation of the store.
    generation: String,
    limits: FeedLimits,
    recent: RwLock<RecentSignals>,
    head: watch::Sender<FeedHead>,
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
    /// Watches the signals of `store` from its head on. Spawns on the current tokio runtime.
    pub(crate) fn start(store: SharedStore, limits: FeedLimits) -> Result<Arc<Self>, store::Error> {
        let floor = store.head();
        let watch = store.watch(signals::all_signals(), floor)?;
        let feed = Arc::new(Self {
            generation: store.generation(),
            store,
            limits,
            recent: RwLock::new(RecentSignals { floor, last: floor, ..RecentSignals::default() }),
            head: watch::Sender::new(FeedHead { revision: floor, has_ended: false }),
            subscribers: AtomicUsize::new(0),
            follower: std::sync::OnceLock::new(),
        });
        let task = tokio::spawn(follow(Arc::downgrade(&feed), watch));
        drop(feed.follower.set(task.abort_handle()));
        Ok(feed)
    }

    /// Open subscriptions.
    pub(crate) fn subscribers(&self) -> usize {
        self.subscribers.load(Ordering::Relaxed)
    }

    /// Bytes of signals in memory.
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
            // A later subscriber reads it from the store.
            self.skip_to(last.revision);
        } else {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            for event in records.iter().filter_map(|record| FeedEvent::of(record, &self.generation)) {
                recent.bytes += event.frame.len();
                recent.events.push_back(Arc::new(event));
            }
            recent.last = last.revision;
            while recent.events.len() > self.limits.events || recent.bytes > self.limits.bytes {
                let Some(oldest) = recent.events.pop_front() else { break };
                recent.bytes -= oldest.frame.len();
                recent.floor = oldest.posted.revision;
            }
        }
        self.head.send_modify(|head| head.revision = last.revision);
    }

    /// Drops all signals in memory and continues above `revision`.
    fn skip_to(&self, revision: Revision) {
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        let floor = revision.max(recent.last);
        *recent = RecentSignals { floor, last: floor, ..RecentSignals::default() };
    }
}

/// The pause after `failures` errors in a row: nothing after the first, then from 20 ms doubling up to about 5 s.
fn restart_pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        _ => Duration::from_millis(10 << (failures - 1).min(9)),
    }
}

async fn follow(feed: Weak<Feed>, mut watch: store::StoreWatch) {
    let mut failures = 0;
    loop {
        let outcome = watch.next().await;
        failures = if outcome.is_ok() { 0 } else { failures + 1 };
        // The same record may be damaged again and again.
        tokio::time::sleep(restart_pause(failures)).await;
        let Some(feed) = feed.upgrade() else { return };
        let cursor = match outcome {
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
        feed.skip_to(cursor);
        match feed.store.watch(signals::all_signals(), cursor) {
            Ok(next) => watch = next,
            Err(error) => {
                tracing::error!(%error, "signals are no longer followed");
                feed.close();
                return;
            }
        }
    }
}

/// One subscriber's cursor in the feed.
pub(crate) struct FeedSubscription {
    feed: Arc<Feed>,
    /// Whose it is. Only signals that it may see are delivered.
    reader: Principal,
    selector: Selector,
    filter: Filter,
    cursor: Revision,
    head: watch::Receiver<FeedHead>,
}

impl Drop for FeedSubscription {
    fn drop(&mut self) {
        self.feed.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Records per page read from the store.
const PAGE: usize = 64;

impl FeedSubscription {
    /// Subscribes `reader` to `selector` after revision `after`; without one, after the head.
    pub(crate) fn new(
        feed: &Arc<Feed>,
        reader: Principal,
        selector: Selector,
        after: Option<Cursor>,
    ) -> Result<Self, Problem> {
        signals::check_selector(&selector)?;
        let filter = signals::store_filter(&selector);
        let head = feed.head.subscribe();
        let after = after.unwrap_or_else(|| feed.store.head().into());
        check_cursor(&feed.store, &filter, &after)?;
        let cursor = after.revision;
        if feed.subscribers.fetch_add(1, Ordering::Relaxed) >= feed.limits.subscribers {
            feed.subscribers.fetch_sub(1, Ordering::Relaxed);
            let message = format!("the board has {} subscribers, its limit", feed.limits.subscribers);
            return Err(Problem::new(Reason::Overloaded, message).with("limit", feed.limits.subscribers));
        }
        Ok(Self { feed: feed.clone(), reader, selector, filter, cursor, head })
    }

    /// Everything up to here has been delivered.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor { generation: Some(self.feed.generation.clone()), revision: self.cursor }
    }

    /// Waits for the next signals: at least one, about `max_bytes` in total.
    pub(crate) async fn next(&mut self, max_bytes: usize) -> Result<Vec<Arc<FeedEvent>>, Problem> {
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

    fn is_wanted(&self, event: &FeedEvent) -> bool {
        self.selector.admits(&event.posted.signal) && signal::may_see(&self.reader, &event.posted.signal)
    }

    /// The next signals in memory; `None` if the cursor is below them.
    fn recent(&mut self, max_bytes: usize) -> Option<Vec<Arc<FeedEvent>>> {
        let recent = self.feed.recent.read().unwrap_or_else(PoisonError::into_inner);
        if self.cursor < recent.floor {
            return None;
        }
        let start = recent.events.partition_point(|event| event.posted.revision <= self.cursor);
        let mut budget = ByteBudget::new(max_bytes);
        let mut found = Vec::new();
        for event in recent.events.range(start..) {
            if self.is_wanted(event) {
                if !budget.take(event) {
                    return Some(found);
                }
                found.push(event.clone());
            }
            self.cursor = event.posted.revision;
        }
        self.cursor = self.cursor.max(recent.last);
        Some(found)
    }

    /// The next signals of the store.
    async fn page(&mut self, max_bytes: usize) -> Result<Vec<Arc<FeedEvent>>, Problem> {
        let (store, filter, after) = (self.feed.store.clone(), self.filter.clone(), self.cursor);
        let (records, head) = run_blocking(move || {
            let head = store.head();
            let records = store.read(&filter, after, PAGE).map_err(Problem::from)?;
            check_cursor(&store, &filter, &after.into())?;
            Ok((records, head))
        })
        .await?;
        let is_last = records.len() < PAGE;
        let mut budget = ByteBudget::new(max_bytes);
        let mut found = Vec::new();
        for record in &records {
            if let Some(event) =
                FeedEvent::of(record, &self.feed.generation).filter(|event| self.is_wanted(event))
            {
                if !budget.take(&event) {
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
struct ByteBudget {
    left: Option<usize>,
    max: usize,
}

impl ByteBudget {
    fn new(max: usize) -> Self {
        Self { left: None, max }
    }

    fn take(&mut self, event: &FeedEvent) -> bool {
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

/// Refuses a cursor that misses trimmed records, or that belongs to another generation of the store.
pub(crate) fn check_cursor(store: &SharedStore, filter: &Filter, after: &Cursor) -> Result<(), Problem> {
    let floor = match store.watch(filter.clone(), 0) {
        Err(store::Error::Trimmed { floor }) => floor,
        Ok(_) | Err(_) => 0,
    };
    after.check(&BoardPosition { generation: store.generation(), floor, head: store.head() })?;
    store.watch(filter.clone(), after.revision).map(drop).map_err(Problem::from)
}

/// Runs `work`, which blocks, on tokio's blocking threads.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(stopped) => Err(Problem::new(Reason::Internal, format!("reading was stopped: {stopped}"))),
    }
}
