//! One task in a list.

use crate::{
    location::ConsoleLocation,
    state_mark, times,
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{
    ids::AgentId,
    task::{Task, TaskState},
    time::WallTime,
};

/// What a list says of a task.
#[derive(Debug, Clone)]
pub struct TaskLine {
    pub agent: String,
    pub id: String,
    pub description: String,
    pub state: TaskState,
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
