//! What the order, and who may see it, need of a task, and what a list asks of it.

use super::Cursor;
use protocol::{
    ids::{ConversationId, TaskId},
    principal::Principal,
    task::{TaskState, may_see},
    time::WallTime,
};
use serde::Deserialize;

/// What the order, and who may see it, need of a row.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outline {
    pub(super) spec: Spec,
    conversation: ConversationId,
    pub(super) owner: Principal,
    #[serde(default)]
    pub(super) participants: Vec<Principal>,
    pub(super) status: Standing,
    pub(super) changed_at: WallTime,
    #[serde(default)]
    pub(super) is_message: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) task_id: TaskId,
    pub(super) root: Principal,
    #[serde(default)]
    pub(super) contact: Option<Contact>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Contact {
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    pub(super) tenant: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Standing {
    pub(super) state: TaskState,
}

impl Outline {
    pub(super) fn cursor(&self) -> Cursor {
        Cursor { at: self.changed_at, task: self.spec.task_id.clone(), owner: self.owner.clone() }
    }

    /// The context it belongs to.
    pub(super) fn context_id(&self) -> &str {
        let named = self.spec.contact.as_ref().and_then(|contact| contact.context_id.as_deref());
        named.unwrap_or(self.conversation.as_str())
    }
}

/// Whose tasks a list shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Audience {
    pub(super) owner: Principal,
    pub(super) root: Principal,
    pub(super) participants: Vec<Principal>,
    /// The tenant it is kept for.
    pub(super) tenant: Option<String>,
}

impl Audience {
    pub(super) fn of(outline: &Outline) -> Self {
        Self {
            owner: outline.owner.clone(),
            root: outline.spec.root.clone(),
            participants: outline.participants.clone(),
            tenant: outline.spec.contact.as_ref().and_then(|contact| contact.tenant.clone()),
        }
    }

    /// About how many bytes it takes.
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

/// What a list asks for.
#[derive(Debug, Clone)]
pub(in super::super) struct Wanted {
    /// Who asks.
    pub(in super::super) by: Principal,
    /// The tenant that is asked for.
    pub(in super::super) tenant: Option<String>,
    /// Only tasks of this context.
    pub(in super::super) context_id: Option<String>,
    /// Only tasks that stand here.
    pub(in super::super) state: Option<TaskState>,
    /// Only tasks that have stood there since then or later.
    pub(in super::super) changed_since: Option<WallTime>,
}

impl Wanted {
    /// Whether who asks may see tasks of `audience`, and asked for its tenant.
    pub(super) fn sees(&self, audience: &Audience) -> bool {
        may_see(&self.by, &audience.owner, &audience.root, &audience.participants)
            && self.tenant == audience.tenant
    }

    /// Whether a task that stands in `state` since `changed_at` is asked for.
    pub(super) fn stands(&self, state: TaskState, changed_at: WallTime) -> bool {
        self.state.is_none_or(|wanted| wanted == state)
            && self.changed_since.is_none_or(|since| changed_at >= since)
    }

    /// Whether it is asked for.
    pub(super) fn admits(&self, outline: &Outline) -> bool {
        self.sees(&Audience::of(outline))
            && self.stands(outline.status.state, outline.changed_at)
            && self.context_id.as_deref().is_none_or(|id| id == outline.context_id())
    }
}
