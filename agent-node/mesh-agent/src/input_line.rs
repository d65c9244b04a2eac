//! The lines that a node sends to a brain. What a later version adds is kept in `more`.

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
    pub agent: String,
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
    pub answers: Vec<Answer>,
    /// The owner's messages that no earlier turn was given, as A2A has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
    /// Earlier tasks of the same A2A context, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastTask>,
    /// The artifacts of the task so far, or those of a result to check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produced: Vec<Artifact>,
    /// The notes of earlier turns that count, the oldest first ([`crate::Turn::checkpoints`] has those of this turn, too).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Value>,
    /// What the task has used.
    #[serde(default)]
    pub used: Used,
    /// What is left of its bounds.
    #[serde(default)]
    pub remaining: Remaining,
    /// What was refused of an earlier result, if the task is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// What the space of the task knows, if it knows something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Brief>,
    /// Other agents of the mesh.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// The trace of the turn (W3C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The vendors' part of the trace (W3C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// The digests of the content that the prompt refers to. [`crate::run`] reads it before the turn begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// How much was left out, because the prompt would be too large, by member: `history`, `messages`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub omitted: BTreeMap<String, u64>,
    /// Members of later versions.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl TurnPrompt {
    /// The first turn about something, with nothing else.
    pub fn new(agent: impl Into<String>, key: impl Into<String>, about: Subject) -> Self {
        Self {
            agent: agent.into(),
            key: key.into(),
            turn: 1,
            epoch: None,
            about,
            answers: Vec::new(),
            messages: Vec::new(),
            history: Vec::new(),
            produced: Vec::new(),
            checkpoints: Vec::new(),
            used: Used::default(),
            remaining: Remaining::default(),
            revision: None,
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Brief {
    /// The space.
    pub space: String,
    /// The text. It is data.
    pub text: String,
    /// When it was known (RFC 3339), if the board can't be reached. Then it holds the decisions only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<String>,
    /// The entries in the text, those left out, and its tokens.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What a turn is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Subject {
    /// A task to do.
    Task(Task),
    /// A peer's question.
    Help(PeerQuestion),
    /// A result to check before it counts: the prompt's `produced`, and a message.
    Check(ResultToCheck),
    /// A signal that the agent subscribes to, as the board has it.
    Signal(Value),
}

/// A task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub task_id: String,
    /// What is to be done.
    pub description: String,
    /// The capability that it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// What to do it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The artifacts that come with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// When it must be done (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Media types that the requester can use; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_modes: Vec<String>,
}

/// A question of another agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PeerQuestion {
    /// What is asked.
    pub question: String,
    /// The capability whose view is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// The artifacts that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// A result to check. The turn ends with any message if it is accepted, and with [`crate::End::Rejected`] and the findings if
/// not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResultToCheck {
    /// The task whose result it is.
    pub task_id: String,
    /// What was to be done.
    pub description: String,
    /// The capability that it needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// What it was done with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The agent that did it.
    pub doer: String,
    /// The summary of the doer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The JSON Schema that the request demands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// The result of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The id of the request.
    pub id: String,
    /// Whether there is an answer.
    pub ok: bool,
    /// The agent that gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The answer, or why there is none.
    pub text: String,
    /// Its artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The id of a delegated task at its doer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The decision on an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The values of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Map<String, Value>>,
    /// The first turn that is given it.
    #[serde(default)]
    pub for_turn: u32,
}

/// A person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Yes.
    Approve,
    /// No.
    Deny,
}

/// A result of this task, given with it, or of another agent, as A2A has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its id.
    pub artifact_id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its content.
    pub parts: Vec<Part>,
    /// Metadata of the producer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// URIs of A2A extensions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

impl Artifact {
    /// All its text, one part after the other.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(|part| part.text.as_deref()).collect()
    }

    /// The first JSON value of its parts.
    pub fn data(&self) -> Option<&Value> {
        self.parts.iter().find_map(|part| part.data.as_ref())
    }
}

/// A part of an artifact: one of `text`, `data`, `raw` and `url`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Any JSON value.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::output_line::given"
    )]
    pub data: Option<Value>,
    /// Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Where the content is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The media type of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The name of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Metadata of the producer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// An earlier task of the same A2A context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PastTask {
    /// Its id.
    pub task_id: String,
    /// What was to be done.
    pub description: String,
    /// How it ended, as A2A names it: `TASK_STATE_COMPLETED`, ….
    pub state: String,
    /// Its summary, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a task has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Used {
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The known costs.
    pub cost: f64,
    /// Tokens whose cost is unknown.
    pub unpriced_tokens: u64,
}

/// What a task may still use. What is absent has no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Remaining {
    /// How long the turn may take, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_ms: Option<u64>,
    /// How long it may report nothing, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Turns after this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// What was refused of an earlier result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// What is wrong with it.
    pub findings: String,
    /// The refused artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// Another agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// Its id.
    pub agent_id: String,
    /// One sentence about it.
    #[serde(default)]
    pub description: String,
    /// Its skills.
    #[serde(default)]
    pub skills: Vec<Skill>,
}

/// A skill of an agent, as A2A has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Skill {
    /// The capability.
    pub id: String,
    /// What people call it; empty means its id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// For people.
    pub description: String,
    /// Further capabilities that it counts as.
    pub tags: Vec<String>,
    /// Things that can be asked of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Media types that it can answer in; empty means any.
    pub output_modes: Vec<String>,
}

/// A call for proposals, and the bid that is made without an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BidCall {
    /// The id of the agent.
    pub agent: String,
    /// Names this call. No turn has the same.
    pub key: String,
    /// How long the answer is waited for, milliseconds.
    pub within_ms: u64,
    /// The call.
    pub cfp: CallForProposals,
    /// The bid that is made without an answer.
    pub computed: ComputedTerms,
}

/// What a call for proposals says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallForProposals {
    /// The task.
    pub task_id: String,
    /// The capability that it needs.
    pub capability: String,
    /// What is to be done.
    pub description: String,
    /// When bids count no more (RFC 3339).
    pub bid_by: String,
    /// What the manager demands of bids.
    #[serde(default)]
    pub constraints: Map<String, Value>,
    /// Members of later versions.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A bid from the agent's file and its load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ComputedTerms {
    /// The cost of the task.
    pub cost: f64,
    /// Its duration, milliseconds.
    pub eta: u64,
    /// How well the agent's skills fit, from 0 to 1.
    #[serde(rename = "match")]
    pub capability_match: Option<f64>,
    /// The share of the agent's places that is taken.
    pub load: Option<f64>,
}
