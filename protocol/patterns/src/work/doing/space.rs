//! What a task's brain posts in the space of the task.

use super::{Doing, Effect};
use crate::session::seat::is_seat_turn;
use protocol::{
    ids::{Digest, TaskId},
    spaces::{EntryDraft, EntryKind, request::SpaceAction},
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

    pub(super) fn has_proposal(&self) -> bool {
        self.has_proposal
    }
}

impl Doing {
    /// Posts an entry. Its id follows from the task and its content, so a turn that begins again posts nothing twice.
    pub(super) fn post(&mut self, mut draft: EntryDraft) -> Vec<Effect> {
        self.posted.count += 1;
        if self.posted.count > MAX_POSTS {
            return self.fail(format!("posted more than {MAX_POSTS} entries in one task"));
        }
        self.posted.has_proposal |= draft.kind == EntryKind::Proposal;
        let spec = &self.task.ownership.spec;
        draft.task = Some(spec.task_id.clone());
        draft.session = self.own_session();
        let content = serde_json::to_string(&draft).unwrap_or_default();
        let seed = format!("{}|{}|{content}", spec.root, self.task.me);
        let digest = Digest::of(seed.as_bytes()).to_string();
        draft.id = Some(format!("{}:{}", spec.task_id, &digest[..16]));
        let action = SpaceAction::Post { entry: Box::new(draft) };
        vec![self.task.ask_space(action)]
    }

    /// The session that this agent hosts, if the task is its own turn in it. Nobody else can say so.
    fn own_session(&self) -> Option<TaskId> {
        let spec = &self.task.ownership.spec;
        let is_own = self.task.ownership.requester.as_ref().is_some_and(|by| by.agent == self.task.me);
        spec.parent.clone().filter(|_| is_own && is_seat_turn(spec))
    }
}
