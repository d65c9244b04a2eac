//! Which entries of a space a reader asks for, and one page of them.

use super::{
    listing::{self, Audience, Ranking},
    rows,
    space_cursor::{CursorKey, CursorKind},
};
use protocol::{
    deputy::{Deputy, MeshOperation},
    ids::{SpaceId, TaskId},
    principal::{Principal, TaskRoot},
    problem::{Problem, Reason},
    spaces::{
        Entry, EntryKind, EntryState, EntryType, MemberId, Reader, Space, SpaceVerb, may, may::role_in,
    },
};
use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, collections::BTreeSet};
use store::{Key, ListOrder, ListPosition, ListQuery, ListedKey, Snapshot, words};

/// Selects entries of a space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryQuery {
    /// Only these kinds; empty: all.
    pub kinds: BTreeSet<EntryKind>,
    /// Only these states; empty: all.
    pub states: BTreeSet<EntryState>,
    /// Only these types; empty: all.
    pub types: BTreeSet<EntryType>,
    /// Only entries of this author.
    pub author: Option<Principal>,
    /// Only entries with one of these tags; empty: all. A tag is compared as a whole.
    pub tags: BTreeSet<String>,
    /// Only entries whose title, content or tags have all these words, or words that begin so.
    pub text: Option<String>,
    /// Of findings only these.
    pub findings: FindingsOf,
    /// Of sealed entries those of the reader in this session, and nothing else.
    pub sealed: Option<TaskId>,
    /// Only what the reader, an agent, may read in work of which this is the root.
    pub root: Option<TaskRoot>,
    /// Whether only entries are meant that nobody has to accept first.
    pub is_accepted: bool,
    pub order: EntryOrder,
    /// Only entries behind this cursor of an earlier page.
    pub after: Option<String>,
}

/// Whose findings are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FindingsOf {
    #[default]
    All,
    /// Those that belong to no session.
    NoSession,
    Session(TaskId),
}

impl FindingsOf {
    fn admits(&self, entry: &Entry) -> bool {
        match self {
            _ if entry.kind != EntryKind::Finding => true,
            Self::All => true,
            Self::NoSession => entry.session.is_none(),
            Self::Session(session) => entry.session.as_ref() == Some(session),
        }
    }
}

/// The order of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EntryOrder {
    #[default]
    Newest,
    Oldest,
    /// The most important first, then the newest. Always so with a text.
    Importance,
}

/// A page of entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryPage {
    /// In the order asked for.
    pub entries: Vec<Entry>,
    /// The cursor of the next page, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Where a stream goes on that is to miss nothing that this page does not have.
    pub cursor: String,
}

/// The most bytes of a page; the entry that passes it is the last.
const MAX_PAGE_BYTES: usize = 1 << 20;

/// The most words of one search.
const MAX_WORDS: usize = 16;

/// How many list rows one page reads at a time.
const STEP: usize = 64;

impl EntryQuery {
    /// Whether `entry` is one of those that are asked for; text aside.
    pub fn admits(&self, entry: &Entry) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
            && (self.states.is_empty() || self.states.contains(&entry.state))
            && (self.types.is_empty() || entry.entry_type.is_some_and(|of| self.types.contains(&of)))
            && self.author.as_ref().is_none_or(|author| *author == entry.author)
            && (self.tags.is_empty() || self.tags.iter().any(|tag| entry.tags.contains(tag)))
            && !(self.is_accepted && entry.is_unaccepted)
            && self.findings.admits(entry)
    }

    fn is_of_findings(&self) -> bool {
        self.kinds.len() == 1 && self.kinds.contains(&EntryKind::Finding)
    }

    /// The own sealed entries of `reader` that are asked for, the newest first. Blocks.
    pub(crate) fn sealed_page(
        &self,
        store: &(impl Snapshot + ?Sized),
        reader: &Reader,
        (space, session): (&Space, &TaskId),
        limit: usize,
    ) -> Result<Vec<Entry>, Problem> {
        let wanted: Vec<String> = words(self.text.as_deref().unwrap_or_default()).collect();
        let has_words = |entry: &Entry| {
            let text: Vec<String> = words(&rows::searched_text(entry)).collect();
            wanted.iter().all(|wanted| text.iter().any(|word| word.starts_with(wanted.as_str())))
        };
        let mut own: Vec<Entry> = rows::find_sealed(store, &space.id, None)?
            .into_iter()
            .map(|sealed| sealed.value)
            .filter(|sealed| sealed.draft.sealed.as_ref().is_some_and(|of| of.session == *session))
            .map(|sealed| sealed.shown(space.id.clone()))
            .filter(|entry| MemberId::of(&entry.author) == MemberId::of(&reader.principal))
            .filter(|entry| self.admits(entry) && has_words(entry))
            .collect();
        own.sort_by_key(|entry| Reverse(entry.at));
        own.truncate(limit);
        Ok(own)
    }

    fn is_by_importance(&self) -> bool {
        self.order == EntryOrder::Importance || self.text.is_some()
    }

    /// The parts of lists that can have such entries.
    fn parts(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        let kinds = EntryKind::ALL.into_iter();
        for kind in kinds.filter(|kind| self.kinds.is_empty() || self.kinds.contains(kind)) {
            let of_kind: Vec<_> = EntryType::ALL.into_iter().filter(|of| of.belongs_to(kind)).collect();
            let types: Vec<Option<EntryType>> = match (of_kind.is_empty(), self.types.is_empty()) {
                (true, true) => vec![None],
                (true, false) => Vec::new(),
                (false, _) => {
                    let is_wanted = |of: &EntryType| self.types.is_empty() || self.types.contains(of);
                    of_kind.into_iter().filter(is_wanted).map(Some).collect()
                }
            };
            let states = EntryState::of_kind(kind).iter();
            let states: Vec<_> =
                states.filter(|state| self.states.is_empty() || self.states.contains(state)).collect();
            for entry_type in types {
                parts.extend(states.iter().map(|state| listing::part(kind, entry_type, **state)));
            }
            if kind == EntryKind::Finding && self.types.is_empty() && self.findings != FindingsOf::NoSession {
                parts.extend(states.iter().map(|state| listing::part_of_session(**state)));
            }
        }
        parts
    }

    /// The number of entries of `author` in `space`. Blocks.
    pub(crate) fn count_of_author(
        store: &(impl Snapshot + ?Sized),
        space: &SpaceId,
        author: &Principal,
    ) -> Result<u64, Problem> {
        let audiences = [Some(Audience::Everyone), MemberId::of(author).map(Audience::Only)];
        let (parts, group) = (Self::default().parts(), Some(listing::author_group(author)));
        let mut count = 0;
        for audience in audiences.into_iter().flatten() {
            let list = audience.list(space, Ranking::Time);
            count += store.count(&ListQuery { parts: parts.clone(), group, ..ListQuery::oldest(list) })?;
        }
        Ok(count)
    }

    /// The page of up to `limit` entries of `space` that `reader` may see. Blocks for pages of the store.
    pub(crate) fn page(
        &self,
        store: &(impl Snapshot + ?Sized),
        cursors: &CursorKey,
        reader: &Reader,
        space: &Space,
        limit: usize,
    ) -> Result<EntryPage, Problem> {
        // Read first: what is written from here on comes by the stream.
        let head = store.head();
        if self.text.as_deref().is_some_and(|text| words(text).count() > MAX_WORDS) {
            let message = format!("text: at most {MAX_WORDS} words are searched for");
            return Err(Problem::new(Reason::InvalidField, message).with("field", "text"));
        }
        let mut after = self.position(cursors, space)?;
        let agent = reader.principal.agent().zip(self.root.as_ref());
        let deputy = agent.map(|(agent, root)| Deputy { agent: agent.clone(), root: root.clone() });
        let role = role_in(space, &reader.principal);
        let audiences = role.map(|role| Audience::of_reader(reader, role)).unwrap_or_default();
        let ranking = if self.is_by_importance() { Ranking::Importance } else { Ranking::Time };
        let query = ListQuery {
            parts: self.parts(),
            group: self.author.as_ref().map(listing::author_group),
            order: match (self.is_by_importance(), self.order) {
                (false, EntryOrder::Oldest) => ListOrder::OldestFirst,
                _ => ListOrder::NewestFirst,
            },
            text: self.text.clone(),
            ..ListQuery::oldest(Audience::Everyone.list(&space.id, ranking))
        };
        let lists = match &self.findings {
            FindingsOf::Session(session) if self.is_of_findings() && ranking == Ranking::Time => {
                vec![listing::of_session(&space.id, session)]
            }
            _ => audiences.iter().map(|audience| audience.list(&space.id, ranking)).collect(),
        };
        let (mut entries, mut bytes) = (Vec::new(), 0);
        loop {
            let listed = merged(store, &query, &lists, after)?;
            let is_last = listed.len() < STEP;
            for ListedKey { position, key } in listed {
                let found = readable(store, &key)?;
                let is_visible = |entry: &Entry| {
                    let read = MeshOperation::InSpace(SpaceVerb::Read, Some(entry), space);
                    match &deputy {
                        Some(deputy) => deputy.may(read).is_ok(),
                        None => may(reader, SpaceVerb::Read, Some(entry), space).is_ok(),
                    }
                };
                if let Some((entry, size)) =
                    found.filter(|(entry, _)| self.admits(entry) && is_visible(entry))
                {
                    if entries.len() >= limit || bytes > MAX_PAGE_BYTES {
                        return self.finished(cursors, space, entries, after, head);
                    }
                    bytes += size;
                    entries.push(entry);
                }
                after = Some(position);
            }
            if is_last {
                return self.finished(cursors, space, entries, None, head);
            }
        }
    }

    fn finished(
        &self,
        cursors: &CursorKey,
        space: &Space,
        entries: Vec<Entry>,
        next: Option<ListPosition>,
        head: u64,
    ) -> Result<EntryPage, Problem> {
        let seal = |ListPosition { at, record }| {
            cursors.seal(self.kind_of_cursor(), &space.id, [at.cast_unsigned(), record])
        };
        let cursor = cursors.seal(CursorKind::Stream, &space.id, [head, 0])?;
        Ok(EntryPage { entries, next: next.map(seal).transpose()?, cursor })
    }

    fn kind_of_cursor(&self) -> CursorKind {
        if self.is_by_importance() { CursorKind::Ranked } else { CursorKind::Page }
    }

    fn position(&self, cursors: &CursorKey, space: &Space) -> Result<Option<ListPosition>, Problem> {
        let Some(cursor) = &self.after else { return Ok(None) };
        match cursors.open(self.kind_of_cursor(), &space.id, cursor) {
            Some([at, record]) => Ok(Some(ListPosition { at: at.cast_signed(), record })),
            None => {
                let message = "after: must be the `next` of a page of this space in the same order";
                Err(Problem::new(Reason::InvalidField, message).with("field", "after"))
            }
        }
    }
}

/// The entry under `key` and its bytes; `None` if it is gone, or damaged, which is logged: one damaged entry hides no others.
fn readable(store: &(impl Snapshot + ?Sized), key: &Key) -> Result<Option<(Entry, usize)>, Problem> {
    let found = store.latest(key).map_err(Problem::from);
    let found = found.and_then(|record| match record {
        Some(record) => Ok(Some((rows::parse(&record)?, record.value.len()))),
        None => Ok(None),
    });
    match found {
        Err(problem) if problem.reason == Reason::Internal => {
            tracing::error!(%problem, "an entry can't be read and is left out");
            Ok(None)
        }
        found => found,
    }
}

/// The next [`STEP`] rows of these lists, each record once.
fn merged(
    store: &(impl Snapshot + ?Sized),
    query: &ListQuery,
    lists: &[Key],
    after: Option<ListPosition>,
) -> Result<Vec<ListedKey>, Problem> {
    let mut all = Vec::new();
    for list in lists {
        let query = ListQuery { list: list.clone(), after, ..query.clone() };
        all.extend(store.list(&query, STEP)?);
    }
    match query.order {
        ListOrder::OldestFirst => all.sort_by_key(|listed| listed.position),
        ListOrder::NewestFirst => all.sort_by_key(|listed| std::cmp::Reverse(listed.position)),
    }
    all.dedup_by_key(|listed| listed.position);
    all.truncate(STEP);
    Ok(all)
}
