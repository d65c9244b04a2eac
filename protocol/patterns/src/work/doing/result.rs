//! The check of the agent's own result before it counts. A refused result is made again once, in a turn that is given the
//! findings.

use super::{Doing, Effect, Event, TaskState};
use crate::{
    ChunkRange,
    result_check::{AcceptanceVerdict, CheckStep},
};
use protocol::acceptance::{AcceptanceTerms, ResultRevision};
use serde::{Deserialize, Serialize};

/// What the manager or the agent's own checks have refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RefusedWork {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<Box<ResultRevision>>,
    /// The chunks of what the agent's own checks have refused.
    #[serde(default, skip_serializing_if = "ChunkRange::is_default")]
    pub(super) chunks: ChunkRange,
}

impl RefusedWork {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Doing {
    /// Results are checked on these terms before they count.
    #[must_use]
    pub fn with_acceptance(mut self, terms: AcceptanceTerms) -> Self {
        self.task.check_on(terms);
        self
    }

    /// The task is done again, because the manager has refused a result of it.
    #[must_use]
    pub fn revising(mut self, revision: Option<Box<ResultRevision>>) -> Self {
        self.refused.revision = revision;
        self
    }

    /// Checks the result, if there is something to check by. What was asked and not answered is withdrawn.
    pub(super) fn check_result(&mut self, message: Option<String>, event: &Event) -> Vec<Effect> {
        if self.task.checks.is_none() {
            return self.finish(TaskState::Completed, message);
        }
        let mut effects = self.task.withdraw_requests();
        effects.extend(self.charge_lost());
        if !self.task.ownership.has_ended() {
            effects.extend(self.task.begin_check(message, event));
        }
        effects
    }

    pub(super) fn checked(&mut self, step: CheckStep, event: &Event) -> Vec<Effect> {
        let CheckStep { mut effects, verdict } = step;
        effects.extend(match verdict {
            None => Vec::new(),
            Some(AcceptanceVerdict::Accepted) if self.has_unread_messages() => self.read_messages(),
            Some(AcceptanceVerdict::Accepted) => {
                let summary = self.task.summary.take();
                self.finish(TaskState::Completed, summary)
            }
            Some(AcceptanceVerdict::Unchecked(why)) => self.fail(why),
            Some(AcceptanceVerdict::Refused(findings)) => self.result_refused(findings, event),
        });
        effects
    }

    fn result_refused(&mut self, findings: String, event: &Event) -> Vec<Effect> {
        if self.refused.revision.is_some() || self.task.turn >= self.max_turns() {
            let times = if self.refused.revision.is_some() { " twice" } else { "" };
            return self.brain_failed(format!("its result was refused{times}: {findings}"), event);
        }
        let status = format!("its result was refused, and it tries again: {findings}");
        self.refused.chunks = self.task.ownership.produced();
        self.refused.revision = Some(Box::new(ResultRevision { findings, artifacts: Vec::new() }));
        let mut effects = self.task.ownership.discard_artifacts();
        effects.extend(self.task.ownership.status(TaskState::Working, status));
        effects.extend(self.think());
        effects
    }
}
