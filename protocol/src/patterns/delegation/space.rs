//! What a task's brain posts in the space of the task.

use super::{
    Delegation,
    labels::{DelegationEffect, DelegationLabel},
};
use crate::{
    ids::Digest,
    patterns::space_request::{SpaceAction, SpaceAnswer, SpaceRequest},
    spaces::{EntryDraft, EntryKind},
    task::TaskState,
};
use serde::{Deserialize, Serialize};

/// The most entries that one task posts; a turn with more fails.
const MAX_POSTS: u32 = 256;

/// The entries that a task has posted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostedEntries {
    count: u32,
    /// Whether a proposal is among them.
    has_proposal: bool,
}

impl PostedEntries {
    pub(super) fn is_none(&self) -> bool {
        self.count == 0
    }
}

impl Delegation {
    /// Posts an entry. Its id follows from the task and its content, so a turn that begins again posts nothing twice.
    pub(super) fn post(&mut self, mut draft: EntryDraft) -> Vec<DelegationEffect> {
        self.posted.count += 1;
        if self.posted.count > MAX_POSTS {
            return self.fail(format!("posted more than {MAX_POSTS} entries in one task"));
        }
        self.posted.has_proposal |= draft.kind == EntryKind::Proposal;
        let spec = &self.ownership.spec;
        draft.task = Some(spec.task_id.clone());
        let content = serde_json::to_string(&draft).unwrap_or_default();
        let seed = format!("{}|{}|{content}", spec.root, self.me);
        let digest = Digest::of(seed.as_bytes()).to_string();
        draft.id = Some(format!("{}:{}", spec.task_id, &digest[..16]));
        let action = SpaceAction::Post { entry: Box::new(draft) };
        vec![self.ask_space(action)]
    }

    fn ask_space(&self, action: SpaceAction) -> DelegationEffect {
        let request = Box::new(SpaceRequest { space: self.ownership.spec.space(), action });
        DelegationEffect::AskSpace { label: DelegationLabel::Space, request }
    }

    /// The curation of what a completed task has proposed.
    pub(super) fn curate(&self, state: TaskState) -> Option<DelegationEffect> {
        let is_due = self.posted.has_proposal && state == TaskState::Completed;
        let task = self.ownership.spec.task_id.clone();
        is_due.then(|| self.ask_space(SpaceAction::Curate { task }))
    }

    /// The space has answered. A refusal is shown, and the work goes on.
    pub(super) fn posted(&mut self, answer: &SpaceAnswer) -> Vec<DelegationEffect> {
        match answer {
            SpaceAnswer::Refused { message, .. } => {
                let message = format!("the space refused an entry: {message}");
                self.ownership.status(self.open_state(), message)
            }
            SpaceAnswer::Posted { .. } | SpaceAnswer::Found { .. } | SpaceAnswer::Curated { .. } => {
                Vec::new()
            }
        }
    }
}
