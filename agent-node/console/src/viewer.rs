//! Who looks at a page, and what the frame is told about it.

use crate::location::ViewName;
use maud::{Markup, html};
use protocol::time::WallTime;

/// Who looks, and when.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// The principal, for people.
    pub who: String,
    /// Whether a session of the console proves it. Without one a page has no forms.
    pub is_signed_in: bool,
    pub now: WallTime,
    /// How many questions and proposals wait for the viewer.
    pub waiting: usize,
    /// The agents of other processes that gave no answer, by name.
    pub silent: Vec<String>,
    /// What a command in a terminal needs to find what the page shows, such as ` --url http://127.0.0.1:8100`; empty if nothing.
    pub flag: String,
}

/// What a view is, for the script of the frame.
#[derive(Debug, Clone, Copy)]
pub struct ViewHead<'a> {
    pub view: ViewName,
    pub title: &'a str,
    /// The kinds of changes after which it is loaded again: `tasks`, `task`, `agents`.
    pub live: &'a str,
}

impl Viewer {
    /// `body` as the view that `head` names.
    pub fn view(&self, head: ViewHead<'_>, body: Markup) -> Markup {
        html! {
            div.stack data-view=(head.view.word()) data-title=(head.title) data-live=(head.live) data-waiting=(self.waiting)
                data-who={ (self.who) @if !self.is_signed_in { ", not signed in" } } data-signed-in=(self.is_signed_in) {
                @if !self.is_signed_in { (sign_in_hint(&self.flag)) }
                @if !self.silent.is_empty() { (silent_hint(&self.silent)) }
                (body)
            }
        }
    }
}

/// The most agents that are named.
const MOST_NAMED: usize = 8;

#[cfg(test)]
impl Viewer {
    /// The local user at the beginning of time.
    pub(crate) fn of_test(is_signed_in: bool) -> Self {
        let (who, now) = ("user:local".to_owned(), WallTime(0));
        Self { who, is_signed_in, now, waiting: 0, silent: Vec::new(), flag: String::new() }
    }
}

fn silent_hint(silent: &[String]) -> Markup {
    let named = silent.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    html! {
        div.notice.wait data-key="hint-silent" {
            p { "What waits or runs at " (named) @if silent.len() > MOST_NAMED { " and " (silent.len() - MOST_NAMED) " more agents" } " is not shown: no answer from there." }
        }
    }
}

fn sign_in_hint(flag: &str) -> Markup {
    html! {
        div.notice data-key="hint-sign-in" {
            p { strong { "You are looking without being signed in." } " To send, answer or cancel, run " code { "mesh console" (flag) } " in a terminal: it opens this page signed in. Configured callers sign in with their credential." }
        }
    }
}
