//! What waits for the viewer: questions and approvals, answered in place.

use crate::{
    location::{ConsoleLocation, ViewName},
    question_form::{self, AskedAt},
    times,
    viewer::{ViewHead, Viewer},
    visible_text::brief,
};
use maud::{Markup, html};
use protocol::{
    question::{Question, QuestionKind},
    time::WallTime,
};

/// A question of a task of the viewer.
#[derive(Debug, Clone)]
pub struct WaitingQuestion {
    pub agent: String,
    pub task: String,
    /// What the task is.
    pub description: String,
    pub since: WallTime,
    pub question: Question,
}

fn kind(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Approval => "approval",
        QuestionKind::Credential => "credential",
        QuestionKind::Text | QuestionKind::Choice | QuestionKind::Form => "question",
    }
}

/// The view.
pub fn view(viewer: &Viewer, items: &[WaitingQuestion]) -> Markup {
    viewer.view(
        ViewHead { view: ViewName::Inbox, title: "Inbox", live: "tasks" },
        html! {
            div.head { div { h1 { "Inbox" } p.muted { "Questions and approvals of your tasks, those that expire first before the others." } } }
            @if items.is_empty() {
                section.card {
                    div.empty {
                        strong { "Nothing waits for you." }
                        p { "When an agent asks you something, or a call needs your approval, it stands here and the badge shows it. In a terminal: " code { "mesh inbox" (viewer.flag) } "." }
                    }
                }
            }
            @for item in items { (card(viewer, item)) }
        },
    )
}

/// One question with its form.
pub fn card(viewer: &Viewer, item: &WaitingQuestion) -> Markup {
    let at = AskedAt { agent: &item.agent, task: &item.task };
    html! {
        section.card.ask data-key={ "question-" (item.agent) "-" (item.question.id) } {
            header {
                h2 { a href=(ConsoleLocation::task(&item.agent, &item.task).href()) { (brief(&item.description, 120)) } }
                span.small.muted.nowrap { (kind(item.question.kind)) " of " (item.agent) " \u{b7} " (times::since(viewer.now, item.since)) }
            }
            div.body { (question_form::card(viewer, at, &item.question)) }
        }
    }
}
