//! Very many tasks in order, in few bytes each.

use super::{
    Cursor, Page,
    outline::{Audience, Outline, Wanted},
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

/// How many rows are read at once.
const PAGE: usize = 256;

/// A task's id. Those that are made here are UUIDs, which take a third of their text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Name {
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

    /// As their texts stand in order.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Uuid(one), Self::Uuid(other)) => one.cmp(other),
            _ => self.text(&mut [0; 36]).cmp(other.text(&mut [0; 36])),
        }
    }

    /// Bytes that lie elsewhere.
    fn bytes(&self) -> usize {
        match self {
            Self::Uuid(_) => 0,
            // What an allocator adds is no more.
            Self::Text(text) => text.len() + 16,
        }
    }
}

/// What the order keeps of a task.
#[derive(Debug, Clone)]
struct Row {
    at: WallTime,
    name: Name,
    revision: Revision,
    /// The hash of the context's id.
    context: u64,
    /// Which of the audiences may see it.
    audience: u32,
    state: TaskState,
    is_message: bool,
}

/// The order of an agent's tasks, as far as it has been read.
#[derive(Debug, Default)]
pub(super) struct Order {
    after: Revision,
    /// The oldest first.
    rows: Vec<Row>,
    audiences: Audiences,
    /// What the names take beside the rows.
    bytes: usize,
    /// Nothing has changed while the store stands here.
    head: Option<Revision>,
    hasher: RandomState,
}

/// Many tasks have the same.
#[derive(Debug, Default)]
struct Audiences {
    all: Vec<Arc<Audience>>,
    known: HashMap<Arc<Audience>, u32>,
    bytes: usize,
}

impl Audiences {
    fn number(&mut self, audience: Audience) -> u32 {
        if let Some(number) = self.known.get(&audience) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.bytes += audience.bytes();
        let audience = Arc::new(audience);
        self.all.push(audience.clone());
        self.known.insert(audience, number);
        number
    }

    fn owner(&self, row: &Row) -> Option<&Principal> {
        self.all.get(row.audience as usize).map(|audience| &audience.owner)
    }

    /// Equal for rows of one task only.
    fn identity(&self, one: &Row, other: &Row) -> Ordering {
        one.name.compare(&other.name).then_with(|| self.owner(one).cmp(&self.owner(other)))
    }
}

impl Order {
    /// Whether anything has been read.
    pub(super) fn is_begun(&self) -> bool {
        self.after > 0
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.capacity() == 0
    }

    /// Reads what has changed. False if it would take more than `most` bytes: then nothing is kept.
    pub(super) fn catches_up(&mut self, store: &dyn Store, me: &AgentId, most: usize) -> Result<bool, Error> {
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
                bytes += row.name.bytes();
                fresh.push(row);
            }
            let rows = (self.rows.len() + fresh.len()) * size_of::<Row>();
            if rows + self.bytes + bytes + self.audiences.bytes > most {
                *self = Self::default();
                return Ok(false);
            }
            // One more look would go through all keys again to find nothing.
            if is_last {
                break;
            }
        }
        self.merge(fresh);
        (self.after, self.head) = (after, Some(head));
        Ok(true)
    }

    fn row(&mut self, outline: &Outline, revision: Revision) -> Row {
        Row {
            at: outline.changed_at,
            name: Name::of(&outline.spec.task_id),
            revision,
            context: self.hasher.hash_one(outline.context_id()),
            audience: self.audiences.number(Audience::of(outline)),
            state: outline.status.state,
            is_message: outline.is_message,
        }
    }

    /// Puts rows where they belong, in place of those that they follow.
    fn merge(&mut self, mut fresh: Vec<Row>) {
        if fresh.is_empty() {
            return;
        }
        let Self { rows, audiences, .. } = self;
        fresh.sort_by(|one, other| {
            audiences.identity(one, other).then_with(|| one.revision.cmp(&other.revision))
        });
        fresh.dedup_by(|later, earlier| {
            let is_same = audiences.identity(later, earlier).is_eq();
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        rows.retain(|row| fresh.binary_search_by(|fresh| audiences.identity(fresh, row)).is_err());
        fresh.retain(|row| !row.is_message);
        if rows.capacity() < rows.len() + fresh.len() {
            rows.reserve_exact(fresh.len() + rows.len() / 16);
        }
        rows.append(&mut fresh);
        // A stable sort finds the two runs.
        rows.sort_by(|one, other| one.at.cmp(&other.at).then_with(|| audiences.identity(one, other)));
        self.bytes = rows.iter().map(|row| row.name.bytes()).sum();
    }

    /// Drops what the store no longer has, or has changed since.
    pub(super) fn keep_what_is_there(&mut self, store: &dyn Store, me: &AgentId) -> Result<(), Error> {
        self.head = None;
        if self.rows.is_empty() {
            return Ok(());
        }
        let (filter, mut after, mut there) = (keys::all(me, "task"), 0, Vec::new());
        while after < self.after {
            let page = store.keys(&filter, after, MAX_READ)?;
            let Some((last, _)) = page.last() else { break };
            after = *last;
            there.extend(page.into_iter().map(|(revision, _)| revision));
        }
        self.rows.retain(|row| there.binary_search(&row.revision).is_ok());
        self.bytes = self.rows.iter().map(|row| row.name.bytes()).sum();
        Ok(())
    }

    /// The first `size` rows behind `before` that are wanted, and one more.
    pub(super) fn page(&self, me: &AgentId, before: Option<&Cursor>, size: usize, wanted: &Wanted) -> Page {
        let sees: Vec<bool> = self.audiences.all.iter().map(|audience| wanted.sees(audience)).collect();
        let context = wanted.context_id.as_deref().map(|id| self.hasher.hash_one(id));
        let before = before.map(|before| (before, Name::of(&before.task)));
        let mut page = Page::default();
        for row in self.rows.iter().rev() {
            let is_wanted = sees.get(row.audience as usize).is_some_and(|sees| *sees)
                && wanted.stands(row.state, row.at)
                && context.is_none_or(|context| context == row.context);
            if !is_wanted {
                continue;
            }
            page.total += 1;
            if page.rows.len() <= size
                && before.as_ref().is_none_or(|(before, name)| self.is_behind(row, before, name))
                && let Some(at) = self.cursor(row)
            {
                let key = at.key(me);
                page.rows.push((at, key));
            }
        }
        page
    }

    fn is_behind(&self, row: &Row, before: &Cursor, name: &Name) -> bool {
        let order = row.at.cmp(&before.at).then_with(|| row.name.compare(name));
        order.then_with(|| self.audiences.owner(row).cmp(&Some(&before.owner))).is_lt()
    }

    fn cursor(&self, row: &Row) -> Option<Cursor> {
        let task = TaskId::parse(row.name.text(&mut [0; 36])).ok()?;
        Some(Cursor { at: row.at, task, owner: self.audiences.owner(row)?.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_tasks_fit() {
        assert!(size_of::<Row>() * 1_000_000 < super::super::MOST_BYTES);
    }
}
