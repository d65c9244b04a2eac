//! What the agents that work for a task say of their progress is shown in its status, under their names: one status a second at most.

use super::{Doing, Effect, Event, TaskState, Timer};
use crate::TimerAt;
use protocol::{
    ids::AgentId, message::TaskUpdate, principal::Principal, task::Status, time::NodeTime, words::cut,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The shortest time between two such statuses.
const PAUSE: Duration = Duration::from_secs(1);

/// The most characters of one.
const MAX_PROGRESS: usize = 240;

/// What was shown, and what is to be shown next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DoerProgress {
    #[serde(skip_serializing_if = "Option::is_none")]
    shown_at: Option<NodeTime>,
    #[serde(skip_serializing_if = "String::is_empty")]
    shown: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl DoerProgress {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// An agent has ended its work: what it has said before is no news.
    pub(super) fn forget(&mut self) {
        self.next = None;
    }
}

/// The words of `by` under its name.
fn line(by: &AgentId, status: &Status, me: &AgentId) -> Option<String> {
    let said =
        status.message.as_ref().filter(|_| !status.state.is_terminal() && status.questions.is_empty())?;
    let by = status.by.as_ref().unwrap_or(by);
    let names_itself = by == me || said.starts_with(by.as_str());
    let said = if names_itself { said.clone() } else { format!("{by}: {said}") };
    Some(cut(&said, MAX_PROGRESS))
}

impl Doing {
    /// Shows the progress of an agent that works for the task.
    pub(super) fn show_progress_of_doer(
        &mut self,
        by: &Principal,
        update: &TaskUpdate,
        event: &Event,
    ) -> Vec<Effect> {
        let status = update.status.as_ref().zip(by.agent());
        let line = status.and_then(|(status, agent)| line(agent, status, &self.task.me));
        let is_asked = self.task.pending.request_of(by, &update.task_id).is_some();
        let Some(line) = line.filter(|line| is_asked && *line != self.progress.shown) else {
            return Vec::new();
        };
        match self.progress.shown_at.map(|at| at + PAUSE).filter(|until| event.at < *until) {
            None => self.show_line(line, event),
            Some(until) => match self.progress.next.replace(line) {
                Some(_) => Vec::new(),
                None => vec![Effect::SetTimer { timer: Timer::Progress, when: TimerAt::Node(until) }],
            },
        }
    }

    /// Shows what has come since the last status.
    pub(super) fn show_next_progress(&mut self, event: &Event) -> Vec<Effect> {
        self.progress.next.take().map(|line| self.show_line(line, event)).unwrap_or_default()
    }

    fn show_line(&mut self, line: String, event: &Event) -> Vec<Effect> {
        if !self.task.ownership.questions.is_empty() {
            return Vec::new();
        }
        self.progress.shown_at = Some(event.at);
        self.progress.shown.clone_from(&line);
        self.task.ownership.status(TaskState::Working, line)
    }
}
