//! Spaces and entries of this process's board. What may race is decided again after each conflict, so no write is lost or
//! overwritten.

use crate::{
    feed::run_blocking,
    signals::{self, OWNER},
    spaces::{
        EntryChange, EntryOutcome, EntryPage, EntryQuery,
        entry_writes::{self, EntryDecision, EntryWrite, ImportDecision, permitted, permitted_entry},
        rows,
        space_cursor::CursorKey,
    },
    store::{self, Batch, Expectation, Filter, Key, Lane, SharedStore, Write},
};
use protocol::{
    ids::{EntryId, SpaceId},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    spaces::{Entry, EntryDraft, Reader, Space, SpaceVerb, may},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::{OnceCell, Semaphore};

use super::{BoardClock, BoardConfig};

mod briefs;
mod curator;
mod follow;
pub use briefs::BriefView;
pub use curator::CurationOutcome;
pub use follow::{EntryEvent, EntryFollower};

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
}

impl SpaceStore {
    pub(super) fn new(store: SharedStore, config: Arc<BoardConfig>, clock: BoardClock) -> Self {
        Self(Arc::new(SpaceStoreState {
            writes: Semaphore::new(config.max_in_flight),
            followers: Arc::new(Semaphore::new(config.max_subscribers)),
            cursor_key: OnceCell::new(),
            configured: OnceCell::new(),
            store,
            config,
            clock,
        }))
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
        permitted(self.0.store.as_ref(), reader, SpaceVerb::ReadSpace, id)
    }

    /// Makes `wanted` the space of its id, or changes that.
    pub async fn put_space(&self, reader: &Reader, wanted: Space) -> Result<Space, Problem> {
        self.configure().await?;
        let _permit = self.admit()?;
        self.write_space(reader, wanted).await
    }

    /// Stores the spaces of the configuration, once. What the configuration names wins over what was changed since.
    async fn configure(&self) -> Result<(), Problem> {
        let configured = self.0.configured.get_or_try_init(|| async {
            let person = Reader { principal: Principal::local_user(), proof: SenderProof::Credential };
            for wanted in &self.0.config.spaces {
                let known = rows::find_space(self.0.store.as_ref(), &wanted.id)?;
                let is_same = known.is_some_and(|known| {
                    let Space { members, routing, auto_merge, .. } = known.value;
                    (members, routing, auto_merge)
                        == (wanted.members.clone(), wanted.routing, wanted.auto_merge.clone())
                });
                if !is_same {
                    self.write_space(&person, wanted.clone()).await?;
                }
            }
            Ok(())
        });
        configured.await.copied()
    }

    async fn write_space(&self, reader: &Reader, wanted: Space) -> Result<Space, Problem> {
        loop {
            let (batch, space) = entry_writes::decide_space(self.0.store.as_ref(), reader, wanted.clone())?;
            match self.0.store.commit(lane(reader), batch).await {
                Ok(_) => return Ok(space),
                Err(store::Error::Conflict { .. }) => {}
                Err(store::Error::Unknown(why)) => {
                    match rows::find_space(self.0.store.as_ref(), &space.id)? {
                        Some(found) if found.value == space => return Ok(space),
                        _ => return Err(store::Error::Unknown(why).into()),
                    }
                }
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
        self.write(reader, |store, minted| entry_writes::decide_post(store, reader, space, draft, minted, at))
            .await
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
        self.write(reader, |store, minted| {
            entry_writes::decide_change(store, reader, (space, id), change, minted, at)
        })
        .await
    }

    /// Writes `entries` into `space` as they are: ids, authors, times and versions. What the space has already stays.
    pub async fn import(
        &self,
        reader: &Reader,
        space: &SpaceId,
        entries: Vec<Entry>,
    ) -> Result<ImportOutcome, Problem> {
        self.configure().await?;
        let _permit = self.admit()?;
        permitted(self.0.store.as_ref(), reader, SpaceVerb::Import, space)?;
        let mut outcome = ImportOutcome::default();
        for entry in entries {
            loop {
                let store = &self.0.store;
                match entry_writes::decide_import(store.as_ref(), reader, space, &entry, self.0.clock.wall())?
                {
                    ImportDecision::Present => outcome.present += 1,
                    ImportDecision::Differs => outcome.different.push(entry.id.clone()),
                    ImportDecision::Write(batch) => match store.commit(lane(reader), batch).await {
                        Ok(_) => outcome.imported += 1,
                        Err(store::Error::Conflict { .. }) => continue,
                        Err(error) => return Err(error.into()),
                    },
                }
                break;
            }
        }
        Ok(outcome)
    }

    /// The entry, if `reader` may see it.
    pub async fn entry(&self, reader: &Reader, space: &SpaceId, id: &EntryId) -> Result<Entry, Problem> {
        self.configure().await?;
        let store = self.0.store.as_ref();
        let space = permitted(store, reader, SpaceVerb::Read, space)?;
        Ok(permitted_entry(store, reader, SpaceVerb::Read, &space, id)?.value)
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
            query.page(store.as_ref(), &cursors, &reader, &space, limit)
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
        permitted(self.0.store.as_ref(), reader, SpaceVerb::Read, space)?;
        let permit = self.0.followers.clone().try_acquire_owned().map_err(|_| {
            let limit = self.0.config.max_subscribers;
            let message = format!("the board has {limit} streams of entries, its limit");
            Problem::new(Reason::Overloaded, message).with("limit", limit)
        })?;
        EntryFollower::new(self.0.store.clone(), cursors, reader.clone(), space.clone(), query, after, permit)
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
        decide: impl Fn(&dyn store::Store, EntryId) -> Result<EntryDecision, Problem>,
    ) -> Result<EntryOutcome, Problem> {
        self.configure().await?;
        let _permit = self.admit()?;
        let minted = uuid::Uuid::now_v7().to_string();
        let minted =
            EntryId::parse(&minted).map_err(|bad| Problem::new(Reason::Internal, bad.to_string()))?;
        loop {
            let EntryWrite { batch, entry } = match decide(self.0.store.as_ref(), minted.clone())? {
                EntryDecision::Done(outcome) => return Ok(outcome),
                EntryDecision::Write(write) => *write,
            };
            match self.0.store.commit(lane(reader), batch).await {
                Ok(_) => return Ok(EntryOutcome::of(&entry)),
                Err(store::Error::Conflict { .. }) => {}
                Err(store::Error::Unknown(why)) => {
                    match rows::find_entry(self.0.store.as_ref(), &entry.space, &entry.id)? {
                        Some(found) if found.value == entry => return Ok(EntryOutcome::of(&entry)),
                        _ => return Err(store::Error::Unknown(why).into()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The key of the cursors, which is made with the first one and stays.
    async fn cursor_key(&self) -> Result<CursorKey, Problem> {
        let key = self.0.cursor_key.get_or_try_init(|| async {
            let row = Key::new(&[OWNER, "cursorkey", "entries"]);
            loop {
                if let Some(found) = rows::find::<[u8; 32]>(self.0.store.as_ref(), &row)? {
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
