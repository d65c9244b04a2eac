//! Decides the withdrawal of all that one principal has caused in a space.

use super::{
    entry_writes::EntryBatch,
    rows::{self, ExpertiseRow, Stored},
};
use protocol::{ids::SpaceId, principal::Principal, problem::Problem, spaces::Entry, time::WallTime};
use store::{Batch, Expectation, MAX_READ, Revision, Snapshot, Write};

/// The principal whose entries are withdrawn, who withdraws them, when, and why.
pub(crate) struct Withdrawal<'a> {
    pub(crate) of: &'a Principal,
    pub(crate) by: &'a Principal,
    pub(crate) at: WallTime,
    pub(crate) reason: Option<&'a String>,
}

/// One commit of a withdrawal.
pub(crate) struct WithdrawalStep {
    pub(crate) batch: Batch,
    /// How many entries it takes out of use.
    pub(crate) count: u64,
    /// Where the next step goes on; `None` if this is the last.
    pub(crate) next: Option<Revision>,
}

/// Takes out of use what the principal has caused among the next entries of `space` after the revision `after`.
pub(crate) fn decide_withdrawal(
    store: &(impl Snapshot + ?Sized),
    space: &SpaceId,
    withdrawal: &Withdrawal<'_>,
    after: Revision,
) -> Result<WithdrawalStep, Problem> {
    let Withdrawal { of, by, at, reason } = withdrawal;
    let (mut batch, mut count) = (EntryBatch::default(), 0);
    let page = store.read(&rows::all_entries(space), after, MAX_READ)?;
    for record in &page {
        let Ok(entry) = rows::parse::<Entry>(record) else { continue };
        let is_meant = entry.cause().is_some_and(|cause| cause.principal == **of);
        if let Some(changed) = is_meant.then(|| entry.taken_out(by, *at, reason.cloned())).flatten() {
            batch.replace(&Stored { revision: record.revision, value: entry }, &changed)?;
            count += 1;
        }
    }
    Ok(WithdrawalStep { batch: batch.0, count, next: page.last().map(|last| last.revision) })
}

/// Forgets what agents of `space` know because of the principal, and what it has caused in sealed stages.
pub(crate) fn decide_forgetting(
    store: &(impl Snapshot + ?Sized),
    space: &SpaceId,
    withdrawal: &Withdrawal<'_>,
) -> Result<WithdrawalStep, Problem> {
    let (mut batch, mut count, mut after) = (Batch::default(), 0, 0);
    let name = withdrawal.of.to_string();
    loop {
        let page = store.read(&rows::all_expertise(space), after, MAX_READ)?;
        for record in &page {
            let mut row: ExpertiseRow = rows::parse(record)?;
            if row.of_roots.remove(&name).is_some() {
                batch.expectations.push(Expectation::At(record.key.clone(), record.revision));
                batch.writes.push(rows::put(record.key.clone(), &row)?);
            }
        }
        match page.last() {
            Some(last) => after = last.revision,
            None => break,
        }
    }
    for sealed in rows::find_sealed(store, space, None)? {
        let Some(of) = &sealed.value.draft.sealed else { continue };
        if sealed.value.draft.root.as_ref() == Some(withdrawal.of) {
            let key = rows::sealed_key(space, of, &sealed.value.id);
            batch.expectations.push(Expectation::At(key.clone(), sealed.revision));
            batch.writes.push(Write::Delete(key));
            count += 1;
        }
    }
    Ok(WithdrawalStep { batch, count, next: None })
}
