//! The answer to an award that is not accepted, or is given back.

use super::{AgentId, Doing, Effect, Label, Payload, TaskOwnership, TaskState, WorkLimits};
use protocol::message::{AwardDecline, BUSY};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Why an award is declined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AwardRefusal {
    reason: String,
    /// When a place is expected to be free, if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    free_in_ms: Option<u64>,
}

impl AwardRefusal {
    pub(super) fn of(reason: String) -> Self {
        Self { reason, free_in_ms: None }
    }
}

impl Doing {
    /// `me` declines the award, with a reason.
    pub fn declining(me: AgentId, ownership: TaskOwnership, why: String) -> Self {
        let declines = Some(AwardRefusal::of(why));
        Self { declines, ..Self::new(me, ownership, None, WorkLimits::default()) }
    }

    /// `me` declines the award because it has no free place; one is expected in `free_in`.
    pub fn busy(me: AgentId, ownership: TaskOwnership, free_in: Duration) -> Self {
        let free_in_ms = u64::try_from(free_in.as_millis()).ok();
        let declines = Some(AwardRefusal { reason: BUSY.to_owned(), free_in_ms });
        Self { declines, ..Self::new(me, ownership, None, WorkLimits::default()) }
    }

    pub(super) fn decline(&mut self, refusal: AwardRefusal) -> Vec<Effect> {
        let AwardRefusal { reason: why, free_in_ms } = refusal;
        let task_id = self.task.ownership.spec.task_id.clone();
        let decline = self.task.ownership.requester.clone().map(|requester| {
            let epoch = requester.epoch.unwrap_or_default();
            let (reason, extra) = (why.clone(), Default::default());
            let usage = Some(*self.task.ownership.usage());
            let decline = AwardDecline { task_id, epoch, reason, free_in_ms, usage, extra };
            Effect::Send(requester.reply(Label::Decline, Payload::AwardDecline(decline)))
        });
        self.task.ownership.requester = None;
        self.task.ownership.announces = false;
        let ended = self.task.ownership.finish(TaskState::Rejected, Some(why), BTreeMap::new());
        decline.into_iter().chain(ended).collect()
    }

    /// Declines an award that was accepted, so that its manager awards the task to another agent. Says what was used.
    pub(super) fn hand_back(&mut self, why: &str) -> Vec<Effect> {
        if !self.task.ownership.is_awarded() {
            return Vec::new();
        }
        let mut effects = self.stop(why);
        effects.extend(self.task.settle_usage());
        effects.extend(self.decline(AwardRefusal::of(why.to_owned())));
        effects
    }
}
