//! One task in a list.

use crate::{
    location::ConsoleLocation,
    state_mark, times,
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{
    a2a::{message::Message, task::A2aTask},
    ids::AgentId,
    task::{EXTENSION, Task, TaskState},
    time::WallTime,
    usage::Usage,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What a list says of a task.
#[derive(Debug, Clone)]
pub struct TaskLine {
    pub agent: String,
    pub id: String,
    pub description: String,
    pub state: TaskState,
    /// What its status says.
    pub message: String,
    pub capability: Option<String>,
    pub requester: String,
    /// The agent that does it, if it is another one.
    pub doer: Option<String>,
    pub questions: usize,
    pub tokens: u64,
    pub cost: f64,
    pub created: WallTime,
    pub changed: WallTime,
    /// Whether it leads to the view of a session.
    pub is_session: bool,
}

impl TaskLine {
    /// `task` at `agent`.
    pub fn of(agent: &AgentId, task: &Task) -> Self {
        Self {
            agent: agent.to_string(),
            id: task.spec.task_id.to_string(),
            description: task.spec.description.clone(),
            state: task.status.state,
            message: task.status.message.clone().unwrap_or_default(),
            capability: task.spec.capability.as_ref().map(ToString::to_string),
            requester: task.owner.to_string(),
            doer: task.doer.as_ref().map(ToString::to_string),
            questions: task.status.questions.len(),
            tokens: task.usage.tokens(),
            cost: task.usage.cost.get(),
            created: task.created_at,
            changed: task.changed_at,
            is_session: false,
        }
    }

    /// `task` as the routes of `agent` show it; `None` if no agent of a mesh shows it.
    pub fn of_a2a(agent: &str, task: &A2aTask) -> Option<Self> {
        let ours = &task.metadata.get(EXTENSION)?;
        let text = |name: &str| ours[name].as_str().map(str::to_owned);
        let usage: Usage = serde_json::from_value(ours["usage"].clone()).unwrap_or_default();
        let time = |value: &Value| serde_json::from_value::<WallTime>(value.clone()).unwrap_or_default();
        Some(Self {
            agent: agent.to_owned(),
            id: task.id.clone(),
            description: text("description")?,
            state: task.status.state,
            message: task.status.message.as_ref().map(Message::as_text).unwrap_or_default(),
            capability: text("capability"),
            requester: text("owner")?,
            doer: text("doer"),
            questions: ours["questions"].as_array().map_or(0, Vec::len),
            tokens: usage.tokens(),
            cost: usage.cost.get(),
            created: time(&ours["createdAt"]),
            changed: time(&json!(task.status.timestamp)),
            is_session: false,
        })
    }

    /// The link to it.
    pub fn href(&self) -> String {
        match self.is_session {
            true => ConsoleLocation::session(&self.agent, &self.id).href(),
            false => ConsoleLocation::task(&self.agent, &self.id).href(),
        }
    }

    /// As a line of a short list.
    pub fn item(&self, now: WallTime) -> Markup {
        html! {
            li data-key={ "task-" (self.agent) "-" (self.id) } {
                a href=(self.href()) { (brief(&self.description, 160)) }
                div.row.small.muted {
                    (state_mark::of_task(self.state))
                    span { (self.agent) }
                    (times::since(now, self.changed))
                }
            }
        }
    }

    /// As a row of a table.
    pub fn row(&self, now: WallTime) -> Markup {
        html! {
            tr data-key={ "task-" (self.agent) "-" (self.id) } {
                td { (state_mark::of_task(self.state)) }
                td.what {
                    a href=(self.href()) { (brief(&self.description, 240)) }
                    span.small.muted.mono { (self.id) }
                }
                td.nowrap { (self.agent) @if let Some(doer) = &self.doer { " \u{2192} " (doer) } }
                td.hide-narrow { @if let Some(capability) = &self.capability { span.chip { (capability) } } }
                td.hide-narrow { (VisibleText(&self.requester)) }
                td.num.hide-narrow { @if self.tokens > 0 { (times::count(self.tokens)) } @else { span.muted { "\u{2013}" } } }
                td.num { (times::since(now, self.changed)) }
            }
        }
    }
}

/// Of `tasks` those that have failed and were not sent again: no later one is the same request to the same agent. The newest first.
pub fn failures(mut tasks: Vec<TaskLine>) -> Vec<TaskLine> {
    tasks.sort_by_key(|task| std::cmp::Reverse(task.created));
    let mut later = BTreeSet::new();
    tasks.retain(|task| {
        let is_last = later.insert((task.agent.clone(), task.capability.clone(), task.description.clone()));
        is_last && [TaskState::Failed, TaskState::Rejected].contains(&task.state)
    });
    tasks.sort_by_key(|task| std::cmp::Reverse(task.changed));
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_until_the_same_is_asked_again() {
        let task = |id: &str, state: &str, description: &str, created: i64| {
            let ours =
                json!({ "description": description, "owner": "user:local", "createdAt": WallTime(created) });
            let task = json!({
                "id": id, "contextId": "c", "metadata": { EXTENSION: ours },
                "status": { "state": state, "timestamp": WallTime(created + 5) },
            });
            TaskLine::of_a2a("a-1", &serde_json::from_value(task).unwrap()).unwrap()
        };
        let (failed, completed) = ("TASK_STATE_FAILED", "TASK_STATE_COMPLETED");
        let tasks = vec![
            task("t-1", failed, "again", 1),
            task("t-2", completed, "again", 2),
            task("t-3", failed, "twice", 3),
            task("t-4", failed, "twice", 4),
            task("t-5", failed, "first well", 6),
            task("t-6", completed, "first well", 5),
        ];
        let ids: Vec<_> = failures(tasks).into_iter().map(|task| task.id).collect();
        assert_eq!(ids, ["t-5", "t-4"]);
    }
}
