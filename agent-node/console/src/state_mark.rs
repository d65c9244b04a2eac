//! States as a coloured dot with a word.

use maud::{Markup, html};
use protocol::task::TaskState;

/// How a state is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateTone {
    Ok,
    Busy,
    Wait,
    Bad,
    Idle,
}

impl StateTone {
    /// Its class in a page.
    pub fn class(self) -> &'static str {
        match self {
            Self::Ok => "is-ok",
            Self::Busy => "is-busy",
            Self::Wait => "is-wait",
            Self::Bad => "is-bad",
            Self::Idle => "is-idle",
        }
    }
}

/// A dot and a word.
pub fn mark(tone: StateTone, word: &str) -> Markup {
    html! { span class={ "state " (tone.class()) } { span.dot aria-hidden="true" {} span { (word) } } }
}

/// The state of a task, for people.
pub fn words(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::InputRequired => "waiting for an answer",
        TaskState::AuthRequired => "waiting for a credential",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::Rejected => "rejected",
    }
}

/// The state of a task.
pub fn of_task(state: TaskState) -> Markup {
    let tone = match state {
        TaskState::Submitted => StateTone::Idle,
        TaskState::Working => StateTone::Busy,
        TaskState::InputRequired | TaskState::AuthRequired => StateTone::Wait,
        TaskState::Completed => StateTone::Ok,
        TaskState::Failed | TaskState::Rejected => StateTone::Bad,
        TaskState::Canceled => StateTone::Idle,
    };
    mark(tone, words(state))
}
