//! Decides the release of what is sealed: one commit, in which each entry is posted as any other.

use super::{
    entry_decision::EntryDecision,
    entry_writes::{decide_post, permitted},
    listing::{self, AgedRow},
    rows::{self, Stored},
    sealing::unchanged,
};
use crate::signals;
use protocol::{
    ids::SpaceId,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    spaces::{
        EntryDraft, EntryKind, EntryState, Reader, SpaceVerb,
        request::SpaceAnswer,
        sealed::{EntryRelease, ReleasedStages, SealedEntry},
    },
    time::WallTime,
};
use std::collections::BTreeMap;
use store::{
    self, Batch, Expectation, Filter, Key, ListQuery, ListedKey, Record, Revision, Snapshot, Write,
    class::TopicClass,
};

/// Decides a release by the agent `host`: the entries come by author, then by time.
pub(crate) fn decide_release(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    space: &SpaceId,
    release: &EntryRelease,
    at: WallTime,
) -> Result<(Batch, SpaceAnswer), Problem> {
    let space = permitted(store, reader, SpaceVerb::Read, space)?;
    let Principal::Agent(host) = &reader.principal else {
        let message = format!("{} hosts no session, only an agent does", reader.principal);
        return Err(Problem::new(Reason::Forbidden, message));
    };
    let key = rows::released_key(&space.id, host, &release.session);
    let found = rows::find::<ReleasedStages>(store, &key)?;
    let mut staged = StagedCommit { base: store, rows: BTreeMap::new(), batch: Batch::default() };
    staged.batch.expectations.push(unchanged(key.clone(), found.as_ref()));
    let released = found.map(|found| found.value).unwrap_or_default().after(release, at);
    let mut sealed = rows::find_sealed(store, &space.id, Some((host, &release.session)))?;
    sealed.retain(|sealed| sealed.value.draft.sealed.as_ref().is_some_and(|of| released.has_released(of)));
    sealed.sort_by(|one, other| {
        let order = |sealed: &Stored<SealedEntry>| (sealed.value.author.to_string(), sealed.value.at);
        order(one).cmp(&order(other)).then(one.revision.cmp(&other.revision))
    });
    let (mut count, mut refused) = (0, Vec::new());
    for Stored { revision, value: SealedEntry { id, author, draft, .. } } in sealed {
        let Some(of) = &draft.sealed else { continue };
        let row = rows::sealed_key(&space.id, of, &id);
        staged.batch.expectations.push(Expectation::At(row.clone(), revision));
        staged.batch.writes.push(Write::Delete(row));
        let open = EntryDraft { sealed: None, ..draft };
        let by = Reader { principal: author.clone(), proof: SenderProof::Credential };
        match decide_post(&staged, &by, &space.id, &open, id, at) {
            Ok(EntryDecision::Write(write)) => {
                staged.add(write.batch);
                count += 1;
            }
            Ok(EntryDecision::Done(_)) => {}
            Err(problem) if problem.reason.status() < 500 => {
                refused.push(format!("{author}: {}", problem.message));
            }
            Err(problem) => return Err(problem),
        }
    }
    staged.batch.writes.push(match released.ended_at {
        Some(ended) => {
            let row = signals::json(&released)?.into();
            Write::PutListed(key, row, vec![listing::aged(AgedRow::Session, ended)])
        }
        None => rows::put(key, &released)?,
    });
    Ok((staged.batch, SpaceAnswer::Released { count, refused }))
}

/// A commit that several posts make: each is decided on what those before it have written.
struct StagedCommit<'a, S: ?Sized> {
    base: &'a S,
    rows: BTreeMap<Key, Record>,
    batch: Batch,
}

impl<S: Snapshot + ?Sized> StagedCommit<'_, S> {
    fn add(&mut self, batch: Batch) {
        for expected in batch.expectations {
            if !self.rows.contains_key(expected.key()) && !self.batch.expectations.contains(&expected) {
                self.batch.expectations.push(expected);
            }
        }
        for write in batch.writes {
            if let (TopicClass::State, Some(value)) = (TopicClass::of(&write), write.value()) {
                let (key, value) = (write.key().clone(), value.clone());
                let record = Record { revision: self.base.head(), key: key.clone(), value };
                if self.rows.insert(key.clone(), record).is_some() {
                    self.batch.writes.retain(|earlier| *earlier.key() != key);
                }
            }
            self.batch.writes.push(write);
        }
    }
}

impl<S: Snapshot + ?Sized> Snapshot for StagedCommit<'_, S> {
    fn latest(&self, key: &Key) -> Result<Option<Record>, store::Error> {
        match self.rows.get(key) {
            Some(row) => Ok(Some(row.clone())),
            None => self.base.latest(key),
        }
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, store::Error> {
        self.base.read(filter, after, limit)
    }

    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, store::Error> {
        self.base.list(query, limit)
    }

    fn count(&self, query: &ListQuery) -> Result<u64, store::Error> {
        self.base.count(query)
    }

    fn head(&self) -> Revision {
        self.base.head()
    }
}

/// The first findings of the session whose released stages are under `key`.
pub(super) fn findings_of_session(
    store: &(impl Snapshot + ?Sized),
    key: &Key,
    limit: usize,
) -> Result<Vec<Record>, Problem> {
    let tokens = key.tokens();
    let [.., space, _, session] = tokens.as_slice() else { return Ok(Vec::new()) };
    let (Ok(space), Ok(session)) = (space.parse(), session.parse()) else { return Ok(Vec::new()) };
    let states = EntryState::of_kind(EntryKind::Finding).iter();
    let parts = states.map(|state| listing::part_of_session(*state)).collect();
    let query = ListQuery { parts, ..ListQuery::oldest(listing::of_session(&space, &session)) };
    let listed = store.list(&query, limit)?.into_iter();
    let records = listed.filter_map(|listed| store.latest(&listed.key).transpose());
    Ok(records.collect::<Result<_, _>>()?)
}
