//! The closed list of effects. The engine performs them, in the same way for every pattern.

use super::{
    AnyPattern, Label, Timer,
    chunk::ChunkRange,
    context::ContextEntry,
    turn::Prompt,
    turn_record::{TurnInput, TurnRecord},
};
use protocol::{
    acceptance::ResultCheck,
    artifact::{Artifact, ArtifactChunk},
    budget::Budget,
    envelope::Envelope,
    handoff::Handover,
    ids::{Address, AgentId, Capability, ConversationId, Digest, MessageId, TaskId},
    message::{Epoch, Payload},
    principal::{Principal, RootProof},
    question::Question,
    signal::{self, Signal},
    spaces::request::SpaceRequest,
    task::{OpenTaskKey, Status},
    time::{NodeTime, WallTime},
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

/// What the engine does for a pattern. After `→` stand the events that report the result of an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "effect")]
#[expect(clippy::large_enum_variant, reason = "most effects of a step are messages")]
pub enum Effect {
    /// Send a message. The message id is the text of the effect's id. → `EventKind::Delivered` or `EventKind::Undelivered`.
    Send(OutgoingMessage),
    /// Send a message again as it was, under its own id. → `EventKind::Delivered` or `EventKind::Undelivered`.
    Resend {
        /// The label in the resulting event.
        label: Label,
        envelope: Box<Envelope>,
    },
    /// Run one turn of the brain. → any number of `EventKind::TurnProgress`, then `EventKind::TurnEnded` or `EventKind::TurnFailed`.
    RunTurn {
        /// The number of the turn within the conversation, from 1.
        turn: u32,
        /// The input of the turn.
        prompt: Box<Prompt>,
        /// When the turn must have ended, if before the node's own limit.
        deadline: Option<WallTime>,
        /// What the prompt's `answers` hold when the turn starts, and what is added to its `messages`.
        #[serde(default, skip_serializing_if = "TurnInput::is_default")]
        input: TurnInput,
    },
    /// Append a record to the log of the turns.
    Record {
        /// Counts the records of its kind, from 0 without gaps.
        number: u64,
        #[serde(flatten)]
        record: TurnRecord,
    },
    /// Stop the running turn of the brain; no event follows.
    StopTurn,
    /// Put a signal on the board. → `EventKind::Published` or `EventKind::PublishRefused`, once the board can
    /// be reached.
    Publish {
        /// The signal. Its id is the text of the effect's id.
        signal: OutgoingSignal,
    },
    /// Ask a space of the board for something. → `EventKind::SpaceAnswered`, once the board can be reached.
    AskSpace {
        /// The label in the resulting event.
        label: Label,
        request: Box<SpaceRequest>,
    },
    /// Claim a task in the agent's own store before its award; the claim's epoch is that of the award. →
    /// `EventKind::Claimed`, or `EventKind::ClaimLost` if a restart finds no claim.
    Claim {
        /// The task to claim.
        task: TaskId,
        /// The agent that gets the task.
        holder: AgentId,
        /// How long the claim lasts without a renewal.
        lease: Duration,
    },
    /// Release a claim in the agent's own store; no event follows.
    Release {
        task: TaskId,
        /// The claim's epoch. A claim of another epoch stays.
        epoch: Epoch,
    },
    /// Claim an open task on the board, for this agent. → `EventKind::Claimed` or `EventKind::ClaimLost`, once the board can be
    /// reached.
    ClaimOpenTask {
        /// The task to claim.
        task: OpenTaskKey,
        /// How long the claim lasts without a renewal.
        lease: Duration,
    },
    /// Renew the lease of a claim on the board. → `EventKind::Claimed` or `EventKind::ClaimExpired`.
    RenewOpenTask {
        task: OpenTaskKey,
        /// The claim's epoch. A claim of another epoch stays.
        epoch: Epoch,
    },
    /// End a claim on the board for good; the board publishes it. An open renewal is dropped with its result. → `EventKind::ClaimEnded` or `EventKind::ClaimExpired`.
    CloseOpenTask {
        task: OpenTaskKey,
        /// The claim's epoch. A claim of another epoch stays.
        epoch: Epoch,
        /// Whether the task succeeded.
        is_done: bool,
    },
    /// Release a claim on the board; the board offers the task again. An open renewal is dropped with its result. → `EventKind::ClaimEnded` or `EventKind::ClaimExpired`.
    ReleaseOpenTask {
        task: OpenTaskKey,
        /// The claim's epoch. A claim of another epoch stays.
        epoch: Epoch,
    },
    /// Ask the board whether an agent has ended the task under its claim. → `EventKind::ClaimEnded` if it has, otherwise
    /// `EventKind::ClaimExpired`.
    ConfirmResult {
        task: OpenTaskKey,
        /// The agent that reports a result.
        doer: AgentId,
        /// The epoch that it reports.
        epoch: Epoch,
    },
    /// Store the task of the conversation.
    TrackTask {
        /// The specification of the task.
        spec: Box<protocol::task::TaskSpec>,
        /// The owner of the task.
        owner: Principal,
        /// The epoch of the claim that the task is done under.
        epoch: Epoch,
    },
    /// Search for peers with a capability. → `EventKind::PeersFound`.
    FindPeers {
        /// The label in the resulting event.
        label: Label,
        capability: Capability,
    },
    /// Set a timer. Setting it again replaces it. → `EventKind::TimerFired`.
    SetTimer {
        /// Its name within the conversation.
        timer: Timer,
        when: TimerAt,
    },
    /// Clear a timer; no event follows.
    ClearTimer {
        timer: Timer,
    },
    /// Ask the task's owner. → `EventKind::Answered`.
    AskPerson {
        question: Box<Question>,
    },
    /// Publish progress of the task to its subscribers.
    Update(Update),
    /// Record which agent does the task.
    Assign {
        /// The agent; `None` if there is none.
        doer: Option<AgentId>,
    },
    /// Record with whom a context goes on; with no `handover`, that it goes on with this agent.
    HandOver {
        /// The name of the context.
        context: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handover: Option<Box<Handover>>,
    },
    /// Go on as this pattern, from its start: the work is handed on. It is the last effect of the pattern before.
    HandOn(Box<AnyPattern>),
    Finish(Outcome),
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutgoingMessage {
    /// The label in `EventKind::Delivered` and `EventKind::Undelivered`.
    pub label: Label,
    /// The recipient. A message to a capability is delivered to the sending agent itself, which opens a conversation to find
    /// a peer.
    pub to: Address,
    /// The recipient's conversation, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The message this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MessageId>,
    /// The agents on the task's path, without this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<AgentId>,
    /// The time after which it is no longer delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<WallTime>,
    #[serde(flatten)]
    pub payload: Payload,
    /// What is added to the content when it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedArtifacts>,
}

/// A description of an artifact whose content is in the log of the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProducedArtifact {
    /// Unique within its task.
    pub artifact_id: String,
    /// The media type of its content ([`Artifact::content`]).
    pub media_type: String,
    /// The bytes of its content.
    pub bytes: u64,
    /// The digest of its content.
    pub sha256: Digest,
}

/// Artifacts in the log of the task that go with a message. See [`Payload::add_chunks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedArtifacts {
    #[serde(flatten)]
    pub chunks: ChunkRange,
    /// The artifacts that are meant; all, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
}

impl OutgoingMessage {
    /// A message to `to` that belongs to no conversation and answers nothing.
    pub fn new(label: Label, to: Address, payload: Payload) -> Self {
        let (conversation, in_reply_to, path, expires) = (None, None, Vec::new(), None);
        Self { label, to, conversation, in_reply_to, path, expires, payload, recorded: None }
    }
}

/// A signal to be published, without publisher, id and time, which the engine adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutgoingSignal {
    pub kind: protocol::signal::SignalType,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The capability it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// References to the content, which the signal does not carry.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub refs: serde_json::Map<String, serde_json::Value>,
    /// The agents that it is for; all, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<AgentId>,
    /// How the principal was proved for whom it is published, if the conversation has no root that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_proof: Option<RootProof>,
}

impl OutgoingSignal {
    /// A signal of this type about this task.
    pub fn about(kind: protocol::signal::SignalType, task: &TaskId) -> Self {
        Self {
            kind,
            subject: None,
            task_id: Some(task.clone()),
            capability: None,
            refs: serde_json::Map::new(),
            to: Vec::new(),
            root_proof: None,
        }
    }

    /// The digest of the content that it refers to, if it is an `artifact.produced` with one.
    pub fn produced(&self) -> Option<Digest> {
        signal::produced(&self.kind, &self.refs)
    }

    /// The complete signal. It carries no cryptographic signature. One about an artifact names the publisher as its owner. An
    /// offer without a task id gets one that belongs to this signal alone.
    pub fn signed(mut self, id: String, from: AgentId, at: WallTime) -> Signal {
        if self.produced().is_some() {
            self.refs.insert(signal::OWNER.to_owned(), from.as_str().into());
        }
        let own_id = || {
            let digest = Digest::of(id.as_bytes()).to_string();
            TaskId::parse(&format!("offer-{}", digest.get(..20)?)).ok()
        };
        let is_offer = self.kind == signal::SignalType::task_available();
        let task_id = self.task_id.or_else(|| is_offer.then(own_id).flatten());
        Signal {
            id,
            kind: self.kind,
            from,
            by: None,
            root: None,
            root_proof: self.root_proof,
            subject: self.subject,
            task_id,
            capability: self.capability,
            refs: self.refs,
            to: self.to,
            at,
        }
    }
}

/// When a timer fires. Bid windows and leases use node time, deadlines of callers use wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TimerAt {
    /// Node time, which stands still while the node is down.
    Node(NodeTime),
    /// Wall time, which continues while the node is down.
    Wall(WallTime),
}

/// Progress of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Update {
    Status(Status),
    /// An artifact or a chunk of one.
    Artifact {
        /// Counts the chunks of the conversation, from 0 without gaps.
        number: u64,
        /// The artifact or chunk.
        #[serde(flatten)]
        chunk: ArtifactChunk,
    },
    /// The chunks so far no longer count.
    Restart {
        /// The number of the next chunk.
        from: u64,
    },
    /// What the task has used in all.
    Usage(Usage),
    /// What is reserved for other agents.
    Reserved(Budget),
    /// A bound was passed by what may be the last call: which, and the figures.
    OverBudget(String),
    /// A check of the result has ended.
    Checked(Box<ResultCheck>),
}

/// How a conversation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The terminal status of the task, or of a conversation without a task.
    pub status: Status,
    /// All artifacts, if it is not about a task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The chunks of the task's artifacts.
    #[serde(default, skip_serializing_if = "ChunkRange::is_default")]
    pub chunks: ChunkRange,
    /// The task's first artifacts, if the board is told of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produced: Vec<ProducedArtifact>,
    /// For each peer, whether it fulfilled each of its awards that ended. The engine adds them to the peer's track record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fulfilments: BTreeMap<AgentId, Vec<bool>>,
    /// Whether the status message is the whole answer and no task was created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_message: bool,
    /// What the task has used.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub usage: Usage,
    /// What it adds to its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<ContextEntry>>,
    /// What the agent has done of a task that it may be awarded again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub so_far: Option<Box<WorkSoFar>>,
}

/// What an agent has done of a task that it may be awarded again, beside the contents, which are in the task's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkSoFar {
    /// The version of the rules that it is of; no other version reads it.
    pub(super) rules: u32,
    /// The chunks that count of what was produced.
    pub chunks: ChunkRange,
    pub(super) work: Value,
}

impl Outcome {
    /// An end without artifacts.
    pub fn new(status: Status) -> Self {
        let (artifacts, chunks, produced) = (Vec::new(), ChunkRange::default(), Vec::new());
        let (fulfilments, is_message, usage) = (BTreeMap::new(), false, Usage::default());
        Self {
            status,
            artifacts,
            chunks,
            produced,
            fulfilments,
            is_message,
            usage,
            context: None,
            so_far: None,
        }
    }
}
