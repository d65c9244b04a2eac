//! Decides the post of an entry that is sealed until its stage is released.

use super::{
    entry_decision::{EntryDecision, EntryOutcome, EntryWrite},
    rows::{self, Stored},
};
use protocol::{
    ids::{AgentId, EntryId, SpaceId},
    principal::Principal,
    problem::{Problem, Reason},
    spaces::{
        EntryDraft, Reader, Space,
        entry_draft::SealedStage,
        sealed::{ReleasedStages, SealedEntry},
    },
    time::WallTime,
};
use store::{Batch, Expectation, Key, Snapshot};

/// What becomes of the post of a sealed entry.
pub(crate) enum SealedPost {
    /// Its stage was released already: it is posted as any other.
    Released,
    Decided(EntryDecision),
}

/// Decides the post of an entry of a sealed stage by `reader`.
pub(crate) fn decide_sealed(
    store: &(impl Snapshot + ?Sized),
    reader: &Reader,
    space: &Space,
    (draft, of, id): (&EntryDraft, &SealedStage, Option<EntryId>),
    at: WallTime,
) -> Result<SealedPost, Problem> {
    if !matches!(reader.principal, Principal::Agent(_)) {
        let message = format!("sealed: {} has no turn in a session, only an agent has", reader.principal);
        return Err(Problem::new(Reason::Forbidden, message).with("field", "sealed"));
    }
    let Some(id) = id else {
        return Err(Problem::new(Reason::InvalidField, "id: a sealed entry needs one").with("field", "id"));
    };
    let released = find_released(store, &space.id, (&of.host, of))?;
    if released.as_ref().is_some_and(|released| released.value.has_released(of)) {
        return Ok(SealedPost::Released);
    }
    let key = rows::sealed_key(&space.id, of, &id);
    let author = reader.principal.clone();
    let sealed = SealedEntry { id, author, at, draft: draft.clone() };
    let entry = sealed.shown(space.id.clone());
    if rows::find::<SealedEntry>(store, &key)?.is_some() {
        let outcome = EntryOutcome { duplicate: true, ..EntryOutcome::of(&entry) };
        return Ok(SealedPost::Decided(EntryDecision::Done(outcome)));
    }
    let released_key = rows::released_key(&space.id, &of.host, &of.session);
    let batch = Batch {
        expectations: vec![Expectation::Absent(key.clone()), unchanged(released_key, released.as_ref())],
        writes: vec![rows::put(key, &sealed)?],
    };
    let write = EntryWrite { batch, entry, is_new: false };
    Ok(SealedPost::Decided(EntryDecision::Write(Box::new(write))))
}

fn find_released(
    store: &(impl Snapshot + ?Sized),
    space: &SpaceId,
    (host, of): (&AgentId, &SealedStage),
) -> Result<Option<Stored<ReleasedStages>>, Problem> {
    rows::find(store, &rows::released_key(space, host, &of.session))
}

pub(super) fn unchanged<T>(key: Key, found: Option<&Stored<T>>) -> Expectation {
    match found {
        Some(found) => Expectation::At(key, found.revision),
        None => Expectation::Absent(key),
    }
}
