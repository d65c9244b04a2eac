//! The frame around every view. It holds no data of the mesh but names that anybody may read: the script loads the view.

use crate::{
    assets,
    location::{ConsoleLocation, ViewName},
    visible_text::VisibleText,
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// What htmx may do: nothing that needs inline code or style.
const HTMX: &str = r#"{"allowEval":false,"includeIndicatorStyles":false,"allowScriptTags":false,"selfRequestsOnly":true,"historyEnabled":false}"#;

/// A link of the navigation, and the views during which it is marked.
const LINKS: [(ViewName, &str, &str); 10] = [
    (ViewName::Start, "Start", "start"),
    (ViewName::Inbox, "Inbox", "inbox"),
    (ViewName::Tasks, "Tasks", "tasks task bulk"),
    (ViewName::Chat, "Chat", "chat"),
    (ViewName::Sessions, "Sessions", "sessions session"),
    (ViewName::Board, "Board", "board space brief"),
    (ViewName::Agents, "Agents", "agents agent"),
    (ViewName::Mesh, "Mesh", "mesh"),
    (ViewName::Cost, "Cost", "cost"),
    (ViewName::Health, "Health", "health"),
];

const LOGO: &str = r#"<svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.6"><path d="M5 5l10 3M5 5l3 10M15 8l-7 7"/><g fill="currentColor" stroke="none"><circle cx="5" cy="5" r="2.6"/><circle cx="15" cy="8" r="2.6"/><circle cx="8" cy="15" r="2.6"/></g></svg>"#;

/// The page at `/`. `name` is the agent's, or that of the mesh's entrance.
pub fn page(name: &str) -> Markup {
    let asset = |name: &str| format!("console/assets/{name}?v={}", assets::version());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                meta name="htmx-config" content=(HTMX);
                title { (VisibleText(name)) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(asset("console.css"));
                script src=(asset("htmx.js")) defer {}
                script src=(asset("console.js")) defer {}
            }
            body data-name=(VisibleText(name)) {
                a.skip href="#main" { "Skip to the content" }
                div.frame {
                    header.side {
                        a.brand href=(ConsoleLocation::of(ViewName::Start).href()) { (PreEscaped(LOGO)) span { (VisibleText(name)) } }
                        nav aria-label="Console" {
                            ul {
                                @for (view, label, of) in LINKS {
                                    li {
                                        a href=(ConsoleLocation::of(view).href()) data-of=(of) {
                                            (label)
                                            @if view == ViewName::Inbox { span #waiting .badge role="status" hidden {} }
                                        }
                                    }
                                }
                            }
                        }
                        div.foot {
                            div #link-state .link-state.is-idle role="status" { span.dot aria-hidden="true" {} span { "connecting" } }
                            div.who { span.sr-only { "You are " } span #who {} }
                            div.actions {
                                button #theme .plain type="button" { "Theme: system" }
                                button #open-sign-in .plain type="button" hidden { "Sign in" }
                                button #sign-out .plain type="button" hidden { "Sign out" }
                            }
                        }
                    }
                    main #main .main tabindex="-1" {
                        p.loading { "Loading\u{2026}" }
                        noscript { p { "The console needs JavaScript. " code { "mesh tasks" } ", " code { "mesh inbox" } " and " code { "mesh ls" } " show the same in a terminal." } }
                    }
                }
                div #done .done role="status" hidden {}
                button #newer .newer type="button" hidden { "Something has changed: show the newest" }
                (sign_in())
            }
        }
    }
}

fn sign_in() -> Markup {
    html! {
        dialog #sign-in aria-labelledby="sign-in-title" {
            form #sign-in-form method="post" {
                h2 #sign-in-title { "Sign in" }
                p.muted.small { "You run this mesh: close this, and run " code { "mesh console" } " in a terminal. You are a caller of its configuration: enter your credential." }
                label { "Kind"
                    select name="kind" {
                        option value="key" { "API key" }
                        option value="token" { "Bearer token" }
                    }
                }
                label { "Credential" input type="password" name="secret" required autocomplete="off"; }
                div.actions {
                    button.primary type="submit" { "Sign in" }
                    button #close-sign-in type="button" { "Close" }
                }
            }
        }
    }
}

/// What `/` says to a program: what this is, and where to look.
pub fn text(name: &str) -> String {
    format!(
        "{name}: Agent Mesh {version}\n\
         \n\
         GET  /.well-known/agent-card.json   who this is: skills, interfaces (A2A)\n\
         POST /a2a/rpc, /a2a/v1/message:send give it work over A2A\n\
         GET  /a2a/tasks, /a2a/inbox         what it does, and what waits for you\n\
         GET  /openapi.json                  every route of this process\n\
         GET  /readyz, /state, /metrics      its health\n\
         POST /mcp                           the mesh as an MCP server\n\
         \n\
         A browser is shown the console here: `mesh console` opens it signed in.\n",
        version = env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_has_no_inline_code_and_escapes_names() {
        let page = page("\"><script>alert(1)</script>\u{202e}").into_string();
        assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
        for inline in [" style=", " onclick", " onload", "javascript:", "hx-on"] {
            assert!(!page.contains(inline), "{inline}");
        }
        assert_eq!(page.matches("<script ").count(), 2);
    }

    #[test]
    fn a_program_is_told_in_ten_lines() {
        assert_eq!(text("planner-01").lines().count(), 10);
    }
}
