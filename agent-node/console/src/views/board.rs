//! The board: signals as they are published, claims, and the spaces of the viewer.

use crate::{
    filter_form::{self, search, select, text},
    json_view,
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{
    signal::{SIGNAL_TYPES, Signal, SignalRecord},
    spaces::Space,
};
use std::time::Duration;

/// The claim on a task that was offered.
#[derive(Debug, Clone)]
pub struct ClaimLine {
    pub task: String,
    pub publisher: String,
    pub holder: String,
    /// `held`, `released`, `expired`, `completed` or `failed`.
    pub state: String,
    pub epoch: u64,
    /// Until the task may be claimed again.
    pub remaining: Duration,
}

/// What the page knows.
#[derive(Debug, Clone, Default)]
pub struct BoardPage {
    /// The newest first.
    pub signals: Vec<SignalRecord>,
    /// The revision before which the next page goes on.
    pub next: Option<u64>,
    /// How many signals were compared with the filters.
    pub searched: usize,
    /// The claims on tasks of these signals.
    pub claims: Vec<ClaimLine>,
    pub spaces: Vec<Space>,
    /// Why no spaces are shown.
    pub no_spaces: Option<String>,
    /// Where the board is, if it is in another process.
    pub elsewhere: Option<String>,
}

/// The view.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, data: &BoardPage) -> Markup {
    let live = if at.before.is_empty() { "signals" } else { "" };
    let all = ConsoleLocation::of(ViewName::Board);
    viewer.view(
        ViewHead { view: ViewName::Board, title: "Board", live },
        html! {
            div.head { div { h1 { "Board" } p.muted { "What agents tell each other, which tasks they have claimed, and what teams know." } } }
            @if let Some(place) = &data.elsewhere {
                (elsewhere(place))
            } @else {
                (filter_form::form("Filter signals", at, &all, html! {
                    (select("kind", "Type", &at.kind, &SIGNAL_TYPES.map(|kind| (kind, kind))))
                    (text("agent", "Agent", &at.agent, "planner-01"))
                    (text("id", "Task", &at.id, "t-\u{2026}"))
                    label { "Before (UTC)" input type="datetime-local" name="before" value=[(at.before.contains('T')).then_some(&at.before)]; }
                    (search(&at.text, "in the subject or the references"))
                }))
                div.columns {
                    div.stack {
                        (signals(viewer, at, data))
                        (filter_form::pages(at, data.next.filter(|_| data.signals.is_empty() && at.before.is_empty()).map(|next| next.to_string()), "older signals were not compared yet"))
                    }
                    div.stack { (spaces(data)) (claims(data)) }
                }
            }
        },
    )
}

/// What a page says whose data is at the board of another process.
pub(super) fn elsewhere(place: &str) -> Markup {
    let is_url = place.starts_with("http://") || place.starts_with("https://");
    html! {
        div.notice {
            p { "The board of this mesh is in another process." }
            @if is_url { p { "Its console: " a href={ (place) "/?view=board" } rel="noreferrer" { (VisibleText(place)) } } }
        }
    }
}

fn signals(viewer: &Viewer, at: &ConsoleLocation, data: &BoardPage) -> Markup {
    html! {
        section.card {
            header { h2 { "Signals" } span.small.muted { @if at.before.is_empty() { "live" } @else { "as of then" } } }
            @if data.signals.is_empty() && (at.before.is_empty() || data.next.is_none()) {
                div.empty { strong { "No signal is shown." } p { (times::count(data.searched as u64)) " were compared with the filters. Signals of tasks are shown to those whose tasks they are." } }
            } @else {
                div role="log" aria-label="Signals" {
                    ul.lines.signals {
                        @for record in &data.signals { (signal(viewer, record)) }
                        @if let Some(next) = data.next { (older(at, data, next)) }
                    }
                }
            }
        }
    }
}

/// A line that is replaced by the next page once it is seen.
fn older(at: &ConsoleLocation, data: &BoardPage, next: u64) -> Markup {
    let older = filter_form::older(at, next.to_string());
    html! {
        @if data.signals.is_empty() {
            li { (times::count(data.searched as u64)) " older signals were compared, none matches. " a href=(older) { "Go on" } }
        } @else {
            li.older hx-get={ "console/view" (older) } hx-trigger="revealed" hx-select=".signals > li" hx-swap="outerHTML" { a href=(older) { "Older" } }
        }
    }
}

fn tone(signal: &Signal) -> StateTone {
    match signal.kind.as_str() {
        "task.failed" | "quota.reached" => StateTone::Bad,
        "task.complete" | "artifact.produced" | "agent.joined" => StateTone::Ok,
        "task.claimed" => StateTone::Busy,
        "help.needed" | "quota.near" | "task.available" => StateTone::Wait,
        _ => StateTone::Idle,
    }
}

fn signal(viewer: &Viewer, record: &SignalRecord) -> Markup {
    let signal = &record.signal;
    let of = |filter: ConsoleLocation| filter.href();
    html! {
        li data-key={ "signal-" (record.revision) } {
            div.row {
                (mark(tone(signal), signal.kind.as_str()))
                a href=(of(ConsoleLocation { agent: signal.from.to_string(), ..ConsoleLocation::of(ViewName::Board) })) { (signal.from) }
                @if let Some(subject) = &signal.subject { span { (brief(subject, 300)) } }
                @if let Some(capability) = &signal.capability { span.chip { (capability) } }
                span.small.muted { (times::since(viewer.now, signal.at)) }
            }
            div.row.small.muted {
                span.mono { "#" (record.revision) }
                @if let Some(task) = &signal.task_id {
                    a.mono href=(of(ConsoleLocation { id: task.to_string(), ..ConsoleLocation::of(ViewName::Board) })) { (brief(task.as_str(), 60)) }
                    a href=(ConsoleLocation::task("", task.as_str()).href()) aria-label={ "Open the task " (brief(task.as_str(), 60)) } { "task" }
                }
                @if let Some(root) = &signal.root { span { "for " (VisibleText(&root.to_string())) } }
                @if !signal.refs.is_empty() {
                    details data-key={ "refs-" (record.revision) } {
                        summary.small { "References" }
                        (json_view::block(&format!("the references of signal {}", record.revision), &serde_json::Value::Object(signal.refs.clone())))
                    }
                }
            }
        }
    }
}

fn spaces(data: &BoardPage) -> Markup {
    html! {
        section.card {
            header { h2 { "Spaces" } span.small.muted { "what teams know" } }
            @if let Some(why) = &data.no_spaces { div.empty { p { (VisibleText(why)) } } } @else {
                ul.lines {
                    @for space in &data.spaces {
                        li data-key={ "space-" (space.id) } {
                            a href=(ConsoleLocation::space(space.id.as_str()).href()) { (space.id) }
                            span.small.muted { @if space.is_default() { "every agent is a member" } @else { (times::counted(space.members.len(), "member")) } }
                        }
                    }
                }
            }
        }
    }
}

fn claims(data: &BoardPage) -> Markup {
    html! {
        section.card {
            header { h2 { "Claims" } span.small.muted { "of the tasks that are shown" } }
            @if data.claims.is_empty() { div.empty { p { "Nobody has claimed one." } } } @else {
                ul.lines {
                    @for claim in &data.claims {
                        li data-key={ "claim-" (claim.publisher) (claim.task) } {
                            div.row {
                                (mark(match claim.state.as_str() { "held" => StateTone::Busy, "completed" => StateTone::Ok, "failed" => StateTone::Bad, _ => StateTone::Idle }, &claim.state))
                                strong { (VisibleText(&claim.holder)) }
                                @if !claim.remaining.is_zero() { span.small.muted { "for " (times::duration(claim.remaining)) " more" } }
                            }
                            span.small.muted.mono { (brief(&claim.task, 60)) }
                            span.small.muted { "offered by " (VisibleText(&claim.publisher)) ", epoch " (claim.epoch) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_signal_is_escaped_and_names_its_task() {
        let viewer = Viewer::of_test(true);
        let signal = json!({
            "revision": 7, "id": "s", "type": "help.needed", "from": "a-1", "taskId": "t-1", "at": "2026-11-29T20:00:00Z",
            "subject": "<script>\u{202e}", "refs": { "<img onerror=x>": "\u{1b}[31m" },
        });
        let data = BoardPage {
            signals: vec![serde_json::from_value(signal).unwrap_or_else(|error| panic!("{error}"))],
            next: Some(3),
            ..BoardPage::default()
        };
        let at = ConsoleLocation { text: "x".to_owned(), ..ConsoleLocation::of(ViewName::Board) };
        let shown = view(&viewer, &at, &data).into_string();
        for code in ["<script", "<img", "\u{202e}", "\u{1b}"] {
            assert!(!shown.contains(code), "{code:?}: {shown}");
        }
        assert!(shown.contains("before=3") && shown.contains("view=task&amp;id=t-1"), "{shown}");
        let data = BoardPage { elsewhere: Some("http://board:8000".to_owned()), ..data };
        let shown = view(&viewer, &at, &data).into_string();
        assert!(shown.contains("http://board:8000/?view=board") && !shown.contains("help.needed"), "{shown}");
    }
}
