//! Spaces and entries of this process's board. What may race is decided again after each conflict, so no write is lost or
//! overwritten.

use crate::{
    OWNER,
    feed::run_blocking,
    signals,
    spaces::{
        EntryChange, EntryOutcome, EntryPage, EntryQuery,
        entry_decision::{EntryDecision, EntryWrite},
        entry_writes::{self, ImportDecision, permitted, permitted_entry},
        release::decide_release,
        retention, rows,
        space_cursor::CursorKey,
    },
};
use protocol::{
    ids::{EntryId, SpaceId},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    spaces::{Entry, EntryDraft, Reader, Space, SpaceVerb, may, request::SpaceAnswer, sealed::EntryRelease},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use store::{self, Batch, Expectation, Filter, Key, Lane, SharedStore, Store, Write};
use tokio::sync::{OnceCell, Semaphore};

use super::{BoardClock, BoardConfig};

mod author_quota;
mod briefs;
mod curator;
mod follow;
mod vaults;
mod withdrawals;
use author_quota::{AuthorCounts, EntryPlace};
pub use briefs::BriefView;
pub use curator::{CurationOutcome, EndedRun};
pub use follow::{EntryEvent, EntryFollower};
pub use withdrawals::{WithdrawalOfAll, WithdrawalOutcome};

/// What an import has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportOutcome {
    /// Entries that were written.
    pub imported: usize,
    /// Entries that the space had, equal in every member.
    pub present: usize,
    /// Entries that were left out: the space has another one with this id or slug.
    pub different: Vec<EntryId>,
    /// Entries that were left out, because no post could have made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedEntry>,
}

/// An entry that an import has left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedEntry {
    /// Its place in the import, from 0.
    pub index: usize,
    /// Its id, if that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Why, as a `reasonCode`.
    pub reason: String,
    /// A message for people.
    pub message: String,
}

/// An entry to import, as far as it can be read.
#[derive(Debug, Clone)]
pub struct ImportedEntry {
    /// Its id, if that can be read.
    pub id: Option<String>,
    /// The entry, or why it is none.
    pub entry: Result<Entry, Problem>,
}

impl From<Entry> for ImportedEntry {
    fn from(entry: Entry) -> Self {
        Self { id: Some(entry.id.to_string()), entry: Ok(entry) }
    }
}

/// The spaces and entries of a board. Cheap to clone.
#[derive(Clone)]
pub struct SpaceStore(Arc<SpaceStoreState>);

struct SpaceStoreState {
    store: SharedStore,
    config: Arc<BoardConfig>,
    clock: BoardClock,
    cursor_key: OnceCell<CursorKey>,
    /// Set when the spaces of the configuration are stored.
    configured: OnceCell<()>,
    /// Writes that may wait for the store.
    writes: Semaphore,
    /// Streams that may still be opened.
    followers: Arc<Semaphore>,
    author_counts: AuthorCounts,
}

impl SpaceStore {
    pub(super) fn new(store: SharedStore, config: Arc<BoardConfig>, clock: BoardClock) -> Self {
        Self(Arc::new(SpaceStoreState {
            writes: Semaphore::new(config.max_in_flight),
            followers: Arc::new(Semaphore::new(config.max_subscribers)),
            cursor_key: OnceCell::new(),
            configured: OnceCell::new(),
            author_counts: AuthorCounts::default(),
            store,
            config,
            clock,
        }))
    }

    pub(crate) fn wall(&self) -> protocol::time::WallTime {
        self.0.clock.wall()
    }

    /// The spaces that `reader` is a member of; `default` is always there.
    pub async fn spaces(&self, reader: &Reader) -> Result<Vec<Space>, Problem> {
        self.configure().await?;
        let (store, reader) = (self.0.store.clone(), reader.clone());
        run_blocking(move || {
            let initial = Space::initial_default();
            // Without a proof nothing is listed, not even nothing.
            may(&reader, SpaceVerb::ReadSpace, None, &initial)?;
            let (mut spaces, mut after) = (vec![initial], 0);
            loop {
                let page = store.read(&rows::all_spaces(), after, store::MAX_READ)?;
                let Some(last) = page.last() else { break };
                after = last.revision;
                for record in &page {
                    let space: Space = rows::parse(record)?;
                    if space.is_default() {
                        spaces[0] = space;
                    } else if may(&reader, SpaceVerb::ReadSpace, None, &space).is_ok() {
                        spaces.push(space);
                    }
                }
            }
            spaces[1..].sort_by(|one, other| one.id.cmp(&other.id));
            Ok(spaces)
        })
        .await
    }

    /// The space `id`, if `reader` is a member of it.
    pub async fn space(&self, reader: &Reader, id: &SpaceId) -> Result<Space, Problem> {
        self.configure().await?;
        self.permitted(reader, SpaceVerb::ReadSpace, id).await
    }

    /// Makes `wanted` the space of its id, or changes that. `expected` is the version that is replaced, 0 for a space that is
    /// new. Without it any version is replaced, but none that is written at the same time.
    pub async fn put_space(
        &self,
        reader: &Reader,
        wanted: Space,
        expected: Option<u64>,
    ) -> Result<Space, Problem> {
        self.configure().await?;
        let _permit = self.admit()?;
        let written = self.write_space(reader, wanted.clone(), expected).await?;
        written.ok_or_else(|| {
            let message = format!(
                "the space {} was changed at the same time; read it again (GET /board/spaces/{}) and name its version",
                wanted.id, wanted.id
            );
            Problem::new(Reason::SpaceChanged, message)
        })
    }

    /// Reads the store on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let store = self.0.store.clone();
        run_blocking(move || read(store.as_ref())).await
    }

    /// The space, if `reader` may do `verb` in it.
    async fn permitted(&self, reader: &Reader, verb: SpaceVerb, space: &SpaceId) -> Result<Space, Problem> {
        let (reader, space) = (reader.clone(), space.clone());
        self.read(move |store| permitted(store, &reader, verb, &space)).await
    }

    /// Stores the spaces of the configuration, once. What the configuration names wins over what was changed since.
    pub(super) async fn configure(&self) -> Result<(), Problem> {
        let configured = self.0.configured.get_or_try_init(|| async {
            let person = Reader { principal: Principal::local_user(), proof: SenderProof::Credential };
            for wanted in &self.0.config.spaces {
                let id = wanted.id.clone();
                let known = self.read(move |store| rows::find_space(store, &id)).await?;
                if known.is_none_or(|known| !known.value.is_set_as(wanted)) {
                    while self.write_space(&person, wanted.clone(), None).await?.is_none() {}
                }
            }
            Ok(())
        });
        configured.await.copied()
    }

    /// The space after the change; `None` if another change was written at the same time.
    async fn write_space(
        &self,
        reader: &Reader,
        wanted: Space,
        expected: Option<u64>,
    ) -> Result<Option<Space>, Problem> {
        loop {
            let (by, to_decide) = (reader.clone(), wanted.clone());
            let (batch, space) =
                self.read(move |store| entry_writes::decide_space(store, &by, to_decide, expected)).await?;
            let id = space.id.clone();
            let found = async || self.read(move |store| rows::find_space(store, &id)).await;
            match self.0.store.commit(lane(reader), batch).await {
                Ok(_) => return Ok(Some(space)),
                // The version that is replaced is gone: the decision says so.
                Err(store::Error::Conflict { .. }) if expected.is_some() => {}
                Err(store::Error::Conflict { .. }) => {
                    let found = found().await?.map(|found| found.value);
                    return Ok(found.filter(|found| found.is_set_as(&space)));
                }
                Err(store::Error::Unknown(why)) => match found().await? {
                    Some(found) if found.value == space => return Ok(Some(space)),
                    _ => return Err(store::Error::Unknown(why).into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Posts `draft`. A repeat of a post with an id of its own returns what the first left.
    pub async fn post(
        &self,
        reader: &Reader,
        space: &SpaceId,
        draft: &EntryDraft,
    ) -> Result<EntryOutcome, Problem> {
        let at = self.0.clock.wall();
        let (by, space, draft) = (reader.clone(), space.clone(), draft.clone());
        let decide = move |store: &dyn Store, minted| {
            entry_writes::decide_post(store, &by, &space, &draft, minted, at)
        };
        self.write(reader, decide).await
    }

    /// Changes the state of an entry.
    pub async fn change(
        &self,
        reader: &Reader,
        space: &SpaceId,
        id: &EntryId,
        change: &EntryChange,
    ) -> Result<EntryOutcome, Problem> {
        let at = self.0.clock.wall();
        let (by, space, id, change) = (reader.clone(), space.clone(), id.clone(), change.clone());
        let decide = move |store: &dyn Store, minted| {
            entry_writes::decide_change(store, &by, (&space, &id), &change, minted, at)
        };
        self.write(reader, decide).await
    }

    /// Releases what is sealed in a stage of a session that `reader` hosts, or ends the session.
    pub async fn release(
        &self,
        reader: &Reader,
        space: &SpaceId,
        wanted: &EntryRelease,
    ) -> Result<SpaceAnswer, Problem> {
        self.configure().await?;
        let _permit = self.admit()?;
        loop {
            let at = self.0.clock.wall();
            let (by, space, wanted) = (reader.clone(), space.clone(), wanted.clone());
            let decide = move |store: &dyn Store| decide_release(store, &by, &space, &wanted, at);
            let (batch, answer) = self.read(decide).await?;
            match self.0.store.commit(lane(reader), batch).await {
                Ok(_) => {
                    self.0.author_counts.clear();
                    return Ok(answer);
                }
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes `entries` into `space` as they are: ids, authors, times and versions. What the space has already stays. Each entry
    /// is checked as a post is; one that is refused does not keep the others.
    pub async fn import(
        &self,
        reader: &Reader,
        space: &SpaceId,
        entries: Vec<ImportedEntry>,
    ) -> Result<ImportOutcome, Problem> {
        self.configure().await?;
        let _permit = self.admit()?;
        self.permitted(reader, SpaceVerb::Import, space).await?;
        let mut outcome = ImportOutcome::default();
        for (index, ImportedEntry { id, entry }) in entries.into_iter().enumerate() {
            let imported = match entry {
                Ok(entry) => self.import_entry(reader, space, Arc::new(entry), &mut outcome).await,
                Err(problem) => Err(problem),
            };
            match imported {
                Ok(()) => {}
                Err(problem) if problem.reason.status() < 500 => outcome.refused.push(RefusedEntry {
                    index,
                    id,
                    reason: problem.reason.code().to_owned(),
                    message: problem.message,
                }),
                Err(problem) => return Err(problem),
            }
        }
        Ok(outcome)
    }

    async fn import_entry(
        &self,
        reader: &Reader,
        space: &SpaceId,
        entry: Arc<Entry>,
        outcome: &mut ImportOutcome,
    ) -> Result<(), Problem> {
        loop {
            let (by, to, given) = (reader.clone(), space.clone(), entry.clone());
            let at = self.0.clock.wall();
            let decided =
                self.read(move |store| entry_writes::decide_import(store, &by, &to, &given, at)).await?;
            match decided {
                ImportDecision::Present => outcome.present += 1,
                ImportDecision::Differs => outcome.different.push(entry.id.clone()),
                ImportDecision::Write(batch) => {
                    let place = self.take_place(space, &entry.author).await?;
                    match self.0.store.commit(lane(reader), batch).await {
                        Ok(_) => {
                            place.keep();
                            outcome.imported += 1;
                        }
                        Err(store::Error::Conflict { .. }) => continue,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            return Ok(());
        }
    }

    /// The entry, if `reader` may see it.
    pub async fn entry(&self, reader: &Reader, space: &SpaceId, id: &EntryId) -> Result<Entry, Problem> {
        self.configure().await?;
        let (reader, space, id) = (reader.clone(), space.clone(), id.clone());
        self.read(move |store| {
            let space = permitted(store, &reader, SpaceVerb::Read, &space)?;
            Ok(permitted_entry(store, &reader, SpaceVerb::Read, &space, &id)?.value)
        })
        .await
    }

    /// A page of at most `limit` entries that `reader` may see.
    pub async fn entries(
        &self,
        reader: &Reader,
        space: &SpaceId,
        query: EntryQuery,
        limit: usize,
    ) -> Result<EntryPage, Problem> {
        self.configure().await?;
        let cursors = self.cursor_key().await?;
        let (store, reader, space) = (self.0.store.clone(), reader.clone(), space.clone());
        let limit = limit.clamp(1, self.0.config.max_page);
        run_blocking(move || {
            let space = permitted(store.as_ref(), &reader, SpaceVerb::Read, &space)?;
            let page = |query: &EntryQuery| query.page(store.as_ref(), &cursors, &reader, &space, limit);
            match &query.sealed {
                None => page(&query),
                Some(session) => {
                    let of = (&space, session);
                    let entries = query.sealed_page(store.as_ref(), &reader, of, limit)?;
                    let none = EntryQuery { author: Some(reader.principal.clone()), ..EntryQuery::default() };
                    Ok(EntryPage { entries, next: None, cursor: page(&none)?.cursor })
                }
            }
        })
        .await
    }

    /// Follows the changes of the entries that `query` selects and `reader` may see, from the cursor `after`; without one, from
    /// here on.
    pub async fn follow(
        &self,
        reader: &Reader,
        space: &SpaceId,
        query: EntryQuery,
        after: Option<&str>,
    ) -> Result<EntryFollower, Problem> {
        self.configure().await?;
        let cursors = self.cursor_key().await?;
        let permit = self.0.followers.clone().try_acquire_owned().map_err(|_| {
            let limit = self.0.config.max_subscribers;
            let message = format!("the board has {limit} streams of entries, its limit");
            Problem::new(Reason::Overloaded, message).with("limit", limit)
        })?;
        let (store, reader, space) = (self.0.store.clone(), reader.clone(), space.clone());
        let after = after.map(str::to_owned);
        run_blocking(move || {
            permitted(store.as_ref(), &reader, SpaceVerb::Read, &space)?;
            EntryFollower::new(store, cursors, reader, space, query, after.as_deref(), permit)
        })
        .await
    }

    /// Removes what is older than its retention.
    pub(super) async fn remove_old(&self) -> Result<(), Problem> {
        let (now, keep) = (self.0.clock.wall(), self.0.config.entry_retention());
        if retention::remove_old(self.0.store.clone(), now, keep).await? {
            self.0.author_counts.clear();
        }
        Ok(())
    }

    /// The limits in force.
    pub fn config(&self) -> &Arc<BoardConfig> {
        &self.0.config
    }

    fn admit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Problem> {
        self.0.writes.try_acquire().map_err(|_| {
            let limit = self.0.config.max_in_flight;
            let message = format!("{limit} writes of entries wait for the board's store");
            Problem::new(Reason::Overloaded, message).with("limit", limit)
        })
    }

    /// Commits what `decide` decides, again after each conflict: another commit was first then, so every round one writer is
    /// done.
    async fn write(
        &self,
        reader: &Reader,
        decide: impl Fn(&dyn Store, EntryId) -> Result<EntryDecision, Problem> + Send + Sync + 'static,
    ) -> Result<EntryOutcome, Problem> {
        self.configure().await?;
        let _permit = self.admit()?;
        let minted = uuid::Uuid::now_v7().to_string();
        let minted =
            EntryId::parse(&minted).map_err(|bad| Problem::new(Reason::Internal, bad.to_string()))?;
        let decide = Arc::new(decide);
        let mut place = None;
        loop {
            let (decide, minted) = (decide.clone(), minted.clone());
            let EntryWrite { batch, entry, is_new } =
                match self.read(move |store| decide(store, minted)).await? {
                    EntryDecision::Done(outcome) => return Ok(outcome),
                    EntryDecision::Write(write) => *write,
                };
            if is_new && place.is_none() {
                place = Some(self.take_place(&entry.space, &entry.author).await?);
            }
            match self.0.store.commit(lane(reader), batch).await {
                Ok(_) => {}
                Err(store::Error::Conflict { .. }) => continue,
                Err(store::Error::Unknown(why)) => {
                    let (space, id) = (entry.space.clone(), entry.id.clone());
                    let found = self.read(move |store| rows::find_entry(store, &space, &id)).await?;
                    if found.is_none_or(|found| found.value != entry) {
                        return Err(store::Error::Unknown(why).into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
            if let Some(place) = place.filter(|_| is_new) {
                place.keep();
            }
            return Ok(EntryOutcome::of(&entry));
        }
    }

    /// A place for one more entry of `author`; refused if it has as many as it may have.
    async fn take_place(&self, space: &SpaceId, author: &Principal) -> Result<EntryPlace, Problem> {
        let limit = self.0.config.max_entries_per_author;
        self.0.author_counts.take_place(&self.0.store, space, author, limit).await
    }

    /// The key of the cursors, which is made with the first one and stays.
    async fn cursor_key(&self) -> Result<CursorKey, Problem> {
        let key = self.0.cursor_key.get_or_try_init(|| async {
            let row = Key::new(&[OWNER, "cursorkey", "entries"]);
            loop {
                let key = row.clone();
                if let Some(found) = self.read(move |store| rows::find::<[u8; 32]>(store, &key)).await? {
                    return Ok(CursorKey::new(found.value));
                }
                let secret = CursorKey::new_secret()?;
                let batch = Batch {
                    writes: vec![Write::Put(row.clone(), signals::json(&secret)?.into())],
                    expectations: vec![Expectation::Absent(row.clone())],
                };
                match self.0.store.commit(Lane::Progress, batch).await {
                    Ok(_) | Err(store::Error::Conflict { .. }) => {}
                    Err(error) => return Err(Problem::from(error)),
                }
            }
        });
        key.await.cloned()
    }
}

/// Work of agents goes before that of users.
fn lane(reader: &Reader) -> Lane {
    if reader.principal.is_of_mesh() { Lane::Progress } else { Lane::Admission }
}

/// The log of the entries of `space`.
fn log_filter(space: &SpaceId) -> Filter {
    Filter::Exactly(rows::log_key(space))
}
