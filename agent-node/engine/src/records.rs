//! The records a conversation leaves: what its journal holds, what a restart begins with, and where they lie.

pub mod keys;
pub(crate) mod scan;

use crate::origin::Origin;
use bytes::Bytes;
use protocol::{
    ids::{AgentId, ConversationId, Digest, MessageId, TaskId, ThreadId},
    patterns::{AnyPattern, Effect, Event},
    principal::Principal,
    task::{Status, Task, TaskSpec, TaskState},
    time::{NodeTime, WallTime},
    trace::TraceContext,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, str::FromStr};
use store_types::Key;

/// One step, as the journal keeps it: what happened, and what was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// From 1, without gaps.
    pub step: u64,
    /// How the conversation came to be; in its first step only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
    /// Events that shared the step, in order.
    pub events: Vec<Event>,
    /// Which of them brought the result of an effect, by their index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closes: Vec<(usize, EffectKey)>,
    /// Effects, in order; an effect's place is its index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
}

/// Everything a restart needs of an open conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationState {
    /// The version of the rules that computed it.
    pub rules: u32,
    /// The pattern's own state.
    pub pattern: AnyPattern,
    /// Effects that have not brought their result.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open: BTreeMap<EffectKey, OpenEffect>,
    /// Messages that may be answered, and the labels their pattern knows them by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<EffectKey, protocol::patterns::AnyLabel>,
    /// The task it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<(TaskId, Principal)>,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The collaboration it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// Whether its pattern has come to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_ended: bool,
}

/// An effect that waits for its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenEffect {
    /// What is to be done.
    pub effect: Effect,
    /// How often it was begun; counted for thoughts only, and before they begin.
    pub attempts: u32,
    /// When it was decided.
    pub at: WallTime,
}

/// An effect's place within its conversation: the step that decided it and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct EffectKey(pub u64, pub u32);

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

impl FromStr for EffectKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once(':')
            .and_then(|(step, index)| Some(Self(step.parse().ok()?, index.parse().ok()?)));
        parsed.ok_or_else(|| format!("{text:?} is no effect's place"))
    }
}

impl TryFrom<String> for EffectKey {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Serialize for EffectKey {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// That a message was taken: answers its repeats and questions about it. Which message it was, and who sent it under what
/// name, is in its key ([`keys::receipt`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The digest of its body.
    pub digest: Digest,
    /// What kind it was.
    pub kind: protocol::message::MessageKind,
    /// The task it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The conversation it went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// When.
    pub at: WallTime,
    /// Members nobody here knows, kept as they came; those of the payload under `payload`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// A receipt ready to be written.
#[derive(Debug, Clone)]
pub struct SealedReceipt {
    /// Where it goes.
    pub key: Key,
    /// The task it is about.
    pub task_id: Option<TaskId>,
    /// What is written.
    pub bytes: Bytes,
}

/// That a signal was reacted to: who published it asks by it what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReactionReceipt {
    /// Who published it first.
    pub from: AgentId,
    /// The conversation that it opened.
    pub conversation_id: ConversationId,
    /// When.
    pub at: WallTime,
}

impl ReactionReceipt {
    /// Ready to be written, where whoever knows the span that `origin` hangs under finds it.
    pub fn sealed(&self, me: &AgentId, origin: &Origin) -> serde_json::Result<SealedReceipt> {
        let under = origin.parent(me, &self.conversation_id);
        let key = keys::reaction(me, origin.trace.trace_id, under, &self.conversation_id);
        Ok(SealedReceipt { key, task_id: None, bytes: serde_json::to_vec(self)?.into() })
    }
}

impl Receipt {
    /// What is written.
    pub fn to_bytes(&self) -> serde_json::Result<Bytes> {
        serde_json::to_vec(self).map(Bytes::from)
    }

    /// Ready to be written at `key`. This is done when the message comes, while the step before is still being committed.
    pub fn sealed(&self, key: Key) -> serde_json::Result<SealedReceipt> {
        Ok(SealedReceipt { key, task_id: self.task_id.clone(), bytes: self.to_bytes()? })
    }
}

/// A message that was given up.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The message.
    pub message_id: MessageId,
    /// Why, as a `reasonCode`.
    pub reason: String,
    /// In words.
    pub message: String,
    /// The message itself.
    pub letter: protocol::envelope::Envelope,
    /// When it was given up.
    pub at: WallTime,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

/// That a task was cancelled here before its award came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    /// The newest award that it refuses.
    pub epoch: u64,
    /// When it was cancelled.
    pub at: WallTime,
}

/// A claim in its owner's store.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRow {
    /// Whose work it is.
    pub holder: AgentId,
    /// For how long, without a sign of life.
    pub lease_ms: u64,
    /// The conversation that gave it.
    pub conversation: ConversationId,
}

/// A task as its row holds it, with what recognises a repeat of its request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// Digest of what was asked.
    pub asked: Digest,
    /// The award it was done under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Artifacts it began with that lie here: whoever may see the task may read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Digest>,
    /// When it ended, on the node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<NodeTime>,
}

impl TaskRow {
    /// A task that has been taken and not begun.
    pub fn new(spec: TaskSpec, owner: Principal, conversation: ConversationId, at: WallTime) -> Self {
        let asked = Digest::of(spec.description.as_bytes());
        let task = Task {
            conversation,
            owner,
            participants: Vec::new(),
            doer: None,
            status: Status { state: TaskState::Submitted, message: None },
            changed_at: at,
            created_at: at,
            artifacts: Vec::new(),
            history: Vec::new(),
            is_message: false,
            spec,
        };
        Self { task, asked, epoch: None, references: Vec::new(), ended_at: None }
    }
}
