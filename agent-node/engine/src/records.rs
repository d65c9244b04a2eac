//! The records of an agent in its store: journals, states, receipts, tasks.

pub mod expense;
pub mod keys;
pub mod lists;
pub(crate) mod scan;

use crate::{
    object_change::ObjectChange,
    origin::Origin,
    replay_start::{ReplayStart, of_these_rules},
};
use patterns::{AnyPattern, ChunkRange, Effect, Event, WorkSoFar};
use protocol::{
    artifact::{BlobRef, Part},
    budget::Budget,
    ids::{AgentId, ConversationId, Digest, MessageId, QuestionId, TaskId, ThreadId},
    limits::INLINE_CONTENT_BYTES,
    principal::Principal,
    question::Decision,
    task::{Status, Task, TaskSpec, TaskState},
    time::{NodeTime, WallTime},
    trace::TraceContext,
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, str::FromStr};
use store_types::{Key, Write};

/// One step in the journal: its events and effects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// From 1, without gaps.
    pub step: u64,
    /// The origin of the conversation; in the first step only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
    /// Events that shared the step, in order.
    pub events: Vec<Event>,
    /// The events, by index, that are the result of an effect, with that effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closes: Vec<(usize, EffectKey)>,
    /// The effects, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// What the state differs in from its row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ObjectChange>,
    /// When it was decided, if it has no event that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<NodeTime>,
    /// The state before it, if other rules have decided the step before.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "of_these_rules")]
    pub upgraded: Option<Box<ReplayStart>>,
}

impl Step {
    /// The state from which a replay may start at this step.
    pub fn replay_start(&self) -> Option<&AnyPattern> {
        let initial = self.origin.as_ref().and_then(|origin| origin.initial.as_deref());
        initial.or(self.upgraded.as_deref()).map(|start| &start.pattern)
    }
}

/// The times of a step.
#[derive(Deserialize)]
pub(crate) struct StepTimes {
    pub(crate) events: Vec<EventTime>,
    #[serde(default)]
    at: Option<NodeTime>,
}

impl StepTimes {
    /// When it was decided.
    pub(crate) fn at(&self) -> Option<NodeTime> {
        self.at.or_else(|| self.events.iter().map(|event| event.at).max())
    }
}

/// The time of an event.
#[derive(Deserialize)]
pub(crate) struct EventTime {
    pub(crate) at: NodeTime,
    pub(crate) wall: WallTime,
}

/// The members of a state that every rules version has.
#[derive(Deserialize)]
pub(crate) struct StateOutline {
    pub(crate) rules: u32,
    #[serde(default)]
    pub(crate) task: Option<(TaskId, Principal)>,
}

/// An open conversation, as a restart loads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationState<P = AnyPattern> {
    /// The version of the rules that computed the state.
    pub rules: u32,
    /// The pattern's own state.
    pub pattern: P,
    /// Effects without a result.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open: BTreeMap<EffectKey, OpenEffect>,
    /// The labels of messages that may be answered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<EffectKey, patterns::Label>,
    /// The task it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<(TaskId, Principal)>,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The thread it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The principal that it works for; `None` if a signal opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// Whether its pattern has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_ended: bool,
}

impl ConversationState<Value> {
    /// The state under these rules. Fails if it is of rules that they don't read.
    pub(crate) fn upgraded(self) -> Result<ConversationState, String> {
        let Self { rules, pattern, open, labels, task, trace, thread, principal, has_ended } = self;
        let pattern = AnyPattern::read(rules, pattern)?;
        let rules = AnyPattern::RULES;
        Ok(ConversationState { rules, pattern, open, labels, task, trace, thread, principal, has_ended })
    }
}

/// An effect without a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenEffect {
    pub effect: Effect,
    /// The number of attempts. Only turns are counted, before they start.
    pub attempts: u32,
    /// When it was decided.
    pub at: WallTime,
}

/// An effect within its conversation: the step that decided it and the index there.
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

/// The receipt of an admitted message, for duplicates and queries. The message id, the sender and the name it sent under
/// are in the key ([`keys::receipt`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The digest of its body.
    pub digest: Digest,
    pub kind: protocol::message::MessageKind,
    /// The task it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The conversation it went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// When it was written.
    pub at: WallTime,
    /// Unknown members of the envelope; those of the payload under `payload`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// An encoded receipt.
#[derive(Debug, Clone)]
pub struct SealedReceipt {
    pub write: Write,
    /// The task it is about.
    pub task_id: Option<TaskId>,
}

/// The receipt of a reaction to a signal, for queries of the publisher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReactionReceipt {
    /// The first publisher, who may see the reaction. A receipt of an earlier version has none: only this agent sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// The conversation that it opened.
    pub conversation_id: ConversationId,
    /// When it was written.
    pub at: WallTime,
}

impl ReactionReceipt {
    /// The encoded receipt, with a key that is found by the parent span of `origin`.
    pub fn sealed(&self, me: &AgentId, origin: &Origin) -> serde_json::Result<SealedReceipt> {
        let under = origin.parent(me, &self.conversation_id);
        let key = keys::reaction(me, origin.trace.trace_id, under, &self.conversation_id);
        let entry = lists::aged(&key, self.at);
        let write = Write::PutListed(key, serde_json::to_vec(self)?.into(), vec![entry]);
        Ok(SealedReceipt { write, task_id: None })
    }
}

impl Receipt {
    /// The encoded receipt, for `key`. It is encoded when the message is received, during the commit of the previous step.
    pub fn sealed(&self, key: Key) -> serde_json::Result<SealedReceipt> {
        let entry = lists::aged(&key, self.at);
        let write = Write::PutListed(key, serde_json::to_vec(self)?.into(), vec![entry]);
        Ok(SealedReceipt { write, task_id: self.task_id.clone() })
    }
}

/// An undelivered message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    pub message_id: MessageId,
    /// Why, as a `reasonCode`.
    pub reason: String,
    pub message: String,
    pub letter: protocol::envelope::Envelope,
    /// When it was given up.
    pub at: WallTime,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

/// A cancel that was received before the award of its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    /// Awards up to this epoch are refused.
    pub epoch: u64,
    /// When it was cancelled.
    pub at: WallTime,
}

/// A claim in the store of the task's manager.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskClaim {
    /// The agent that holds the claim.
    pub holder: AgentId,
    /// How long the claim lasts without a renewal, milliseconds.
    pub lease_ms: u64,
    /// The conversation that made the claim.
    pub conversation: ConversationId,
}

/// The row of a task, with the digest of its request to recognise duplicates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    #[serde(flatten)]
    pub task: Task,
    /// The digest of the request.
    pub asked: Digest,
    /// The digest that it has in common with all equal requests of the same agent in the same run, if it is of another agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Digest>,
    /// The epoch of the award.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The uploaded artifacts that are its input, which whoever may see the task may read, and its own artifacts of which
    /// the board was told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Digest>,
    /// The chunks of its artifacts that count; all, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<ChunkRange>,
    /// The epoch under which its log begins, if that is an earlier award.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<u64>,
    /// What was done of it, if it ended without a result that counts: a later award goes on behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub so_far: Option<Box<WorkSoFar>>,
    /// When it ended, on the node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<NodeTime>,
    /// The bytes of the request and of its owner's later messages, of each that may have texts that are stored by digest.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub request_bytes: u64,
    /// The questions that its owner has answered, the newest [`MAX_ANSWERED`]: a later answer is told of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<AnsweredQuestion>,
}

/// The most questions of a task that are known to be answered.
const MAX_ANSWERED: usize = 32;

/// A question that was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnsweredQuestion {
    pub id: QuestionId,
    /// Who has answered it.
    pub by: Principal,
    pub at: WallTime,
    /// What was decided, if the answer is a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The bytes of what a task was begun with, or of a later message of its owner, of which a text may be stored by digest; otherwise 0.
pub(crate) fn large_bytes(request: &impl Serialize) -> u64 {
    let bytes = serde_json::to_vec(request).map_or(0, |json| json.len());
    if bytes > INLINE_CONTENT_BYTES { bytes as u64 } else { 0 }
}

fn note<'a>(references: &mut Vec<Digest>, parts: impl IntoIterator<Item = &'a Part>) {
    for BlobRef { digest, .. } in parts.into_iter().filter_map(BlobRef::of) {
        if !references.contains(&digest) {
            references.push(digest);
        }
    }
}

impl TaskRow {
    /// The row of a submitted task.
    pub fn new(spec: TaskSpec, owner: Principal, conversation: ConversationId, at: WallTime) -> Self {
        let asked = Digest::of(spec.description.as_bytes());
        let task = Task {
            conversation,
            owner,
            participants: Vec::new(),
            doer: None,
            status: Status::of(TaskState::Submitted),
            changed_at: at,
            created_at: at,
            artifacts: Vec::new(),
            history: Vec::new(),
            is_message: false,
            usage: Usage::default(),
            reserved: Budget::default(),
            over_budget: None,
            checks: Vec::new(),
            spec,
        };
        Self {
            task,
            asked,
            equals: None,
            epoch: None,
            references: Vec::new(),
            chunks: None,
            log: None,
            so_far: None,
            ended_at: None,
            request_bytes: 0,
            answered: Vec::new(),
        }
    }

    /// The epoch under which its log begins.
    pub fn log_epoch(&self) -> u64 {
        self.log.or(self.epoch).unwrap_or_default()
    }

    /// Notes the blobs among `parts`: whoever may see the task may read them.
    pub(crate) fn note_files(&mut self, parts: &[Part]) {
        note(&mut self.references, parts);
    }

    /// The same, with the blobs of the request noted.
    pub(crate) fn with_files_of_request(mut self) -> Self {
        let spec = &self.task.spec;
        let said = spec.contact.iter().flat_map(|contact| &contact.message.parts);
        let parts = spec.artifacts.iter().flat_map(|artifact| &artifact.parts).chain(said);
        note(&mut self.references, parts);
        self
    }

    /// Notes that an open question is answered.
    pub(crate) fn note_answer(&mut self, answered: AnsweredQuestion) {
        let is_open = self.task.status.questions.iter().any(|open| open.id == answered.id.as_str());
        if is_open && self.answered.iter().all(|known| known.id != answered.id) {
            self.answered.push(answered);
            let old = self.answered.len().saturating_sub(MAX_ANSWERED);
            self.answered.drain(..old);
        }
    }
}
