//! A space: what was proposed, what was decided, what is remembered and what was found.

use crate::{
    action_form::ActionForm,
    filter_form::{self, search, select},
    location::{ConsoleLocation, ViewName},
    state_mark::{StateTone, mark},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::spaces::{Entry, EntryKind, EntryLink, EntryState, EntryType, Space};

/// An entry, and what the viewer may do with it: `merge`, `reject`, `archive`, `withdraw`, `accept` or `supersede`.
#[derive(Debug, Clone)]
pub struct EntryLine {
    pub entry: Entry,
    pub actions: Vec<&'static str>,
}

/// Entries of one kind, the newest first.
#[derive(Debug, Clone)]
pub struct EntryZone {
    pub kind: EntryKind,
    pub entries: Vec<EntryLine>,
    /// The cursor of the next page.
    pub next: Option<String>,
}

/// What the page knows.
#[derive(Debug, Clone)]
pub struct SpaceData {
    pub space: Space,
    /// One of each kind, or the only one that the address asks for.
    pub zones: Vec<EntryZone>,
    /// The kinds of entries that the viewer may post.
    pub posts: Vec<EntryKind>,
}

/// The kinds of entries, with the state of each that a page begins with.
pub const ZONES: [(EntryKind, EntryState); 4] = [
    (EntryKind::Proposal, EntryState::Pending),
    (EntryKind::Decision, EntryState::Active),
    (EntryKind::Memory, EntryState::Active),
    (EntryKind::Finding, EntryState::Open),
];

/// The heading of a kind, and what is said if there are none.
fn words(kind: EntryKind) -> (&'static str, &'static str) {
    match kind {
        EntryKind::Proposal => ("Proposed", "Nothing waits for a decision."),
        EntryKind::Decision => ("Decided", "Nothing was decided."),
        EntryKind::Memory => ("Memory", "Nothing is remembered."),
        EntryKind::Finding => ("Findings", "Nothing was found."),
        EntryKind::Message => ("Messages", "Nothing was said."),
        EntryKind::Artifact => ("Artifacts", "Nothing was made."),
    }
}

/// The view.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, data: &SpaceData) -> Markup {
    let live = if at.before.is_empty() { "entries" } else { "" };
    let title = format!("Space {}", data.space.id);
    let kinds = EntryKind::ALL.map(|kind| (kind.to_string(), words(kind).0));
    let kinds: Vec<_> = kinds.iter().map(|(kind, words)| (kind.as_str(), *words)).collect();
    let states = EntryState::ALL.map(|state| state.to_string());
    let states: Vec<_> = states.iter().map(|state| (state.as_str(), state.as_str())).collect();
    viewer.view(
        ViewHead { view: ViewName::Space, title: &title, live },
        html! {
            div.head {
                div {
                    h1 { "Space " (data.space.id) }
                    p.muted { "What the team knows. Decisions, memory and findings reach the turns of its members. " a href=(ConsoleLocation::brief(data.space.id.as_str(), "").href()) { "What an agent is given" } " \u{b7} " a href=(ConsoleLocation::of(ViewName::Board).href()) { "Board" } }
                }
            }
            @if viewer.is_signed_in && !data.posts.is_empty() { (post(data)) }
            (filter_form::form("Filter entries", at, &ConsoleLocation::space(data.space.id.as_str()), html! {
                (select("kind", "Kind", &at.kind, &kinds))
                (select("state", "State", &at.state, &states))
                (filter_form::text("agent", "Author", &at.agent, "planner-01"))
                (search(&at.text, "words, or their beginnings"))
            }))
            @match data.zones.as_slice() {
                [only] => {
                    (zone(viewer, at, only))
                    (filter_form::pages(at, only.next.clone(), ""))
                }
                zones => div.zones { @for of_kind in zones { (zone(viewer, at, of_kind)) } },
            }
            (members(&data.space))
        },
    )
}

fn zone(viewer: &Viewer, at: &ConsoleLocation, zone: &EntryZone) -> Markup {
    let (heading, none) = words(zone.kind);
    let all = ConsoleLocation { kind: zone.kind.to_string(), before: String::new(), ..at.clone() };
    html! {
        section.card {
            header {
                h2 { (heading) }
                @if at.kind.is_empty() { a.small href=(all.href()) { "All" span.sr-only { ": " (heading) } } }
            }
            @if zone.entries.is_empty() { div.empty { p { (none) } } } @else {
                ul.lines { @for line in &zone.entries { (entry(viewer, line)) } }
            }
        }
    }
}

fn tone(state: EntryState) -> StateTone {
    match state {
        EntryState::Pending => StateTone::Wait,
        EntryState::Active | EntryState::Merged | EntryState::Open | EntryState::Posted => StateTone::Ok,
        EntryState::Rejected => StateTone::Bad,
        EntryState::Sealed | EntryState::Withdrawn | EntryState::Superseded | EntryState::Archived => {
            StateTone::Idle
        }
    }
}

/// The most characters of a content that is shown unfolded.
const MAX_OPEN: usize = 400;

/// An entry with the forms that decide it.
pub(super) fn entry(viewer: &Viewer, line: &EntryLine) -> Markup {
    let EntryLine { entry, actions } = line;
    let heading = if entry.title.is_empty() { entry.kind.to_string() } else { entry.title.clone() };
    html! {
        li data-key={ "entry-" (entry.id) } {
            div.row {
                (mark(tone(entry.state), &entry.state.to_string()))
                h3 { (brief(&heading, 160)) }
                @if let Some(kind) = entry.entry_type { span.chip { (kind) } }
                @if let Some(importance) = entry.importance.or(entry.severity) { span.chip { (format!("{importance:?}").to_lowercase()) } }
                @if entry.is_unaccepted { (mark(StateTone::Wait, "not accepted")) }
            }
            @if entry.content.chars().count() > MAX_OPEN {
                details data-key={ "content-" (entry.id) } { summary { (brief(&entry.content, 160)) } div.prose { (VisibleText(&entry.content)) } }
            } @else { div.prose { (VisibleText(&entry.content)) } }
            div.row.small.muted {
                span { (VisibleText(&entry.author.to_string())) @if let Some(root) = &entry.root { " for " (VisibleText(&root.to_string())) } }
                (times::since(viewer.now, entry.at))
                @if let Some(task) = &entry.task { a href=(ConsoleLocation::task("", task.as_str()).href()) { "task" } }
                @for tag in &entry.tags { span.chip { (brief(tag, 40)) } }
                @for (link, id) in &entry.links { span { (link_words(*link)) " " span.mono { (brief(id.as_str(), 40)) } } }
            }
            @if let Some(reason) = &entry.reason {
                p.small.muted { (VisibleText(reason)) @if let Some(by) = &entry.changed_by { " (" (VisibleText(&by.to_string())) ")" } }
            }
            @if viewer.is_signed_in {
                @if actions.iter().any(|action| *action != SUPERSEDE) { (decide(entry, actions)) }
                @if actions.contains(&SUPERSEDE) { (supersede(entry)) }
            }
        }
    }
}

/// The name of a link in words, such as `merged from`.
fn link_words(link: EntryLink) -> String {
    let mut words = String::new();
    for char in format!("{link:?}").chars() {
        if char.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(char.to_lowercase());
    }
    words
}

fn decide(entry: &Entry, actions: &[&str]) -> Markup {
    let version = entry.version.to_string();
    let hidden =
        [("space", entry.space.as_str()), ("entry", entry.id.as_str()), ("version", version.as_str())];
    let form = ActionForm { path: "entry", done: "The entry is changed.", hidden: &hidden };
    html! {
        details data-key={ "decide-" (entry.id) } {
            summary.small { @if entry.state == EntryState::Pending { "Decide" } @else { "Change" } }
            (form.with_decisions(
                html! { label { "Reason" span.hint { "a rejection needs one" } input type="text" name="reason" maxlength="2000"; } },
                html! {
                    @for action in actions.iter().filter(|action| **action != SUPERSEDE) {
                        button type="submit" name="change" value=(action)
                            class=(match *action { "merge" | "accept" => "primary", _ => "danger" }) {
                            (match *action { "merge" => "Merge", "reject" => "Reject", "archive" => "Archive", "withdraw" => "Withdraw", _ => "Accept" })
                        }
                    }
                },
            ))
        }
    }
}

/// The action that has a form of its own.
const SUPERSEDE: &str = "supersede";

/// The form for the decision that replaces `entry`.
fn supersede(entry: &Entry) -> Markup {
    let (version, kind) = (entry.version.to_string(), entry.entry_type.map(|kind| kind.to_string()));
    let hidden = [
        ("space", entry.space.as_str()),
        ("entry", entry.id.as_str()),
        ("version", version.as_str()),
        ("change", SUPERSEDE),
        ("type", kind.as_deref().unwrap_or_default()),
    ];
    let form = ActionForm { path: "entry", done: "The new decision is in force.", hidden: &hidden };
    html! {
        details data-key={ "supersede-" (entry.id) } {
            summary.small { "Supersede" }
            (form.with(html! {
                label { "Title of the new decision" input type="text" name="title" maxlength="500" value=(entry.title); }
                label { "What is decided" textarea name="content" rows="3" required {} }
                label { "Reason" input type="text" name="reason" maxlength="500"; }
                div.actions { button.primary type="submit" { "Decide, in its place" } }
            }))
        }
    }
}

/// The form for a new entry.
fn post(data: &SpaceData) -> Markup {
    let hidden = [("space", data.space.id.as_str())];
    let form = ActionForm { path: "post", done: "The entry is posted.", hidden: &hidden };
    let choices = data.posts.iter().flat_map(|kind| {
        let types: Vec<_> = EntryType::ALL.into_iter().filter(|of| of.belongs_to(*kind)).collect();
        let typed =
            types.iter().map(|of| (format!("{kind}/{of}"), format!("{kind}: {of}"))).collect::<Vec<_>>();
        if typed.is_empty() { vec![(kind.to_string(), kind.to_string())] } else { typed }
    });
    html! {
        section.card {
            header { h2 { "Add" } }
            div.body {
                details data-key="post" {
                    summary { "A finding, a proposal, a decision or memory" }
                    (form.with(html! {
                        label { "What it is" select name="what" { @for (value, words) in choices { option value=(value) { (words) } } } }
                        label { "Title" span.hint { "may be empty" } input type="text" name="title" maxlength="500"; }
                        label { "Text" textarea name="content" rows="3" required {} }
                        div.actions { button.primary type="submit" { "Post" } }
                    }))
                }
            }
        }
    }
}

fn members(space: &Space) -> Markup {
    html! {
        @if !space.members.is_empty() {
            section.card {
                header { h2 { "Members" } }
                div.body { div.row { @for (member, role) in &space.members { span.chip { (member) ": " (role) } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_is_escaped_and_has_the_forms_that_the_viewer_may_use() {
        let entry = json!({
            "id": "e-1", "space": "default", "kind": "proposal", "state": "pending", "version": 3, "author": "agent:a-1",
            "at": "2026-11-29T20:00:00Z", "changedAt": "2026-11-29T20:00:00Z", "title": "<script>", "content": "\u{202e}</div><script>",
            "tags": ["<b>"], "type": "learning", "slug": "one",
        });
        let entry = EntryLine {
            entry: serde_json::from_value(entry).unwrap_or_else(|error| panic!("{error}")),
            actions: vec!["merge", "reject"],
        };
        let zone = EntryZone { kind: EntryKind::Proposal, entries: vec![entry], next: None };
        let posts = vec![EntryKind::Finding, EntryKind::Decision];
        let data = SpaceData { space: Space::initial_default(), zones: vec![zone], posts };
        let at = ConsoleLocation::space("default");
        let viewer = Viewer::of_test;
        let shown = view(&viewer(true), &at, &data).into_string();
        assert!(
            !shown.contains("<script") && !shown.contains("<b>") && !shown.contains('\u{202e}'),
            "{shown}"
        );
        assert!(
            shown.contains("value=\"merge\"") && shown.contains("name=\"version\" value=\"3\""),
            "{shown}"
        );
        assert!(
            shown.contains("value=\"finding\"")
                && shown.contains("value=\"decision/scope\"")
                && !shown.contains("decision/learning"),
            "{shown}"
        );
        let shown = view(&viewer(false), &at, &data).into_string();
        assert!(!shown.contains("hx-post"), "{shown}");
    }
}
