//! The batch that a change of a claim writes: the claim's row and the signal of the change, in one commit. A freed task is
//! offered again only if an offer is stored, because the offer holds the task's description. Pure.

use crate::{
    OWNER, access,
    claims::{self, ClaimState, ClaimSwap, Lease, StoredClaim, find_claim},
    signals,
};
use bytes::Bytes;
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    signal::{CLAIMANT, OFFER, Signal, SignalType},
    task::OpenTaskKey,
    time::{NodeTime, WallTime},
};
use serde_json::{Map, json};
use std::time::Duration;
use store::{Batch, Expectation, Filter, Key, Revision, Snapshot, Write};

/// A decided change of a claim that is not written yet.
#[derive(Debug, Clone)]
pub struct ClaimWrite {
    /// The claim's new row, and the expected revision of the old one.
    pub swap: ClaimSwap,
    /// The signal that announces the change.
    signal: Option<Signal>,
    /// The offer to delete.
    obsolete_offer: Option<Key>,
}

/// The result of deciding the end of a claim.
#[derive(Debug, Clone)]
pub enum EndDecision {
    /// The end was written before.
    AlreadyEnded(StoredClaim),
    /// The end has to be written.
    Write(Box<ClaimWrite>),
}

impl ClaimWrite {
    /// The batch to commit; the claim's row is its first write.
    pub fn batch(self, task: &OpenTaskKey) -> Result<Batch, Problem> {
        let key = claims::claim_key(OWNER, task);
        let expectation = match self.swap.expected {
            0 => Expectation::Absent(key.clone()),
            revision => Expectation::At(key.clone(), revision),
        };
        let mut writes = vec![Write::Put(key, Bytes::from(signals::json(&self.swap.row)?))];
        writes.extend(self.obsolete_offer.map(Write::Delete));
        if let Some(signal) = &self.signal {
            writes.extend(signals::board_signal_writes(signal)?);
        }
        Ok(Batch { writes, expectations: vec![expectation] })
    }
}

/// All claims, oldest first.
pub fn all_claims() -> Filter {
    Filter::Below(Key::new(&[OWNER, "claim"]))
}

/// Decides a claim of `task` by `holder`; refused if the task is claimed, or not offered to `by`.
pub fn decide_take(
    store: &(impl Snapshot + ?Sized),
    by: &Principal,
    task: &OpenTaskKey,
    holder: &AgentId,
    requested: Duration,
    lease: Option<Lease>,
    (now, wall): (NodeTime, WallTime),
) -> Result<ClaimWrite, Problem> {
    let (claim, offer) = (find_claim(store, task)?, find_offer(store, task)?);
    let row = claim.as_ref().map(|claim| &claim.row);
    if !access::may_see_claim(by, task, offer.as_ref(), row)
        && !offer.as_ref().is_some_and(|offer| access::may_claim(by, offer))
    {
        return Err(claims::not_offered(task));
    }
    let swap = claims::claim(claim.as_ref(), lease, by, holder, requested, (now, wall))?;
    let offer = offer.ok_or_else(|| claims::not_offered(task))?;
    let mut refs = Map::new();
    refs.insert("leaseMs".into(), json!(swap.row.lease_ms));
    refs.insert(CLAIMANT.into(), json!(by));
    if let Some(claim) = claim.filter(|claim| claim.row.state == ClaimState::Held) {
        refs.insert("expiredEpoch".into(), json!(claim.revision));
        refs.insert("formerHolder".into(), json!(claim.row.holder));
    }
    let kind = SignalType::task_claimed();
    let signal = signals::claim_signal(kind, task, Some(holder), Some(&offer), swap.expected, refs, wall);
    Ok(ClaimWrite { swap, signal: Some(signal), obsolete_offer: None })
}

/// Decides the end of the claim of `epoch` as `state`.
pub fn decide_end(
    store: &(impl Snapshot + ?Sized),
    by: &Principal,
    task: &OpenTaskKey,
    epoch: Revision,
    state: ClaimState,
    wall: WallTime,
) -> Result<EndDecision, Problem> {
    let now = find_claim(store, task)?;
    let Some(mut swap) = claims::end(now.as_ref(), by, epoch, state, wall)? else {
        let missing = || Problem::new(Reason::ClaimNotFound, "nobody has claimed this task");
        return now.map(EndDecision::AlreadyEnded).ok_or_else(missing);
    };
    let offer = find_offer(store, task)?;
    let (kind, is_done) = match state {
        ClaimState::Completed => (SignalType::task_complete(), true),
        ClaimState::Failed => (SignalType::task_failed(), true),
        ClaimState::Released | ClaimState::Held | ClaimState::Expired => {
            (SignalType::task_available(), false)
        }
    };
    let mut refs = Map::new();
    refs.insert("epoch".into(), json!(epoch));
    if !is_done {
        refs.extend(offer.iter().flat_map(|offer| offer.refs.clone()));
        refs.extend(offer.iter().map(|offer| (OFFER.to_owned(), json!(offer.id))));
        refs.insert("reason".into(), json!("released"));
    }
    refs.insert(CLAIMANT.into(), json!(swap.row.by));
    if is_done {
        swap.row.offer = offer.as_ref().map(signals::offer_digest);
    }
    let holder = swap.row.holder.clone();
    let signal = (is_done || offer.is_some())
        .then(|| signals::claim_signal(kind, task, Some(&holder), offer.as_ref(), epoch, refs, wall));
    let obsolete_offer = (is_done && offer.is_some()).then(|| signals::offer_key(task));
    Ok(EndDecision::Write(Box::new(ClaimWrite { swap, signal, obsolete_offer })))
}

/// Decides to free the claim whose `lease` has run out, and to offer its task again if an offer is stored. `None` if the
/// claim is not held under this lease, or the lease still runs.
pub fn decide_expire(
    store: &(impl Snapshot + ?Sized),
    task: &OpenTaskKey,
    lease: Lease,
    now: NodeTime,
    wall: WallTime,
) -> Result<Option<ClaimWrite>, Problem> {
    let claim = find_claim(store, task)?;
    let Some(swap) = claim.and_then(|claim| claims::expire(&claim, lease, now, wall)) else {
        return Ok(None);
    };
    let signal = find_offer(store, task)?.map(|offer| {
        let mut refs = offer.refs.clone();
        refs.insert(OFFER.to_owned(), json!(offer.id));
        refs.insert("reason".into(), json!("lease-expired"));
        refs.insert("epoch".into(), json!(lease.epoch));
        refs.insert("formerHolder".into(), json!(swap.row.holder));
        let kind = SignalType::task_available();
        signals::claim_signal(kind, task, None, Some(&offer), lease.epoch, refs, wall)
    });
    Ok(Some(ClaimWrite { swap, signal, obsolete_offer: None }))
}

/// The stored offer of `task`, if there is one.
pub(crate) fn find_offer(
    store: &(impl Snapshot + ?Sized),
    task: &OpenTaskKey,
) -> Result<Option<Signal>, Problem> {
    let record = store.latest(&signals::offer_key(task))?;
    Ok(record.and_then(|record| serde_json::from_slice(&record.value).ok()))
}
