//! Ends what spaces no longer need: entries that bind nobody any more, posts, and the log of changes.

use super::{
    listing::{self, AgedRow},
    release::findings_of_session,
    rows,
};
use crate::feed::run_blocking;
use protocol::{problem::Problem, spaces::Entry, time::WallTime};
use std::time::Duration;
use store::{self, Batch, Expectation, Lane, ListQuery, SharedStore, Write};

const PAGE: usize = 200;

/// How long each is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryRetention {
    /// Entries that are no longer in use, after their last change.
    pub(crate) entries: Duration,
    /// Posts with an id of the poster's own, and changes in the log.
    pub(crate) changes: Duration,
    /// The findings of a session, after its end.
    pub(crate) sessions: Duration,
}

/// Removes what is older than `keep` at `now`; returns whether entries were removed. Pending proposals and what is in force are
/// never removed.
pub(crate) async fn remove_old(
    store: SharedStore,
    now: WallTime,
    keep: EntryRetention,
) -> Result<bool, Problem> {
    let before = |age: Duration| now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    let mut has_removed = remove_listed(&store, AgedRow::Entry, before(keep.entries)).await?;
    has_removed |= remove_listed(&store, AgedRow::Session, before(keep.sessions)).await?;
    remove_listed(&store, AgedRow::Post, before(keep.changes)).await?;
    trim_log(store, WallTime(before(keep.changes))).await?;
    Ok(has_removed)
}

/// Returns whether rows were removed.
async fn remove_listed(store: &SharedStore, row: AgedRow, until: i64) -> Result<bool, Problem> {
    let mut has_removed = false;
    loop {
        let query = ListQuery {
            parts: vec![row as u8],
            until: Some(until),
            ..ListQuery::oldest(listing::aged_list())
        };
        let from = store.clone();
        let batch = run_blocking(move || {
            let (mut batch, mut has_more) = (Batch::default(), false);
            let listed = from.list(&query, PAGE)?;
            let is_last = listed.len() < PAGE;
            for listed in listed {
                if row == AgedRow::Session {
                    let findings = findings_of_session(from.as_ref(), &listed.key, PAGE)?;
                    has_more |= findings.len() == PAGE;
                    for finding in findings {
                        let expected = Expectation::At(finding.key.clone(), finding.revision);
                        batch.expectations.push(expected);
                        batch.writes.push(Write::Delete(finding.key));
                    }
                    // The rest goes in the next round.
                    if has_more {
                        break;
                    }
                }
                let revision = match from.latest(&listed.key) {
                    Ok(None) => continue,
                    Ok(Some(record)) => {
                        let entry = rows::parse::<Entry>(&record).ok().filter(|_| row == AgedRow::Entry);
                        let slug_key =
                            entry.and_then(|entry| Some(rows::slug_key(&entry.space, entry.slug.as_ref()?)));
                        batch.writes.extend(slug_key.map(Write::Delete));
                        record.revision
                    }
                    // A damaged record must not keep the others.
                    Err(store::Error::Corrupt { revision, .. }) => revision,
                    Err(error) => return Err(error.into()),
                };
                batch.expectations.push(Expectation::At(listed.key.clone(), revision));
                batch.writes.push(Write::Delete(listed.key));
            }
            Ok((batch, is_last && !has_more))
        })
        .await?;
        let (batch, is_last) = batch;
        if batch.expectations.is_empty() {
            return Ok(has_removed);
        }
        match store.commit(Lane::Admission, batch).await {
            Ok(_) => has_removed = true,
            Err(store::Error::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if is_last {
            return Ok(has_removed);
        }
    }
}

/// Trims changes that were made before `until`. Streams from an older cursor are told so.
async fn trim_log(store: SharedStore, until: WallTime) -> Result<(), Problem> {
    let mut after = 0;
    loop {
        let from = store.clone();
        let page = run_blocking(move || Ok(from.read(&rows::all_logs(), after, PAGE)?)).await?;
        let Some(last) = page.last().map(|record| record.revision) else { break };
        let is_old = |record: &&store::Record| {
            rows::parse::<Entry>(record).map_or(true, |entry| entry.changed_at < until)
        };
        let old = page.iter().take_while(is_old).last().map(|record| record.revision);
        after = old.unwrap_or(after);
        if old != Some(last) {
            break;
        }
    }
    if after > 0 {
        store.trim(rows::all_logs(), after + 1).await?;
    }
    Ok(())
}
