//! The first page: a form that sends a task, what waits, what runs, what has ended.

use super::{inbox::WaitingItem, task_line::TaskLine};
use crate::{
    action_form::ActionForm,
    location::{ConsoleLocation, ViewName},
    viewer::{ViewHead, Viewer},
    visible_text::VisibleText,
};
use maud::{Markup, html};

/// What the page knows.
#[derive(Debug, Clone, Default)]
pub struct StartData {
    /// Who takes the task of the form: agents of this process, each with what it is.
    pub agents: Vec<(String, String)>,
    /// The one of them that is preselected.
    pub entrance: String,
    /// The capabilities of the mesh, and how many agents have each.
    pub capabilities: Vec<(String, usize)>,
    /// What waits for the viewer, in the order of the inbox.
    pub waiting: Vec<WaitingItem>,
    pub open: Vec<TaskLine>,
    pub ended: Vec<TaskLine>,
}

/// The view.
pub fn view(viewer: &Viewer, data: &StartData) -> Markup {
    let title = data.agents.first().map_or("Agent Mesh", |(id, _)| id.as_str());
    viewer.view(
        ViewHead { view: ViewName::Start, title: "Start", live: "tasks" },
        html! {
            div.head {
                div {
                    h1 { @if data.agents.len() == 1 { (title) } @else { "The mesh, from here" } }
                    @if let [(_, description)] = data.agents.as_slice() { p.muted { (VisibleText(description)) } }
                }
            }
            div.columns {
                div.stack {
                    @if viewer.is_signed_in { (send_form(data)) }
                    (list("Under way", "open", &data.open, viewer, "Nothing is under way."))
                    (list("Ended last", "", &data.ended, viewer, "No task has ended yet."))
                }
                div.stack {
                    (waiting(&data.waiting))
                    (skills(data))
                }
            }
        },
    )
}

fn send_form(data: &StartData) -> Markup {
    let hidden: Vec<_> = match data.agents.as_slice() {
        [(only, _)] => vec![("agent", only.as_str())],
        _ => Vec::new(),
    };
    html! {
        section.card {
            header { h2 { "Send a task" } span.small.muted { "Ctrl+Enter sends" } }
            div.body {
                (ActionForm { path: "send", done: "", hidden: &hidden }.with_files(html! {
                    label { "What is to be done" textarea name="description" required placeholder="Say what you want, as you would to a colleague" {} }
                    @if data.agents.len() > 1 {
                        label { "Agent"
                            select name="agent" { @for (id, _) in &data.agents { option value=(id) selected[*id == data.entrance] { (id) } } }
                        }
                    }
                    label { "Capability" span.hint { "the best bidder that has it does the task; without one the agent does what it can itself" }
                        select name="capability" {
                            option value="" { "none" }
                            @for (name, agents) in &data.capabilities {
                                option value=(name) { (name) @if *agents > 1 { " (" (agents) " agents)" } }
                            }
                        }
                    }
                }, html! { div.actions { button.primary type="submit" { "Send" } } }))
            }
        }
    }
}

fn list(title: &str, state: &str, lines: &[TaskLine], viewer: &Viewer, none: &str) -> Markup {
    let all = ConsoleLocation { state: state.to_owned(), ..ConsoleLocation::of(ViewName::Tasks) };
    html! {
        section.card {
            header { h2 { (title) } a.small href=(all.href()) { "All" span.sr-only { ": " (title) } } }
            @if lines.is_empty() { div.empty { p { (none) } } } @else {
                ul.lines { @for line in lines { (line.item(viewer.now)) } }
            }
        }
    }
}

fn waiting(items: &[WaitingItem]) -> Markup {
    html! {
        section.card {
            header { h2 { "Waiting for you" } a.small href=(ConsoleLocation::of(ViewName::Inbox).href()) { "Inbox" } }
            @if items.is_empty() { div.empty { p { "Nothing waits for you." } } } @else {
                ul.lines {
                    @for item in items.iter().take(5) { (item.item()) }
                }
            }
        }
    }
}

fn skills(data: &StartData) -> Markup {
    html! {
        section.card {
            header { h2 { "What the mesh can do" } a.small href=(ConsoleLocation::of(ViewName::Agents).href()) { "Agents" } }
            div.body {
                @if data.capabilities.is_empty() {
                    p.muted { "No agent has a skill yet. " code { "mesh init my-agent --llm" } " writes an agent; " code { "mesh node FILE" } " lets it join." }
                } @else {
                    div.row { @for (name, _) in &data.capabilities { span.chip { (name) } } }
                }
            }
        }
    }
}
