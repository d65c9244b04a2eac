//! Decides the batches that post and change entries. A batch expects the rows that it was decided on; whoever commits it decides
//! again after a conflict.

use super::{
    entry_decision::{EntryDecision, EntryOutcome, EntryWrite},
    rows::{self, ExpertiseRow, SlugRow, Stored, TaskHistoryRow},
    sealing::{SealedPost, decide_sealed},
};
use crate::signals;
use protocol::{
    ids::{AgentId, EntryId, SpaceId},
    principal::{MeshService, Principal, TaskRoot},
    problem::{Problem, Reason},
    spaces::{
        Entry, EntryAction, EntryDraft, MemberId, MemoryScope, Reader, Slug, Space, SpaceRole, SpaceVerb,
        brief::AgentKnowledge,
        curate::Curation,
        entry_draft::{MAX_AREAS, MAX_TITLE_BYTES},
        may,
        may::{entry_not_found, is_from_below_member, space_not_found},
        slug::{SlugHolder, SlugUse, slug_use},
        task_history::{self, KEPT},
        vault::may_open_vault,
    },
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use store::{Batch, Expectation, Revision, Snapshot, Write};

/// A change of an entry's state that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum EntryChange {
    /// Makes a proposal a decision or a memory.
    Merge {
        /// The version that was decided on; whichever it has, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Reject {
        reason: String,
    },
    Supersede {
        /// The decision in force.
        by: EntryId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Takes a decision or a memory out of use.
    Archive {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Takes a finding back.
    Withdraw {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Lets into briefs what comes from below `member`.
    Accept {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl EntryChange {
    /// The change of state that it is; `None` if the state stays.
    fn action(&self) -> Option<EntryAction> {
        match self {
            Self::Merge { .. } => Some(EntryAction::Merge),
            Self::Reject { .. } => Some(EntryAction::Reject),
            Self::Supersede { .. } => Some(EntryAction::Supersede),
            Self::Archive { .. } => Some(EntryAction::Archive),
            Self::Withdraw { .. } => Some(EntryAction::Withdraw),
            Self::Accept { .. } => None,
        }
    }

    /// Its name, as in a path.
    pub fn name(&self) -> String {
        self.action().map_or_else(|| "accept".to_owned(), |action| action.to_string())
    }

    /// Refuses a reason that is too long, and an empty one of a rejection.
    pub fn check(&self) -> Result<(), Problem> {
        let reason = match self {
            Self::Reject { reason } => Some(reason),
            Self::Merge { reason, .. }
            | Self::Supersede { reason, .. }
            | Self::Archive { reason }
            | Self::Withdraw { reason }
            | Self::Accept { reason } => reason.as_ref(),
        };
        let invalid = |message: String| Problem::new(Reason::InvalidField, message).with("field", "reason");
        match reason {
            Some(reason) if reason.len() > MAX_TITLE_BYTES => {
                Err(invalid(format!("reason: {} bytes, the limit is {MAX_TITLE_BYTES}", reason.len())))
            }
            Some(reason) if reason.trim().is_empty() => {
                Err(invalid("reason: must say why, it must not be empty".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The writes and expectations of one commit.
#[derive(Default)]
pub(super) struct EntryBatch(pub(super) Batch);

impl EntryBatch {
    fn add_new(&mut self, entry: &Entry) -> Result<(), Problem> {
        self.0.expectations.push(Expectation::Absent(rows::entry_key(&entry.space, &entry.id)));
        self.0.writes.extend(rows::entry_writes(entry)?);
        Ok(())
    }

    pub(super) fn replace(&mut self, old: &Stored<Entry>, entry: &Entry) -> Result<(), Problem> {
        let key = rows::entry_key(&entry.space, &entry.id);
        self.0.expectations.push(Expectation::At(key, old.revision));
        self.0.writes.extend(rows::entry_writes(entry)?);
        Ok(())
    }

    /// Adds what `agent` knows more.
    fn add_expertise(
        &mut self,
        store: &(impl Snapshot + ?Sized),
        space: &SpaceId,
        (agent, cause): (&AgentId, Option<&TaskRoot>),
        draft: &EntryDraft,
    ) -> Result<(), Problem> {
        let key = rows::expertise_key(space, agent);
        let old = rows::find::<ExpertiseRow>(store, &key)?;
        self.0.expectations.push(match &old {
            None => Expectation::Absent(key.clone()),
            Some(old) => Expectation::At(key.clone(), old.revision),
        });
        let mut row = old.map_or_else(|| ExpertiseRow::new(agent.clone()), |old| old.value);
        let room = row.room_for_files();
        let Some(AgentKnowledge { areas, files }) = row.learnt_by(cause) else { return Ok(()) };
        for (area, more) in &draft.expertise {
            let known = areas.entry(area.clone()).or_default();
            *known = known.saturating_add(u64::from(*more));
        }
        if areas.len() > MAX_AREAS {
            let message =
                format!("expertise: {agent} would have {} areas, the limit is {MAX_AREAS}", areas.len());
            return Err(Problem::new(Reason::InvalidField, message).with("field", "expertise"));
        }
        files.extend(draft.files.iter().take(room).cloned());
        self.0.writes.push(rows::put(key, &row)?);
        Ok(())
    }

    /// Adds a memory that `agent` has of a task; the oldest beyond those that are kept go. Returns whether one has gone.
    fn add_task(
        &mut self,
        store: &(impl Snapshot + ?Sized),
        agent: &AgentId,
        entry: &Entry,
    ) -> Result<bool, Problem> {
        let key = rows::tasks_key(&entry.space, agent);
        let old = rows::find::<TaskHistoryRow>(store, &key)?;
        self.0.expectations.push(match &old {
            None => Expectation::Absent(key.clone()),
            Some(old) => Expectation::At(key.clone(), old.revision),
        });
        let mut row = old.map(|old| old.value).unwrap_or_default();
        row.entries.push_back(entry.id.clone());
        let mut has_gone = false;
        while row.entries.len() > KEPT {
            let Some(oldest) = row.entries.pop_front() else { break };
            if let Some(found) = rows::find_entry(store, &entry.space, &oldest)? {
                let key = rows::entry_key(&entry.space, &oldest);
                self.0.expectations.push(Expectation::At(key.clone(), found.revision));
                self.0.writes.push(Write::Delete(key));
                has_gone = true;
            }
        }
        self.0.writes.push(rows::put(key, &row)?);
        Ok(has_gone)
    }

    /// Gives `slug` to `entry`; `former` is the revision of a row whose entry has been removed.
    fn take_slug(&mut self, slug: &Slug, entry: &Entry, former: Option<Revision>) -> Result<(), Problem> {
        let key = rows::slug_key(&entry.space, slug);
        self.0.expectations.push(match former {
            None => Expectation::Absent(key.clone()),
            Some(revision) => Expectation::At(key.clone(), revision),
        });
        let row = SlugRow { entry: entry.id.clone(), author: entry.author.clone() };
        self.0.writes.push(Write::Put(key, signals::json(&row)?.into()));
        Ok(())
    }
}

/// The space of a reader that may do `verb` in it, on `entry` if it is about one.
pub(crate) fn permitted(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    verb: SpaceVerb,
    space: &SpaceId,
) -> Result<Space, Problem> {
    let found = rows::find_space(store, space)?;
    // A stranger is answered as if the space did not exist, and a request without proof as if it did.
    let exists = found.is_some();
    let found = found.map_or_else(|| Space::new(space.clone()), |found| found.value);
    may(reader, verb, None, &found)?;
    if exists { Ok(found) } else { Err(space_not_found(space)) }
}

/// The entry of `space` with this id, if `reader` may do `verb` with it.
pub(crate) fn permitted_entry(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    verb: SpaceVerb,
    space: &Space,
    id: &EntryId,
) -> Result<Stored<Entry>, Problem> {
    let found = rows::find_entry(store, &space.id, id)?.ok_or_else(|| entry_not_found(id))?;
    may(reader, verb, Some(&found.value), space)?;
    Ok(found)
}

/// Decides the post of `draft` by `reader`; a new entry gets `minted`, unless the draft names its own id.
pub(crate) fn decide_post(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    space: &SpaceId,
    draft: &EntryDraft,
    minted: EntryId,
    at: WallTime,
) -> Result<EntryDecision, Problem> {
    let space = permitted(store, reader, SpaceVerb::Post(draft.kind), space)?;
    draft.check()?;
    let author = &reader.principal;
    if draft.root.is_some() && author.agent().is_none() {
        let message = format!("root: only an agent posts for somebody; {author} posts for itself");
        return Err(Problem::new(Reason::Forbidden, message).with("field", "root"));
    }
    let own_id = draft.entry_id(author)?;
    if let Some(id) = &own_id
        && let Some(first) = rows::find_posted(store, &space.id, id)?
    {
        return Ok(EntryDecision::Done(EntryOutcome { duplicate: true, ..EntryOutcome::of(&first) }));
    }
    if let Some(of) = &draft.sealed
        && let SealedPost::Decided(decision) =
            decide_sealed(store, reader, &space, (draft, of.as_ref(), own_id.clone()), at)?
    {
        return Ok(decision);
    }
    for linked in draft.links.values() {
        permitted_entry(store, reader, SpaceVerb::Read, &space, linked).map_err(|_| {
            let message = format!("links: no entry {linked} in the space {} that you may see", space.id);
            Problem::new(Reason::InvalidField, message).with("field", "links")
        })?;
    }
    let mut batch = EntryBatch::default();
    let id = own_id.clone().unwrap_or(minted);
    let new = |slug| Entry::new(id.clone(), space.id.clone(), author.clone(), at, draft.clone(), slug);
    let judged = |entry: Entry| Entry { is_unaccepted: is_from_below_member(&entry, &space), ..entry };
    let entry = match draft.slug()? {
        None => {
            let entry = judged(new(None));
            batch.add_new(&entry)?;
            entry
        }
        Some(requested) => match find_slug(store, &space, &requested, (reader, draft.root.as_ref()))? {
            SlugPlace::Free { slug, former } => {
                let entry = judged(new(Some(slug.clone())));
                batch.take_slug(&slug, &entry, former)?;
                batch.add_new(&entry)?;
                entry
            }
            SlugPlace::Pending(pending) => {
                let entry = judged(pending.value.revised(at, draft.clone()));
                batch.replace(&pending, &entry)?;
                if let Some(id) = own_id {
                    let key = rows::posted_key(&space.id, &id);
                    batch.0.expectations.push(Expectation::Absent(key));
                    batch.0.writes.push(rows::posted_write(&entry, &id)?);
                }
                entry
            }
        },
    };
    if let Principal::Agent(agent) | Principal::Brain(agent) = author
        && !(draft.expertise.is_empty() && draft.files.is_empty())
    {
        batch.add_expertise(store, &space.id, (agent, entry.cause().as_ref()), draft)?;
    }
    let mut is_new = entry.version == 1;
    if let Principal::Agent(agent) | Principal::Brain(agent) = author
        && task_history::is_of_history(draft)
    {
        // One that goes makes room for it.
        is_new &= !batch.add_task(store, agent, &entry)?;
    }
    Ok(EntryDecision::Write(Box::new(EntryWrite { batch: batch.0, entry, is_new })))
}

/// Where a proposal goes.
enum SlugPlace {
    /// It is a new entry with this slug. `former` is the revision of the slug's row, if its entry has been removed.
    Free { slug: Slug, former: Option<Revision> },
    /// It is a new version of this one.
    Pending(Box<Stored<Entry>>),
}

/// Where a proposal of `reader` with this slug goes. What the reader has proposed for another principal is another's.
fn find_slug(
    store: &(impl Snapshot + ?Sized),
    space: &Space,
    requested: &Slug,
    (reader, root): (&Reader, Option<&Principal>),
) -> Result<SlugPlace, Problem> {
    for slug in requested.candidates(&reader.principal) {
        let row = rows::find::<SlugRow>(store, &rows::slug_key(&space.id, &slug))?;
        let held = match &row {
            Some(row) => rows::find_entry(store, &space.id, &row.value.entry)?,
            None => None,
        };
        let holder = held.as_ref().zip(row.as_ref());
        let holder =
            holder.map(|(held, row)| SlugHolder { author: &row.value.author, state: held.value.state });
        match (slug_use(&slug, &reader.principal, holder)?, held) {
            (SlugUse::NextCandidate, _) => {}
            (SlugUse::Revision, Some(pending)) if pending.value.root.as_ref() != root => {}
            (SlugUse::Revision, Some(pending)) => return Ok(SlugPlace::Pending(Box::new(pending))),
            (SlugUse::New | SlugUse::Revision, _) => {
                return Ok(SlugPlace::Free { slug, former: row.map(|row| row.revision) });
            }
        }
    }
    unreachable!("there are as many candidates as numbers")
}

/// Decides a change of the entry `id`; what a merge makes gets `minted`.
pub(crate) fn decide_change(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    (space, id): (&SpaceId, &EntryId),
    change: &EntryChange,
    minted: EntryId,
    at: WallTime,
) -> Result<EntryDecision, Problem> {
    let space = permitted(store, reader, SpaceVerb::Read, space)?;
    let verb = change.action().map_or(SpaceVerb::Accept, SpaceVerb::Change);
    let of_vault = match change {
        // The person who opens vaults accepts what is in them.
        EntryChange::Accept { .. } if may_open_vault(reader, &space).is_ok() => {
            rows::find_entry(store, &space.id, id)?
        }
        _ => None,
    };
    let old = match of_vault {
        Some(found) => found,
        None => permitted_entry(store, reader, verb, &space, id)?,
    };
    change.check()?;
    let (by, mut batch) = (&reader.principal, EntryBatch::default());
    let changed = match change {
        EntryChange::Merge { version, reason } => {
            let present = old.value.version;
            if let Some(decided) = version.filter(|decided| *decided != present) {
                let message = format!(
                    "version: the proposal has version {present}, you decided on {decided}; read it again"
                );
                return Err(Problem::new(Reason::SpaceChanged, message).with("version", present));
            }
            let merge = old.value.merged(minted, by, at, reason.clone())?;
            batch.add_new(&merge.result)?;
            merge.proposal
        }
        EntryChange::Reject { reason } => old.value.rejected(by, at, reason.clone())?,
        EntryChange::Archive { reason } => old.value.archived(by, at, reason.clone())?,
        EntryChange::Withdraw { reason } => old.value.withdrawn(by, at, reason.clone())?,
        EntryChange::Accept { reason } => old.value.accepted(by, at, reason.clone())?,
        EntryChange::Supersede { by: other, reason } => {
            let other = permitted_entry(store, reader, SpaceVerb::Read, &space, other)?;
            let changed = old.value.superseded(&other.value, by, at, reason.clone())?;
            // It must still be in force when this is written.
            let key = rows::entry_key(&space.id, &other.value.id);
            batch.0.expectations.push(Expectation::At(key, other.revision));
            changed
        }
    };
    batch.replace(&old, &changed)?;
    Ok(EntryDecision::Write(Box::new(EntryWrite { batch: batch.0, entry: changed, is_new: false })))
}

/// Decides the merge or the rejection of the proposal `id` by the curator; what a merge makes gets `minted`. What a person decides
/// stays as it is.
pub(crate) fn decide_curation(
    store: &(impl Snapshot + ?Sized),
    (space, id): (&SpaceId, &EntryId),
    ended: &Curation,
    minted: EntryId,
    at: WallTime,
) -> Result<EntryDecision, Problem> {
    let space = rows::find_space(store, space)?.ok_or_else(|| space_not_found(space))?.value;
    let old = rows::find_entry(store, &space.id, id)?.ok_or_else(|| entry_not_found(id))?;
    let curator = Principal::Service(MeshService::Board);
    if let Some(reason) = ended.why_rejected(&old.value) {
        let reason = reason[..reason.floor_char_boundary(MAX_TITLE_BYTES)].to_owned();
        let rejected = old.value.rejected(&curator, at, reason)?;
        let mut batch = EntryBatch::default();
        batch.replace(&old, &rejected)?;
        return Ok(EntryDecision::Write(Box::new(EntryWrite {
            batch: batch.0,
            entry: rejected,
            is_new: false,
        })));
    }
    let Some(reason) = ended.why_merged(&space, &old.value) else {
        return Ok(EntryDecision::Done(EntryOutcome::of(&old.value)));
    };
    let merge = old.value.merged(minted, &curator, at, Some(reason))?;
    let mut batch = EntryBatch::default();
    batch.add_new(&merge.result)?;
    batch.replace(&old, &merge.proposal)?;
    Ok(EntryDecision::Write(Box::new(EntryWrite { batch: batch.0, entry: merge.proposal, is_new: false })))
}

/// Decides the change of a space to `wanted`, in place of the version `expected`, if that is named. The person whose mesh it is, and users with a credential, make new ones; the maker
/// of a space that names no owner owns it.
pub(crate) fn decide_space(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    wanted: Space,
    expected: Option<u64>,
) -> Result<(Batch, Space), Problem> {
    let old = rows::find_space(store, &wanted.id)?;
    let mut space = wanted;
    let key = rows::space_key(&space.id);
    let expectation = match &old {
        Some(old) => {
            may(reader, SpaceVerb::ChangeSpace, None, &old.value)?;
            check_version(&space.id, old.value.version, expected)?;
            space.version = old.value.version + 1;
            match old.revision {
                0 => Expectation::Absent(key.clone()),
                revision => Expectation::At(key.clone(), revision),
            }
        }
        None => {
            let has_owner = space.members.values().any(|role| *role == SpaceRole::Owner);
            // The person owns every space without being named.
            if !has_owner
                && reader.principal != Principal::local_user()
                && let Some(maker) = MemberId::of(&reader.principal)
            {
                space.members.insert(maker, SpaceRole::Owner);
            }
            let mut own = Space::new(space.id.clone());
            if let (Principal::User(_), Some(maker)) = (&reader.principal, MemberId::of(&reader.principal)) {
                own.members.insert(maker, SpaceRole::Owner);
            }
            may(reader, SpaceVerb::ChangeSpace, None, &own)?;
            check_version(&space.id, 0, expected)?;
            space.version = 1;
            Expectation::Absent(key.clone())
        }
    };
    space.check()?;
    let write: Write = rows::put(key, &space)?;
    Ok((Batch { writes: vec![write], expectations: vec![expectation] }, space))
}

/// Refuses a change of another version than the present one.
fn check_version(space: &SpaceId, present: u64, expected: Option<u64>) -> Result<(), Problem> {
    match expected.filter(|expected| *expected != present) {
        None => Ok(()),
        Some(expected) => {
            let message = format!(
                "version: the space has version {present}, you changed {expected}; read it again (GET /board/spaces/{space})"
            );
            Err(Problem::new(Reason::SpaceChanged, message).with("version", present))
        }
    }
}

/// What became of an entry that was imported.
#[derive(Debug)]
pub(crate) enum ImportDecision {
    /// The space has the same entry.
    Present,
    /// The space has another entry with this id or this slug.
    Differs,
    /// This has to be committed.
    Write(Batch),
}

/// Decides the import of `entry`, as it is, into `space` at the time `at`. Whoever imports may do so, but only its author gives
/// itself a memory of scope `own`.
pub(crate) fn decide_import(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    space: &SpaceId,
    entry: &Entry,
    at: WallTime,
) -> Result<ImportDecision, Problem> {
    entry.check()?;
    let invalid = |field: &'static str, why: &str| {
        Err(Problem::new(Reason::InvalidField, format!("{field}: {why}")).with("field", field))
    };
    if MemberId::of(&entry.author).is_none() {
        return invalid("author", "an agent or a user, a service posts nothing");
    }
    if entry.scope == Some(MemoryScope::Own) && MemberId::of(&entry.author) != MemberId::of(&reader.principal)
    {
        return invalid("scope", "only its author imports memory of scope own");
    }
    if entry.at > at || entry.changed_at > at {
        return invalid("changedAt", "lies in the future");
    }
    let entry = Entry { space: space.clone(), ..entry.clone() };
    if let Some(found) = rows::find_entry(store, space, &entry.id)? {
        return Ok(if found.value == entry { ImportDecision::Present } else { ImportDecision::Differs });
    }
    let mut batch = EntryBatch::default();
    if let Some(slug) = &entry.slug {
        let row = rows::find::<SlugRow>(store, &rows::slug_key(space, slug))?;
        if let Some(row) = &row
            && rows::find_entry(store, space, &row.value.entry)?.is_some()
        {
            return Ok(ImportDecision::Differs);
        }
        batch.take_slug(slug, &entry, row.map(|row| row.revision))?;
    }
    batch.add_new(&entry)?;
    Ok(ImportDecision::Write(batch.0))
}
