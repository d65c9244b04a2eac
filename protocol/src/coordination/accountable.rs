//! What everyone who is accountable for a task does alike: show its progress, report to whoever asked, end it once.

use super::{Announcement, Effect, Outcome, Tell, Update};
use crate::{
    a2a::message::Message,
    artifact::{self, Artifact},
    ids::{Address, AgentId, ConversationId, MessageId},
    message::{Epoch, Payload, Seq, TaskResponse, TaskUpdate},
    problem::Reason,
    signal::SignalType,
    task::{Status, TaskSpec, TaskState},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The agent that asked, and how it wants to hear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asker {
    /// Who.
    pub agent: AgentId,
    /// Its conversation, if it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The message it asked with.
    pub message: MessageId,
    /// The award this is done under, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
}

/// One agent's accountability for one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accountable {
    /// What is asked.
    pub spec: TaskSpec,
    /// The agent that asked; `None` when a user did, who looks for himself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker: Option<Asker>,
    /// Whether the board hears how it ends: true for whoever has the last word, false under somebody's award.
    pub announces: bool,
    /// The claim on the board this is done under, if it was open to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Epoch>,
    /// Whether nobody else has bid for it: handed back, it would have to be called for anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
    seq: Seq,
    ended: Option<TaskState>,
    artifacts: Vec<Artifact>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_excused_itself: bool,
}

impl Accountable {
    /// Takes `spec` on for `asker`.
    pub fn new(spec: TaskSpec, asker: Option<Asker>) -> Self {
        let announces = asker.as_ref().is_none_or(|asker| asker.epoch.is_none());
        Self {
            spec,
            asker,
            announces,
            claim: None,
            is_last: false,
            seq: 0,
            ended: None,
            artifacts: Vec::new(),
            has_excused_itself: false,
        }
    }

    /// Whether it has ended; everything after is late.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it is done under somebody's award.
    pub fn is_awarded(&self) -> bool {
        self.asker.as_ref().is_some_and(|asker| asker.epoch.is_some())
    }

    /// What has been produced.
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// Drops what a doer produced that did not finish.
    pub fn discard_artifacts(&mut self) {
        self.artifacts.clear();
    }

    /// Shows `update` and reports it to the asker.
    pub fn update(&mut self, update: Update) -> Vec<Effect> {
        if self.has_ended() {
            return Vec::new();
        }
        if let Update::Artifact { artifact, append, .. } = &update {
            artifact::merge(&mut self.artifacts, artifact.clone(), *append);
        }
        let told = self.asker.clone().map(|asker| {
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
                epoch: asker.epoch,
                status,
                artifact,
                append,
                last_chunk,
                extra: Map::new(),
            };
            self.tell(&asker, "update", Payload::TaskUpdate(payload))
        });
        std::iter::once(Effect::Update(update)).chain(told).collect()
    }

    /// Tells the asker that the work goes on, though there is nothing to show.
    pub fn sign_of_life(&mut self) -> Vec<Effect> {
        let Some(asker) = self.asker.clone().filter(|_| !self.has_ended()) else { return Vec::new() };
        self.seq += 1;
        let task_id = self.spec.task_id.clone();
        let payload = TaskUpdate {
            task_id,
            seq: self.seq,
            epoch: asker.epoch,
            status: None,
            artifact: None,
            append: false,
            last_chunk: false,
            extra: Map::new(),
        };
        vec![self.tell(&asker, "update", Payload::TaskUpdate(payload))]
    }

    /// A change of state with a sentence about it.
    pub fn status(&mut self, state: TaskState, message: impl Into<String>) -> Vec<Effect> {
        self.update(Update::Status(Status::new(state, message)))
    }

    /// Ends the task: once.
    pub fn finish(
        &mut self,
        state: TaskState,
        message: Option<String>,
        kept_word: BTreeMap<AgentId, Vec<bool>>,
    ) -> Vec<Effect> {
        if self.has_ended() {
            return Vec::new();
        }
        self.ended = Some(state);
        let artifacts = std::mem::take(&mut self.artifacts);
        let mut effects = Vec::new();
        if let Some(asker) = self.asker.clone() {
            self.seq += 1;
            let task_id = self.spec.task_id.clone();
            let response = TaskResponse {
                task_id,
                seq: self.seq,
                state,
                epoch: asker.epoch,
                artifacts: artifacts.clone(),
                message: message.clone(),
                extra: Map::new(),
            };
            effects.push(self.tell(&asker, "response", Payload::TaskResponse(response)));
        }
        if self.announces {
            effects.extend(self.announcements(state, &artifacts));
        }
        effects.push(Effect::Finish(Outcome {
            status: Status { state, message },
            artifacts,
            kept_word,
            is_message: false,
        }));
        effects
    }

    /// A result that was refused for good is a failure towards the asker: told once, instead of silence.
    pub fn undelivered(&mut self, label: &str, reason: &str, why: &str) -> Vec<Effect> {
        let is_refused = label == "response" && is_somebody_there(reason);
        let asker = self.asker.clone().filter(|_| is_refused && self.has_ended());
        let Some(asker) = asker else { return Vec::new() };
        if std::mem::replace(&mut self.has_excused_itself, true) {
            return Vec::new();
        }
        self.seq += 1;
        let response = TaskResponse {
            task_id: self.spec.task_id.clone(),
            seq: self.seq,
            state: TaskState::Failed,
            epoch: asker.epoch,
            artifacts: Vec::new(),
            message: Some(format!("the result could not be handed over: {why}")),
            extra: Map::new(),
        };
        vec![self.tell(&asker, "response", Payload::TaskResponse(response))]
    }

    fn announcements(&self, state: TaskState, artifacts: &[Artifact]) -> Vec<Effect> {
        let kind = if state == TaskState::Completed {
            SignalType::task_complete()
        } else {
            SignalType::task_failed()
        };
        let mut ended = Announcement {
            capability: self.spec.capability.clone(),
            ..Announcement::about(kind, &self.spec.task_id)
        };
        ended.refs.insert("state".into(), json!(state));
        let is_done = state == TaskState::Completed;
        let produced = if is_done { produced(&self.spec, artifacts) } else { Vec::new() };
        produced.into_iter().chain([Effect::Publish { signal: ended }]).collect()
    }

    fn tell(&self, asker: &Asker, label: &str, payload: Payload) -> Effect {
        Effect::Tell(Tell {
            label: label.to_owned(),
            to: Address::Agent(asker.agent.clone()),
            conversation: asker.conversation.clone(),
            in_reply_to: Some(asker.message.clone()),
            path: Vec::new(),
            expires: None,
            payload,
        })
    }
}

/// Whether a message that was given up for this reason met somebody who may be told so.
pub(super) fn is_somebody_there(reason: &str) -> bool {
    let nobody = [
        Reason::Expired,
        Reason::AgentNotFound,
        Reason::AgentDeparted,
        Reason::RegisteredElsewhere,
        Reason::Overloaded,
        Reason::TaskNotFound,
        Reason::MessageNotFound,
    ];
    !nobody.iter().any(|nobody| nobody.code() == reason)
}

/// The members of a `task-update` that passes the owner's answer on to a doer.
pub(super) fn answer(text: &str, message: Option<&Message>) -> Map<String, Value> {
    let said = message.and_then(|message| serde_json::to_value(message).ok());
    let members = [("answer", Some(text.into())), ("message", said)];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Tells the board of a finished task's results.
pub(super) fn produced(spec: &TaskSpec, artifacts: &[Artifact]) -> Vec<Effect> {
    let produced = artifacts.iter().take(16).map(|artifact| {
        let mut produced = Announcement::about(SignalType::artifact_produced(), &spec.task_id);
        produced.subject = Some(artifact.artifact_id.chars().take(200).collect());
        produced.capability.clone_from(&spec.capability);
        Effect::Publish { signal: produced }
    });
    produced.collect()
}
