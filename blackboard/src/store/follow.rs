//! A follower: at the head it reads what is kept in memory, behind it pages from the backend.

use super::tail::{Found, Tail};
use super::{Error, Filter, Follow, Record, Revision, Watch};
use std::{future::Future, pin::Pin, sync::Arc};
use tokio::sync::watch;

/// The most that one step of a follower brings.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

/// Some records in order.
pub(super) struct Page {
    pub(super) records: Vec<Record>,
    /// Where the next page begins, unless all that was there has been read.
    pub(super) next: Option<Revision>,
}

/// A backend, as a follower that is behind reads it.
pub(super) trait Pages: Send + Sync + 'static {
    /// Up to `limit` records above `after`, or as many as first reach `bytes`; perhaps none, when there was much to skip.
    fn page(&self, filter: &Filter, after: Revision, limit: usize, bytes: usize) -> Result<Page, Error>;

    /// [`Error::Trimmed`] if a cursor at `after` misses something that was trimmed.
    fn reaches(&self, filter: &Filter, after: Revision) -> Result<(), Error>;
}

struct Follower<P> {
    pages: Arc<P>,
    tail: Arc<Tail>,
    filter: Filter,
    position: Revision,
    /// There until it is dropped.
    wake: Option<watch::Receiver<()>>,
}

/// A watch of `filter` from `after` on.
pub(super) fn watch<P: Pages>(
    pages: Arc<P>,
    tail: Arc<Tail>,
    filter: Filter,
    after: Revision,
) -> Result<Watch, Error> {
    pages.reaches(&filter, after)?;
    let wake = Some(tail.join(&filter)?);
    Ok(Watch::new(Follower { pages, tail, filter, position: after, wake }))
}

impl<P: Pages> Follower<P> {
    async fn page(&mut self) -> Result<Vec<Record>, Error> {
        let head = self.tail.head();
        let (pages, filter, after) = (self.pages.clone(), self.filter.clone(), self.position);
        let read = move || {
            let page = pages.page(&filter, after, PAGE, PAGE_BYTES)?;
            pages.reaches(&filter, after)?;
            Ok(page)
        };
        let page: Result<Page, Error> = tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|stopped| Err(Error::Closed(format!("reading was stopped: {stopped}"))));
        let Page { records, next } = page?;
        let last = records.last().map_or(after, |last| last.revision);
        self.position = next.unwrap_or(last.max(head));
        Ok(records)
    }

    async fn step(&mut self) -> Result<Vec<Record>, Error> {
        loop {
            if let Some(wake) = &mut self.wake {
                wake.mark_unchanged();
            }
            let records = match self.tail.since(&self.filter, self.position, PAGE)? {
                Found::UpTo(position, records) => {
                    self.position = position;
                    records
                }
                Found::Behind => {
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
                // An error means that the store has closed, which the next look at the tail tells.
                drop(wake.changed().await);
            }
        }
    }
}

impl<P: Pages> Follow for Follower<P> {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Vec<Record>, Error>> + Send + '_>> {
        Box::pin(self.step())
    }
}

impl<P> Drop for Follower<P> {
    fn drop(&mut self) {
        self.wake = None;
        self.tail.leave(&self.filter);
    }
}
