//! A compact in-memory list of tasks in order.

use super::{
    TaskCursor, TaskIndexPage,
    outline::{Audience, TaskFilter, TaskOutline},
};
use blackboard::store::{Error, MAX_READ, Revision, Store};
use engine::{content, records::keys};
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    task::TaskState,
    time::WallTime,
};
use std::{
    cmp::Ordering,
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};
use uuid::Uuid;

/// Number of rows per read.
const PAGE: usize = 256;

/// A task's id. Ids that the mesh creates are UUIDs, stored as 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CompactTaskId {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl CompactTaskId {
    fn of(task: &TaskId) -> Self {
        let uuid = Uuid::parse_str(task.as_str()).ok();
        let uuid = uuid.filter(|uuid| uuid.hyphenated().encode_lower(&mut [0; 36]) == task.as_str());
        uuid.map_or_else(|| Self::Text(task.as_str().into()), |uuid| Self::Uuid(uuid.into_bytes()))
    }

    fn text<'t>(&'t self, buffer: &'t mut [u8; 36]) -> &'t str {
        match self {
            Self::Uuid(bytes) => Uuid::from_bytes(*bytes).hyphenated().encode_lower(buffer),
            Self::Text(text) => text,
        }
    }

    /// Compares as texts.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Uuid(one), Self::Uuid(other)) => one.cmp(other),
            _ => self.text(&mut [0; 36]).cmp(other.text(&mut [0; 36])),
        }
    }

    /// Bytes on the heap.
    fn bytes(&self) -> usize {
        match self {
            Self::Uuid(_) => 0,
            // 16 is an upper bound of the allocator's overhead.
            Self::Text(text) => text.len() + 16,
        }
    }
}

/// One task in the order.
#[derive(Debug, Clone)]
struct TaskOrderRow {
    at: WallTime,
    id: CompactTaskId,
    revision: Revision,
    /// The hash of the context id.
    context: u64,
    /// The number of its audience.
    audience: u32,
    state: TaskState,
    is_message: bool,
}

/// An agent's tasks in order, read up to the revision `after`.
#[derive(Debug, Default)]
pub(super) struct TaskOrder {
    after: Revision,
    /// The oldest first.
    rows: Vec<TaskOrderRow>,
    audiences: AudienceTable,
    /// Heap bytes of the ids.
    bytes: usize,
    /// The store's head at the last update.
    head: Option<Revision>,
    hasher: RandomState,
}

/// The distinct audiences, numbered, as many tasks share one.
#[derive(Debug, Default)]
struct AudienceTable {
    all: Vec<Arc<Audience>>,
    numbers: HashMap<Arc<Audience>, u32>,
    bytes: usize,
}

impl AudienceTable {
    fn number(&mut self, audience: Audience) -> u32 {
        if let Some(number) = self.numbers.get(&audience) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.bytes += audience.bytes();
        let audience = Arc::new(audience);
        self.all.push(audience.clone());
        self.numbers.insert(audience, number);
        number
    }

    fn owner(&self, row: &TaskOrderRow) -> Option<&Principal> {
        self.all.get(row.audience as usize).map(|audience| &audience.owner)
    }

    /// Compares id and owner; equal only for rows of one task.
    fn compare(&self, one: &TaskOrderRow, other: &TaskOrderRow) -> Ordering {
        one.id.compare(&other.id).then_with(|| self.owner(one).cmp(&self.owner(other)))
    }
}

impl TaskOrder {
    /// Whether rows were read.
    pub(super) fn has_read_rows(&self) -> bool {
        self.after > 0
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.capacity() == 0
    }

    /// Reads the changed rows. Returns false and clears itself if it would exceed `max` bytes.
    pub(super) fn update(&mut self, store: &dyn Store, me: &AgentId, max: usize) -> Result<bool, Error> {
        let head = store.head();
        if self.head == Some(head) {
            return Ok(true);
        }
        let (filter, mut after) = (keys::all(me, "task"), self.after);
        let (mut fresh, mut bytes) = (Vec::new(), 0);
        loop {
            let page = store.read(&filter, after, PAGE)?;
            let Some(last) = page.last().map(|record| record.revision) else { break };
            after = last;
            let is_last = page.len() < PAGE;
            for record in page {
                let row = self.row(&content::outline(&record.value)?, record.revision);
                bytes += row.id.bytes();
                fresh.push(row);
            }
            let rows = (self.rows.len() + fresh.len()) * size_of::<TaskOrderRow>();
            if rows + self.bytes + bytes + self.audiences.bytes > max {
                *self = Self::default();
                return Ok(false);
            }
            // A further read would scan all keys again and find nothing.
            if is_last {
                break;
            }
        }
        self.merge(fresh);
        (self.after, self.head) = (after, Some(head));
        Ok(true)
    }

    fn row(&mut self, outline: &TaskOutline, revision: Revision) -> TaskOrderRow {
        TaskOrderRow {
            at: outline.changed_at,
            id: CompactTaskId::of(&outline.spec.task_id),
            revision,
            context: self.hasher.hash_one(outline.context_id()),
            audience: self.audiences.number(Audience::of(outline)),
            state: outline.status.state,
            is_message: outline.is_message,
        }
    }

    /// Inserts rows in order; each replaces the older row of its task.
    fn merge(&mut self, mut fresh: Vec<TaskOrderRow>) {
        if fresh.is_empty() {
            return;
        }
        let Self { rows, audiences, .. } = self;
        fresh.sort_by(|one, other| {
            audiences.compare(one, other).then_with(|| one.revision.cmp(&other.revision))
        });
        fresh.dedup_by(|later, earlier| {
            let is_same = audiences.compare(later, earlier).is_eq();
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        rows.retain(|row| fresh.binary_search_by(|fresh| audiences.compare(fresh, row)).is_err());
        fresh.retain(|row| !row.is_message);
        if rows.capacity() < rows.len() + fresh.len() {
            rows.reserve_exact(fresh.len() + rows.len() / 16);
        }
        rows.append(&mut fresh);
        // The stable sort merges the two sorted runs.
        rows.sort_by(|one, other| one.at.cmp(&other.at).then_with(|| audiences.compare(one, other)));
        self.bytes = rows.iter().map(|row| row.id.bytes()).sum();
    }

    /// Drops rows that were deleted or changed in the store.
    pub(super) fn drop_deleted(&mut self, store: &dyn Store, me: &AgentId) -> Result<(), Error> {
        self.head = None;
        if self.rows.is_empty() {
            return Ok(());
        }
        let (filter, mut after, mut present) = (keys::all(me, "task"), 0, Vec::new());
        while after < self.after {
            let page = store.keys(&filter, after, MAX_READ)?;
            let Some((last, _)) = page.last() else { break };
            after = *last;
            present.extend(page.into_iter().map(|(revision, _)| revision));
        }
        self.rows.retain(|row| present.binary_search(&row.revision).is_ok());
        self.bytes = self.rows.iter().map(|row| row.id.bytes()).sum();
        Ok(())
    }

    /// The first `size` + 1 rows after `before` that match `filter`.
    pub(super) fn page(
        &self,
        me: &AgentId,
        before: Option<&TaskCursor>,
        size: usize,
        filter: &TaskFilter,
    ) -> TaskIndexPage {
        let sees: Vec<bool> = self.audiences.all.iter().map(|audience| filter.sees(audience)).collect();
        let context = filter.context_id.as_deref().map(|id| self.hasher.hash_one(id));
        let before = before.map(|before| (before, CompactTaskId::of(&before.task)));
        let mut page = TaskIndexPage::default();
        for row in self.rows.iter().rev() {
            let matches = sees.get(row.audience as usize).is_some_and(|sees| *sees)
                && filter.matches_status(row.state, row.at)
                && context.is_none_or(|context| context == row.context);
            if !matches {
                continue;
            }
            page.total += 1;
            if page.rows.len() <= size
                && before.as_ref().is_none_or(|(before, id)| self.is_after(row, before, id))
                && let Some(at) = self.cursor(row)
            {
                let key = at.key(me);
                page.rows.push((at, key));
            }
        }
        page
    }

    fn is_after(&self, row: &TaskOrderRow, before: &TaskCursor, id: &CompactTaskId) -> bool {
        let order = row.at.cmp(&before.at).then_with(|| row.id.compare(id));
        order.then_with(|| self.audiences.owner(row).cmp(&Some(&before.owner))).is_lt()
    }

    fn cursor(&self, row: &TaskOrderRow) -> Option<TaskCursor> {
        let task = TaskId::parse(row.id.text(&mut [0; 36])).ok()?;
        Some(TaskCursor { at: row.at, task, owner: self.audiences.owner(row)?.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_tasks_fit() {
        assert!(size_of::<TaskOrderRow>() * 1_000_000 < super::super::MAX_BYTES);
    }
}
