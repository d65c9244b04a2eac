//! The rows of spaces and entries: their keys, and how they are read.

use super::listing::{self, AgedRow};
use crate::{OWNER, signals};
use bytes::Bytes;
use protocol::{
    ids::{AgentId, EntryId, SpaceId, TaskId},
    principal::{Principal, SenderProof, TaskRoot},
    problem::{Problem, Reason},
    spaces::{
        Entry, Slug, Space,
        brief::{AgentKnowledge, short_id},
        entry_draft::SealedStage,
        sealed::SealedEntry,
        vault::MAX_FILES,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, VecDeque};
use store::{Filter, Key, MAX_READ, Record, Revision, Snapshot, Write};

const SPACE: &str = "space";
const ENTRY: &str = "entry";
const LOG: &str = "entrylog";
const SLUG: &str = "slug";
const SEALED: &str = "sealed";
const RELEASED: &str = "released";
const POSTED: &str = "posted";
const EXPERTISE: &str = "expertise";
const TASKS: &str = "tasks";

/// The proposal that has a slug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlugRow {
    pub(super) entry: EntryId,
    pub(super) author: Principal,
}

/// The proposal that a post with an id of the poster's own made a new version of, so that a repeat is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PostedRow {
    entry: EntryId,
}

/// What an agent knows beside its memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExpertiseRow {
    pub(super) agent: AgentId,
    /// What the person whose mesh it is has caused, and nobody.
    #[serde(flatten)]
    pub(super) knowledge: AgentKnowledge,
    /// What others have caused, by their principals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) of_roots: BTreeMap<String, AgentKnowledge>,
}

/// The most principals of which an agent's knowledge is kept apart in a space; that of further ones is not added.
const MAX_ROOTS: usize = 256;

impl ExpertiseRow {
    pub(super) fn new(agent: AgentId) -> Self {
        Self { agent, knowledge: AgentKnowledge::default(), of_roots: BTreeMap::new() }
    }

    /// What it learns from an entry with this cause; `None` if there are too many causes.
    pub(super) fn learnt_by(&mut self, cause: Option<&TaskRoot>) -> Option<&mut AgentKnowledge> {
        let Some(cause) = cause.filter(|cause| !cause.is_person()) else { return Some(&mut self.knowledge) };
        let name = cause.principal.to_string();
        let is_known = self.of_roots.contains_key(&name);
        (is_known || self.of_roots.len() < MAX_ROOTS).then(|| self.of_roots.entry(name).or_default())
    }

    /// How many more files may be added.
    pub(super) fn room_for_files(&self) -> usize {
        let known = self.of_roots.values().chain([&self.knowledge]).map(|known| known.files.len());
        MAX_FILES.saturating_sub(known.sum())
    }

    /// What it knows in work for `root`; all without one.
    fn known_for(self, root: Option<&TaskRoot>) -> AgentKnowledge {
        let Self { mut knowledge, of_roots, .. } = self;
        let is_meant = |name: &String| {
            root.is_none_or(|root| {
                *name == root.principal.to_string() && root.sender_proof() == SenderProof::Credential
            })
        };
        of_roots.iter().filter(|(name, _)| is_meant(name)).for_each(|(_, more)| knowledge.extend(more));
        knowledge
    }
}

/// The memories that an agent has of its tasks, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskHistoryRow {
    pub(super) entries: VecDeque<EntryId>,
}

/// A value of the store and its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored<T> {
    pub(crate) revision: Revision,
    pub(crate) value: T,
}

pub(crate) fn space_key(space: &SpaceId) -> Key {
    Key::new(&[OWNER, SPACE, space.as_str()])
}

/// All spaces.
pub(crate) fn all_spaces() -> Filter {
    Filter::Below(Key::new(&[OWNER, SPACE]))
}

pub(crate) fn entry_key(space: &SpaceId, id: &EntryId) -> Key {
    Key::new(&[OWNER, ENTRY, space.as_str(), id.as_str()])
}

/// The log of the changes of a space's entries.
pub(crate) fn log_key(space: &SpaceId) -> Key {
    Key::new(&[OWNER, LOG, space.as_str()])
}

/// The logs of all spaces.
pub(crate) fn all_logs() -> Filter {
    Filter::Below(Key::new(&[OWNER, LOG]))
}

pub(crate) fn slug_key(space: &SpaceId, slug: &Slug) -> Key {
    Key::new(&[OWNER, SLUG, space.as_str(), slug.as_str()])
}

pub(crate) fn posted_key(space: &SpaceId, id: &EntryId) -> Key {
    Key::new(&[OWNER, POSTED, space.as_str(), id.as_str()])
}

pub(super) fn expertise_key(space: &SpaceId, agent: &AgentId) -> Key {
    Key::new(&[OWNER, EXPERTISE, space.as_str(), agent.as_str()])
}

pub(super) fn tasks_key(space: &SpaceId, agent: &AgentId) -> Key {
    Key::new(&[OWNER, TASKS, space.as_str(), agent.as_str()])
}

/// A sealed entry. Those of one host and session are below one key.
pub(super) fn sealed_key(space: &SpaceId, of: &SealedStage, id: &EntryId) -> Key {
    let (host, session) = (of.host.as_str(), of.session.as_str());
    Key::new(&[OWNER, SEALED, space.as_str(), host, session, id.as_str()])
}

/// What a host has released of a session.
pub(super) fn released_key(space: &SpaceId, host: &AgentId, session: &TaskId) -> Key {
    Key::new(&[OWNER, RELEASED, space.as_str(), host.as_str(), session.as_str()])
}

/// The sealed entries of `space`: all, or those of a host's session.
pub(super) fn find_sealed(
    store: &(impl Snapshot + ?Sized),
    space: &SpaceId,
    of: Option<(&AgentId, &TaskId)>,
) -> Result<Vec<Stored<SealedEntry>>, Problem> {
    let below = match of {
        Some((host, session)) => Key::new(&[OWNER, SEALED, space.as_str(), host.as_str(), session.as_str()]),
        None => Key::new(&[OWNER, SEALED, space.as_str()]),
    };
    let (filter, mut found, mut after) = (Filter::Below(below), Vec::new(), 0);
    loop {
        let page = store.read(&filter, after, MAX_READ)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.revision;
        for record in &page {
            found.push(Stored { revision: record.revision, value: parse(record)? });
        }
    }
}

/// What the agents of `space` know best, at most `most` agents.
pub(crate) fn find_expertise(
    store: &(impl Snapshot + ?Sized),
    space: &SpaceId,
    root: Option<&TaskRoot>,
    most: usize,
) -> Result<BTreeMap<AgentId, AgentKnowledge>, Problem> {
    let records = store.read(&all_expertise(space), 0, most)?;
    let expertise = records.iter().map(|record| {
        let row: ExpertiseRow = parse(record)?;
        Ok((row.agent.clone(), row.known_for(root)))
    });
    expertise.collect()
}

/// The expertise of all agents of a space.
pub(super) fn all_expertise(space: &SpaceId) -> Filter {
    Filter::Below(Key::new(&[OWNER, EXPERTISE, space.as_str()]))
}

/// The entries of a space, the last changed last.
pub(super) fn all_entries(space: &SpaceId) -> Filter {
    Filter::Below(Key::new(&[OWNER, ENTRY, space.as_str()]))
}

/// The newest state of an entry and its record in the log.
pub(crate) fn entry_writes(entry: &Entry) -> Result<[Write; 2], Problem> {
    let text = Bytes::from(signals::json(entry)?);
    Ok([
        Write::PutIndexed(
            entry_key(&entry.space, &entry.id),
            text.clone(),
            listing::entries_of(entry),
            searched_text(entry),
        ),
        Write::Append(log_key(&entry.space), text),
    ])
}

/// What a search finds an entry by.
pub(super) fn searched_text(entry: &Entry) -> String {
    let tags = entry.tags.iter().map(String::as_str);
    let short = short_id(&entry.id);
    let parts = [entry.title.as_str(), &entry.content, &short].into_iter().chain(tags);
    parts.collect::<Vec<_>>().join(" ")
}

pub(crate) fn put<T: Serialize>(key: Key, value: &T) -> Result<Write, Problem> {
    Ok(Write::Put(key, Bytes::from(signals::json(value)?)))
}

/// The value under `key`, if there is one.
pub(crate) fn find<T: DeserializeOwned>(
    store: &(impl Snapshot + ?Sized),
    key: &Key,
) -> Result<Option<Stored<T>>, Problem> {
    match store.latest(key)? {
        None => Ok(None),
        Some(record) => parse(&record).map(|value| Some(Stored { revision: record.revision, value })),
    }
}

/// The value of a record.
pub(crate) fn parse<T: DeserializeOwned>(record: &Record) -> Result<T, Problem> {
    serde_json::from_slice(&record.value).map_err(|error| {
        Problem::new(Reason::Internal, format!("the record under {} can't be read: {error}", record.key))
    })
}

/// The space `id`; the space `default` always exists.
pub(crate) fn find_space(
    store: &(impl Snapshot + ?Sized),
    id: &SpaceId,
) -> Result<Option<Stored<Space>>, Problem> {
    let found = find(store, &space_key(id))?;
    let initial = Space::initial_default();
    Ok(found.or_else(|| (*id == initial.id).then_some(Stored { revision: 0, value: initial })))
}

pub(crate) fn find_entry(
    store: &(impl Snapshot + ?Sized),
    space: &SpaceId,
    id: &EntryId,
) -> Result<Option<Stored<Entry>>, Problem> {
    find(store, &entry_key(space, id))
}

/// The entry that the post with the poster's own `id` made or changed.
pub(super) fn find_posted(
    store: &(impl Snapshot + ?Sized),
    space: &SpaceId,
    id: &EntryId,
) -> Result<Option<Entry>, Problem> {
    if let Some(entry) = find_entry(store, space, id)? {
        return Ok(Some(entry.value));
    }
    match find::<PostedRow>(store, &posted_key(space, id))? {
        Some(row) => Ok(find_entry(store, space, &row.value.entry)?.map(|entry| entry.value)),
        None => Ok(None),
    }
}

/// The row of the post `id` that made a new version of `entry`.
pub(super) fn posted_write(entry: &Entry, id: &EntryId) -> Result<Write, Problem> {
    let row = Bytes::from(signals::json(&PostedRow { entry: entry.id.clone() })?);
    let aged = listing::aged(AgedRow::Post, entry.changed_at);
    Ok(Write::PutListed(posted_key(&entry.space, id), row, vec![aged]))
}
