//! The tasks, filtered by what the address says.

use super::{bulk, task_line::TaskLine};
use crate::{
    filter_form::{self, same, search, select, text},
    location::{ConsoleLocation, ViewName},
    times,
    viewer::{ViewHead, Viewer},
};
use maud::{Markup, html};
use protocol::task::TaskState;

/// A page of tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskListPage {
    pub lines: Vec<TaskLine>,
    /// Behind which time the next page goes on, milliseconds since the epoch.
    pub next: Option<i64>,
    /// How many tasks were compared with the filters.
    pub searched: usize,
    /// The agents of which the page has tasks.
    pub agents: Vec<String>,
    /// The capabilities that a filter may name.
    pub capabilities: Vec<String>,
}

/// The states that a filter may name, each with what people are told.
const STATES: [(&str, &str, &[TaskState]); 7] = [
    (
        "open",
        "open",
        &[TaskState::Submitted, TaskState::Working, TaskState::InputRequired, TaskState::AuthRequired],
    ),
    ("waiting", "waiting for an answer", &[TaskState::InputRequired, TaskState::AuthRequired]),
    ("working", "working", &[TaskState::Submitted, TaskState::Working]),
    ("ended", "ended", &[TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected]),
    ("completed", "completed", &[TaskState::Completed]),
    ("failed", "failed or rejected", &[TaskState::Failed, TaskState::Rejected]),
    ("canceled", "canceled", &[TaskState::Canceled]),
];

/// The states that `word` means; `None` for any, and for a word that is none of the filter's.
pub fn states(word: &str) -> Option<&'static [TaskState]> {
    STATES.iter().find(|(name, ..)| *name == word).map(|(_, _, states)| *states)
}

/// The words that [`states`] knows.
pub fn state_words() -> impl Iterator<Item = &'static str> {
    STATES.iter().map(|(name, ..)| *name)
}

/// The view.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, page: &TaskListPage) -> Markup {
    let live = if at.before.is_empty() { "tasks" } else { "" };
    viewer.view(
        ViewHead { view: ViewName::Tasks, title: "Tasks", live },
        html! {
            div.head {
                div { h1 { "Tasks" } p.muted { "The latest change first. The address holds the filters: share it, or save it as a view in this browser." } }
                @if !page.lines.is_empty() { (bulk::links(viewer, at)) }
            }
            (saved_views())
            (filters(at, page))
            section.card aria-label="Tasks" {
                @if page.lines.is_empty() && (at.before.is_empty() || page.next.is_none()) { (nothing(at, page)) } @else { (table(viewer, at, page)) }
            }
            (pages(at, page))
        },
    )
}

/// The views that this browser has stored, which the script lists, and a form that stores this one.
fn saved_views() -> Markup {
    html! {
        details.saved-views data-key="saved-views" {
            summary { "Saved views" }
            ul #saved-views .row data-own {}
            form.row data-save-view {
                label { "Name" input type="text" name="name" required maxlength="60" autocomplete="off"; }
                button type="submit" { "Save this view" }
            }
        }
    }
}

pub(super) fn filters(at: &ConsoleLocation, page: &TaskListPage) -> Markup {
    let fields = html! {
        (state_filter(at))
        @if page.agents.len() > 1 || !at.agent.is_empty() { (select("agent", "Agent", &at.agent, &same(&page.agents))) }
        (select("capability", "Capability", &at.capability, &same(&page.capabilities)))
        (select("waiting_for", "Waits for", &at.waiting_for, &[("person", "a person"), ("place", "a free place"), ("agent", "another agent")]))
        (text("requester", "Requester", &at.requester, "user:local"))
        (text("space", "Space", &at.space, "default"))
        (select("since", "Changed", &at.since, &[("1d", "in a day"), ("7d", "in 7 days"), ("30d", "in 30 days")]))
        (text("min_cost", "Cost from", &at.min_cost, "0.50"))
        (search(&at.text, "in the description or the id"))
    };
    filter_form::form("Filter tasks", at, &ConsoleLocation::of(ViewName::Tasks), fields)
}

/// The choice among groups of states.
pub(super) fn state_filter(at: &ConsoleLocation) -> Markup {
    let states: Vec<_> = STATES.iter().map(|(name, words, _)| (*name, *words)).collect();
    select("state", "State", &at.state, &states)
}

fn nothing(at: &ConsoleLocation, page: &TaskListPage) -> Markup {
    html! {
        div.empty {
            @if *at == ConsoleLocation::of(ViewName::Tasks) {
                strong { "No task yet." }
                p { "Send one from " a href=(ConsoleLocation::of(ViewName::Start).href()) { "Start" } ", or with " code { "mesh ask \"\u{2026}\"" } "." }
            } @else {
                strong { "No task matches." }
                p { (times::count(page.searched as u64)) " tasks were compared. " a href=(ConsoleLocation::of(ViewName::Tasks).href()) { "Show all" } "." }
            }
        }
    }
}

/// The tasks as a table. Its last row is replaced by the next page once it is seen.
pub(super) fn table(viewer: &Viewer, at: &ConsoleLocation, page: &TaskListPage) -> Markup {
    let older = page.next.map(|next| filter_form::older(at, next.to_string()));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of tasks" {
            table.list {
                thead { tr {
                    th { "State" } th { "Task" } th { "Agent" } th.hide-narrow { "Capability" } th.hide-narrow { "Requester" }
                    th.num.hide-narrow { "Tokens" } th.num { "Changed" }
                } }
                tbody.tasks { @for line in &page.lines { (line.row(viewer.now)) } }
                @if let Some(older) = older {
                    @if page.lines.is_empty() {
                        tbody.tasks { tr { td colspan="7" { (times::count(page.searched as u64)) " older tasks were compared, none matches. " a href=(older) { "Go on" } } } }
                    } @else {
                        tbody.tasks.older hx-get={ "console/view" (older) } hx-trigger="revealed" hx-select="tbody.tasks" hx-swap="outerHTML" {
                            tr { td colspan="7" { a href=(older) { "Older" } } }
                        }
                    }
                }
            }
        }
    }
}

/// The links to the newest page, and to older ones if none was found yet.
pub(super) fn pages(at: &ConsoleLocation, page: &TaskListPage) -> Markup {
    let next = page.next.filter(|_| page.lines.is_empty() && at.before.is_empty());
    filter_form::pages(at, next.map(|next| next.to_string()), "older tasks were not compared yet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_and_pages_are_in_the_address() {
        let viewer = Viewer::of_test(false);
        let at = ConsoleLocation {
            state: "failed".to_owned(),
            text: "\"><script>".to_owned(),
            ..ConsoleLocation::of(ViewName::Tasks)
        };
        let page = TaskListPage { next: Some(42), searched: 2_000, ..TaskListPage::default() };
        let shown = view(&viewer, &at, &page).into_string();
        assert!(
            shown.contains("before=42") && shown.contains("<option value=\"failed\" selected>"),
            "{shown}"
        );
        assert!(!shown.contains("view=bulk"), "nobody is signed in: {shown}");
        assert!(!shown.contains("<script>") && shown.contains("No task matches"), "{shown}");
        assert_eq!(states("failed"), Some([TaskState::Failed, TaskState::Rejected].as_slice()));
        assert_eq!(states("anything"), None);
    }
}
