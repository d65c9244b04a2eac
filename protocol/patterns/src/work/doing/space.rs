//! What a task's brain posts in the space of the task.

use super::{Doing, Effect, WorkKind};
use crate::session::seat;
use protocol::{
    ids::{Digest, TaskId},
    spaces::{EntryDraft, EntryKind, MemoryScope, entry_draft::SealedStage, request::SpaceAction},
};
use serde::{Deserialize, Serialize};

/// The most entries that one task posts; a turn with more fails.
const MAX_POSTS: u32 = 256;

/// The entries that a task has posted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostedEntries {
    count: u32,
    /// How many findings are among them.
    #[serde(default, skip_serializing_if = "is_zero")]
    findings: u32,
    /// Whether a proposal is among them.
    has_proposal: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl PostedEntries {
    pub(super) fn is_none(&self) -> bool {
        self.count == 0
    }

    pub(super) fn findings(&self) -> u32 {
        self.findings
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
        self.posted.findings += u32::from(draft.kind == EntryKind::Finding);
        let spec = &self.task.ownership.spec;
        draft.task = Some(self.shown_task().clone());
        draft.session = match draft.kind {
            EntryKind::Finding => seat::session_of_findings(spec),
            _ => self.own_session(),
        };
        draft.sealed = self.sealed_stage(&draft).map(Box::new);
        draft.run.clone_from(&spec.run);
        let content = serde_json::to_string(&draft).unwrap_or_default();
        let seed = format!("{}|{}|{content}", spec.root, self.task.me);
        let digest = Digest::of(seed.as_bytes()).to_string();
        draft.id = Some(format!("{}:{}", spec.task_id, &digest[..16]));
        // The id stays that of earlier versions.
        let draft = draft.caused_by(&self.task.me, spec.task_root());
        let action = SpaceAction::Post { entry: Box::new(draft) };
        vec![self.task.ask_space(action, Some(spec.task_root()))]
    }

    /// The task to which what it does belongs: of an answer, that of the agent that asks.
    fn shown_task(&self) -> &TaskId {
        let spec = &self.task.ownership.spec;
        let of_asker = spec.parent.as_ref().filter(|_| self.kind == WorkKind::Answer);
        of_asker.unwrap_or(&spec.task_id)
    }

    /// The sealed stage to which an entry belongs: in one all do that others could see. Areas of expertise are in the briefs of
    /// teammates, whatever the scope is.
    fn sealed_stage(&self, draft: &EntryDraft) -> Option<SealedStage> {
        let host = &self.task.ownership.requester.as_ref()?.agent;
        let is_own = draft.scope == Some(MemoryScope::Own) && draft.expertise.is_empty();
        seat::sealed_stage(&self.task.ownership.spec, host).filter(|_| !is_own)
    }

    /// The session that this agent hosts, if the task is its own turn in it. Nobody else can say so.
    fn own_session(&self) -> Option<TaskId> {
        let spec = &self.task.ownership.spec;
        let is_own = self.task.ownership.requester.as_ref().is_some_and(|by| by.agent == self.task.me);
        spec.parent.clone().filter(|_| is_own && seat::is_seat_turn(spec))
    }
}
