//! Reads back what was said, and removes what is too old.

use super::Page;
use crate::{
    claim_writes,
    claims::{Standing, Stands},
    feed,
    signals::{self, Seen},
    store::{self, Batch, Expectation, Filter, Lane, Record, Revision, Shared, Write},
};
use protocol::{
    problem::Problem,
    signal::{Selector, Signal},
    time::WallTime,
};
use std::time::Duration;

const STEP: usize = 256;

/// Up to `limit` signals after `after`, or from the oldest on. Blocks, a page of the store at a time.
pub(super) fn history(
    store: &Shared,
    selector: &Selector,
    after: Option<Revision>,
    limit: usize,
) -> Result<Page, Problem> {
    let filter = signals::filter(selector);
    let head = store.head();
    let mut next = after.unwrap_or(0);
    let mut found = Vec::new();
    if limit == 0 {
        return Ok(Page { signals: found, next: after.unwrap_or(head) });
    }
    loop {
        let records = store.read(&filter, next, STEP)?;
        for record in &records {
            next = record.revision;
            found.extend(signals::posted(record).filter(|posted| selector.admits(&posted.signal)));
            if found.len() == limit {
                break;
            }
        }
        if found.len() == limit || records.len() < STEP {
            if let Some(after) = after {
                feed::reaches(store, &filter, after)?;
            }
            if found.len() < limit {
                next = next.max(head);
            }
            return Ok(Page { signals: found, next });
        }
    }
}

/// Removes signals, the rows that recognise repeats, offers and ended claims that are older than `keep`.
pub(super) async fn tidy(store: Shared, now: WallTime, keep: Duration) -> Result<(), Problem> {
    let age = |at: Option<WallTime>| match at {
        Some(at) if at.until(now) <= keep => Age::Fresh,
        Some(_) | None => Age::Old,
    };
    let seen = |record: &Record| serde_json::from_slice::<Seen>(&record.value).ok().map(|seen| seen.at);
    if let Some(last) = remove(&store, signals::all_seen(), |record| age(seen(record))).await? {
        store.trim(signals::everything(), last + 2).await?;
    }
    let offered =
        |record: &Record| serde_json::from_slice::<Signal>(&record.value).ok().map(|offer| offer.at);
    remove(&store, signals::all_offers(), |record| age(offered(record))).await?;
    let claimed = |record: &Record| match Stands::of(record) {
        Some(stands) if stands.row.state == Standing::Held => Age::InUse,
        stands => age(stands.map(|stands| stands.row.at)),
    };
    remove(&store, claim_writes::all(), claimed).await?;
    Ok(())
}

/// Removes the oldest signals of all that are more than `most` bytes together. What is remembered of them stays, so that
/// a repeat is still no second signal.
pub(super) async fn shrink(store: Shared, most: u64) -> Result<(), Problem> {
    let scanned = store.clone();
    let floor = feed::blocking(move || {
        let all = weigh(&scanned, u64::MAX)?;
        if all.bytes <= most { Ok(None) } else { weigh(&scanned, all.bytes - most).map(|old| Some(old.last)) }
    });
    if let Some(last) = floor.await? {
        store.trim(signals::everything(), last + 1).await?;
    }
    Ok(())
}

struct Weighed {
    bytes: u64,
    last: Revision,
}

/// The oldest signals, as many as have `enough` bytes together. Blocks, a page of the store at a time.
fn weigh(store: &Shared, enough: u64) -> Result<Weighed, Problem> {
    let mut weighed = Weighed { bytes: 0, last: 0 };
    loop {
        let page = store.read(&signals::everything(), weighed.last, STEP)?;
        if page.is_empty() {
            return Ok(weighed);
        }
        for record in &page {
            weighed.bytes += record.value.len() as u64;
            weighed.last = record.revision;
            if weighed.bytes >= enough {
                return Ok(weighed);
            }
        }
    }
}

/// What tidying makes of a record.
enum Age {
    /// It goes.
    Old,
    /// It stays, however old.
    InUse,
    /// It stays, and all after it.
    Fresh,
}

/// Deletes the old ones among the oldest records of `filter`; the revision of the last one.
async fn remove(
    store: &Shared,
    filter: Filter,
    age: impl Fn(&Record) -> Age,
) -> Result<Option<Revision>, Problem> {
    let (mut after, mut gone) = (0, None);
    loop {
        let (at, what) = (store.clone(), filter.clone());
        let page = feed::blocking(move || Ok(at.read(&what, after, STEP)?)).await?;
        let Some(last) = page.last() else { return Ok(gone) };
        after = last.revision;
        let fresh = page.iter().position(|record| matches!(age(record), Age::Fresh));
        let stale = &page[..fresh.unwrap_or(page.len())];
        let old: Vec<&Record> = stale.iter().filter(|record| matches!(age(record), Age::Old)).collect();
        if let Some(newest) = old.last() {
            let batch = Batch {
                writes: old.iter().map(|record| Write::Delete(record.key.clone())).collect(),
                expectations: old.iter().map(|r| Expectation::At(r.key.clone(), r.revision)).collect(),
            };
            match store.commit(Lane::Admission, batch).await {
                Ok(_) => gone = Some(newest.revision),
                Err(store::Error::Conflict { .. }) => return Ok(gone),
                Err(error) => return Err(error.into()),
            }
        }
        if fresh.is_some() {
            return Ok(gone);
        }
    }
}
