//! The tasks, filtered by what the address says.

use super::task_line::TaskLine;
use crate::{
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
            div.head { div { h1 { "Tasks" } p.muted { "The latest change first. The address holds the filters: share it, or keep it as a bookmark." } } }
            (filters(at, page))
            section.card aria-label="Tasks" {
                @if page.lines.is_empty() { (nothing(at, page)) } @else { (table(viewer, page)) }
            }
            (pages(at, page))
        },
    )
}

fn filters(at: &ConsoleLocation, page: &TaskListPage) -> Markup {
    let select = |name: &str, label: &str, chosen: &str, options: &[String]| {
        html! {
            label { (label)
                select name=(name) {
                    option value="" { "any" }
                    @if !chosen.is_empty() && !options.iter().any(|option| option == chosen) { option value=(chosen) selected { (chosen) } }
                    @for option in options { option value=(option) selected[option == chosen] { (option) } }
                }
            }
        }
    };
    html! {
        form.filters data-filter role="search" aria-label="Filter tasks" {
            input type="hidden" name="view" value="tasks";
            label { "State"
                select name="state" {
                    option value="" { "any" }
                    @for (name, words, _) in STATES { option value=(name) selected[at.state == name] { (words) } }
                }
            }
            @if page.agents.len() > 1 { (select("agent", "Agent", &at.agent, &page.agents)) }
            (select("capability", "Capability", &at.capability, &page.capabilities))
            label { "Requester" input type="text" name="requester" value=(at.requester) placeholder="user:local"; }
            label.wide { "Text" input type="search" name="text" value=(at.text) placeholder="in the description or the id"; }
            div.actions {
                button type="submit" { "Filter" }
                @if *at != ConsoleLocation::of(ViewName::Tasks) { a.button href=(ConsoleLocation::of(ViewName::Tasks).href()) { "Clear" } }
            }
        }
    }
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

fn table(viewer: &Viewer, page: &TaskListPage) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of tasks" {
            table.list {
                thead { tr {
                    th { "State" } th { "Task" } th { "Agent" } th.hide-narrow { "Capability" } th.hide-narrow { "Requester" }
                    th.num.hide-narrow { "Tokens" } th.num { "Changed" }
                } }
                tbody { @for line in &page.lines { (line.row(viewer.now)) } }
            }
        }
    }
}

fn pages(at: &ConsoleLocation, page: &TaskListPage) -> Markup {
    let newest = ConsoleLocation { before: String::new(), ..at.clone() };
    html! {
        nav.actions aria-label="Pages" {
            @if !at.before.is_empty() { a.button href=(newest.href()) { "\u{2190} Newest" } }
            @if let Some(next) = page.next {
                a.button href=(ConsoleLocation { before: next.to_string(), ..at.clone() }.href()) { "Older \u{2192}" }
                @if page.lines.is_empty() { span.muted.small { "older tasks were not compared yet" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::time::WallTime;

    #[test]
    fn filters_and_pages_are_in_the_address() {
        let viewer =
            Viewer { who: "user:local".to_owned(), is_signed_in: false, now: WallTime(0), waiting: 0 };
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
        assert!(!shown.contains("<script>") && shown.contains("No task matches"), "{shown}");
        assert_eq!(states("failed"), Some([TaskState::Failed, TaskState::Rejected].as_slice()));
        assert_eq!(states("anything"), None);
    }
}
