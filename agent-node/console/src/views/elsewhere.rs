//! What is at an agent of another process: its own console shows it.

use crate::{
    action_form::ActionForm,
    location::ConsoleLocation,
    viewer::{ViewHead, Viewer},
    visible_text::VisibleText,
};
use maud::{Markup, html};

/// The view. `endpoint` is the address of the agent.
pub fn view(viewer: &Viewer, at: &ConsoleLocation, endpoint: &str) -> Markup {
    let query = at.href();
    let hidden = [("agent", at.agent.as_str()), ("to", query.trim_start_matches('?'))];
    viewer.view(
        ViewHead { view: at.view, title: "In another process", live: "" },
        html! {
            div.head { div { h1 { (VisibleText(&at.agent)) " runs in another process" } p.muted { "Its own console shows this page, at " code { (VisibleText(endpoint)) } "." } } }
            section.card {
                p { "You are signed in there by the registry, once. A browser that can't reach that address can't show it." }
                (ActionForm { path: "elsewhere", done: "", hidden: &hidden }.with(html! {
                    div.actions { button.primary type="submit" { "Open it there" } }
                }))
            }
        },
    )
}
