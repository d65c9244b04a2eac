//! A turn that goes on later. Meanwhile the task takes no place; a timer that survives a restart begins the turn again, with the
//! same checkpoints.

use super::{Doing, Effect, Event, Timer, WorkKind};
use crate::{TimerAt, turn::pause_length};
use protocol::{
    message::TaskUpdate,
    principal::Principal,
    task::{Status, TaskState},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest that a task without a deadline may pause in all.
const MAX_PAUSES: Duration = Duration::from_secs(24 * 3_600);

/// The longest that an answer to a peer may pause in all.
const MAX_PAUSES_OF_ANSWER: Duration = Duration::from_secs(120);

/// The pauses of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pauses {
    /// Why it pauses, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The length of all pauses.
    #[serde(default)]
    total: Duration,
}

impl Pauses {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.reason.is_some()
    }

    /// What is added to the reason of a failure during a pause.
    pub(super) fn why_paused(&self) -> String {
        self.reason.as_ref().map(|reason| format!(" while it paused: {reason}")).unwrap_or_default()
    }
}

impl Doing {
    /// The turn begins again after a pause. What it has noted for its end is not sent: it asks again.
    pub(super) fn pause(&mut self, after_ms: u64, reason: &str, event: &Event) -> Vec<Effect> {
        let after = pause_length(after_ms);
        self.pauses.total = self.pauses.total.saturating_add(after);
        if self.kind == WorkKind::Answer && self.pauses.total > MAX_PAUSES_OF_ANSWER {
            return self.fail(reason.to_owned());
        }
        if self.task.ownership.spec.deadline.is_none() && self.pauses.total > MAX_PAUSES {
            let hours = MAX_PAUSES.as_secs() / 3_600;
            return self.fail(format!("a task without a deadline may pause for {hours} h in all: {reason}"));
        }
        self.pauses.reason = Some(reason.to_owned());
        let until = event.wall.plus(after);
        if self.task.ownership.spec.deadline.is_some_and(|deadline| deadline <= until) {
            return self.show_pause(format!("{} pauses until its deadline: {reason}", self.task.me));
        }
        let mut effects = self.show_pause(format!("{} pauses until {until}: {reason}", self.task.me));
        effects.push(Effect::SetTimer { timer: Timer::Resume, when: TimerAt::Wall(until) });
        effects
    }

    /// The pause is over: the same turn begins again, with what has come since.
    pub(super) fn resume(&mut self) -> Vec<Effect> {
        if self.pauses.reason.take().is_none() {
            return Vec::new();
        }
        let mut effects = self.show_pause(format!("{} goes on after a pause", self.task.me));
        effects.extend(self.record_answers());
        let input = self.log.resume_turn();
        effects.push(self.run_turn(input));
        effects
    }

    fn show_pause(&mut self, message: String) -> Vec<Effect> {
        self.task.ownership.show_status(Status { is_pause: true, ..Status::new(TaskState::Working, message) })
    }

    /// Whether nothing goes on here but the work of other agents.
    pub(super) fn only_waits(&self) -> bool {
        !self.is_working() && !self.task.pending.waits_for_person()
    }

    /// Shows the pause of an agent that works for this task, and its end, while the task only waits.
    pub(super) fn show_pause_of_doer(&mut self, by: &Principal, update: &TaskUpdate) -> Vec<Effect> {
        match &update.status {
            Some(status) if self.task.pending.request_of(by, &update.task_id).is_some() => {
                self.task.ownership.show_status(status.clone())
            }
            Some(_) | None => Vec::new(),
        }
    }
}
