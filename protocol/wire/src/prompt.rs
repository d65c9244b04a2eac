//! The lines that a node sends to a brain. What a later version adds is kept in `more`.

use crate::{
    amount::{Cost, Fraction},
    answer::{RequestResult, ResultRevision},
    artifact::Artifact,
    context::{ChatHandover, TurnContext},
    ids::{AgentId, Capability, SpaceId, TaskId},
    task::{PastTask, Subject},
    time::WallTime,
    usage::{RemainingBudget, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A line from the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum InputLine {
    /// The prompt of a turn.
    Turn(Box<TurnPrompt>),
    /// A call for proposals, if the agent's file says `bid: { ask: brain }`.
    Cfp(Box<BidCall>),
    /// Checkpoints of the turn are durable.
    Recorded {
        /// The key of the turn.
        key: String,
        /// How many of the checkpoints that the turn has reported, counted from its first.
        checkpoints: u64,
    },
    /// The turn is stopped. It has two seconds to end with any last line; what it reports counts no more.
    Cancel {
        /// The key of the turn.
        key: String,
    },
}

/// What a turn is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnPrompt {
    /// The id of the agent.
    pub agent: AgentId,
    /// The same if the turn begins again after a crash.
    pub key: String,
    /// The number of the turn, from 1.
    pub turn: u32,
    /// The fencing token of the award or claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// What the turn is about.
    #[serde(flatten)]
    pub about: Subject,
    /// The results of all requests of earlier turns, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<RequestResult>,
    /// The owner's messages that no earlier turn was given, as A2A has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
    /// Earlier tasks of the same A2A context, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastTask>,
    /// The artifacts of the task so far, or those of a result to check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produced: Vec<Artifact>,
    /// The notes of earlier turns that count, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Value>,
    /// The earlier turns of the seat, if it is the turn of one in a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<TurnContext>,
    /// In a chat that another agent has handed over, or back: by whom, and why. What was said before is in `history`, until there
    /// are earlier turns of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<ChatHandover>,
    /// What the task has used.
    #[serde(default)]
    pub used: Usage,
    /// What is left of its bounds.
    #[serde(default)]
    pub remaining: RemainingBudget,
    /// What was refused of an earlier result, if the task is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<ResultRevision>,
    /// The session to whose findings its own belong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<TaskId>,
    /// What the space of the task knows, if it knows something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Brief>,
    /// Other agents of the mesh.
    #[serde(default)]
    pub peers: Vec<PeerSummary>,
    /// The trace of the turn (W3C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The vendors' part of the trace (W3C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// The digests of the content that the prompt refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// How much was left out, because the prompt would be too large, by member: `history`, `messages`, `context`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub omitted: BTreeMap<String, u64>,
    /// Members of later versions.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl TurnPrompt {
    /// The first turn about something, with nothing else.
    pub fn new(agent: AgentId, key: impl Into<String>, about: Subject) -> Self {
        Self {
            agent,
            key: key.into(),
            turn: 1,
            epoch: None,
            about,
            answers: Vec::new(),
            messages: Vec::new(),
            history: Vec::new(),
            produced: Vec::new(),
            checkpoints: Vec::new(),
            context: None,
            handover: None,
            used: Usage::default(),
            remaining: RemainingBudget::default(),
            revision: None,
            session: None,
            brief: None,
            peers: Vec::new(),
            traceparent: None,
            tracestate: None,
            references: Vec::new(),
            omitted: BTreeMap::new(),
            more: Map::new(),
        }
    }
}

/// What a space has decided and knows, as far as the agent may read it and the budget allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Brief {
    /// The space.
    pub space: SpaceId,
    /// The text. It is data.
    pub text: String,
    /// When it was known (RFC 3339), if the board can't be reached. Then it holds the decisions only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<WallTime>,
    /// The entries in the text, those left out, and its tokens.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Another agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PeerSummary {
    /// Its id.
    pub agent_id: AgentId,
    /// One sentence about it.
    #[serde(default)]
    pub description: String,
    /// A word for what it is, such as `coordinator`. It gives no rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Its skills.
    #[serde(default)]
    pub skills: Vec<Skill>,
}

/// A skill of an agent, as A2A has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The capability.
    pub id: Capability,
    /// What people call it; empty means its id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// Further capabilities that it counts as.
    #[serde(default)]
    pub tags: Vec<Capability>,
    /// Things that can be asked of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Media types that it can answer in; empty means any.
    #[serde(default)]
    pub output_modes: Vec<String>,
}

/// A call for proposals, and the bid that is made without an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BidCall<C = CallForProposals> {
    /// The id of the agent.
    pub agent: AgentId,
    /// Names this call. No turn has the same.
    pub key: String,
    /// How long the answer is waited for, milliseconds.
    pub within_ms: u64,
    /// The call.
    pub cfp: C,
    /// The bid that is made without an answer.
    pub computed: ComputedBid,
}

/// What a call for proposals says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallForProposals {
    /// The task.
    pub task_id: TaskId,
    /// The capability that it needs.
    pub capability: Capability,
    /// What is to be done.
    pub description: String,
    /// When bids count no more (RFC 3339).
    pub bid_by: WallTime,
    /// What the manager demands of bids.
    #[serde(default)]
    pub constraints: Map<String, Value>,
    /// Members of later versions.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A bid from the agent's file and its load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ComputedBid {
    /// The cost of the task.
    pub cost: Cost,
    /// Its duration, milliseconds.
    pub eta: u64,
    /// How well the agent's skills fit, from 0 to 1.
    #[serde(rename = "match")]
    pub capability_match: Option<Fraction>,
    /// The share of the agent's places that is taken.
    pub load: Option<Fraction>,
}
