//! What a task's brain posts in the space of the task.

use super::{Delegation, Effect, Label};
use crate::{
    ids::{Digest, TaskId},
    patterns::{
        session::seat::{self, is_seat_turn},
        space_request::{SpaceAction, SpaceAnswer, SpaceRequest},
        turn::Progress,
    },
    spaces::{EntryDraft, EntryKind, MemoryScope, Space, task_history},
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
    pub(super) fn post(&mut self, mut draft: EntryDraft) -> Vec<Effect> {
        self.posted.count += 1;
        if self.posted.count > MAX_POSTS {
            return self.fail(format!("posted more than {MAX_POSTS} entries in one task"));
        }
        self.posted.has_proposal |= draft.kind == EntryKind::Proposal;
        let spec = &self.ownership.spec;
        draft.task = Some(spec.task_id.clone());
        draft.session = self.own_session();
        let content = serde_json::to_string(&draft).unwrap_or_default();
        let seed = format!("{}|{}|{content}", spec.root, self.me);
        let digest = Digest::of(seed.as_bytes()).to_string();
        draft.id = Some(format!("{}:{}", spec.task_id, &digest[..16]));
        let action = SpaceAction::Post { entry: Box::new(draft) };
        vec![self.ask_space(action)]
    }

    /// Whether the task is the turn of a seat in a sealed stage, and `update` would be seen by others. Areas of expertise are in the
    /// briefs of teammates, whatever the scope is.
    pub(super) fn is_kept_sealed(&self, update: &Progress) -> bool {
        let is_own = matches!(update, Progress::Post { entry } if entry.scope == Some(MemoryScope::Own) && entry.expertise.is_empty());
        seat::is_sealed(&self.ownership.spec) && !is_own
    }

    /// The session that this agent hosts, if the task is its own turn in it. Nobody else can say so.
    fn own_session(&self) -> Option<TaskId> {
        let spec = &self.ownership.spec;
        let is_own = self.ownership.requester.as_ref().is_some_and(|by| by.agent == self.me);
        spec.parent.clone().filter(|_| is_own && is_seat_turn(spec))
    }

    fn ask_space(&self, action: SpaceAction) -> Effect {
        let request = Box::new(SpaceRequest { space: self.ownership.spec.space(), action });
        Effect::AskSpace { label: Label::Space, request }
    }

    /// The curation of what a completed task has proposed. That of a session decides for everybody, so it needs a person who has
    /// sent the session and one who has approved at a gate: any brain can have its agent host a session.
    pub(super) fn curate(&self, state: TaskState) -> Option<Effect> {
        let is_approved = self.session.as_ref().is_some_and(|session| session.is_approved());
        let session = is_approved && self.ownership.requester.is_none();
        let is_due = (self.posted.has_proposal || session) && state == TaskState::Completed;
        let task = self.ownership.spec.task_id.clone();
        is_due.then(|| self.ask_space(SpaceAction::Curate { task, session }))
    }

    /// The memory of the task in the agent's vault, if it belongs to a space with a name. The turn of a seat is one if the seat is
    /// done with it; of a sealed stage there is none.
    pub(super) fn remember_task(&self, state: TaskState, said: Option<&str>) -> Option<Effect> {
        let spec = &self.ownership.spec;
        let has_passed = self.ownership.seat.as_ref().is_some_and(|seat| seat.passed);
        if Space::new(spec.space()).is_default() || seat::is_sealed(spec) || has_passed {
            return None;
        }
        let made = self.ownership.artifact_ids();
        let draft = task_history::draft(&spec.task_id, &spec.description, (state, said), &made);
        Some(self.ask_space(SpaceAction::Post { entry: Box::new(draft) }))
    }

    /// The space has answered. A refusal is shown, and the work goes on.
    pub(super) fn posted(&mut self, answer: &SpaceAnswer) -> Vec<Effect> {
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
