//! The events of a task, the newest page first, with filters.

use crate::{
    filter_form,
    location::ConsoleLocation,
    times,
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::time::WallTime;

/// The events of a page.
pub const PAGE: usize = 100;

/// A page of the events of a task.
#[derive(Debug, Clone, Default)]
pub struct TaskEvents {
    /// The oldest first.
    pub lines: Vec<TaskEventLine>,
    /// How many there are, with those that the filters leave out.
    pub all: usize,
    /// What there is in a word, for the filter.
    pub kinds: Vec<String>,
    /// Whether there are older ones that the filters admit: they begin before the number of the first line.
    pub has_older: bool,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEventLine {
    /// Its number in the task.
    pub number: usize,
    pub at: WallTime,
    /// What happened, in a word.
    pub what: String,
    pub text: String,
}

impl TaskEventLine {
    /// Whether the address asks for it.
    pub fn is_admitted(&self, at: &ConsoleLocation) -> bool {
        let text = at.text.trim().to_lowercase();
        (at.kind.is_empty() || self.what == at.kind)
            && (text.is_empty() || self.text.to_lowercase().contains(&text) || self.what.contains(&text))
    }
}

/// The page at `at`.
pub fn section(at: &ConsoleLocation, events: &TaskEvents) -> Markup {
    let of_task = ConsoleLocation::task(&at.agent, &at.id);
    let is_filtered = *at != of_task;
    let next = events.lines.first().filter(|_| events.has_older).map(|first| first.number.to_string());
    html! {
        section.card {
            header { h2 { "Events" } span.small.muted { (times::counted(events.all, "event")) ", times are UTC" } }
            @if events.all > PAGE / 4 || is_filtered {
                div.body {
                    (filter_form::form("Filter events", at, &of_task, html! {
                        (filter_form::select("kind", "Kind", &at.kind, &filter_form::same(&events.kinds)))
                        (filter_form::search(&at.text, "a part of its text"))
                    }))
                }
            }
            @if events.lines.is_empty() { div.empty { p { @if is_filtered { "No event is of this kind." } @else { "None are kept." } } } } @else {
                ul.events {
                    @for event in &events.lines {
                        li data-key={ "event-" (event.number) } { (times::clock(event.at)) div { strong { (VisibleText(&event.what)) } @if !event.text.is_empty() { " " (brief(&event.text, 400)) } } }
                    }
                }
            }
            @if next.is_some() || !at.before.is_empty() { div.body { (filter_form::pages(at, next, "")) } }
        }
    }
}
