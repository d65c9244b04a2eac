//! The sessions of the viewer.

use super::tasks::{self, TaskListPage};
use crate::{
    filter_form,
    location::{ConsoleLocation, ViewName},
    viewer::{ViewHead, Viewer},
};
use maud::{Markup, html};

/// The view. A line leads to the session.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, page: &TaskListPage) -> Markup {
    let live = if at.before.is_empty() { "tasks" } else { "" };
    let all = ConsoleLocation::of(ViewName::Sessions);
    let lines = page.lines.iter().cloned().map(|mut line| {
        line.is_session = true;
        line
    });
    let page = TaskListPage { lines: lines.collect(), ..page.clone() };
    viewer.view(
        ViewHead { view: ViewName::Sessions, title: "Sessions", live },
        html! {
            div.head { div { h1 { "Sessions" } p.muted { "Several agents work on something in turns. " code { "mesh convene" } " begins one." } } }
            (filter_form::form("Filter sessions", at, &all, html! {
                (tasks::state_filter(at))
                (filter_form::search(&at.text, "in the goal or the id"))
            }))
            section.card aria-label="Sessions" {
                @if page.lines.is_empty() && (at.before.is_empty() || page.next.is_none()) {
                    div.empty {
                        @if *at == all {
                            strong { "No session yet." }
                            p { code { "mesh convene AGENT AGENT 'Which database do we use?'" } " begins one. Sessions are shown to those who have proven who they are." }
                        } @else { strong { "No session matches." } }
                    }
                } @else { (tasks::table(viewer, at, &page)) }
            }
            (tasks::pages(at, &page))
        },
    )
}
