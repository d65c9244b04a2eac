//! The way of a running turn to its agent: reports, and checkpoints that are acknowledged.

use super::{agent_access::AgentAccess, json_lines::prompt_line::restore};
use patterns::turn::{Checkpoint, Progress, Prompt};
use protocol::{
    artifact::BlobRef,
    ids::Digest,
    usage::{ModelUsage, RemainingBudget, Usage},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::sync::{mpsc, oneshot};

/// A report of a turn.
#[derive(Debug)]
pub struct TurnReport {
    pub progress: Progress,
    /// Told when the report is durable, if the brain waits for that.
    pub recorded: Option<oneshot::Sender<()>>,
    /// Whether it is no report of the brain, but a line that its process wrote to standard error.
    pub is_stderr: bool,
}

/// The turn was stopped before its checkpoint was durable: its task has ended, or the agent has restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the turn was stopped before the checkpoint was recorded")]
pub struct TurnStopped;

/// The call of a model that a turn waits for, with what it has used so far. If the turn is cut, that is charged.
#[derive(Debug, Clone, Default)]
pub struct CallUnderWay(Arc<Mutex<Option<(ModelUsage, Instant)>>>);

impl CallUnderWay {
    fn set(&self, call: Option<(ModelUsage, Instant)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    /// The call, as it would be charged if the turn was cut at this time.
    pub fn get(&self) -> Option<ModelUsage> {
        let call = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        call.as_ref().map(|(call, begun)| ModelUsage {
            duration_ms: u64::try_from(begun.elapsed().as_millis()).ok(),
            ..call.clone()
        })
    }

    /// The same; it can't be taken again.
    pub fn take(&self) -> Option<ModelUsage> {
        let call = self.get();
        self.set(None);
        call
    }
}

/// Sends the reports of one turn, in order. A full channel slows the brain down; a closed one does not stop it.
#[derive(Debug, Clone)]
pub struct TurnHandle {
    reports: mpsc::Sender<TurnReport>,
    remaining: Arc<Mutex<RemainingBudget>>,
    call: CallUnderWay,
    access: Option<AgentAccess>,
    /// The content to which the prompt of another process refers; `None` for a brain of this one.
    references: Option<Arc<BTreeSet<Digest>>>,
    /// The files that the turn was given, and may hand on.
    files: Arc<BTreeSet<Digest>>,
}

impl TurnHandle {
    /// A handle for a turn with this budget, and the receiver of its reports, at most `capacity` at a time.
    pub fn new(remaining: RemainingBudget, capacity: usize) -> (Self, mpsc::Receiver<TurnReport>) {
        let (reports, receiver) = mpsc::channel(capacity);
        (
            Self {
                reports,
                remaining: Arc::new(Mutex::new(remaining)),
                call: CallUnderWay::default(),
                access: None,
                references: None,
                files: Arc::default(),
            },
            receiver,
        )
    }

    /// The same handle, with the mesh as the turn reaches it.
    pub fn with_access(self, access: AgentAccess) -> Self {
        Self { access: Some(access), ..self }
    }

    /// The same handle for a brain whose prompt refers to `references`.
    pub(super) fn with_references(self, references: BTreeSet<Digest>) -> Self {
        Self { references: Some(Arc::new(references)), ..self }
    }

    /// The same handle for a turn with this prompt, whose files it may hand on.
    pub fn for_prompt(self, prompt: &Prompt) -> Self {
        let files = prompt.parts().filter_map(BlobRef::of).map(|blob| blob.digest);
        Self { files: Arc::new(files.collect()), ..self }
    }

    /// The mesh as the turn reaches it, if it does.
    pub fn access(&self) -> Option<&AgentAccess> {
        self.access.as_ref()
    }

    /// Reports something. It is recorded later; nothing is awaited but room in the channel.
    pub async fn send(&self, mut progress: Progress) {
        if let (Progress::Artifact { artifact, .. }, Some(access)) = (&mut progress, &self.access) {
            if let Some(references) = &self.references {
                restore(artifact, references, access);
            }
            for part in &mut artifact.parts {
                let kept = access.keep_file(part, &self.files, self.references.is_some()).await;
                if let Err(problem) = kept {
                    let id = &artifact.artifact_id;
                    tracing::warn!(agent = %access.agent, artifact = id, %problem, "a file can't be kept apart");
                }
            }
        }
        let is_call_over = matches!(progress, Progress::Usage(_));
        if let Progress::Usage(call) = &progress {
            self.charge(call);
        }
        let _ = self.reports.send(TurnReport { progress, recorded: None, is_stderr: false }).await;
        if is_call_over {
            self.call.set(None);
        }
    }

    /// The call of a model that the turn waits for.
    pub fn call_under_way(&self) -> CallUnderWay {
        self.call.clone()
    }

    /// Says that the turn waits for a call of a model since `begun`, and what the call has used so far. The next report of usage
    /// is that of this call.
    pub(super) fn set_call_under_way(&self, call: ModelUsage, begun: Instant) {
        self.call.set(Some((call, begun)));
    }

    /// Returns when the next report need not wait, if no one else sends one.
    pub(super) async fn has_room(&self) {
        drop(self.reports.reserve().await);
    }

    /// Records a checkpoint. Returns when it is durable: after a crash the turn is given it.
    pub async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), TurnStopped> {
        self.begin_checkpoint(checkpoint).await.await.map_err(|_| TurnStopped)
    }

    /// Reports a checkpoint. The receiver is told when it is durable, and fails if the turn is stopped before.
    pub(super) async fn begin_checkpoint(&self, checkpoint: Checkpoint) -> oneshot::Receiver<()> {
        let (recorded, is_recorded) = oneshot::channel();
        let (progress, recorded) = (Progress::Checkpoint(checkpoint), Some(recorded));
        let _ = self.reports.send(TurnReport { progress, recorded, is_stderr: false }).await;
        is_recorded
    }

    /// Reports what a call of a model has used, and returns what is left of the task's budget. The agent fails the task when
    /// nothing is left.
    pub async fn usage(&self, call: ModelUsage) -> RemainingBudget {
        self.send(Progress::Usage(call)).await;
        self.remaining()
    }

    /// What is left of the task's budget after all calls that this turn has reported.
    pub fn remaining(&self) -> RemainingBudget {
        *self.remaining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line to the node's log, with the agent and its task.
    pub async fn log(&self, message: impl Into<String>) {
        self.send(Progress::Log { message: message.into() }).await;
    }

    /// Writes a line of standard error to the node's log. It does not count as a report.
    pub(super) async fn log_stderr(&self, message: String) {
        let report = TurnReport { progress: Progress::Log { message }, recorded: None, is_stderr: true };
        let _ = self.reports.send(report).await;
    }

    fn charge(&self, call: &ModelUsage) {
        let used = Usage::from(call);
        let mut left = self.remaining.lock().unwrap_or_else(PoisonError::into_inner);
        left.tokens = left.tokens.map(|tokens| tokens.saturating_sub(used.tokens()));
        left.cost = left.cost.map(|cost| cost.saturating_sub(used.cost));
    }
}
