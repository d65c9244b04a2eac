//! Chats with an agent, which A2A calls contexts: what was said, and a form that says more.

use crate::{
    action_form::ActionForm,
    content,
    location::{ConsoleLocation, ViewName},
    question_form::{self, AskedAt},
    state_mark, times,
    viewer::{ViewHead, Viewer},
    visible_text::{VisibleText, brief},
};
use maud::{Markup, html};
use protocol::{artifact::Artifact, question::Question, task::TaskState, time::WallTime};

/// A chat in the list.
#[derive(Debug, Clone)]
pub struct ChatLine {
    pub agent: String,
    pub context: String,
    pub used: WallTime,
    pub first: String,
}

/// What was said once, and what came of it.
#[derive(Debug, Clone)]
pub struct ChatTurn {
    pub task: String,
    pub said: String,
    /// The names of the files that came with it.
    pub files: Vec<String>,
    /// What the agent says.
    pub answer: String,
    /// What it has made.
    pub artifacts: Vec<Artifact>,
    pub state: TaskState,
    pub at: WallTime,
    /// The agent that does it, if that is another one.
    pub by: Option<String>,
    /// What waits for the viewer.
    pub questions: Vec<Question>,
}

/// What the page knows.
#[derive(Debug, Clone, Default)]
pub struct ChatData {
    /// The agents with which one can talk.
    pub agents: Vec<String>,
    /// The agent of the open chat.
    pub agent: String,
    /// The open chat; a new one if it has no turns.
    pub context: String,
    pub turns: Vec<ChatTurn>,
    pub chats: Vec<ChatLine>,
}

/// The view.
pub fn view(viewer: &Viewer, data: &ChatData) -> Markup {
    viewer.view(
        ViewHead { view: ViewName::Chat, title: "Chat", live: "tasks task" },
        html! {
            div.head { div { h1 { "Chat with " (data.agent) } p.muted { "It remembers what was said, also after a restart. In a terminal: " code { "mesh chat " (data.agent) (viewer.flag) } } } }
            div.columns {
                section.card {
                    header { h2 { @if data.turns.is_empty() { "New chat" } @else { "Chat " span.mono { (VisibleText(&data.context)) } } } }
                    div.body {
                        @if data.turns.is_empty() && !viewer.is_signed_in { p.muted { "Nothing was said yet." } }
                        div.chat role="log" aria-label="What was said" { @for turn in &data.turns { (said(viewer, data, turn)) } }
                        @if viewer.is_signed_in {
                            (ActionForm { path: "say", done: "", hidden: &[("agent", &data.agent), ("context", &data.context)] }.with_files(html! {
                                label { span.sr-only { "Your message" } textarea name="text" required placeholder={ "Say something to " (data.agent) } {} }
                            }, html! { div.actions { button.primary type="submit" { "Say" } span.small.muted { "Ctrl+Enter sends" } } }))
                        }
                    }
                }
                section.card {
                    header { h2 { "Chats" } a.small href=(ConsoleLocation::chat(&data.agent, "").href()) { "New chat" } }
                    @if data.chats.is_empty() { div.empty { p { "No chats yet." } } } @else {
                        ul.lines {
                            @for chat in &data.chats {
                                li data-key={ "chat-" (chat.context) } {
                                    a href=(ConsoleLocation::chat(&chat.agent, &chat.context).href()) aria-current=[(chat.context == data.context).then_some("true")] { (brief(&chat.first, 100)) }
                                    span.small.muted { (brief(&chat.context, 40)) " \u{b7} " (times::since(viewer.now, chat.used)) }
                                }
                            }
                        }
                    }
                    @if data.agents.len() > 1 {
                        div.body { div.row { span.small.muted { "Another agent:" } @for agent in &data.agents { a.chip href=(ConsoleLocation::chat(agent, "").href()) { (agent) } } } }
                    }
                }
            }
        },
    )
}

fn said(viewer: &Viewer, data: &ChatData, turn: &ChatTurn) -> Markup {
    let at = AskedAt { agent: &data.agent, task: &turn.task };
    html! {
        div.said.mine data-key={ "s-" (turn.task) } { div.prose { (VisibleText(&turn.said)) } @if !turn.files.is_empty() { p.small.muted { "with " (brief(&turn.files.join(", "), 300)) } } }
        div.said data-key={ "a-" (turn.task) } {
            @if let Some(by) = turn.by.as_ref().filter(|by| **by != data.agent) { p.small.muted { "by " (by) } }
            @if !turn.answer.is_empty() && turn.questions.is_empty() { div.prose { (VisibleText(&turn.answer)) } }
            @for artifact in &turn.artifacts { @for part in &artifact.parts { (content::part(artifact.name.as_deref().unwrap_or(&artifact.artifact_id), part)) } }
            @for question in &turn.questions { (question_form::card(viewer, at, question)) }
            div.row.small.muted {
                @if turn.state != TaskState::Completed { (state_mark::of_task(turn.state)) }
                span { (times::clock(turn.at)) }
                a href=(ConsoleLocation::task(&data.agent, &turn.task).href()) { "task" }
            }
        }
    }
}
