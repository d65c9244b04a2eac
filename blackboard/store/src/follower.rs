//! The watch of every backend: it reads recent records from the [`LogTail`] and older ones as pages from the backend.

use super::tail::{LogTail, TailRead};
use super::{Error, Filter, Record, RecordSource, Revision, StoreWatch};
use std::{future::Future, pin::Pin, sync::Arc};
use tokio::sync::watch;

/// Limits of one page: records and bytes.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

/// A page of records, oldest first.
pub(super) struct LogPage {
    pub(super) records: Vec<Record>,
    /// The cursor of the next page; `None` at the end.
    pub(super) next: Option<Revision>,
}

/// A backend that pages are read from.
pub(super) trait PageSource: Send + Sync + 'static {
    /// Up to `limit` records above `after`, or until they have `bytes`. May be empty if many rows were skipped.
    fn page(&self, filter: &Filter, after: Revision, limit: usize, bytes: usize) -> Result<LogPage, Error>;

    /// [`Error::Trimmed`] if a cursor at `after` misses something that was trimmed.
    fn check_cursor(&self, filter: &Filter, after: Revision) -> Result<(), Error>;
}

struct StoreFollower<P> {
    pages: Arc<P>,
    tail: Arc<LogTail>,
    filter: Filter,
    position: Revision,
    /// `Some` until the follower is dropped.
    wake: Option<watch::Receiver<()>>,
}

/// A watch of `filter` after `after`.
pub(super) fn watch<P: PageSource>(
    pages: Arc<P>,
    tail: Arc<LogTail>,
    filter: Filter,
    after: Revision,
) -> Result<StoreWatch, Error> {
    pages.check_cursor(&filter, after)?;
    let wake = Some(tail.join(&filter)?);
    Ok(StoreWatch::new(StoreFollower { pages, tail, filter, position: after, wake }))
}

impl<P: PageSource> StoreFollower<P> {
    async fn page(&mut self) -> Result<Vec<Record>, Error> {
        let head = self.tail.head();
        let (pages, filter, after) = (self.pages.clone(), self.filter.clone(), self.position);
        let read = move || {
            let page = pages.page(&filter, after, PAGE, PAGE_BYTES)?;
            pages.check_cursor(&filter, after)?;
            Ok(page)
        };
        let page: Result<LogPage, Error> = tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|stopped| Err(Error::Closed(format!("reading was stopped: {stopped}"))));
        let LogPage { records, next } = page?;
        let last = records.last().map_or(after, |last| last.revision);
        self.position = next.unwrap_or(last.max(head));
        Ok(records)
    }

    async fn next_records(&mut self) -> Result<Vec<Record>, Error> {
        loop {
            if let Some(wake) = &mut self.wake {
                wake.mark_unchanged();
            }
            let records = match self.tail.read_after(&self.filter, self.position, PAGE)? {
                TailRead::UpTo(position, records) => {
                    self.position = position;
                    records
                }
                TailRead::Behind => {
                    let records = self.page().await?;
                    if records.is_empty() {
                        continue;
                    }
                    records
                }
            };
            if !records.is_empty() {
                return Ok(records);
            }
            if let Some(wake) = &mut self.wake {
                // An error means that the store is closed; the next read of the tail returns that.
                drop(wake.changed().await);
            }
        }
    }
}

impl<P: PageSource> RecordSource for StoreFollower<P> {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Vec<Record>, Error>> + Send + '_>> {
        Box::pin(self.next_records())
    }
}

impl<P> Drop for StoreFollower<P> {
    fn drop(&mut self) {
        self.wake = None;
        self.tail.leave(&self.filter);
    }
}
