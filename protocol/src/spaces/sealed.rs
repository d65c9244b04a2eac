//! Entries of a sealed stage. They are kept apart from those of their space: in no list, no count, no search and no stream, for
//! nobody but their author. When the stage ends, the host of its session releases them in one commit.

use super::{Entry, EntryDraft, EntryId, EntryState, entry_draft::SealedStage};
use crate::{
    ids::{SpaceId, StageId, TaskId},
    principal::Principal,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a host releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryRelease {
    pub session: TaskId,
    /// The stage that has ended; without it the session has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageId>,
    /// How often that was begun.
    #[serde(default)]
    pub iteration: u32,
}

/// An entry that is sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealedEntry {
    pub id: EntryId,
    pub author: Principal,
    pub at: WallTime,
    pub draft: EntryDraft,
}

impl SealedEntry {
    /// The entry as its author sees it.
    pub fn shown(&self, space: SpaceId) -> Entry {
        let (id, author, draft) = (self.id.clone(), self.author.clone(), self.draft.clone());
        let slug = draft.slug().ok().flatten();
        let shown = Entry::new(id, space, author, self.at, draft, slug);
        let is_sealable = EntryState::of_kind(shown.kind).contains(&EntryState::Sealed);
        Entry { state: if is_sealable { EntryState::Sealed } else { shown.state }, ..shown }
    }
}

/// What a host has released of a session. What is posted there later is not sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReleasedStages {
    /// The last iteration of each stage that was released.
    stages: BTreeMap<StageId, u32>,
    /// When the session ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<WallTime>,
}

impl ReleasedStages {
    /// Whether the entries of this stage are released: with its own release, or at the end of the session.
    pub fn has_released(&self, of: &SealedStage) -> bool {
        self.ended_at.is_some() || self.stages.get(&of.stage).is_some_and(|last| *last >= of.iteration)
    }

    /// The same after a release.
    #[must_use]
    pub fn after(mut self, release: &EntryRelease, at: WallTime) -> Self {
        match &release.stage {
            Some(stage) => {
                let last = self.stages.entry(stage.clone()).or_default();
                *last = release.iteration.max(*last);
            }
            None => self.ended_at = self.ended_at.or(Some(at)),
        }
        self
    }
}
