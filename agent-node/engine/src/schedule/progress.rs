//! How far a schedule has come: what was due is decided once, begun once, and settled.

use super::{MissedPolicy, OverlapPolicy, Schedule, Timing, timing::MAX_DUE};
use protocol::{ids::TaskId, time::WallTime};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How late a firing may be and still counts as in time: a busy node, or a restart.
const IN_TIME: Duration = Duration::from_secs(60);

/// How far a schedule has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleProgress {
    /// All that was due up to then is decided.
    pub decided: WallTime,
    /// What was decided to be begun and waits, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WallTime>,
    /// The firing that is begun and not settled: its task may be requested already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<WallTime>,
    /// The last firing whose task was taken or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<StartedFiring>,
    /// The last firing that was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<SkippedFiring>,
    /// How many were left out; of more than 100 at once those are counted.
    #[serde(default)]
    pub skips: u64,
}

/// A firing whose task was taken or refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedFiring {
    pub due: WallTime,
    /// Its task; absent if it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// When it was settled.
    pub at: WallTime,
}

/// A firing that was left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedFiring {
    pub due: WallTime,
    pub reason: String,
}

/// What became of a firing that was begun.
#[derive(Debug, Clone, PartialEq)]
pub enum FiringOutcome {
    /// It is this task.
    Taken(TaskId),
    /// It will not be taken.
    Refused(String),
}

impl ScheduleProgress {
    /// That of a schedule that was made at `made`: what was due before is not made up for.
    pub fn of_new(made: WallTime) -> Self {
        Self { decided: made, ..Self::default() }
    }

    /// Decides what was due up to `now`. `busy` says why another task can't be begun now, if the last one is still open. Returns
    /// whether something was due.
    pub fn advance(
        &mut self,
        schedule: &Schedule,
        timing: &Timing,
        now: WallTime,
        busy: Option<&str>,
    ) -> bool {
        let (mut due, has_more) = timing.due(self.decided, now);
        let Some(newest) = due.last().copied() else { return false };
        self.decided = newest;
        if has_more && schedule.missed == MissedPolicy::All {
            let reason = format!("more than {MAX_DUE} were missed; the newest {MAX_DUE} are made up for");
            self.skip([due[0]], &reason);
        }
        if schedule.missed != MissedPolicy::All {
            let older = due.split_off(0);
            due = vec![newest];
            self.skip(
                older.into_iter().filter(|at| *at != newest),
                "it was missed; only the newest is made up for",
            );
        }
        if schedule.missed == MissedPolicy::Skip && newest.until(now) > IN_TIME {
            let late = newest.until(now).as_secs();
            self.skip([newest], &format!("it was missed: the agent was not there until {late} s later"));
            return true;
        }
        let unsettled = (self.begun.is_some() || !self.waiting.is_empty())
            .then_some("the firing before it has not begun its task");
        match busy.or(unsettled) {
            Some(why) if schedule.overlap == OverlapPolicy::Skip => self.skip(due, why),
            _ => {
                self.waiting.extend(due);
                let most = if schedule.missed == MissedPolicy::All { MAX_DUE } else { 1 };
                let left_out = self.waiting.len().saturating_sub(most);
                let older: Vec<_> = self.waiting.drain(..left_out).collect();
                self.skip(older, "a newer one waits in its place");
            }
        }
        true
    }

    fn skip(&mut self, due: impl IntoIterator<Item = WallTime>, reason: &str) {
        for due in due {
            self.skips += 1;
            self.skipped = Some(SkippedFiring { due, reason: reason.to_owned() });
        }
    }

    /// The firing whose task is to be requested, if one is: that which is begun, or the next that waits. It is begun from here on.
    pub fn begin(&mut self, overlap: OverlapPolicy, is_busy: bool) -> Option<WallTime> {
        if self.begun.is_none() && (!is_busy || overlap == OverlapPolicy::Allow) && !self.waiting.is_empty() {
            self.begun = Some(self.waiting.remove(0));
        }
        self.begun
    }

    /// What became of the firing that is begun.
    pub fn settle(&mut self, outcome: FiringOutcome, at: WallTime) {
        let Some(due) = self.begun.take() else { return };
        self.last = Some(match outcome {
            FiringOutcome::Taken(task) => StartedFiring { due, task_id: Some(task), refused: None, at },
            FiringOutcome::Refused(why) => StartedFiring { due, task_id: None, refused: Some(why), at },
        });
    }

    /// Leaves out what waits and what was due up to `now`: the schedule was paused until then.
    pub fn resume(&mut self, now: WallTime) {
        let waiting = std::mem::take(&mut self.waiting);
        self.skip(waiting, "it was paused");
        self.decided = self.decided.max(now);
    }

    /// When it is due next.
    pub fn next(&self, timing: &Timing) -> Option<WallTime> {
        timing.next(self.decided)
    }
}
