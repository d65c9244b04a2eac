//! Awarded work that ended without a result that counts. Its records belong to the task: the agent that is awarded the task again,
//! under whatever epoch, goes on behind the last one.

use super::{Doing, Effect, PostedEntries, RefusedWork, TaskState};
use crate::{
    AnyPattern, WorkSoFar, context::TaskContext, progress::ProducedChunks, turn_log::TurnLog,
    work::pending_requests::PendingRequests,
};
use serde::{Deserialize, Serialize};

/// What [`WorkSoFar`] holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DoneWork {
    turn: u32,
    /// Whether that turn has not ended.
    is_thinking: bool,
    log: TurnLog,
    produced: ProducedChunks,
    pending: PendingRequests,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    says: Vec<String>,
    #[serde(default, skip_serializing_if = "PostedEntries::is_none")]
    posted: PostedEntries,
    #[serde(default, skip_serializing_if = "RefusedWork::is_none")]
    refused: RefusedWork,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    acted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Box<TaskContext>>,
    /// The summary of its result, if it was done: the manager has not taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<String>,
}

impl DoneWork {
    /// The work, if it is of these rules. Of others the task is begun anew.
    pub(super) fn read(so_far: &WorkSoFar) -> Option<Self> {
        (so_far.rules == AnyPattern::RULES)
            .then(|| serde_json::from_value(so_far.work.clone()).ok())
            .flatten()
    }
}

impl Doing {
    /// The work goes on behind what the agent has done of it before.
    #[must_use]
    pub fn behind(mut self, so_far: Option<Box<WorkSoFar>>) -> Self {
        self.so_far = so_far;
        self
    }

    /// Whether something of the work is recorded that would be done again.
    fn has_records(&self) -> bool {
        !(self.log.is_empty() && self.task.ownership.produced().is_empty() && self.posted.is_none())
            || self.task.pending.is_waiting()
    }

    /// What is kept of awarded work at its end, if anything is recorded. `result` is the summary of a result. What has failed is
    /// tried again from its beginning unless the brain has noted something.
    pub(super) fn so_far(&self, state: TaskState, result: Option<&str>) -> Option<Box<WorkSoFar>> {
        let is_kept = if state == TaskState::Failed { !self.log.is_empty() } else { self.has_records() };
        if !self.task.ownership.is_awarded() || !is_kept {
            return None;
        }
        let done = DoneWork {
            turn: self.task.turn,
            is_thinking: self.is_thinking || self.pauses.is_paused(),
            log: self.log.clone(),
            produced: self.task.ownership.produced_before(),
            pending: self.task.pending.so_far(self.is_thinking),
            says: self.says.clone(),
            posted: self.posted.clone(),
            refused: self.refused.clone(),
            acted: self.acted,
            context: self.context.clone(),
            result: result.map(str::to_owned),
        };
        let (rules, chunks) = (AnyPattern::RULES, done.produced.range());
        Some(Box::new(WorkSoFar { rules, chunks, work: serde_json::to_value(done).ok()? }))
    }

    /// Goes on behind what was done before: with the turn that had not ended, or the next one.
    pub(super) fn go_on_behind(&mut self, so_far: DoneWork) -> Vec<Effect> {
        let DoneWork {
            turn,
            is_thinking,
            log,
            produced,
            pending,
            says,
            posted,
            refused,
            acted,
            context,
            result,
        } = so_far;
        (self.task.turn, self.task.pending, self.log) = (turn, pending, log);
        (self.says, self.posted, self.refused, self.acted) = (says, posted, refused, acted);
        self.context = context.or_else(|| self.context.take());
        self.task.ownership.go_on_with(produced);
        if let Some(result) = result {
            return self.finish(TaskState::Completed, Some(result));
        }
        let message = format!("{} goes on behind what it has done before", self.task.me);
        let mut effects = self.task.ownership.status(TaskState::Working, message);
        effects.extend(self.task.pending.timers());
        effects.extend(match self.task.turn {
            0 => self.think(),
            _ if is_thinking => {
                let input = self.log.resume_turn();
                let mut effects = vec![self.run_turn(input)];
                if !self.task.pending.questions().is_empty() {
                    effects.extend(self.show_questions(""));
                }
                effects
            }
            _ if self.task.pending.is_waiting() => self.show_questions(""),
            _ => self.think(),
        });
        effects
    }

    /// The node drains. What has no record yet goes to another agent; the rest stays with this one, and its manager is told for
    /// how long it may be away.
    pub(super) fn drains(&mut self, why: &str, away_ms: Option<u64>) -> Vec<Effect> {
        match away_ms.filter(|away_ms| *away_ms > 0 && self.task.ownership.is_awarded() && self.has_records())
        {
            Some(away_ms) => self.task.ownership.is_away(away_ms).into_iter().collect(),
            None => self.hand_back(why),
        }
    }

    /// The agent has started again: it tells its manager that it is back. If the award has lapsed, it learns of it.
    pub(super) fn checks_in(&mut self) -> Vec<Effect> {
        match self.task.ownership.is_awarded() {
            true => self.task.ownership.is_away(0).into_iter().collect(),
            false => Vec::new(),
        }
    }
}
