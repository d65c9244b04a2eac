//! The most recent records that are followed, kept in memory once for all followers.
//!
//! Followers of one filter form a group. A record wakes the groups whose filter admits it, and is kept only if there is one.
//! A follower that is behind the records in memory reads pages from the backend.

use super::{Error, Filter, Key, Record, Revision};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Limits of the records in memory.
const MAX_RECORDS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;
/// Up to this many `Below` filters are tested one by one; with more, each prefix of the key is looked up.
const MAX_SCANNED_FILTERS: usize = 8;

/// The result of a read from memory.
pub(super) enum TailRead {
    /// All records up to the position; empty if there are none.
    UpTo(Revision, Vec<Record>),
    /// The cursor is behind the records in memory.
    Behind,
}

struct FollowerGroup {
    /// Revisions of the group's records in memory.
    revisions: VecDeque<Revision>,
    /// `revisions` holds every record of the group above this revision.
    complete_above: Revision,
    wake: watch::Sender<()>,
}

#[derive(Default)]
struct FollowerGroups {
    exactly: HashMap<Key, FollowerGroup>,
    one: HashMap<Key, FollowerGroup>,
    below: HashMap<Key, FollowerGroup>,
}

impl FollowerGroups {
    fn of(&mut self, filter: &Filter) -> &mut HashMap<Key, FollowerGroup> {
        match filter {
            Filter::Exactly(_) => &mut self.exactly,
            Filter::One(_) => &mut self.one,
            Filter::Below(_) => &mut self.below,
        }
    }

    fn is_empty(&self) -> bool {
        self.exactly.is_empty() && self.one.is_empty() && self.below.is_empty()
    }

    fn for_each_match(&mut self, key: &Key, mut visit: impl FnMut(&mut FollowerGroup)) {
        let text = key.as_str();
        self.exactly.get_mut(text).map(&mut visit);
        if let Some((parent, _)) = text.rsplit_once('.') {
            self.one.get_mut(parent).map(&mut visit);
        }
        if self.below.len() <= MAX_SCANNED_FILTERS {
            let is_below = |parent: &str| text.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'));
            let groups = self.below.iter_mut().filter(|(parent, _)| is_below(parent.as_str()));
            groups.for_each(|(_, group)| visit(group));
            return;
        }
        for (at, _) in text.match_indices('.') {
            self.below.get_mut(&text[..at]).map(&mut visit);
        }
    }
}

struct TailState {
    head: Revision,
    records: VecDeque<Record>,
    bytes: usize,
    /// The highest revision that was dropped from memory.
    dropped: Revision,
    groups: FollowerGroups,
    closed: Option<String>,
}

/// The head of a store, shared by its writer and its followers.
pub(super) struct LogTail(Mutex<TailState>);

impl LogTail {
    pub(super) fn new(head: Revision) -> Self {
        Self(Mutex::new(TailState {
            head,
            records: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            groups: FollowerGroups::default(),
            closed: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, TailState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The highest revision that is durable.
    pub(super) fn head(&self) -> Revision {
        self.lock().head
    }

    /// Publishes `records`, which are durable and in order, and the new `head`. `records` is not read without followers.
    pub(super) fn publish<'r>(
        &self,
        head: Revision,
        records: impl Iterator<Item = (Revision, &'r Key, &'r Bytes)>,
    ) {
        let mut state = self.lock();
        let TailState { records: ring, bytes, dropped, groups, .. } = &mut *state;
        let mut woken = Vec::new();
        if !groups.is_empty() {
            for (revision, key, value) in records {
                let mut is_followed = false;
                groups.for_each_match(key, |group| {
                    while group.revisions.front().is_some_and(|oldest| oldest <= dropped) {
                        group.complete_above = group.revisions.pop_front().unwrap_or(group.complete_above);
                    }
                    group.revisions.push_back(revision);
                    is_followed = true;
                    if !woken.iter().any(|sender: &watch::Sender<()>| sender.same_channel(&group.wake)) {
                        woken.push(group.wake.clone());
                    }
                });
                if is_followed {
                    *bytes += value.len();
                    ring.push_back(Record { revision, key: key.clone(), value: value.clone() });
                }
                while ring.len() > MAX_RECORDS || *bytes > MAX_BYTES {
                    let Some(oldest) = ring.pop_front() else { break };
                    *bytes -= oldest.value.len();
                    *dropped = oldest.revision;
                }
            }
        }
        state.head = head;
        drop(state);
        woken.iter().for_each(|sender| sender.send_replace(()));
    }

    /// Ends all followers.
    pub(super) fn close(&self, why: &str) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| why.to_owned());
        state.groups = FollowerGroups::default();
    }

    /// Joins the group of `filter`; the receiver is woken by every record of the group.
    pub(super) fn join(&self, filter: &Filter) -> Result<watch::Receiver<()>, Error> {
        let mut state = self.lock();
        if let Some(why) = &state.closed {
            return Err(Error::Closed(why.clone()));
        }
        let head = state.head;
        let group = state.groups.of(filter).entry(filter.key().clone()).or_insert_with(|| FollowerGroup {
            revisions: VecDeque::new(),
            complete_above: head,
            wake: watch::Sender::new(()),
        });
        Ok(group.wake.subscribe())
    }

    /// Removes the group of `filter` if it has no followers left.
    pub(super) fn leave(&self, filter: &Filter) {
        let mut state = self.lock();
        let groups = state.groups.of(filter);
        if groups.get(filter.key()).is_some_and(|group| group.wake.receiver_count() == 0) {
            groups.remove(filter.key());
        }
        if state.groups.is_empty() {
            state.dropped = state.head;
            state.bytes = 0;
            state.records = VecDeque::new();
        }
    }

    /// Up to `limit` records of `filter` above `position`, if they are in memory.
    pub(super) fn read_after(
        &self,
        filter: &Filter,
        position: Revision,
        limit: usize,
    ) -> Result<TailRead, Error> {
        let mut state = self.lock();
        if let Some(why) = &state.closed {
            return Err(Error::Closed(why.clone()));
        }
        let TailState { head, records: ring, dropped, groups, .. } = &mut *state;
        let Some(group) = groups.of(filter).get(filter.key()) else { return Ok(TailRead::Behind) };
        let from = group.revisions.partition_point(|revision| *revision <= position);
        let first = group.revisions.get(from);
        if position < group.complete_above || first.is_some_and(|first| first <= dropped) {
            return Ok(TailRead::Behind);
        }
        let revisions = group.revisions.range(from..).take(limit);
        let records: Vec<Record> = revisions
            .filter_map(|revision| {
                ring.binary_search_by_key(revision, |r| r.revision).ok().and_then(|at| ring.get(at))
            })
            .cloned()
            .collect();
        let all = group.revisions.len() - from <= limit;
        let reached = records.last().map_or(position, |last| last.revision);
        Ok(TailRead::UpTo(if all { reached.max(*head) } else { reached }, records))
    }
}
