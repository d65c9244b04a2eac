//! How a turn ends.

use crate::{Handoff, OutputLine, TaskId};
use std::time::Duration;

/// How a turn ended: with the message of `done`, empty if an artifact says it all, or in another way.
pub type TurnResult = Result<String, End>;

/// Another end of a turn than a result. It is handed on by `?`; every error becomes [`End::Failed`].
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Until answers come: all that are waited for, or else the first of the others.
    Wait,
    /// Until these come, and the end of a task of anybody's.
    WaitFor(TaskId),
    /// Without a result. The mesh may award the task again, also to this agent.
    Failed(String),
    /// Without a result, and neither waiting nor another try changes that. This agent is not awarded the task again.
    LastingFailure(String),
    /// Without a result. This agent is not asked again.
    Rejected(String),
    /// With a message in place of a task.
    Message(String),
    /// The turn of a seat in a session, with a message to all, empty for none. It has another turn in the next round.
    Pass(String),
    /// Done, with the label of the stage of a session, which says what comes next, and a message.
    Label(String, String),
    /// Another agent answers in its place, and the chat goes on with that one. Why it can't be handed over is the answer `handoff-`
    /// and that agent's id, in the next turn.
    Handoff(Handoff),
    /// For this time. The turn begins again with the same checkpoints.
    Pause(Duration, String),
    /// The node has stopped the turn: its task was cancelled, or a bound has passed. What it reports counts no more.
    Cancelled,
}

impl<E: std::error::Error> From<E> for End {
    /// A failure with the error and its causes.
    fn from(error: E) -> Self {
        let mut reason = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            reason = format!("{reason}: {error}");
            cause = error.source();
        }
        Self::Failed(reason)
    }
}

/// The last line of a turn.
pub(crate) fn end_line(result: TurnResult) -> OutputLine {
    let text = |message: String| (!message.is_empty()).then_some(message);
    match result {
        Ok(message) => OutputLine::Done { message: text(message), label: None },
        Err(End::Label(label, message)) => OutputLine::Done { message: text(message), label: Some(label) },
        Err(End::Pass(message)) => OutputLine::Pass { message: text(message) },
        Err(End::Wait) => OutputLine::Wait { task: None },
        Err(End::WaitFor(task)) => OutputLine::Wait { task: Some(task) },
        Err(End::Failed(reason)) => OutputLine::Failed { reason, lasting: false },
        Err(End::LastingFailure(reason)) => OutputLine::Failed { reason, lasting: true },
        Err(End::Rejected(reason)) => OutputLine::Rejected { reason },
        Err(End::Message(text)) => OutputLine::Message { text },
        Err(End::Handoff(handoff)) => OutputLine::Handoff(handoff),
        Err(End::Pause(after, reason)) => {
            OutputLine::Pause { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX), reason }
        }
        Err(End::Cancelled) => OutputLine::Failed { reason: "cancelled".to_owned(), lasting: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn every_end_has_its_line_and_every_error_is_a_failure_with_its_causes() {
        let json = |result| serde_json::to_string(&end_line(result)).unwrap();
        let pause = End::Pause(Duration::from_secs(2), "429".into());
        for (result, line) in [
            (Ok("4 words".to_owned()), r#"{"type":"done","message":"4 words"}"#),
            (Ok(String::new()), r#"{"type":"done"}"#),
            (Err(End::Wait), r#"{"type":"wait"}"#),
            (Err(End::Failed("no".into())), r#"{"type":"failed","reason":"no"}"#),
            (Err(End::LastingFailure("no".into())), r#"{"type":"failed","reason":"no","lasting":true}"#),
            (Err(End::Rejected("no".into())), r#"{"type":"rejected","reason":"no"}"#),
            (Err(End::Pass("no".into())), r#"{"type":"pass","message":"no"}"#),
            (Err(End::Label("again".into(), String::new())), r#"{"type":"done","label":"again"}"#),
            (Err(End::Message("hi".into())), r#"{"type":"message","text":"hi"}"#),
            (
                Err(End::Handoff(Handoff { to: "b".parse().unwrap(), reason: "r".into() })),
                r#"{"type":"handoff","to":"b","reason":"r"}"#,
            ),
            (Err(pause), r#"{"type":"pause","afterMs":2000,"reason":"429"}"#),
            (Err(End::Cancelled), r#"{"type":"failed","reason":"cancelled"}"#),
        ] {
            assert_eq!(json(result), line);
        }
        let cause = Error::new(ErrorKind::NotFound, "no such file");
        assert_eq!(End::from(cause), End::Failed("no such file".into()));
    }
}
