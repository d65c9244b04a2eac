//! Reads the history of signals, and removes what exceeds its retention.

use super::SignalPage;
use crate::{
    claim_writes,
    claims::{ClaimState, StoredClaim},
    feed,
    signals::{self, DedupRow},
};
use protocol::{
    principal::Principal,
    problem::Problem,
    signal::{self, BoardPosition, Cursor, Selector, Signal},
    time::WallTime,
};
use std::time::Duration;
use store::{self, Batch, Expectation, Filter, Lane, Record, Revision, SharedStore, Write};

const PAGE: usize = 256;

/// Up to `limit` signals after `after`, or from the oldest, that `by` may see. With `until` those up to this revision that are kept;
/// without, removed ones behind `after` are a refusal. Blocks for each page of the store.
pub(super) fn read_page(
    store: &SharedStore,
    by: &Principal,
    selector: &Selector,
    (after, until): (Option<Cursor>, Option<Revision>),
    limit: usize,
) -> Result<SignalPage, Problem> {
    let filter = signals::store_filter(selector);
    let head = store.head();
    let at = |revision| Cursor { generation: Some(store.generation()), revision };
    let mut next = after.as_ref().map_or(0, |after| after.revision);
    let mut signals = Vec::new();
    if limit == 0 {
        return Ok(SignalPage { signals, next: after.unwrap_or_else(|| at(head)) });
    }
    let end = until.unwrap_or(Revision::MAX);
    loop {
        // A revision is one record at most.
        let wanted = PAGE.min(usize::try_from(end.saturating_sub(next)).unwrap_or(PAGE));
        let records = if wanted == 0 { Vec::new() } else { store.read(&filter, next, wanted)? };
        let is_last = records.len() < wanted || records.last().is_none_or(|last| last.revision >= end);
        for record in records.iter().take_while(|record| record.revision <= end) {
            next = record.revision;
            let is_wanted = |signal: &Signal| selector.admits(signal) && signal::may_see(by, signal);
            signals.extend(signals::parse_record(record).filter(|posted| is_wanted(&posted.signal)));
            if signals.len() == limit {
                break;
            }
        }
        if signals.len() == limit || is_last {
            match (&after, until) {
                (Some(after), None) => feed::check_cursor(store, &filter, after)?,
                (Some(after), Some(_)) => {
                    after.check(&BoardPosition { generation: store.generation(), floor: 0, head })?;
                }
                (None, _) => {}
            }
            if signals.len() < limit {
                next = next.max(head.min(end));
            }
            return Ok(SignalPage { signals, next: at(next) });
        }
    }
}

/// Removes signals, dedup rows, offers and ended claims that are older than `keep`.
pub(super) async fn remove_expired(store: SharedStore, now: WallTime, keep: Duration) -> Result<(), Problem> {
    let verdict = |at: Option<WallTime>| match at {
        Some(at) if at.until(now) <= keep => RetentionVerdict::KeepRest,
        Some(_) | None => RetentionVerdict::Remove,
    };
    let seen_at = |record: &Record| serde_json::from_slice::<DedupRow>(&record.value).ok().map(|row| row.at);
    if let Some(last) =
        remove_oldest(&store, signals::all_dedup_rows(), |record| verdict(seen_at(record))).await?
    {
        store.trim(signals::all_signals(), last + 2).await?;
    }
    let offered_at =
        |record: &Record| serde_json::from_slice::<Signal>(&record.value).ok().map(|offer| offer.at);
    remove_oldest(&store, signals::all_offers(), |record| verdict(offered_at(record))).await?;
    let claim_verdict = |record: &Record| match StoredClaim::of(record) {
        Some(claim) if claim.row.state == ClaimState::Held => RetentionVerdict::Keep,
        claim => verdict(claim.map(|claim| claim.row.at)),
    };
    remove_oldest(&store, claim_writes::all_claims(), claim_verdict).await?;
    Ok(())
}

/// Removes the oldest signals until at most `max_bytes` are left. Their dedup rows stay, so that a repeat is still
/// recognised.
pub(super) async fn trim_to_size(store: SharedStore, max_bytes: u64) -> Result<(), Problem> {
    let scanned = store.clone();
    let floor = feed::run_blocking(move || {
        let all = scan_size(&scanned, u64::MAX)?;
        if all.bytes <= max_bytes {
            Ok(None)
        } else {
            scan_size(&scanned, all.bytes - max_bytes).map(|old| Some(old.last))
        }
    });
    if let Some(last) = floor.await? {
        store.trim(signals::all_signals(), last + 1).await?;
    }
    Ok(())
}

/// The total size of the oldest signals up to revision `last`.
struct SizeScan {
    bytes: u64,
    last: Revision,
}

/// Scans signals from the oldest until they have `enough` bytes. Blocks for each page of the store.
fn scan_size(store: &SharedStore, enough: u64) -> Result<SizeScan, Problem> {
    let mut scan = SizeScan { bytes: 0, last: 0 };
    loop {
        let page = store.read(&signals::all_signals(), scan.last, PAGE)?;
        if page.is_empty() {
            return Ok(scan);
        }
        for record in &page {
            scan.bytes += record.value.len() as u64;
            scan.last = record.revision;
            if scan.bytes >= enough {
                return Ok(scan);
            }
        }
    }
}

/// What retention does with a record.
enum RetentionVerdict {
    Remove,
    /// Keeps it, however old it is.
    Keep,
    /// Keeps it and all later ones.
    KeepRest,
}

/// Deletes records of `filter`, oldest first, as `verdict` says. Returns the revision of the last deleted record.
async fn remove_oldest(
    store: &SharedStore,
    filter: Filter,
    verdict: impl Fn(&Record) -> RetentionVerdict,
) -> Result<Option<Revision>, Problem> {
    let (mut after, mut removed) = (0, None);
    loop {
        let (page_store, page_filter) = (store.clone(), filter.clone());
        let page = feed::run_blocking(move || Ok(page_store.read(&page_filter, after, PAGE)?)).await?;
        let Some(last) = page.last() else { return Ok(removed) };
        after = last.revision;
        let kept_from = page.iter().position(|record| matches!(verdict(record), RetentionVerdict::KeepRest));
        let expired = &page[..kept_from.unwrap_or(page.len())];
        let old: Vec<&Record> =
            expired.iter().filter(|record| matches!(verdict(record), RetentionVerdict::Remove)).collect();
        if let Some(newest) = old.last() {
            let batch = Batch {
                writes: old.iter().map(|record| Write::Delete(record.key.clone())).collect(),
                expectations: old.iter().map(|r| Expectation::At(r.key.clone(), r.revision)).collect(),
            };
            match store.commit(Lane::Admission, batch).await {
                Ok(_) => removed = Some(newest.revision),
                Err(store::Error::Conflict { .. }) => return Ok(removed),
                Err(error) => return Err(error.into()),
            }
        }
        if kept_from.is_some() {
            return Ok(removed);
        }
    }
}
