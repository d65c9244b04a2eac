//! The fields of a task that order and visibility need, and the filter of a list.

use super::TaskCursor;
use protocol::{
    ids::{ConversationId, TaskId},
    principal::Principal,
    task::{TaskState, may_see},
    time::WallTime,
};
use serde::Deserialize;

/// The fields of a task's row that order and visibility need.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskOutline {
    pub(super) spec: SpecOutline,
    conversation: ConversationId,
    pub(super) owner: Principal,
    #[serde(default)]
    pub(super) participants: Vec<Principal>,
    pub(super) status: StatusOutline,
    pub(super) changed_at: WallTime,
    #[serde(default)]
    pub(super) is_message: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpecOutline {
    pub(super) task_id: TaskId,
    pub(super) root: Principal,
    #[serde(default)]
    pub(super) contact: Option<ContactOutline>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContactOutline {
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    pub(super) tenant: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StatusOutline {
    pub(super) state: TaskState,
}

impl TaskOutline {
    pub(super) fn cursor(&self) -> TaskCursor {
        TaskCursor { at: self.changed_at, task: self.spec.task_id.clone(), owner: self.owner.clone() }
    }

    /// The task's context; its conversation's id if the client named none.
    pub(super) fn context_id(&self) -> &str {
        let named = self.spec.contact.as_ref().and_then(|contact| contact.context_id.as_deref());
        named.unwrap_or(self.conversation.as_str())
    }
}

/// The principals that may see a task, and its tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Audience {
    pub(super) owner: Principal,
    pub(super) root: Principal,
    pub(super) participants: Vec<Principal>,
    /// The tenant that the client named.
    pub(super) tenant: Option<String>,
}

impl Audience {
    pub(super) fn of(outline: &TaskOutline) -> Self {
        Self {
            owner: outline.owner.clone(),
            root: outline.spec.root.clone(),
            participants: outline.participants.clone(),
            tenant: outline.spec.contact.as_ref().and_then(|contact| contact.tenant.clone()),
        }
    }

    /// Its size in memory, approximately, bytes.
    pub(super) fn bytes(&self) -> usize {
        let of = |principal: &Principal| size_of::<Principal>() + principal.to_string().len() + 16;
        let participants: usize = self.participants.iter().map(of).sum();
        2 * size_of::<Self>()
            + of(&self.owner)
            + of(&self.root)
            + participants
            + self.tenant.as_ref().map_or(0, String::len)
    }
}

/// The filter of a list.
#[derive(Debug, Clone)]
pub(in super::super) struct TaskFilter {
    pub(in super::super) by: Principal,
    /// Only tasks of this tenant.
    pub(in super::super) tenant: Option<String>,
    /// Only tasks of this context.
    pub(in super::super) context_id: Option<String>,
    /// Only tasks in this state.
    pub(in super::super) state: Option<TaskState>,
    /// Only tasks whose status changed then or later.
    pub(in super::super) changed_since: Option<WallTime>,
}

impl TaskFilter {
    /// Whether the caller may see tasks of `audience`, and its tenant matches.
    pub(super) fn sees(&self, audience: &Audience) -> bool {
        may_see(&self.by, &audience.owner, &audience.root, &audience.participants)
            && self.tenant == audience.tenant
    }

    /// Whether a task in `state` since `changed_at` matches.
    pub(super) fn matches_status(&self, state: TaskState, changed_at: WallTime) -> bool {
        self.state.is_none_or(|wanted| wanted == state)
            && self.changed_since.is_none_or(|since| changed_at >= since)
    }

    /// Whether a task matches.
    pub(super) fn admits(&self, outline: &TaskOutline) -> bool {
        self.sees(&Audience::of(outline))
            && self.matches_status(outline.status.state, outline.changed_at)
            && self.context_id.as_deref().is_none_or(|id| id == outline.context_id())
    }
}
