//! The order in which an agent's tasks are listed, kept from list to list: what has changed since is read, and of that only
//! what the order needs. A page then costs its own rows, however many tasks there are.
//!
//! The order is bounded ([`MOST_BYTES`], more than a million tasks whose ids are UUIDs). An agent with more of them reads what all tasks say for each
//! page, and keeps no more than the page meanwhile.

mod order;
mod outline;

use engine::{content, records::keys};
pub(super) use outline::Wanted;

use crate::journal::every_after;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use blackboard::store::{Error, Key, Store};
use order::Order;
use outline::Outline;
use protocol::{
    a2a::json::InvalidField,
    ids::{AgentId, TaskId},
    principal::Principal,
    time::WallTime,
};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The most bytes that are kept from list to list, for one agent.
const MOST_BYTES: usize = 64 << 20;

/// A place in a list: where a task stands in the order by the time of its status.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    at: WallTime,
    task: TaskId,
    owner: Principal,
}

impl Cursor {
    /// The token of the page after it.
    pub(super) fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}|{}@{}", self.at.0, self.task, self.owner))
    }

    /// The place that a token names.
    pub(super) fn parse(token: &str) -> Result<Self, InvalidField> {
        let read = || {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let (at, name) = text.split_once('|')?;
            let (task, owner) = name.split_once('@')?;
            let owner = Principal::try_from(owner.to_owned()).ok()?;
            Some(Self { at: WallTime(at.parse().ok()?), task: TaskId::parse(task).ok()?, owner })
        };
        read().ok_or_else(|| InvalidField::new("pageToken", "is none that a page of this list ended with"))
    }

    /// Where the row it is of lies.
    fn key(&self, me: &AgentId) -> Key {
        keys::task(me, &self.task, &self.owner)
    }
}

/// The order of one agent's tasks. Clones share it.
#[derive(Debug, Clone)]
pub struct Listed(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    order: Order,
    most_bytes: usize,
    forgotten: u64,
    /// Whether there were too many when so many had been forgotten.
    is_too_much: bool,
}

impl Default for Listed {
    fn default() -> Self {
        Self::bounded(MOST_BYTES)
    }
}

/// What a list comes to.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Places and rows, the newest first; one more than asked for if there is another page.
    pub(super) rows: Vec<(Cursor, Key)>,
    /// How many there are in all.
    pub(super) total: usize,
}

impl Listed {
    fn bounded(most_bytes: usize) -> Self {
        let kept = Kept { order: Order::default(), most_bytes, forgotten: 0, is_too_much: false };
        Self(Arc::new(Mutex::new(kept)))
    }

    /// The first `size` rows behind `before` that are wanted, and one more. `forgotten` counts how often rows were deleted,
    /// which the store does not tell. Blocks.
    pub(super) fn page(
        &self,
        store: &dyn Store,
        me: &AgentId,
        forgotten: u64,
        before: Option<&Cursor>,
        size: usize,
        wanted: &Wanted,
    ) -> Result<Page, Error> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_current(store, me, forgotten)? {
            return Ok(kept.order.page(me, before, size, wanted));
        }
        drop(kept);
        passing(store, me, before, size, wanted)
    }
}

impl Kept {
    /// Brings the order up to date; false if there are too many tasks for it.
    fn is_current(&mut self, store: &dyn Store, me: &AgentId, forgotten: u64) -> Result<bool, Error> {
        if self.forgotten != forgotten {
            self.order.keep_what_is_there(store, me)?;
            (self.forgotten, self.is_too_much) = (forgotten, false);
        }
        if self.is_too_much {
            return Ok(false);
        }
        // What an order has grown to is measured with what it no longer needs: made afresh, it may be small enough.
        let was_made_before = self.order.is_begun();
        let mut fits = self.order.catches_up(store, me, self.most_bytes)?;
        if !fits && was_made_before {
            fits = self.order.catches_up(store, me, self.most_bytes)?;
        }
        self.is_too_much = !fits;
        Ok(fits)
    }
}

/// A page of more tasks than are kept in order: all are read, and no more than the page is kept.
fn passing(
    store: &dyn Store,
    me: &AgentId,
    before: Option<&Cursor>,
    size: usize,
    wanted: &Wanted,
) -> Result<Page, Error> {
    let mut seen = BTreeMap::new();
    let mut total = 0;
    every_after(store, &keys::all(me, "task"), 0, |record| {
        let outline: Outline = content::outline(&record.value)?;
        if !outline.is_message && wanted.admits(&outline) {
            total += 1;
            let at = outline.cursor();
            if before.is_none_or(|before| at < *before) {
                seen.insert(Reverse(at), record.key);
            }
            if seen.len() > size + 1 {
                seen.pop_last();
            }
        }
        Ok(())
    })?;
    Ok(Page { rows: seen.into_iter().map(|(Reverse(at), key)| (at, key)).collect(), total })
}

#[cfg(test)]
mod tests;
