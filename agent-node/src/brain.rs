//! Who thinks. A brain is asked one turn at a time and keeps nothing in between: all it needs comes with the question.

pub mod lines;

pub mod coordinator;
pub mod echo;
pub mod exec;
pub mod foreign;
pub mod scripted;

use protocol::{
    card::Skill,
    ids::{AgentId, ConversationId},
    patterns::turn::{Progress, Prompt, TurnEnd},
    trace::TraceContext,
};
use serde::{Deserialize, Serialize};
use std::{future::Future, pin::Pin, time::Duration};
use tokio::sync::mpsc;

/// A turn as a whole: what was reported, in order, and how it ended.
pub type Said = (Vec<Progress>, Result<TurnEnd, BrainError>);

/// A turn in progress.
pub type Turn = Pin<Box<dyn Future<Output = Result<TurnEnd, BrainError>> + Send>>;

/// One turn in, a stream of reports and an end out.
///
/// - Nothing is done before the future is polled, nothing goes on after it has been dropped: dropping it stops the turn.
/// - Reports arrive in the order they were made, all of them before the future is ready. A full channel slows the brain
///   down; a closed one does not stop it.
/// - The caller keeps the deadline.
/// - The same [`Ask::key`] comes again after a crash: a brain with effects outside the mesh recognises a repeat by it.
pub trait Brain: Send + Sync {
    /// Runs one turn.
    fn think(&self, ask: Ask, report: mpsc::Sender<Progress>) -> Turn;

    /// How long the turn that `ask` begins may take, for a brain whose turns have a bound of their own; the node's
    /// `thinkMs` for all others. A task's deadline goes before either.
    fn patience(&self, _ask: &Ask) -> Option<Duration> {
        None
    }

    /// That conversation has ended, however: what still works for it elsewhere, or waits for its answer, is ended. Said
    /// again after a crash.
    fn over(&self, _conversation: &ConversationId) {}

    /// What kind of brain it is: `exec`, `scripted`, …
    fn name(&self) -> &'static str;
}

/// What a brain is asked; on the wire, one JSON object with the prompt's members at its top.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// Whose brain it is.
    pub agent: AgentId,
    /// Names this turn; the same after a crash.
    pub key: String,
    /// The turn, what it is about, and what has come of it so far.
    #[serde(flatten)]
    pub prompt: Prompt,
    /// Who else is there, by the directory, in the order of their ids.
    #[serde(default)]
    pub peers: Vec<PeerSkill>,
    /// The trace it belongs to, for calls beyond the mesh.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
    /// Whether it is done under an award that somebody else has bid for too.
    #[serde(skip)]
    pub has_runner_up: bool,
}

/// A peer and what it can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerSkill {
    /// Who.
    pub agent_id: AgentId,
    /// One sentence about it.
    #[serde(default)]
    pub description: String,
    /// What it can do.
    #[serde(default)]
    pub skills: Vec<Skill>,
}

/// Why a turn came to nothing, as opposed to a brain that says that the work can't be done.
#[derive(Debug, thiserror::Error)]
pub enum BrainError {
    /// There is nothing that could think.
    #[error("the brain could not be started: {what}")]
    NotStarted {
        /// Which command or file.
        what: String,
        /// What the system said.
        #[source]
        source: Option<std::io::Error>,
    },
    /// It ended badly.
    #[error("the brain died: {how}{}", with_stderr(stderr))]
    Died {
        /// Exit code or signal.
        how: String,
        /// The last of what it wrote to its standard error.
        stderr: String,
    },
    /// It said something that is no report.
    #[error("line {line} of the brain's output: {problem}")]
    Nonsense {
        /// From 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// It ended without a result: it neither finished nor asked anything.
    #[error("the brain ended without a result{}", with_stderr(stderr))]
    Silent {
        /// The last of what it wrote to its standard error.
        stderr: String,
    },
}

/// A turn that was over at once, for whoever runs it all the same.
async fn report_all((updates, end): Said, report: mpsc::Sender<Progress>) -> Result<TurnEnd, BrainError> {
    for update in updates {
        let _ = report.send(update).await;
    }
    end
}

fn with_stderr(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its last words: {stderr}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use protocol::{ids::TaskId, patterns::turn::TurnSubject};

    /// The first turn of a task.
    pub(crate) fn ask(description: &str) -> Ask {
        Ask {
            agent: AgentId::parse("agent-01").unwrap(),
            key: "agent-01:c:1:0".into(),
            prompt: Prompt {
                turn: 1,
                about: TurnSubject::Task {
                    task_id: TaskId::parse("t-1").unwrap(),
                    description: description.into(),
                    capability: None,
                    input: None,
                    artifacts: Vec::new(),
                    deadline: None,
                    accepted_modes: Vec::new(),
                },
                produced: Vec::new(),
                answers: Vec::new(),
                message: None,
            },
            peers: Vec::new(),
            trace: None,
            has_runner_up: false,
        }
    }

    /// Runs a turn to its end.
    pub(crate) async fn turn(brain: &dyn Brain, ask: Ask) -> (Vec<Progress>, Result<TurnEnd, BrainError>) {
        let (report, mut reports) = mpsc::channel(1024);
        let end = brain.think(ask, report).await;
        let mut heard = Vec::new();
        while let Some(progress) = reports.recv().await {
            heard.push(progress);
        }
        (heard, end)
    }

    #[test]
    fn an_ask_is_one_flat_object_and_survives_its_json() {
        let ask = ask("do it");
        let json = serde_json::to_value(&ask).unwrap();
        assert_eq!(json["turn"], 1);
        assert_eq!(json["task"]["description"], "do it");
        assert_eq!(serde_json::from_value::<Ask>(json).unwrap(), ask);
    }
}
