//! A brain that follows a script, for tests and demos.
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
//! The first entry whose conditions all hold runs; if there is none, the turn fails. `contains` is compared with the
//! description of a task, the question of a help request or the type of a signal; `messageId` is a prefix of the id of an
//! A2A client's newest message.

use super::{
    Brain, BrainError, CompletedTurn, TurnFuture, TurnHandle, TurnRequest,
    json_lines::{self, BrainLine},
};
use patterns::turn::{HandoffRequest, Progress, Prompt, TurnEnd, TurnSubject};
use protocol::{answer::SeatEnd, ids::TaskId};
use serde::Deserialize;
use std::{path::Path, sync::Arc, time::Duration};

/// Runs the entry of a script that matches the turn.
#[derive(Debug, Clone)]
pub struct ScriptedBrain {
    turns: Arc<[ScriptEntry]>,
}

#[derive(Debug)]
struct ScriptEntry {
    when: ScriptCondition,
    say: Vec<Progress>,
    delay: Duration,
    hold: Duration,
    end: ScriptedEnd,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ScriptedEnd {
    Done(Option<String>),
    /// From a line `pass`, or `done` with a label.
    #[serde(skip)]
    Seat(Option<String>, SeatEnd),
    Failed(String),
    LastingFailure(String),
    Rejected(String),
    Message(String),
    #[serde(skip)]
    Handoff(HandoffRequest),
    #[serde(rename_all = "camelCase")]
    Pause {
        after_ms: u64,
        reason: String,
    },
    Hang,
    Crash,
    Waiting,
    #[serde(skip)]
    WaitingFor(TaskId),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ScriptCondition {
    capability: Option<String>,
    contains: Option<String>,
    turn: Option<u32>,
    checkpoints: Option<usize>,
    message_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptFile {
    turns: Vec<ScriptEntryConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptEntryConfig {
    #[serde(default)]
    when: ScriptCondition,
    #[serde(default)]
    say: Vec<serde_json::Value>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    hold_ms: Option<u64>,
    #[serde(default)]
    end: Option<ScriptedEnd>,
    #[serde(default)]
    hang: bool,
    #[serde(default)]
    crash: bool,
    #[serde(default)]
    fail: Option<String>,
}

impl ScriptEntryConfig {
    fn validate(self) -> Result<ScriptEntry, String> {
        let mut ends: Vec<ScriptedEnd> =
            self.end.into_iter().chain(self.fail.map(ScriptedEnd::Failed)).collect();
        ends.extend(self.hang.then_some(ScriptedEnd::Hang));
        ends.extend(self.crash.then_some(ScriptedEnd::Crash));
        let mut say = Vec::new();
        for line in self.say {
            match json_lines::from_value(line)? {
                BrainLine::Progress(progress) => say.push(progress),
                BrainLine::Bid(_) => return Err("a script makes no bids".into()),
                BrainLine::End(TurnEnd::Done { message }) => ends.push(ScriptedEnd::Done(message)),
                BrainLine::End(TurnEnd::Seat { message, seat }) => {
                    ends.push(ScriptedEnd::Seat(message, seat))
                }
                BrainLine::End(TurnEnd::Failed { reason }) => ends.push(ScriptedEnd::Failed(reason)),
                BrainLine::End(TurnEnd::LastingFailure { reason }) => {
                    ends.push(ScriptedEnd::LastingFailure(reason));
                }
                BrainLine::End(TurnEnd::Rejected { reason }) => ends.push(ScriptedEnd::Rejected(reason)),
                BrainLine::End(TurnEnd::Message { text }) => ends.push(ScriptedEnd::Message(text)),
                BrainLine::End(TurnEnd::Handoff(to)) => ends.push(ScriptedEnd::Handoff(to)),
                BrainLine::End(TurnEnd::Waiting) => ends.push(ScriptedEnd::Waiting),
                BrainLine::End(TurnEnd::WaitingFor { task }) => ends.push(ScriptedEnd::WaitingFor(task)),
                BrainLine::End(TurnEnd::Pause { after_ms, reason }) => {
                    ends.push(ScriptedEnd::Pause { after_ms, reason });
                }
            }
        }
        if ends.len() > 1 {
            return Err("ends in more than one way".into());
        }
        let end = ends.pop().unwrap_or(ScriptedEnd::Waiting);
        if end == ScriptedEnd::Waiting && !say.iter().any(json_lines::expects_answer) {
            return Err("neither ends nor asks anything: add end, fail, hang or crash".into());
        }
        let delay = Duration::from_millis(self.delay_ms);
        let hold = self.hold_ms.map_or(delay, Duration::from_millis);
        Ok(ScriptEntry { when: self.when, say, delay, hold, end })
    }
}

impl ScriptedEnd {
    /// The end of the turn; `None` if it never ends.
    fn result(&self) -> Option<Result<TurnEnd, BrainError>> {
        Some(match self {
            Self::Done(message) => Ok(TurnEnd::Done { message: message.clone() }),
            Self::Seat(message, seat) => Ok(TurnEnd::Seat { message: message.clone(), seat: seat.clone() }),
            Self::Failed(reason) => Ok(TurnEnd::Failed { reason: reason.clone() }),
            Self::LastingFailure(reason) => Ok(TurnEnd::LastingFailure { reason: reason.clone() }),
            Self::Rejected(reason) => Ok(TurnEnd::Rejected { reason: reason.clone() }),
            Self::Message(text) => Ok(TurnEnd::Message { text: text.clone() }),
            Self::Handoff(to) => Ok(TurnEnd::Handoff(to.clone())),
            Self::Waiting => Ok(TurnEnd::Waiting),
            Self::WaitingFor(task) => Ok(TurnEnd::WaitingFor { task: task.clone() }),
            Self::Pause { after_ms, reason } => {
                Ok(TurnEnd::Pause { after_ms: *after_ms, reason: reason.clone() })
            }
            Self::Crash => Err(BrainError::Died { how: "the script says so".into(), stderr: String::new() }),
            Self::Hang => return None,
        })
    }
}

/// A pause of no length is none: it would last until the timer's next tick.
async fn pause(length: Duration) {
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
}

fn no_matching_entry() -> Result<TurnEnd, BrainError> {
    Ok(TurnEnd::Failed { reason: "the script has no entry for this turn".into() })
}

impl ScriptCondition {
    fn holds(&self, prompt: &Prompt) -> bool {
        let (text, capability) = match &prompt.about {
            TurnSubject::Task(task) => (task.description.as_str(), &task.capability),
            TurnSubject::Help(asked) => (asked.question.as_str(), &asked.capability),
            TurnSubject::Check(result) => (result.description.as_str(), &result.capability),
            TurnSubject::Signal(posted) => (posted.signal.kind.as_str(), &posted.signal.capability),
        };
        let message = prompt.messages.last().map(|message| message.message_id.as_str());
        self.turn.is_none_or(|turn| turn == prompt.turn)
            && self.checkpoints.is_none_or(|count| count == prompt.checkpoints.len())
            && self
                .message_id
                .as_ref()
                .is_none_or(|prefix| message.is_some_and(|id| id.starts_with(prefix.as_str())))
            && self.contains.as_ref().is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
            && self
                .capability
                .as_ref()
                .is_none_or(|name| capability.as_ref().is_some_and(|c| c.as_str() == name))
    }
}

impl ScriptedBrain {
    /// Parses a script in YAML or JSON. The error names the entry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! { with_snippet: false };
        let script: ScriptFile =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
        let entries = script.turns.into_iter().enumerate().map(|(index, entry)| {
            entry.validate().map_err(|problem| format!("entry {} of turns: {problem}", index + 1))
        });
        Ok(Self { turns: entries.collect::<Result<_, _>>()? })
    }

    fn entry(&self, prompt: &Prompt) -> Option<&ScriptEntry> {
        self.turns.iter().find(|entry| entry.when.holds(prompt))
    }

    /// Reads the script in the file `path`.
    pub fn read(path: &Path) -> Result<Self, BrainError> {
        let not_started = |what: String, source| BrainError::NotStarted { what, source };
        let text = crate::text_file::read(path)
            .map_err(|error| not_started(format!("{}: {error}", path.display()), Some(error)))?;
        Self::parse(&text).map_err(|problem| not_started(format!("{}: {problem}", path.display()), None))
    }
}

impl Brain for ScriptedBrain {
    fn think(&self, request: TurnRequest, turn: TurnHandle) -> TurnFuture {
        let brain = self.clone();
        Box::pin(async move {
            let Some(entry) = brain.entry(&request.prompt) else { return no_matching_entry() };
            for progress in &entry.say {
                pause(entry.delay).await;
                if let Progress::Checkpoint(checkpoint) = progress {
                    if turn.checkpoint(checkpoint.clone()).await.is_err() {
                        return std::future::pending().await;
                    }
                } else {
                    turn.send(progress.clone()).await;
                }
            }
            pause(entry.hold).await;
            match entry.end.result() {
                Some(end) => end,
                None => std::future::pending().await,
            }
        })
    }

    fn answer_at_once(&self, prompt: &Prompt) -> Option<CompletedTurn> {
        // Checkpoints are known only when the turn is run.
        if self.turns.iter().any(|entry| entry.when.checkpoints.is_some()) {
            return None;
        }
        let Some(entry) = self.entry(prompt) else { return Some((Vec::new(), no_matching_entry())) };
        let pauses = !entry.hold.is_zero() || !entry.say.is_empty() && !entry.delay.is_zero();
        let logs = entry.say.iter().any(|report| matches!(report, Progress::Log { .. }));
        let end = entry.end.result().filter(|_| !pauses && !logs)?;
        Some((entry.say.clone(), end))
    }

    fn name(&self) -> &'static str {
        "scripted"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::tests::{first_turn, turn};

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
    async fn the_first_entry_that_matches_runs() {
        let brain = ScriptedBrain::parse(SCRIPT).unwrap();
        let (reports, end) = turn(&brain, first_turn("a library, please")).await;
        assert_eq!((reports.len(), end.unwrap()), (2, TurnEnd::Waiting));

        let mut second = first_turn("a library, please");
        second.prompt.turn = 2;
        let (reports, end) = turn(&brain, second).await;
        assert_eq!((reports.len(), end.unwrap()), (1, TurnEnd::Done { message: Some("built".into()) }));

        let (_, end) = turn(&brain, first_turn("fail")).await;
        assert_eq!(end.unwrap(), TurnEnd::Failed { reason: "no time".into() });
        assert!(matches!(turn(&brain, first_turn("crash")).await.1, Err(BrainError::Died { .. })));
        assert!(matches!(turn(&brain, first_turn("else")).await.1.unwrap(), TurnEnd::Failed { .. }));
    }

    #[tokio::test]
    async fn a_turn_without_a_pause_is_answered_at_once_and_not_otherwise() {
        let brain = ScriptedBrain::parse(SCRIPT).unwrap();
        for description in ["a library, please", "fail", "crash", "else"] {
            let request = first_turn(description);
            let (updates, end) = brain.answer_at_once(&request.prompt).expect(description);
            let (later, later_end) = turn(&brain, request).await;
            assert_eq!(updates, later, "{description}");
            assert_eq!(end.map_err(|error| error.to_string()), later_end.map_err(|error| error.to_string()));
        }
        assert!(brain.answer_at_once(&first_turn("hang").prompt).is_none());
        for pause in ["delayMs: 1, say: [{ type: status, message: hm }]", "holdMs: 1", "delayMs: 1"] {
            let script = format!("turns: [{{ {pause}, end: {{ done: x }} }}]");
            assert!(ScriptedBrain::parse(&script).unwrap().answer_at_once(&first_turn("x").prompt).is_none());
        }
    }

    #[tokio::test]
    async fn a_hanging_entry_never_ends() {
        let brain = ScriptedBrain::parse(SCRIPT).unwrap();
        let hanging = turn(&brain, first_turn("hang"));
        assert!(tokio::time::timeout(Duration::from_millis(30), hanging).await.is_err());
    }

    #[test]
    fn an_invalid_script_is_refused_with_the_number_of_its_entry() {
        for (script, part) in [
            ("turns: [{ say: [{ type: status, message: hm }] }]", "entry 1 of turns: neither ends"),
            ("turns: [{ hang: true, crash: true }]", "more than one way"),
            ("turns: [{ hangs: true }]", "hangs"),
            ("turns: [{ say: [{ type: shout }] }]", "unknown type"),
        ] {
            let error = ScriptedBrain::parse(script).unwrap_err();
            assert!(error.contains(part), "{script}: {error}");
        }
        assert!(matches!(
            ScriptedBrain::read(Path::new("/nowhere/x.yaml")),
            Err(BrainError::NotStarted { .. })
        ));
    }
}
