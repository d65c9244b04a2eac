//! One task: what waits in it, what came of it, how it was awarded, what happened over all agents, and what was said to models.

use super::task_line::TaskLine;
use crate::{
    action_form::ActionForm,
    content::{self, SavedFrom},
    json_view,
    location::{ConsoleLocation, ViewName},
    question_form::{self, AskedAt},
    state_mark,
    timeline::{self, TimelineSpan},
    times,
    viewer::{ViewHead, Viewer},
    views::task::{events::TaskEvents, model_calls::ModelCall},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use patterns::{contract_net::record::AwardRecord, session};
use protocol::{a2a::message::Role, model_line::ModelLine, task::Task};

pub mod award;
pub mod events;
pub mod model_calls;
pub mod model_talk;

/// What the page knows.
#[derive(Debug, Clone)]
pub struct TaskData {
    pub agent: String,
    /// With its artifacts.
    pub task: Task,
    pub has_ended: bool,
    /// The agent that awarded it, and how.
    pub award: Option<(String, AwardRecord)>,
    pub spans: Vec<TimelineSpan>,
    /// The agents whose part of the trace can't be read, and why.
    pub missing: Vec<(String, String)>,
    pub events: TaskEvents,
    pub calls: Vec<ModelCall>,
    /// What was said with the model, if the viewer may read it, and how many older lines are left out.
    pub talk: (usize, Vec<ModelLine>),
    /// The same in a terminal.
    pub commands: Vec<TaskCommand>,
    /// The tasks that are parts of this one, at agents of this process.
    pub parts: Vec<TaskLine>,
}

/// A command of a terminal.
#[derive(Debug, Clone)]
pub struct TaskCommand {
    /// What it shows or does.
    pub label: &'static str,
    pub command: String,
}

/// The view.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, data: &TaskData) -> Markup {
    let task = &data.task;
    let title = brief(&task.spec.description, 60);
    viewer.view(
        ViewHead { view: ViewName::Task, title: &title, live: if data.has_ended { "" } else { "task" } },
        html! {
            (head(viewer, data))
            @if !data.has_ended { (asked(viewer, &data.agent, task)) }
            div.columns {
                div.stack {
                    (result(data))
                    (model_talk::section(&data.talk.1, data.talk.0))
                    (model_calls::section(&data.calls))
                    @if let Some((by, award)) = &data.award { (award::section(by, award)) }
                }
                div.stack {
                    (facts(viewer, data))
                    @if !data.parts.is_empty() {
                        section.card { header { h2 { "Its parts" } } ul.lines { @for part in &data.parts { (part.item(viewer.now)) } } }
                    }
                    (messages(data))
                    (terminal(data))
                }
            }
            (events::section(at, &data.events))
            section.card {
                header { h2 { "What happened, over all agents" } span.small.muted { (times::counted(data.spans.len(), "span")) } }
                div.body {
                    (timeline::chart(viewer.now, &data.spans))
                    @for (agent, why) in &data.missing { p.notice.wait { "The part of " (VisibleText(agent)) " is missing: " (VisibleText(why)) } }
                    details data-key="span-table" { summary { "As a table, with all attributes" } (timeline::table(&data.spans)) }
                }
            }
        },
    )
}

/// What waits for the viewer in the task.
pub(super) fn asked(viewer: &Viewer, agent: &str, task: &Task) -> Markup {
    html! {
        @for question in &task.status.questions {
            section.card.ask data-key={ "question-" (question.id) } {
                header { h2 { "It waits for you" } }
                div.body { (question_form::card(viewer, AskedAt { agent, task: task.spec.task_id.as_str() }, question)) }
            }
        }
    }
}

fn head(viewer: &Viewer, data: &TaskData) -> Markup {
    let task = &data.task;
    let hidden = [("agent", data.agent.as_str()), ("task", task.spec.task_id.as_str())];
    let act = |path, done| ActionForm { path, done, hidden: &hidden };
    html! {
        div.head {
            div {
                h1 { (brief(&task.spec.description, 200)) }
                div.row {
                    (state_mark::of_task(task.status.state)) span.muted.small { (times::since(viewer.now, task.changed_at)) }
                    @if session::is_session(&task.spec) { a.small href=(ConsoleLocation::session(&data.agent, task.spec.task_id.as_str()).href()) { "Plan and conversation of the session" } }
                }
            }
            @if viewer.is_signed_in {
                div.actions {
                    @if !data.has_ended {
                        (act("cancel", "The task is being canceled.").with(html! { button.danger type="submit" { "Cancel the task" } }))
                    } @else {
                        (act("retry", "").with(html! { button type="submit" { "Send it again" } }))
                    }
                }
            }
        }
        @if task.spec.description.chars().count() > 200 {
            details data-key="description" { summary { "The whole request" } div.prose { (VisibleText(&task.spec.description)) } }
        }
    }
}

fn result(data: &TaskData) -> Markup {
    let message = data.task.status.message.as_deref().unwrap_or_default();
    html! {
        @if !message.is_empty() || data.task.artifacts.is_empty() {
            section.card {
                header { h2 { @if data.has_ended { "Result" } @else { "So far" } } }
                div.body {
                    @if message.is_empty() { p.muted { "Nothing was produced." } } @else { div.prose { (VisibleText(message)) } }
                }
            }
        }
        @for artifact in &data.task.artifacts {
            (content::artifact(artifact, SavedFrom { agent: &data.agent, task: data.task.spec.task_id.as_str() }))
        }
    }
}

fn facts(viewer: &Viewer, data: &TaskData) -> Markup {
    let (task, spec) = (&data.task, &data.task.spec);
    let took = task.created_at.until(if data.has_ended { task.changed_at } else { viewer.now });
    html! {
        section.card {
            header { h2 { "Facts" } }
            div.body {
                dl.facts {
                    dt { "Task" } dd.mono { (spec.task_id) }
                    dt { "Agent" } dd { (data.agent) @if let Some(doer) = &task.doer { ", done by " (doer) } }
                    @if let Some(capability) = &spec.capability { dt { "Capability" } dd { (capability) } }
                    dt { "Requester" } dd { (task.owner) @if task.owner != spec.root { ", for " (spec.root) } }
                    @if let Some(origin) = &spec.origin { dt { "Begun by" } dd { (VisibleText(&origin.to_string())) } }
                    @if let Some(space) = &spec.space { dt { "Space" } dd { (space) } }
                    @if let Some(parent) = &spec.parent { dt { "Part of" } dd.mono { (parent) } }
                    @if !spec.path.is_empty() { dt { "Path" } dd { @for (at, agent) in spec.path.iter().enumerate() { @if at > 0 { " \u{2192} " } (agent) } } }
                    dt { "Accepted" } dd { (task.created_at) }
                    @if let Some(deadline) = spec.deadline { dt { "Deadline" } dd { (times::until(viewer.now, deadline)) } }
                    dt { @if data.has_ended { "Took" } @else { "Runs for" } } dd { (times::duration(took)) }
                    @if !task.usage.is_none() { dt { "Used" } dd { (times::count(task.usage.tokens())) " tokens, cost " (format!("{:.4}", task.usage.cost.get())) } }
                    @if !spec.budget.is_none() { dt { "May use" } dd { (spec.budget) } }
                }
                @if let Some(input) = &spec.input {
                    details data-key="input" { summary { "Input" } (json_view::block("the input", input)) }
                }
            }
        }
    }
}

fn messages(data: &TaskData) -> Markup {
    let first = data.task.spec.contact.as_ref().map(|contact| &contact.message);
    let all: Vec<_> = first.into_iter().chain(&data.task.history).collect();
    html! {
        @if !all.is_empty() {
            section.card {
                header { h2 { "Messages" } }
                div.body {
                    div.chat {
                        @for message in all {
                            div class=(if message.role == Role::User { "said mine" } else { "said" }) {
                                @for part in &message.parts { (content::part("a part of a message", part)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The same in a terminal.
fn terminal(data: &TaskData) -> Markup {
    html! {
        section.card {
            header { h2 { "In a terminal" } }
            div.body {
                @for TaskCommand { label, command } in &data.commands {
                    div {
                        span.small.muted { (label) }
                        div.copy { code tabindex="0" { (VisibleText(command)) } button.plain type="button" data-copy=(command) aria-label={ "Copy: " (brief(command, 60)) } { "Copy" } }
                    }
                }
            }
        }
    }
}
