//! The check of the agent's own result before it counts. A refused result is made again once, in a turn that is given the
//! findings.

use super::{Delegation, Effect, Event, TurnInput};
use crate::{
    acceptance::{AcceptanceTerms, ResultRevision},
    patterns::{
        ChunkRange,
        result_check::{AcceptanceVerdict, CheckStep, CheckedTask, ResultChecks},
    },
    task::TaskState,
};
use serde::{Deserialize, Serialize};

/// The result that is checked, and what was refused before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnResult {
    /// The summary of the result that is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// What the manager or the agent's own checks have refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<Box<ResultRevision>>,
    /// The chunks of what the agent's own checks have refused.
    #[serde(default, skip_serializing_if = "ChunkRange::is_default")]
    chunks: ChunkRange,
}

impl OwnResult {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Delegation {
    /// Results are checked on these terms before they count.
    #[must_use]
    pub fn with_acceptance(mut self, terms: AcceptanceTerms) -> Self {
        self.ownership.is_checked = !terms.is_default();
        self.checks = ResultChecks::of(terms);
        self
    }

    /// The task is done again, because the manager has refused a result of it.
    #[must_use]
    pub fn revising(mut self, revision: Option<Box<ResultRevision>>) -> Self {
        self.result.refused = revision;
        self
    }

    /// What a turn is given of a refused result: in the prompt, and in its input.
    pub(super) fn revision(&self, input: TurnInput) -> (Option<Box<ResultRevision>>, TurnInput) {
        (self.result.refused.clone(), TurnInput { refused: self.result.chunks, ..input })
    }

    fn checked_task(&mut self) -> CheckedTask<'_> {
        CheckedTask { me: &self.me, bounds: self.work_limits.bounds, ownership: &mut self.ownership }
    }

    /// Checks the result, if there is something to check by. What was asked and not answered is withdrawn.
    pub(super) fn check_result(&mut self, message: Option<String>, event: &Event) -> Vec<Effect> {
        if self.checks.is_none() {
            return self.finish(TaskState::Completed, message);
        }
        let mut effects = self.pending.withdraw("the work is done");
        self.pending.forget_ids();
        effects.extend(self.charge_lost());
        if self.ownership.has_ended() {
            return effects;
        }
        self.ownership.questions.clear();
        self.result.message.clone_from(&message);
        let (mut checks, me) = (std::mem::take(&mut self.checks), self.me.clone());
        effects.extend(checks.begin(&me, message, self.checked_task(), event));
        self.checks = checks;
        self.is_thinking = self.checks.runs_turn();
        effects
    }

    /// The effects of an event of the check under way; `None` if it is about something else.
    pub(super) fn check_event(&mut self, event: &Event) -> Option<Vec<Effect>> {
        let mut checks = std::mem::take(&mut self.checks);
        let step = checks.on(self.checked_task(), event);
        self.checks = checks;
        let CheckStep { mut effects, verdict } = step?;
        self.is_thinking = self.checks.runs_turn();
        match verdict {
            None => {}
            Some(AcceptanceVerdict::Accepted) if self.has_unread_messages() => {
                effects.extend(self.read_messages());
            }
            Some(AcceptanceVerdict::Accepted) => {
                let message = self.result.message.take();
                effects.extend(self.finish(TaskState::Completed, message));
            }
            Some(AcceptanceVerdict::Unchecked(why)) => effects.extend(self.fail(why)),
            Some(AcceptanceVerdict::Refused(findings)) => effects.extend(self.refused(findings, event)),
        }
        Some(effects)
    }

    fn refused(&mut self, findings: String, event: &Event) -> Vec<Effect> {
        if self.session.is_some() || self.result.refused.is_some() || self.turn >= self.max_turns() {
            let times = if self.result.refused.is_some() { " twice" } else { "" };
            return self.brain_failed(format!("its result was refused{times}: {findings}"), event);
        }
        let status = format!("its result was refused, and it tries again: {findings}");
        self.result.chunks = self.ownership.produced();
        self.result.refused = Some(Box::new(ResultRevision { findings, artifacts: Vec::new() }));
        let mut effects = self.ownership.discard_artifacts();
        effects.extend(self.ownership.status(TaskState::Working, status));
        effects.extend(self.think());
        effects
    }

    /// Ends the check under way without a verdict.
    pub(super) fn stop_check(&mut self, why: &str) -> Vec<Effect> {
        let mut checks = std::mem::take(&mut self.checks);
        let effects = checks.abort(why, self.checked_task());
        self.checks = checks;
        effects
    }
}
