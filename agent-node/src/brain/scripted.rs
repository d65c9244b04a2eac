//! Answers from a file, for tests and demos.
//!
//! ```yaml
//! turns:
//!   - when: { capability: plan, contains: library, turn: 1 }
//!     say:
//!       - { type: status, message: thinking }
//!       - { type: delegate, id: build, to: capability:implement-api, description: build it }
//!     delayMs: 20
//!   - when: { turn: 2 }
//!     say: [{ type: artifact, name: a.txt, text: hello }]
//!     end: { done: built }        # or { failed: why }, { rejected: why }, { message: text }, hang, crash; waiting if absent
//!     holdMs: 4000                # before the end, instead of delayMs
//! ```
//! The first entry whose conditions all hold answers; none holding fails the turn. `contains` looks at the description
//! of a task, the question of a help request, or the type of a signal; `messageId` at how the id of an A2A client's newest
//! message begins.

use super::{Ask, Brain, BrainError, Turn, lines};
use protocol::patterns::turn::{Progress, Prompt, TurnEnd, TurnSubject};
use serde::Deserialize;
use std::{path::Path, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// The brain that answers from a script.
#[derive(Debug, Clone)]
pub struct Scripted {
    turns: Arc<[Entry]>,
}

#[derive(Debug)]
struct Entry {
    when: Condition,
    say: Vec<Progress>,
    delay: Duration,
    hold: Duration,
    end: End,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum End {
    Done(Option<String>),
    Failed(String),
    Rejected(String),
    Message(String),
    Hang,
    Crash,
    Waiting,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Condition {
    capability: Option<String>,
    contains: Option<String>,
    turn: Option<u32>,
    message_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Script {
    turns: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    #[serde(default)]
    when: Condition,
    #[serde(default)]
    say: Vec<serde_json::Value>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    hold_ms: Option<u64>,
    #[serde(default)]
    end: Option<End>,
    #[serde(default)]
    hang: bool,
    #[serde(default)]
    crash: bool,
    #[serde(default)]
    fail: Option<String>,
}

impl Line {
    fn checked(self) -> Result<Entry, String> {
        let mut ends: Vec<End> = self.end.into_iter().chain(self.fail.map(End::Failed)).collect();
        ends.extend(self.hang.then_some(End::Hang));
        ends.extend(self.crash.then_some(End::Crash));
        let mut say = Vec::new();
        for line in self.say {
            match lines::said(line)? {
                lines::Said::Progress(progress) => say.push(progress),
                lines::Said::End(TurnEnd::Done { message }) => ends.push(End::Done(message)),
                lines::Said::End(TurnEnd::Failed { reason }) => ends.push(End::Failed(reason)),
                lines::Said::End(TurnEnd::Rejected { reason }) => ends.push(End::Rejected(reason)),
                lines::Said::End(TurnEnd::Message { text }) => ends.push(End::Message(text)),
                lines::Said::End(TurnEnd::Waiting) => ends.push(End::Waiting),
            }
        }
        if ends.len() > 1 {
            return Err("ends in more than one way".into());
        }
        let end = ends.pop().unwrap_or(End::Waiting);
        if end == End::Waiting && !say.iter().any(lines::asks) {
            return Err("neither ends nor asks anything: add end, fail, hang or crash".into());
        }
        let delay = Duration::from_millis(self.delay_ms);
        let hold = self.hold_ms.map_or(delay, Duration::from_millis);
        Ok(Entry { when: self.when, say, delay, hold, end })
    }
}

impl End {
    /// How the turn ends; `None` if it never does.
    fn said(&self) -> Option<Result<TurnEnd, BrainError>> {
        Some(match self {
            Self::Done(message) => Ok(TurnEnd::Done { message: message.clone() }),
            Self::Failed(reason) => Ok(TurnEnd::Failed { reason: reason.clone() }),
            Self::Rejected(reason) => Ok(TurnEnd::Rejected { reason: reason.clone() }),
            Self::Message(text) => Ok(TurnEnd::Message { text: text.clone() }),
            Self::Waiting => Ok(TurnEnd::Waiting),
            Self::Crash => Err(BrainError::Died { how: "the script says so".into(), stderr: String::new() }),
            Self::Hang => return None,
        })
    }
}

fn no_entry() -> Result<TurnEnd, BrainError> {
    Ok(TurnEnd::Failed { reason: "the script has no entry for this turn".into() })
}

impl Condition {
    fn holds(&self, prompt: &Prompt) -> bool {
        let (text, capability) = match &prompt.about {
            TurnSubject::Task { description, capability, .. } => (description.as_str(), capability),
            TurnSubject::Help { question, capability, .. } => (question.as_str(), capability),
            TurnSubject::Signal(posted) => (posted.signal.kind.as_str(), &posted.signal.capability),
        };
        let message = prompt.message.as_ref().map(|message| message.message_id.as_str());
        self.turn.is_none_or(|turn| turn == prompt.turn)
            && self
                .message_id
                .as_ref()
                .is_none_or(|head| message.is_some_and(|id| id.starts_with(head.as_str())))
            && self.contains.as_ref().is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
            && self
                .capability
                .as_ref()
                .is_none_or(|name| capability.as_ref().is_some_and(|c| c.as_str() == name))
    }
}

impl Scripted {
    /// The script in `text`, YAML or JSON; or what is wrong with it, with its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let script: Script = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let checked = script.turns.into_iter().enumerate().map(|(at, line)| {
            line.checked().map_err(|problem| format!("entry {} of turns: {problem}", at + 1))
        });
        Ok(Self { turns: checked.collect::<Result<_, _>>()? })
    }

    /// The script in the file `path`.
    pub fn read(path: &Path) -> Result<Self, BrainError> {
        let not_started = |what: String, source| BrainError::NotStarted { what, source };
        let text = std::fs::read_to_string(path)
            .map_err(|error| not_started(format!("{}: {error}", path.display()), Some(error)))?;
        Self::parse(&text).map_err(|problem| not_started(format!("{}: {problem}", path.display()), None))
    }
}

impl Brain for Scripted {
    fn think(&self, ask: Ask, report: mpsc::Sender<Progress>) -> Turn {
        let turns = Arc::clone(&self.turns);
        Box::pin(async move {
            let Some(entry) = turns.iter().find(|entry| entry.when.holds(&ask.prompt)) else {
                return no_entry();
            };
            for progress in &entry.say {
                tokio::time::sleep(entry.delay).await;
                let _ = report.send(progress.clone()).await;
            }
            tokio::time::sleep(entry.hold).await;
            match entry.end.said() {
                Some(end) => end,
                None => std::future::pending().await,
            }
        })
    }

    fn name(&self) -> &'static str {
        "scripted"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::tests::{ask, turn};

    const SCRIPT: &str = "
turns:
  - when: { contains: Library, turn: 1 }
    say:
      - { type: status, message: thinking }
      - { type: delegate, id: build, to: 'capability:implement-api', description: build it }
  - when: { turn: 2 }
    say: [{ type: artifact, name: a.txt, text: hello }]
    end: { done: built }
  - when: { contains: fail }
    fail: no time
  - when: { contains: crash }
    crash: true
  - when: { contains: hang }
    hang: true
";

    #[tokio::test]
    async fn the_first_entry_that_holds_answers() {
        let brain = Scripted::parse(SCRIPT).unwrap();
        let (heard, end) = turn(&brain, ask("a library, please")).await;
        assert_eq!((heard.len(), end.unwrap()), (2, TurnEnd::Waiting));

        let mut second = ask("a library, please");
        second.prompt.turn = 2;
        let (heard, end) = turn(&brain, second).await;
        assert_eq!((heard.len(), end.unwrap()), (1, TurnEnd::Done { message: Some("built".into()) }));

        let (_, end) = turn(&brain, ask("fail")).await;
        assert_eq!(end.unwrap(), TurnEnd::Failed { reason: "no time".into() });
        assert!(matches!(turn(&brain, ask("crash")).await.1, Err(BrainError::Died { .. })));
        assert!(matches!(turn(&brain, ask("else")).await.1.unwrap(), TurnEnd::Failed { .. }));
    }

    #[tokio::test]
    async fn a_hanging_entry_never_answers() {
        let brain = Scripted::parse(SCRIPT).unwrap();
        let hanging = turn(&brain, ask("hang"));
        assert!(tokio::time::timeout(Duration::from_millis(30), hanging).await.is_err());
    }

    #[test]
    fn a_script_that_makes_no_sense_is_refused_with_its_place() {
        for (script, part) in [
            ("turns: [{ say: [{ type: status, message: hm }] }]", "entry 1 of turns: neither ends"),
            ("turns: [{ hang: true, crash: true }]", "more than one way"),
            ("turns: [{ hangs: true }]", "hangs"),
            ("turns: [{ say: [{ type: shout }] }]", "unknown type"),
        ] {
            let error = Scripted::parse(script).unwrap_err();
            assert!(error.contains(part), "{script}: {error}");
        }
        assert!(matches!(Scripted::read(Path::new("/nowhere/x.yaml")), Err(BrainError::NotStarted { .. })));
    }
}
