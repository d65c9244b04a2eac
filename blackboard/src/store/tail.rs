//! The most recent records that somebody follows, kept in memory once for all followers, so that the head costs no read.
//!
//! Followers of one filter form a group. A record wakes only the groups that it belongs to, and is kept only if there is
//! one; a follower that is further behind than what is kept reads pages from the backend.

use super::{Error, Filter, Key, Record, Revision};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The most that is kept.
const MOST_RECORDS: usize = 4096;
const MOST_BYTES: usize = 4 << 20;
/// So many filters are tried one by one; with more, a key's ends are looked up.
const FEW: usize = 8;

/// What a follower finds at the head.
pub(super) enum Found {
    /// All up to the position; none if nothing new is there.
    UpTo(Revision, Vec<Record>),
    /// It is further behind than what is kept.
    Behind,
}

struct Group {
    /// Of the records that belong here and are kept.
    revisions: VecDeque<Revision>,
    /// Nothing that belongs here above this revision is missing from `revisions`.
    covers: Revision,
    wake: watch::Sender<()>,
}

#[derive(Default)]
struct Groups {
    exactly: HashMap<Key, Group>,
    one: HashMap<Key, Group>,
    below: HashMap<Key, Group>,
}

impl Groups {
    fn of(&mut self, filter: &Filter) -> &mut HashMap<Key, Group> {
        match filter {
            Filter::Exactly(_) => &mut self.exactly,
            Filter::One(_) => &mut self.one,
            Filter::Below(_) => &mut self.below,
        }
    }

    fn is_empty(&self) -> bool {
        self.exactly.is_empty() && self.one.is_empty() && self.below.is_empty()
    }

    fn each(&mut self, key: &Key, mut reach: impl FnMut(&mut Group)) {
        let text = key.as_str();
        self.exactly.get_mut(text).map(&mut reach);
        if let Some((parent, _)) = text.rsplit_once('.') {
            self.one.get_mut(parent).map(&mut reach);
        }
        if self.below.len() <= FEW {
            let is_below = |parent: &str| text.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'));
            let groups = self.below.iter_mut().filter(|(parent, _)| is_below(parent.as_str()));
            groups.for_each(|(_, group)| reach(group));
            return;
        }
        for (at, _) in text.match_indices('.') {
            self.below.get_mut(&text[..at]).map(&mut reach);
        }
    }
}

struct Kept {
    head: Revision,
    records: VecDeque<Record>,
    bytes: usize,
    /// The highest revision that was dropped to make room.
    dropped: Revision,
    groups: Groups,
    closed: Option<String>,
}

/// The head of a store, shared by its writer and its followers.
pub(super) struct Tail(Mutex<Kept>);

impl Tail {
    pub(super) fn new(head: Revision) -> Self {
        Self(Mutex::new(Kept {
            head,
            records: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            groups: Groups::default(),
            closed: None,
        }))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The highest revision that is durable.
    pub(super) fn head(&self) -> Revision {
        self.kept().head
    }

    /// Everything up to `head` is durable, `records` among it, in order. They are not looked at if nobody follows.
    pub(super) fn publish<'r>(
        &self,
        head: Revision,
        records: impl Iterator<Item = (Revision, &'r Key, &'r Bytes)>,
    ) {
        let mut kept = self.kept();
        let Kept { records: ring, bytes, dropped, groups, .. } = &mut *kept;
        let mut woken = Vec::new();
        if !groups.is_empty() {
            for (revision, key, value) in records {
                let mut followed = false;
                groups.each(key, |group| {
                    while group.revisions.front().is_some_and(|oldest| oldest <= dropped) {
                        group.covers = group.revisions.pop_front().unwrap_or(group.covers);
                    }
                    group.revisions.push_back(revision);
                    followed = true;
                    if !woken.iter().any(|sender: &watch::Sender<()>| sender.same_channel(&group.wake)) {
                        woken.push(group.wake.clone());
                    }
                });
                if followed {
                    *bytes += value.len();
                    ring.push_back(Record { revision, key: key.clone(), value: value.clone() });
                }
                while ring.len() > MOST_RECORDS || *bytes > MOST_BYTES {
                    let Some(oldest) = ring.pop_front() else { break };
                    *bytes -= oldest.value.len();
                    *dropped = oldest.revision;
                }
            }
        }
        kept.head = head;
        drop(kept);
        woken.iter().for_each(|sender| sender.send_replace(()));
    }

    /// No more will come.
    pub(super) fn close(&self, why: &str) {
        let mut kept = self.kept();
        kept.closed.get_or_insert_with(|| why.to_owned());
        kept.groups = Groups::default();
    }

    /// Joins the group of `filter`; the receiver is told of every record that belongs to it.
    pub(super) fn join(&self, filter: &Filter) -> Result<watch::Receiver<()>, Error> {
        let mut kept = self.kept();
        if let Some(why) = &kept.closed {
            return Err(Error::Closed(why.clone()));
        }
        let head = kept.head;
        let group = kept.groups.of(filter).entry(filter.key().clone()).or_insert_with(|| Group {
            revisions: VecDeque::new(),
            covers: head,
            wake: watch::Sender::new(()),
        });
        Ok(group.wake.subscribe())
    }

    /// Forgets the group of `filter` if nobody is left in it.
    pub(super) fn leave(&self, filter: &Filter) {
        let mut kept = self.kept();
        let groups = kept.groups.of(filter);
        if groups.get(filter.key()).is_some_and(|group| group.wake.receiver_count() == 0) {
            groups.remove(filter.key());
        }
        if kept.groups.is_empty() {
            kept.dropped = kept.head;
            kept.bytes = 0;
            kept.records = VecDeque::new();
        }
    }

    /// Up to `limit` records of `filter` above `position`, if they are kept.
    pub(super) fn since(&self, filter: &Filter, position: Revision, limit: usize) -> Result<Found, Error> {
        let mut kept = self.kept();
        if let Some(why) = &kept.closed {
            return Err(Error::Closed(why.clone()));
        }
        let Kept { head, records: ring, dropped, groups, .. } = &mut *kept;
        let Some(group) = groups.of(filter).get(filter.key()) else { return Ok(Found::Behind) };
        let from = group.revisions.partition_point(|revision| *revision <= position);
        let first = group.revisions.get(from);
        if position < group.covers || first.is_some_and(|first| first <= dropped) {
            return Ok(Found::Behind);
        }
        let wanted = group.revisions.range(from..).take(limit);
        let records: Vec<Record> = wanted
            .filter_map(|revision| {
                ring.binary_search_by_key(revision, |r| r.revision).ok().and_then(|at| ring.get(at))
            })
            .cloned()
            .collect();
        let all = group.revisions.len() - from <= limit;
        let reached = records.last().map_or(position, |last| last.revision);
        Ok(Found::UpTo(if all { reached.max(*head) } else { reached }, records))
    }
}
