//! The check of a result before it counts. A refused result goes back to the doer once, with the findings; then the runner-up
//! gets the task. A result that can't be checked ends the task: it is not the doer's fault, and unchecked it does not count.

use super::{ActiveAward, AuctionStage, ContractNet, Effect, Event, record::CandidateResult};
use crate::{
    ChunkRange, RecordedArtifacts, Update,
    result_check::{AcceptanceVerdict, CheckStep, CheckedTask},
};
use protocol::{acceptance::ResultRevision, task::TaskState, usage::TaskBounds};
use serde::{Deserialize, Serialize};

/// A result that is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckedResult {
    /// The award under which it was made.
    pub(super) award: ActiveAward,
    message: Option<String>,
}

/// A result that was refused, for its doer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RefusedResult {
    findings: String,
    chunks: ChunkRange,
}

impl RefusedResult {
    pub(super) fn revision(&self) -> ResultRevision {
        ResultRevision { findings: self.findings.clone(), artifacts: Vec::new() }
    }

    pub(super) fn artifacts(&self) -> Option<RecordedArtifacts> {
        let chunks = self.chunks;
        (!chunks.is_empty()).then(|| RecordedArtifacts { chunks, only: Vec::new() })
    }
}

impl ContractNet {
    fn checked_task(&mut self) -> CheckedTask<'_> {
        CheckedTask { me: &self.me, bounds: TaskBounds::default(), ownership: &mut self.ownership }
    }

    /// Checks the result under `award`, if there is something to check by.
    pub(super) fn check_result(
        &mut self,
        award: ActiveAward,
        message: Option<String>,
        event: &Event,
    ) -> Vec<Effect> {
        if self.checks.is_none() || award.winner == self.me {
            return self.accept_result(&award, message);
        }
        let mut checks = std::mem::take(&mut self.checks);
        let effects = checks.begin(&award.winner, message.clone(), self.checked_task(), event);
        self.checks = checks;
        self.stage = AuctionStage::Checking(Box::new(CheckedResult { award, message }));
        effects
    }

    /// The effects of an event of the check under way; `None` if it is about something else.
    pub(super) fn check_event(&mut self, event: &Event) -> Option<Vec<Effect>> {
        let mut checks = std::mem::take(&mut self.checks);
        let step = checks.on(self.checked_task(), event);
        self.checks = checks;
        let CheckStep { mut effects, verdict } = step?;
        for effect in &effects {
            if let Effect::Update(Update::Checked(check)) = effect {
                self.record.append_check(check.as_ref().clone());
            }
        }
        effects.extend(verdict.map(|verdict| self.judged(verdict, event)).unwrap_or_default());
        Some(effects)
    }

    fn judged(&mut self, verdict: AcceptanceVerdict, event: &Event) -> Vec<Effect> {
        if let AcceptanceVerdict::Unchecked(why) = verdict {
            return self.call_off(TaskState::Failed, why);
        }
        let AuctionStage::Checking(checked) = std::mem::replace(&mut self.stage, AuctionStage::Over) else {
            return Vec::new();
        };
        let CheckedResult { award, message } = *checked;
        match verdict {
            AcceptanceVerdict::Accepted => self.accept_result(&award, message),
            AcceptanceVerdict::Refused(findings) if !award.is_revision => self.send_back(award, findings),
            AcceptanceVerdict::Refused(why) | AcceptanceVerdict::Unchecked(why) => {
                let why = format!("the result of {} was refused twice: {why}", award.winner);
                self.refused.insert(award.winner.clone());
                self.stage = AuctionStage::Awarded(award);
                self.goes_to_another(CandidateResult::Refused, why, event)
            }
        }
    }

    /// The doer gets the task again, with what was refused and why.
    fn send_back(&mut self, award: ActiveAward, findings: String) -> Vec<Effect> {
        if let Some(why) = self.why_budget_ends_it(&format!("its result was refused: {findings}")) {
            let mut effects = self.release(award.epoch);
            effects.extend(self.finish(TaskState::Failed, Some(why)));
            return effects;
        }
        let ActiveAward { winner, epoch, next, .. } = award;
        let status = format!("the result of {winner} was refused and goes back to it: {findings}");
        let chunks = self.ownership.produced();
        let mut effects = self.ownership.discard_artifacts();
        effects.extend(self.ownership.status(TaskState::Working, status));
        effects.extend(self.release(epoch));
        effects.extend(self.claim(winner, next));
        if let AuctionStage::Claiming { revision, .. } = &mut self.stage {
            *revision = Some(Box::new(RefusedResult { findings, chunks }));
        }
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
