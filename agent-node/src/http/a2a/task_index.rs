//! An index of an agent's tasks in list order. A list reads only the rows that changed since the last one, and of those only
//! the fields that order and filters need. A page then costs its own rows, however many tasks there are.
//!
//! The index is bounded ([`MAX_BYTES`], more than a million tasks whose ids are UUIDs). Beyond that, each page scans all
//! tasks and holds no more than the page in memory.

mod order;
mod outline;

use engine::{content, records::keys};
pub(super) use outline::TaskFilter;

use crate::journal::for_each_record_after;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use blackboard::store::{Error, Key, Store};
use order::TaskOrder;
use outline::TaskOutline;
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

/// Limit of an agent's index, bytes.
const MAX_BYTES: usize = 64 << 20;

/// A position in a list. Tasks are ordered by the time of their status, then by id and owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskCursor {
    at: WallTime,
    task: TaskId,
    owner: Principal,
}

impl TaskCursor {
    /// The token of the page after it.
    pub(super) fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}|{}@{}", self.at.0, self.task, self.owner))
    }

    /// The position in a token.
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

    /// The key of the task's row.
    fn key(&self, me: &AgentId) -> Key {
        keys::task(me, &self.task, &self.owner)
    }
}

/// The index of one agent's tasks. Clones share it.
#[derive(Debug, Clone)]
pub struct TaskIndex(Arc<Mutex<TaskIndexState>>);

#[derive(Debug)]
struct TaskIndexState {
    order: TaskOrder,
    max_bytes: usize,
    deletions: u64,
    /// Whether the index exceeded its limit, as of `deletions`.
    is_over_limit: bool,
}

impl Default for TaskIndex {
    fn default() -> Self {
        Self::bounded(MAX_BYTES)
    }
}

/// A page of a list.
#[derive(Debug, Default)]
pub(super) struct TaskIndexPage {
    /// Positions and row keys, the newest first; one more than requested if there is another page.
    pub(super) rows: Vec<(TaskCursor, Key)>,
    /// The number of matching tasks on all pages.
    pub(super) total: usize,
}

impl TaskIndex {
    fn bounded(max_bytes: usize) -> Self {
        let state =
            TaskIndexState { order: TaskOrder::default(), max_bytes, deletions: 0, is_over_limit: false };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The first `size` + 1 rows after `before` that match `filter`. `deletions` counts deletions of rows, which the store
    /// does not report to readers. Blocks.
    pub(super) fn page(
        &self,
        store: &dyn Store,
        me: &AgentId,
        deletions: u64,
        before: Option<&TaskCursor>,
        size: usize,
        filter: &TaskFilter,
    ) -> Result<TaskIndexPage, Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.update(store, me, deletions)? {
            return Ok(state.order.page(me, before, size, filter));
        }
        drop(state);
        page_by_scan(store, me, before, size, filter)
    }
}

impl TaskIndexState {
    /// Brings the order up to date; false if it exceeds the limit.
    fn update(&mut self, store: &dyn Store, me: &AgentId, deletions: u64) -> Result<bool, Error> {
        if self.deletions != deletions {
            self.order.drop_deleted(store, me)?;
            (self.deletions, self.is_over_limit) = (deletions, false);
        }
        if self.is_over_limit {
            return Ok(false);
        }
        // The size includes data of outdated rows: a rebuilt order may fit.
        let had_rows = self.order.has_read_rows();
        let mut fits = self.order.update(store, me, self.max_bytes)?;
        if !fits && had_rows {
            fits = self.order.update(store, me, self.max_bytes)?;
        }
        self.is_over_limit = !fits;
        Ok(fits)
    }
}

/// A page without the index: reads all tasks and keeps only the page.
fn page_by_scan(
    store: &dyn Store,
    me: &AgentId,
    before: Option<&TaskCursor>,
    size: usize,
    filter: &TaskFilter,
) -> Result<TaskIndexPage, Error> {
    let mut rows = BTreeMap::new();
    let mut total = 0;
    for_each_record_after(store, &keys::all(me, "task"), 0, |record| {
        let outline: TaskOutline = content::outline(&record.value)?;
        if !outline.is_message && filter.admits(&outline) {
            total += 1;
            let at = outline.cursor();
            if before.is_none_or(|before| at < *before) {
                rows.insert(Reverse(at), record.key);
            }
            if rows.len() > size + 1 {
                rows.pop_last();
            }
        }
        Ok(())
    })?;
    Ok(TaskIndexPage { rows: rows.into_iter().map(|(Reverse(at), key)| (at, key)).collect(), total })
}

#[cfg(test)]
mod tests;
