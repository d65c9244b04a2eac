//! Brains: what decides for an agent. A brain runs one turn at a time and keeps no state between turns: the request of a turn
//! holds all that it needs.

pub mod agent_access;
pub mod bidding;
pub mod brain_tools;
mod excerpt;
pub mod json_lines;
pub mod matching;
mod schema_size;
pub mod server_log;
mod turn_handle;

pub mod a2a;
pub mod echo;
pub mod exec;
pub mod http;
pub mod llm;
pub mod peer;
pub mod result_checker;
pub mod scripted;
pub mod session_work;

use patterns::turn::{Progress, Prompt, TurnEnd};
use protocol::{
    ids::{AgentId, ConversationId},
    principal::TaskRoot,
    trace::TraceContext,
};
use serde::{Deserialize, Serialize};
use std::{future::Future, path::PathBuf, pin::Pin, time::Duration};

use bidding::{BidFuture, BidRequest};
use brain_tools::BrainTools;
use matching::{MatchFuture, MatchQuestion};
pub use turn_handle::{CallUnderWay, TurnHandle, TurnReport, TurnStopped};
pub use wire::prompt::PeerSummary;

/// A turn that has ended: its reports in order, and its end.
pub type CompletedTurn = (Vec<Progress>, Result<TurnEnd, BrainError>);

/// A turn in progress.
pub type TurnFuture = Pin<Box<dyn Future<Output = Result<TurnEnd, BrainError>> + Send>>;

/// Runs turns. A turn takes a request and returns a stream of reports and an end.
///
/// - A turn starts when its future is first polled, and stops when the future is dropped.
/// - All reports are sent, in order, before the future is ready. A full channel slows the brain down; a closed one does not
///   stop it.
/// - The caller enforces the bounds of time and budget.
/// - After a crash the same [`TurnRequest::key`] is sent again, with all checkpoints whose [`TurnHandle::checkpoint`] has
///   returned. A brain with effects outside the mesh detects a repeat by it.
pub trait Brain: Send + Sync {
    fn think(&self, request: TurnRequest, turn: TurnHandle) -> TurnFuture;

    /// The same turn, if its progress and end follow from the prompt alone: without I/O, without a pause, and the same
    /// whenever it is asked again. The agent records prompt and answer in one commit and does nothing else meanwhile. `None`
    /// for a turn that has to be run.
    fn answer_at_once(&self, _prompt: &Prompt) -> Option<CompletedTurn> {
        None
    }

    /// The longest that the turn of `request` may take, if this brain sets it; it may be silent as long. `None` means the agent's
    /// bounds. A task's earlier deadline takes precedence.
    fn turn_timeout(&self, _request: &TurnRequest) -> Option<Duration> {
        None
    }

    /// Answers a call for proposals. Its reports may be `usage` and `log`. The caller drops the future when the time is over.
    fn bid(&self, _request: BidRequest, _turn: TurnHandle) -> BidFuture {
        Box::pin(std::future::ready(Err(BrainError::WrongEnd(
            "no call for proposals; its kind makes no bids",
        ))))
    }

    /// Says who does which part of a request. Its reports may be `usage`. `None` if it can't: words decide then.
    fn match_parts(&self, _question: MatchQuestion, _turn: TurnHandle) -> Option<MatchFuture> {
        None
    }

    /// What it can call, as far as the node knows.
    fn tools(&self) -> BrainTools {
        BrainTools::default()
    }

    /// Whether it can't say what its models use: they are elsewhere.
    fn is_unmetered(&self) -> bool {
        false
    }

    /// Ends work elsewhere for a conversation that has ended. Called again after a crash.
    fn release(&self, _conversation: &ConversationId) {}

    /// The kind of brain: `exec`, `scripted`, …
    fn name(&self) -> &'static str;
}

/// The input of a turn. On the wire it is one JSON object with the members of the prompt at the top level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnRequest {
    pub agent: AgentId,
    /// The effect key of the turn; the same after a crash.
    pub key: String,
    /// The number of the turn, its subject, and the results of earlier turns.
    #[serde(flatten)]
    pub prompt: Prompt,
    /// The other agents in the directory, ordered by id.
    #[serde(default)]
    pub peers: Vec<PeerSummary>,
    /// The trace of the turn, for calls beyond the mesh.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
    /// Whether the turn works under an award that has a runner-up.
    #[serde(skip)]
    pub has_runner_up: bool,
    /// The root of the task, if the turn is about one.
    #[serde(skip)]
    pub root: Option<TaskRoot>,
    /// The clone of a repository that it works in.
    #[serde(skip)]
    pub workspace: Option<PathBuf>,
}

/// Why a turn failed without an end. A brain that reports failure returns [`TurnEnd::Failed`] instead.
#[derive(Debug, thiserror::Error)]
pub enum BrainError {
    /// The brain could not be started.
    #[error("the brain could not be started: {what}")]
    NotStarted {
        /// The command or file.
        what: String,
        /// The error of the system.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The process of the brain failed.
    #[error("the brain died: {how}{}", with_stderr(stderr))]
    Died {
        /// Exit code or signal.
        how: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// A line of its output is no valid report.
    #[error("line {line} of the brain's output: {problem}")]
    InvalidLine {
        line: u64,
        /// What is wrong with the line.
        problem: String,
    },
    /// It has ended something with what is for something else.
    #[error("the brain answered {0}")]
    WrongEnd(&'static str),
    /// No model made a bid.
    #[error("no model made a bid: {0}")]
    NoBid(String),
    /// The brain ended without an end of the turn and without a question.
    #[error("the brain ended without a result{}", with_stderr(stderr))]
    NoResult {
        /// The end of its standard error.
        stderr: String,
    },
}

async fn report_all(completed: CompletedTurn, turn: TurnHandle) -> Result<TurnEnd, BrainError> {
    let (updates, end) = completed;
    for update in updates {
        turn.send(update).await;
    }
    end
}

fn with_stderr(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its last words: {stderr}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use patterns::turn::{TurnSubject, TurnTask};
    use protocol::{ids::TaskId, task::TaskTerms};

    /// The first turn of a task.
    pub(crate) fn first_turn(description: &str) -> TurnRequest {
        TurnRequest {
            agent: AgentId::parse("agent-01").unwrap(),
            key: "agent-01:c:1:0".into(),
            prompt: Prompt::new(
                1,
                TurnSubject::Task(TurnTask {
                    task_id: TaskId::parse("t-1").unwrap(),
                    terms: TaskTerms::new(description),
                    artifacts: Vec::new(),
                }),
            ),
            peers: Vec::new(),
            trace: None,
            workspace: None,
            has_runner_up: false,
            root: None,
        }
    }

    /// Runs a turn to its end.
    pub(crate) async fn turn(brain: &dyn Brain, request: TurnRequest) -> CompletedTurn {
        let (handle, mut receiver) = TurnHandle::new(request.prompt.remaining, 1024);
        let mut reports = Vec::new();
        let collect = async {
            while let Some(TurnReport { progress, recorded, .. }) = receiver.recv().await {
                reports.push(progress);
                if let Some(recorded) = recorded {
                    let _ = recorded.send(());
                }
            }
        };
        let (end, ()) = tokio::join!(brain.think(request, handle), collect);
        (reports, end)
    }

    #[test]
    fn a_turn_request_is_one_flat_object_in_json() {
        let request = first_turn("do it");
        let json = serde_json::to_value(&request).unwrap();
        assert_eq!(json["turn"], 1);
        assert_eq!(json["task"]["description"], "do it");
        assert_eq!(serde_json::from_value::<TurnRequest>(json).unwrap(), request);
    }
}
