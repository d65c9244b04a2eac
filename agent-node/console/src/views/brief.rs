//! The brief of an agent in a space: the text that its next turn is given, and why each part of it is there.

use crate::{
    filter_form::{self, same, select, text},
    json_view,
    location::{ConsoleLocation, ViewName},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{
    spaces::{
        SpaceId,
        brief::{Brief, BriefEntry, BriefExplanation, short_id},
    },
    words::counted,
};

/// A brief, as the viewer may see it.
#[derive(Debug, Clone)]
pub struct ShownBrief {
    pub brief: Brief,
    /// Absent if the board is of an earlier version.
    pub explained: Option<BriefExplanation>,
    /// The memories of the agent's vault, which it is shown without.
    pub vault_entries: usize,
}

/// What the page knows.
#[derive(Debug, Clone)]
pub struct BriefPage {
    pub space: SpaceId,
    /// The agents to choose among.
    pub agents: Vec<String>,
    /// Absent as long as no agent is chosen.
    pub shown: Option<ShownBrief>,
}

/// The view.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, data: &BriefPage) -> Markup {
    let space = data.space.as_str();
    let title = if at.agent.is_empty() { "Brief".to_owned() } else { format!("Brief of {}", at.agent) };
    viewer.view(
        ViewHead { view: ViewName::Brief, title: &title, live: "entries" },
        html! {
            div.head {
                div {
                    h1 { (VisibleText(&title)) }
                    p.muted { "What the space " a href=(ConsoleLocation::space(space).href()) { (space) } " knows for the next turn of an agent, and why it is told that." }
                }
            }
            (filter_form::form("Whose brief", at, &ConsoleLocation::brief(space, ""), html! {
                (select("agent", "Agent", &at.agent, &same(&data.agents)))
                (text("session", "As a seat of the session", &at.session, "t-\u{2026}"))
            }))
            @match &data.shown {
                Some(shown) => div.columns { div.stack { (given(shown)) } div.stack { (items(space, shown)) (omitted(space, shown)) } },
                None => div.notice { p { "Choose an agent." } },
            }
            p.small.muted { "In a terminal: " code { "mesh brief " (VisibleText(if at.agent.is_empty() { "AGENT" } else { &at.agent })) " --space " (space) " --why" (viewer.flag) } }
        },
    )
}

fn given(shown: &ShownBrief) -> Markup {
    html! {
        section.card {
            header { h2 { "As the agent is given it" } span.small.muted { (times::counted(shown.brief.tokens, "token")) } }
            @if shown.brief.text.is_empty() { div.empty { p { "The space knows nothing for it." } } } @else {
                (json_view::text_block("the text of the brief", &shown.brief.text))
            }
        }
    }
}

/// A link to an entry, with these words.
fn link(space: &str, entry: &BriefEntry, words: &str) -> Markup {
    let short = short_id(&entry.id);
    let words = if words.trim().is_empty() { &short } else { words };
    html! { a href=(ConsoleLocation::entry(space, &entry.kind.to_string(), &short).href()) { (brief(words, 80)) } }
}

fn items(space: &str, shown: &ShownBrief) -> Markup {
    let budget = shown.explained.as_ref().map(|explained| (explained.budget, explained.left));
    html! {
        section.card {
            header { h2 { "What is in it, and why" } span.small.muted { (counted(shown.brief.included.len(), "entry", "entries")) } }
            @match &shown.explained {
                None => {
                    div.empty { p { "The board is of a version that does not say why." } }
                    ul.lines { @for entry in &shown.brief.included { li { (link(space, entry, "")) span.chip { (entry.kind) } } } }
                }
                Some(explained) if explained.items.is_empty() => div.empty { p { "Nothing." } },
                Some(explained) => ul.lines {
                    @for (at, item) in explained.items.iter().enumerate() {
                        li data-key={ "item-" (at) } {
                            div.row {
                                span.chip { (brief(&item.layer, 40)) }
                                @match &item.entry { Some(entry) => (link(space, entry, &item.title)), None => span { (brief(&item.title, 80)) } }
                                span.small.muted.nowrap { (times::counted(item.tokens, "token")) }
                            }
                            span.small.muted { (VisibleText(&item.why)) }
                        }
                    }
                },
            }
            @if let Some((budget, left)) = budget {
                div.body {
                    p.small.muted { "Beside the decisions it may have " (budget.items) " memories, the latest " (budget.findings) " findings, and " (times::count(budget.tokens as u64)) " tokens, of which " (times::count(budget.finding_tokens as u64)) " are kept for findings. " (times::count(left as u64)) " are left." }
                }
            }
        }
    }
}

fn omitted(space: &str, shown: &ShownBrief) -> Markup {
    html! {
        section.card {
            header { h2 { "What was left out, and why" } }
            @if shown.brief.omitted.is_empty() && shown.vault_entries == 0 { div.empty { p { "Nothing that could be in it." } } } @else {
                ul.lines {
                    @for left_out in &shown.brief.omitted {
                        li data-key={ "omitted-" (left_out.entry.id) } {
                            div.row { span.chip { (left_out.entry.kind) } (link(space, &left_out.entry, "")) }
                            span.small.muted { (VisibleText(&left_out.why)) }
                        }
                    }
                    @if shown.vault_entries > 0 {
                        li { span { (counted(shown.vault_entries, "memory", "memories")) " of its vault" } span.small.muted { "the agent has them in its brief, as far as they fit; only its vault shows them: mesh vault" } }
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
    fn texts_of_entries_are_escaped_and_each_part_has_its_reason_and_a_link() {
        let shown = json!({
            "space": "shop", "text": "Decisions.\n<script>\u{202e}", "tokens": 7,
            "included": [{ "id": "d-1", "version": 1, "kind": "decision" }],
            "omitted": [{ "id": "m-1", "version": 1, "kind": "memory", "why": "needs 9 tokens<b>" }],
        });
        let explained = json!({
            "items": [
                { "entry": { "id": "d-1", "version": 1, "kind": "decision" }, "title": "<i>", "layer": "decision", "why": "in force", "tokens": 5 },
                { "title": "b-2", "layer": "teammate", "why": "it has expertise", "tokens": 2 },
            ],
            "budget": { "items": 20, "findings": 15, "tokens": 4000, "findingTokens": 1200 }, "left": 3998,
        });
        let read = |value| serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}"));
        let (brief, explained) = (read(shown), serde_json::from_value(explained).ok());
        let data = BriefPage {
            space: SpaceId::parse("shop").unwrap_or_else(|bad| panic!("{bad}")),
            agents: vec!["a-1".to_owned()],
            shown: Some(ShownBrief { brief, explained, vault_entries: 2 }),
        };
        let page = view(&Viewer::of_test(true), &ConsoleLocation::brief("shop", "a-1"), &data).into_string();
        for code in ["<script", "<b>", "<i>", "\u{202e}"] {
            assert!(!page.contains(code), "{code:?}: {page}");
        }
        for part in [
            "in force",
            "5 tokens",
            "needs 9 tokens",
            "2 memories",
            "view=space&amp;id=shop",
            "text=d-1",
            "3\u{202f}998",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
