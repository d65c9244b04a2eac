//! The duties of every agent that is accountable for a task: show its progress, report to the requester, end it once.

use super::{Effect, Outcome, OutgoingMessage, OutgoingSignal, Update};
use crate::{
    artifact::{self, Artifact},
    ids::{Address, AgentId, ConversationId, Digest, MessageId},
    message::{Epoch, Payload, Seq, TaskResponse, TaskUpdate},
    problem::Reason,
    signal::{SHA256, SignalType},
    task::{Status, TaskSpec, TaskState},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// The agent that requested the task, and where reports go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requester {
    /// Its id.
    pub agent: AgentId,
    /// Its conversation, if it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// Its request.
    pub message: MessageId,
    /// The epoch of the award, if the task was awarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
}

/// The labels of a task's reports to its requester. A pattern that owns a task has a label for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportLabel {
    /// A `task-update`.
    Update,
    /// The `task-response`.
    Response,
}

/// Converts a [`ReportLabel`] into a pattern's label type, which has variants of the same names.
macro_rules! from_report_label {
    ($label:ty) => {
        impl From<ReportLabel> for $label {
            fn from(report: ReportLabel) -> Self {
                match report {
                    ReportLabel::Update => Self::Update,
                    ReportLabel::Response => Self::Response,
                }
            }
        }
    };
}
pub(super) use from_report_label;

/// The most characters of a name or media type in a signal.
const MAX_NAMED: usize = 200;

/// One agent's accountability for one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskOwnership {
    /// The specification of the task.
    pub spec: TaskSpec,
    /// The requesting agent; `None` for a user, who polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Requester>,
    /// Whether its end is published on the board: false under an award, because the manager publishes it.
    pub announces: bool,
    /// The epoch of its claim on the board, if it is an open task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Epoch>,
    /// Whether no other bidder is left: if it is handed back, a new round follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
    seq: Seq,
    ended: Option<TaskState>,
    artifacts: Vec<Artifact>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_excused_itself: bool,
}

impl TaskOwnership {
    /// The ownership of `spec`, requested by `asker`.
    pub fn new(spec: TaskSpec, requester: Option<Requester>) -> Self {
        let announces = requester.as_ref().is_none_or(|requester| requester.epoch.is_none());
        Self {
            spec,
            requester,
            announces,
            claim: None,
            is_last: false,
            seq: 0,
            ended: None,
            artifacts: Vec::new(),
            has_excused_itself: false,
        }
    }

    /// Whether `agent` is the requester, and `epoch`, if given, is its award.
    pub fn is_requested_by(&self, agent: &AgentId, epoch: Option<Epoch>) -> bool {
        let is_this_award = |requester: &Requester| epoch.is_none() || epoch == requester.epoch;
        self.requester.as_ref().is_some_and(|requester| requester.agent == *agent && is_this_award(requester))
    }

    /// Whether it has ended; everything after is late.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it is done under an award.
    pub fn is_awarded(&self) -> bool {
        self.requester.as_ref().is_some_and(|requester| requester.epoch.is_some())
    }

    /// The epoch of the award or claim that it is done under.
    pub fn epoch(&self) -> Option<Epoch> {
        self.claim.or_else(|| self.requester.as_ref()?.epoch)
    }

    /// What has been produced.
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// Drops what a doer produced that did not finish.
    pub fn discard_artifacts(&mut self) {
        self.artifacts.clear();
    }

    /// Shows `update` and reports it to the requester.
    pub fn update<L: From<ReportLabel>, T>(&mut self, update: Update) -> Vec<Effect<L, T>> {
        if self.has_ended() {
            return Vec::new();
        }
        if let Update::Artifact { artifact, append, .. } = &update {
            artifact::merge(&mut self.artifacts, artifact.clone(), *append);
        }
        let report_to_requester = self.requester.clone().map(|requester| {
            self.seq += 1;
            let (status, artifact, append, last_chunk) = match update.clone() {
                Update::Status(status) => (Some(status), None, false, false),
                Update::Artifact { artifact, append, last_chunk } => {
                    (None, Some(artifact), append, last_chunk)
                }
            };
            let task_id = self.spec.task_id.clone();
            let payload = TaskUpdate {
                task_id,
                seq: self.seq,
                epoch: requester.epoch,
                status,
                artifact,
                append,
                last_chunk,
                extra: Map::new(),
            };
            report(&requester, ReportLabel::Update, Payload::TaskUpdate(payload))
        });
        std::iter::once(Effect::Update(update)).chain(report_to_requester).collect()
    }

    /// Reports to the requester that the work continues, without progress.
    pub fn sign_of_life<L: From<ReportLabel>, T>(&mut self) -> Vec<Effect<L, T>> {
        let Some(requester) = self.requester.clone().filter(|_| !self.has_ended()) else { return Vec::new() };
        self.seq += 1;
        let task_id = self.spec.task_id.clone();
        let payload = TaskUpdate {
            task_id,
            seq: self.seq,
            epoch: requester.epoch,
            status: None,
            artifact: None,
            append: false,
            last_chunk: false,
            extra: Map::new(),
        };
        vec![report(&requester, ReportLabel::Update, Payload::TaskUpdate(payload))]
    }

    /// A change of state with a sentence about it.
    pub fn status<L: From<ReportLabel>, T>(
        &mut self,
        state: TaskState,
        message: impl Into<String>,
    ) -> Vec<Effect<L, T>> {
        self.update(Update::Status(Status::new(state, message)))
    }

    /// Ends the task: once.
    pub fn finish<L: From<ReportLabel>, T>(
        &mut self,
        state: TaskState,
        message: Option<String>,
        fulfilments: BTreeMap<AgentId, Vec<bool>>,
    ) -> Vec<Effect<L, T>> {
        if self.has_ended() {
            return Vec::new();
        }
        self.ended = Some(state);
        let artifacts = std::mem::take(&mut self.artifacts);
        let mut effects = Vec::new();
        if let Some(requester) = self.requester.clone() {
            self.seq += 1;
            let task_id = self.spec.task_id.clone();
            let response = TaskResponse {
                task_id,
                seq: self.seq,
                state,
                epoch: requester.epoch,
                artifacts: artifacts.clone(),
                message: message.clone(),
                extra: Map::new(),
            };
            effects.push(report(&requester, ReportLabel::Response, Payload::TaskResponse(response)));
        }
        if self.announces {
            effects.extend(self.announcements(state, &artifacts));
        }
        effects.push(Effect::Finish(Outcome {
            status: Status { state, message },
            artifacts,
            fulfilments,
            is_message: false,
        }));
        effects
    }

    /// The response could not be delivered, for `reason`. If the requester is there but refused it, it is sent a failure
    /// instead, once.
    pub fn response_undelivered<L: From<ReportLabel>, T>(
        &mut self,
        reason: &str,
        message: &str,
    ) -> Vec<Effect<L, T>> {
        let requester = self.requester.clone().filter(|_| is_recipient_there(reason) && self.has_ended());
        let Some(requester) = requester else { return Vec::new() };
        if std::mem::replace(&mut self.has_excused_itself, true) {
            return Vec::new();
        }
        self.seq += 1;
        let response = TaskResponse {
            task_id: self.spec.task_id.clone(),
            seq: self.seq,
            state: TaskState::Failed,
            epoch: requester.epoch,
            artifacts: Vec::new(),
            message: Some(format!("the result could not be handed over: {message}")),
            extra: Map::new(),
        };
        vec![report(&requester, ReportLabel::Response, Payload::TaskResponse(response))]
    }

    fn announcements<L, T>(&self, state: TaskState, artifacts: &[Artifact]) -> Vec<Effect<L, T>> {
        let kind = if state == TaskState::Completed {
            SignalType::task_complete()
        } else {
            SignalType::task_failed()
        };
        let mut ended = OutgoingSignal {
            capability: self.spec.capability.clone(),
            ..OutgoingSignal::about(kind, &self.spec.task_id)
        };
        ended.refs.insert("state".into(), json!(state));
        let is_done = state == TaskState::Completed;
        let produced = if is_done { produced(&self.spec, artifacts) } else { Vec::new() };
        produced.into_iter().chain([Effect::Publish { signal: ended }]).collect()
    }
}

impl Requester {
    /// A message that answers its request.
    pub(super) fn reply<L>(&self, label: L, payload: Payload) -> OutgoingMessage<L> {
        OutgoingMessage {
            conversation: self.conversation.clone(),
            in_reply_to: Some(self.message.clone()),
            ..OutgoingMessage::new(label, Address::Agent(self.agent.clone()), payload)
        }
    }
}

fn report<L: From<ReportLabel>, T>(
    requester: &Requester,
    label: ReportLabel,
    payload: Payload,
) -> Effect<L, T> {
    Effect::Send(requester.reply(label.into(), payload))
}

/// Whether a message given up for this reason had a recipient that can be notified, and that still waits for it.
pub(super) fn is_recipient_there(reason: &str) -> bool {
    let absent = [
        Reason::Fenced,
        Reason::Expired,
        Reason::AgentNotFound,
        Reason::AgentDeparted,
        Reason::RegisteredElsewhere,
        Reason::Overloaded,
        Reason::RecipientUnreachable,
        Reason::TaskNotFound,
        Reason::MessageNotFound,
    ];
    !absent.iter().any(|absent| absent.code() == reason)
}

/// The signals about a finished task's results. Each names an artifact by its id and by the digest of its content.
pub(super) fn produced<L, T>(spec: &TaskSpec, artifacts: &[Artifact]) -> Vec<Effect<L, T>> {
    let produced = artifacts.iter().take(16).map(|artifact| {
        let (content, media_type) = artifact.content();
        let id: String = artifact.artifact_id.chars().take(MAX_NAMED).collect();
        let media_type: String = media_type.chars().take(MAX_NAMED).collect();
        let mut produced = OutgoingSignal::about(SignalType::artifact_produced(), &spec.task_id);
        produced.capability.clone_from(&spec.capability);
        produced.refs = Map::from_iter([
            ("artifactId".to_owned(), json!(id)),
            (SHA256.to_owned(), json!(Digest::of(&content))),
            ("mediaType".to_owned(), json!(media_type)),
            ("bytes".to_owned(), json!(content.len())),
        ]);
        produced.subject = Some(id);
        Effect::Publish { signal: produced }
    });
    produced.collect()
}
