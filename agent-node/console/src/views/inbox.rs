//! What waits for the viewer: questions, approvals and proposals, answered in place; and the viewer's tasks that have failed.

use super::{
    space::{self, EntryLine},
    task_line::TaskLine,
};
use crate::{
    action_form::ActionForm,
    location::{ConsoleLocation, ViewName},
    question_form::{self, AskedAt},
    state_mark, times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{
    question::{Question, QuestionKind},
    time::WallTime,
};
use std::cmp::Reverse;

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

/// Something that waits for the viewer.
#[derive(Debug, Clone)]
pub enum WaitingItem {
    Question(Box<WaitingQuestion>),
    /// A proposal in a space that the viewer may decide.
    Proposal(Box<EntryLine>),
}

impl WaitingItem {
    /// What expires first before the others, then the newest first.
    fn order(&self) -> impl Ord + use<> {
        let (expires, since) = match self {
            Self::Question(item) => (item.question.expires_at, item.since),
            Self::Proposal(line) => (None, line.entry.changed_at),
        };
        (expires.is_none(), expires, Reverse(since))
    }

    /// The same in the order of the page.
    pub fn sorted(mut items: Vec<Self>) -> Vec<Self> {
        items.sort_by_key(Self::order);
        items
    }

    /// As a line of a short list.
    pub(super) fn item(&self) -> Markup {
        let inbox = ConsoleLocation::of(ViewName::Inbox).href();
        let (key, what, of) = match self {
            Self::Question(item) => {
                (&item.question.id, item.question.shown_text().into_owned(), item.description.clone())
            }
            Self::Proposal(line) => {
                let entry = &line.entry;
                let title = if entry.title.is_empty() { &entry.content } else { &entry.title };
                (&entry.id.to_string(), title.clone(), format!("a proposal in space {}", entry.space))
            }
        };
        html! {
            li data-key={ "w-" (key) } {
                a href=(inbox) { (brief(&what, 160)) }
                span.small.muted { (brief(&of, 80)) }
            }
        }
    }

    fn card(&self, viewer: &Viewer) -> Markup {
        match self {
            Self::Question(item) => card(viewer, item),
            Self::Proposal(line) => html! {
                section.card.ask data-key={ "proposal-" (line.entry.id) } {
                    header {
                        h2 { "A proposal in space " a href=(ConsoleLocation::space(line.entry.space.as_str()).href()) { (line.entry.space) } }
                        span.small.muted.nowrap { "proposal of " (VisibleText(&line.entry.author.to_string())) }
                    }
                    ul.lines { (space::entry(viewer, line)) }
                }
            },
        }
    }
}

/// What the page knows.
#[derive(Debug, Clone, Default)]
pub struct InboxData {
    /// In the order of the page.
    pub items: Vec<WaitingItem>,
    /// The viewer's tasks that have failed lately and were not sent again, the newest first.
    pub failed: Vec<TaskLine>,
}

fn kind(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Approval => "approval",
        QuestionKind::Credential => "credential",
        QuestionKind::Text | QuestionKind::Choice | QuestionKind::Form => "question",
    }
}

/// The view.
pub fn view(viewer: &Viewer, data: &InboxData) -> Markup {
    viewer.view(
        ViewHead { view: ViewName::Inbox, title: "Inbox", live: "tasks" },
        html! {
            div.head {
                div { h1 { "Inbox" } p.muted { "What expires first before the others, then the newest." } }
                // The script shows it where the browser has not been asked yet.
                div.actions { button #notify type="button" hidden { "Notify me in this browser" } }
            }
            @if data.items.is_empty() {
                section.card {
                    div.empty {
                        strong { "Nothing waits for you." }
                        p { "When an agent asks you something, a call needs your approval or a space a decision, it stands here and the badge shows it. In a terminal: " code { "mesh inbox" (viewer.flag) } "." }
                    }
                }
            }
            @for item in &data.items { (item.card(viewer)) }
            @if !data.failed.is_empty() { (failures(viewer, &data.failed)) }
        },
    )
}

/// One question with its form.
fn card(viewer: &Viewer, item: &WaitingQuestion) -> Markup {
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

/// The tasks that have failed. The script hides those that were dismissed in this browser.
fn failures(viewer: &Viewer, failed: &[TaskLine]) -> Markup {
    html! {
        section.card data-key="failed" data-dismissables {
            header { h2 { "Failed" } span.small.muted { "your tasks of the last 7 days that were not sent again; the badge does not count them" } }
            ul.lines {
                @for task in failed {
                    li data-key={ "failed-" (task.agent) "-" (task.id) } data-dismissable={ (task.agent) "/" (task.id) } {
                        a href=(task.href()) { (brief(&task.description, 160)) }
                        @if !task.message.is_empty() { div.prose { (VisibleText(&brief(&task.message, 600))) } }
                        div.row.small.muted { (state_mark::of_task(task.state)) span { (task.agent) } (times::since(viewer.now, task.changed)) }
                        div.actions {
                            @if viewer.is_signed_in {
                                (ActionForm { path: "retry", done: "", hidden: &[("agent", &task.agent), ("task", &task.id)] }
                                    .with(html! { button type="submit" { "Send it again" } }))
                            }
                            button type="button" data-dismiss { "Dismiss" }
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
    use protocol::{a2a::task::A2aTask, task::EXTENSION};
    use serde_json::json;

    const HOSTILE: &str = "</div><script>alert(1)</script>\u{202e}";

    fn question(id: &str, since: i64, expires: Option<i64>) -> WaitingItem {
        let question = Question { expires_at: expires.map(WallTime), ..Question::new(id, HOSTILE) };
        let (agent, task, description) = ("a-1".to_owned(), "t-1".to_owned(), HOSTILE.to_owned());
        WaitingItem::Question(Box::new(WaitingQuestion {
            agent,
            task,
            description,
            since: WallTime(since),
            question,
        }))
    }

    fn proposal(at: i64) -> WaitingItem {
        let at = WallTime(at);
        let entry = json!({
            "id": "e-1", "space": "default", "kind": "proposal", "state": "pending", "version": 3, "author": "agent:a-1",
            "at": at, "changedAt": at, "title": HOSTILE, "content": HOSTILE, "type": "learning", "slug": "one",
        });
        let entry = serde_json::from_value(entry).unwrap();
        WaitingItem::Proposal(Box::new(EntryLine { entry, actions: vec!["merge", "reject"] }))
    }

    fn failed() -> TaskLine {
        let ours = json!({ "description": HOSTILE, "owner": "user:local" });
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": HOSTILE }] });
        let status = json!({ "state": "TASK_STATE_FAILED", "message": message });
        let task =
            json!({ "id": "t-9", "contextId": "c", "status": status, "metadata": { EXTENSION: ours } });
        TaskLine::of_a2a("a-1", &serde_json::from_value::<A2aTask>(task).unwrap()).unwrap()
    }

    #[test]
    fn what_expires_first_is_first_and_then_the_newest() {
        let items = vec![
            question("old", 1, None),
            proposal(5),
            question("new", 9, None),
            question("late", 9, Some(200)),
            question("soon", 2, Some(100)),
        ];
        let ids = WaitingItem::sorted(items).into_iter().map(|item| match item {
            WaitingItem::Question(item) => item.question.id,
            WaitingItem::Proposal(line) => line.entry.id.to_string(),
        });
        assert_eq!(ids.collect::<Vec<_>>(), ["soon", "late", "new", "e-1", "old"]);
    }

    #[test]
    fn everything_is_escaped_and_only_the_signed_in_have_forms() {
        let data = InboxData { items: vec![question("q", 1, None), proposal(2)], failed: vec![failed()] };
        let shown = view(&Viewer::of_test(true), &data).into_string();
        assert!(!shown.contains("<script") && !shown.contains('\u{202e}'), "{shown}");
        for part in [
            "console/answer",
            "value=\"merge\"",
            "value=\"reject\"",
            "console/retry",
            "data-dismissable=\"a-1/t-9\"",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let shown = view(&Viewer::of_test(false), &data).into_string();
        assert!(!shown.contains("<form") && shown.contains("data-dismiss"), "{shown}");
    }
}
