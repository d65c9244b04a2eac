//! The lines that a brain writes. The node reads them by these types: unknown members are refused by name, and the doc
//! comments are the descriptions in the published JSON Schema.

use crate::Artifact;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// One line of a brain's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum OutputLine {
    /// Progress, for people.
    Status {
        /// How far it is.
        message: String,
    },
    /// A result, or a piece of one: `name` and one of `text`, `data`, `raw` and `url`, or a whole A2A artifact.
    Artifact(Box<ArtifactLine>),
    /// A signal for the board.
    Signal(SignalLine),
    /// A question to peers: `capability`, or `to`.
    Help(Help),
    /// A task for another agent.
    Delegate(Delegate),
    /// A message to other seats of a session. It is delivered with the end of the turn.
    Say {
        /// The names of the seats, or `team` for all.
        to: Vec<String>,
        /// The message.
        text: String,
        /// What it opens, in a stage with `side`, if it is for one seat.
        #[serde(default, skip_serializing_if = "SayMode::is_dialogue")]
        mode: SayMode,
    },
    /// A directive of a supervisor to its session.
    Directive(DirectiveLine),
    /// A question to a person: the task's owner.
    Question(Question),
    /// A finding for the team, in the space of the task.
    Post(Post),
    /// A proposal for the space of the task: a person or a curator merges it to a decision or a memory, or rejects it.
    Propose(Propose),
    /// Something to remember beyond the task, in its space. Later briefs have it.
    Remember(Remember),
    /// A search in the space of the task, by at least one of `kind`, `tag` and `text`.
    Find(Find),
    /// A note to yourself. Every later turn of the task is given it, also after a crash.
    Checkpoint(CheckpointLine),
    /// What one call of a model has used.
    Usage(ModelCall),
    /// A call of a tool that has ended, for traces and metrics.
    Tool(ToolCall),
    /// A line for the node's log.
    Log {
        /// The line.
        message: String,
    },
    /// Ends the task.
    Done {
        /// A summary; needed if there is no artifact.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// In a session: the label of the stage, which says what comes next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// Ends the turn of a seat in a session. It has another one in the next round.
    Pass {
        /// What it says to all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Ends the turn without a result.
    Failed {
        /// Why.
        reason: String,
    },
    /// The same for good: this agent is not asked again.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Ends the turn with a message.
    Message {
        /// The message.
        text: String,
    },
    /// Answers a call for proposals with a bid. What is absent is as in the computed bid.
    Bid(BidLine),
    /// Answers a call for proposals without a bid.
    #[serde(rename = "no-bid")]
    NoBid {
        /// Why.
        reason: String,
    },
    /// Ends the turn until an answer comes: all of those with `wait: true`, or else the first of the others.
    Wait {},
    /// Ends the turn for a while. It begins again with the same checkpoints.
    Pause {
        /// How long, milliseconds.
        after_ms: u64,
        /// Why.
        reason: String,
    },
}

impl OutputLine {
    /// The answer to a call for proposals. The error is the reason for no bid.
    pub(crate) fn of_bid(bid: Result<BidLine, String>) -> Self {
        bid.map_or_else(|reason| Self::NoBid { reason }, Self::Bid)
    }
}

/// A result, or a piece of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ArtifactLine {
    /// A whole A2A artifact, instead of the members below but `append` and `lastChunk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Map<String, Value>>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its id; the name if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Its content as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its content as JSON.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Its content as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Where its content is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Whether it joins the artifact of the same id; otherwise it replaces it.
    #[serde(skip_serializing_if = "is_false")]
    pub append: bool,
    /// Whether no piece follows.
    #[serde(skip_serializing_if = "is_false")]
    pub last_chunk: bool,
}

impl ArtifactLine {
    fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// A text.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::named(name) }
    }

    /// A JSON value.
    pub fn data(name: impl Into<String>, data: impl Into<Value>) -> Self {
        Self { data: Some(data.into()), ..Self::named(name) }
    }

    /// Bytes.
    pub fn bytes(name: impl Into<String>, bytes: &[u8]) -> Self {
        Self { raw: Some(STANDARD.encode(bytes)), ..Self::named(name) }
    }

    /// With the media type of the content.
    #[must_use]
    pub fn media_type(self, media_type: impl Into<String>) -> Self {
        Self { media_type: Some(media_type.into()), ..self }
    }
}

impl From<Artifact> for ArtifactLine {
    /// The whole artifact: hands on a result of another agent.
    fn from(artifact: Artifact) -> Self {
        let members = match serde_json::to_value(artifact) {
            Ok(Value::Object(members)) => Some(members),
            Ok(_) | Err(_) => None,
        };
        Self { artifact: members, ..Self::default() }
    }
}

/// A signal for the board.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignalLine {
    /// Its type: `task.available`, `help.needed`, or a type of your own.
    pub signal: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The capability it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// References to the content.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub refs: Map<String, Value>,
}

impl SignalLine {
    /// A signal with nothing but its type.
    pub fn new(signal: impl Into<String>) -> Self {
        Self { signal: signal.into(), ..Self::default() }
    }
}

/// A question to peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Help {
    /// Your name for it; its answer has it.
    pub id: String,
    /// Whose view is wanted: a capability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// Whose view is wanted: an agent's id, or `capability:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What is asked.
    pub question: String,
    /// Ids of artifacts that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// What its doer may use. Without it, and if the task is bounded, a share of what is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Whether the turn ends with it (`true` if absent). With `false` it is sent at once, and the turn goes on.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
}

impl Help {
    /// A question to an agent's id, or to `capability:NAME`.
    pub fn new(id: impl Into<String>, to: impl Into<String>, question: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            capability: None,
            to: Some(to.into()),
            question: question.into(),
            artifacts: Vec::new(),
            budget: None,
            wait: true,
        }
    }

    /// With a bound of what its doer may use.
    #[must_use]
    pub fn budget(self, budget: Budget) -> Self {
        Self { budget: Some(budget), ..self }
    }
}

/// A task for another agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delegate {
    /// Your name for it; its answer has it.
    pub id: String,
    /// Who: an agent's id, or `capability:NAME`.
    pub to: String,
    /// By which of the agent's capabilities, if `to` is an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// The description of the work.
    pub description: String,
    /// What to do it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Ids of artifacts that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// What its doer may use. Without it, and if the task is bounded, a share of what is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Whether the turn ends with it (`true` if absent). With `false` it is sent at once, and the turn goes on.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
}

impl Delegate {
    /// A task for an agent's id, or for `capability:NAME`.
    pub fn new(id: impl Into<String>, to: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            to: to.into(),
            capability: None,
            description: description.into(),
            input: None,
            artifacts: Vec::new(),
            budget: None,
            wait: true,
        }
    }

    /// With a bound of what its doer may use.
    #[must_use]
    pub fn budget(self, budget: Budget) -> Self {
        Self { budget: Some(budget), ..self }
    }
}

/// What a request to another agent may use: at most what is free of the task's own bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Tokens of models, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost, in the unit of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub cost: Option<f64>,
}

impl Budget {
    /// A bound of tokens.
    pub fn tokens(tokens: u64) -> Self {
        Self { tokens: Some(tokens), cost: None }
    }

    /// A bound of cost.
    pub fn cost(cost: f64) -> Self {
        Self { tokens: None, cost: Some(cost) }
    }
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Question {
    /// Your name for it; its answer has it.
    pub id: String,
    /// What kind of answer it wants (`text` if absent).
    #[serde(default, skip_serializing_if = "QuestionKind::is_text")]
    pub kind: QuestionKind,
    /// What is asked.
    pub text: String,
    /// The JSON Schema of a form: an object of simple values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What a choice is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The call that an approval is about: `{"name": …, "args": …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Value>,
    /// When it is no longer open (RFC 3339); never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// What happens then (`continue` if absent). It never approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// Whether the turn ends with it (`true` if absent). With `false` it is asked at once, and the turn goes on.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
}

impl Question {
    /// A question that any text answers.
    pub fn new(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            kind: QuestionKind::Text,
            text: text.into(),
            schema: None,
            options: Vec::new(),
            call: None,
            expires_at: None,
            on_timeout: None,
            wait: true,
        }
    }

    /// A question that one of these options answers.
    pub fn choice(
        id: impl Into<String>,
        text: impl Into<String>,
        options: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let options = options.into_iter().map(Into::into).collect();
        Self { kind: QuestionKind::Choice, options, ..Self::new(id, text) }
    }

    /// A question that the values of a form answer; `schema` is the JSON Schema of the form.
    pub fn form(id: impl Into<String>, text: impl Into<String>, schema: Value) -> Self {
        Self { kind: QuestionKind::Form, schema: Some(schema), ..Self::new(id, text) }
    }

    /// A question whether to make a call: `{"name": …, "args": …}`.
    pub fn approval(id: impl Into<String>, text: impl Into<String>, call: Value) -> Self {
        Self { kind: QuestionKind::Approval, call: Some(call), ..Self::new(id, text) }
    }
}

/// What a message to one seat opens, in a stage with `side`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SayMode {
    /// A conversation of the two, in turns.
    #[default]
    Dialogue,
    /// The other seat works on it, and its answer comes back to this seat, which has its turn again.
    Delegation,
}

impl SayMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_dialogue(&self) -> bool {
        *self == Self::Dialogue
    }
}

/// A directive of a supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DirectiveLine {
    /// What to do.
    pub verb: SupervisorVerb,
    /// What is said.
    pub text: String,
    /// The stage; without one, all that run. A `redirect` needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The only seat of that stage that `say` is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<String>,
}

/// What a supervisor may do with its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SupervisorVerb {
    /// Words for the next turns of a stage, or of a seat.
    Say,
    /// A stage that has begun, and everything after it, begins again.
    Redirect,
    /// A constraint for all stages, from now on.
    Amend,
}

/// What kind of answer a question wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// Any text.
    #[default]
    Text,
    /// One of its options.
    Choice,
    /// The values of a form.
    Form,
    /// A decision.
    Approval,
    /// Any text that says that the credential is provided; never the credential.
    Credential,
}

impl QuestionKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_text(&self) -> bool {
        *self == Self::Text
    }
}

/// What happens when a question is no longer open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnTimeout {
    /// The next turn begins without an answer: `ok` is false, and an approval is denied.
    Continue,
    /// The task fails.
    Fail,
    /// This text counts as the answer. Only for texts and choices.
    Answer(String),
}

/// A finding for the team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Post {
    /// What was found out.
    pub content: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How much it matters (`medium` if absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Grade>,
    /// Words it is found by, without spaces.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
}

impl Post {
    /// A finding of medium severity.
    pub fn new(content: impl Into<String>) -> Self {
        Self { content: content.into(), title: String::new(), severity: None, tags: BTreeSet::new() }
    }
}

/// A proposal of a decision or of a memory of the team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Propose {
    /// What is proposed.
    pub content: String,
    /// What it becomes: a decision (`architectural`, `scope`, `process`, `technical`) or a memory (`learning`, `pattern`,
    /// `update`).
    pub entry_type: ProposalType,
    /// Its title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Its name, lower-case words joined by `-`; made from the title if absent. The same name again, while it is pending, is a
    /// new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    /// How important it is (`medium` if absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<Grade>,
    /// Words it is found by, without spaces.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
}

impl Propose {
    /// A proposal of medium importance, whose name is made from its title.
    pub fn new(entry_type: ProposalType, title: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            entry_type,
            title: title.into(),
            slug: None,
            importance: None,
            tags: BTreeSet::new(),
        }
    }
}

/// Something to remember beyond the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Remember {
    /// What is remembered.
    pub content: String,
    /// What it is (`learning` if absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_type: Option<MemoryType>,
    /// Its title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How important it is (`medium` if absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<Grade>,
    /// Who reads it (the team if absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<MemoryScope>,
    /// Areas in which this agent knows more now, and how much more. Its teammates are told the five that it knows best.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expertise: BTreeMap<String, u32>,
    /// Words it is found by, without spaces.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
}

impl Remember {
    /// A learning of the team.
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            entry_type: None,
            title: String::new(),
            importance: None,
            scope: None,
            expertise: BTreeMap::new(),
            tags: BTreeSet::new(),
        }
    }

    /// The same, for this agent only.
    #[must_use]
    pub fn for_itself(self) -> Self {
        Self { scope: Some(MemoryScope::Own), ..self }
    }
}

/// A search among the entries of the space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Find {
    /// Your name for it; its answer has it.
    pub id: String,
    /// Entries of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<EntryKind>,
    /// Entries with this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Entries with these words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the turn ends with it (`true` if absent). With `false` it is sent at once, and the turn goes on.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
}

impl Find {
    /// Entries with these words.
    pub fn text(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: id.into(), kind: None, tag: None, text: Some(text.into()), wait: true }
    }
}

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Little.
    Low,
    /// Neither.
    Medium,
    /// Much.
    High,
}

/// What a proposal becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProposalType {
    /// A decision that every brief has.
    Architectural,
    /// A decision that every brief has.
    Scope,
    /// A decision about how to work.
    Process,
    /// A decision about details.
    Technical,
    /// A memory: what was learnt.
    Learning,
    /// A memory: what works.
    Pattern,
    /// A memory: what has changed.
    Update,
}

/// What a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryType {
    /// What every brief has.
    CoreContext,
    /// What was learnt.
    Learning,
    /// What works.
    Pattern,
    /// What has changed.
    Update,
}

/// Who reads a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MemoryScope {
    /// This agent only.
    Own,
    /// All members of the space.
    Team,
}

/// A kind of entry in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// What was said in a session.
    Message,
    /// What was found out.
    Finding,
    /// What waits for a decision.
    Proposal,
    /// What was decided.
    Decision,
    /// What is remembered.
    Memory,
    /// A reference to content.
    Artifact,
}

/// A note to yourself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointLine {
    /// What is noted.
    pub data: Value,
    /// Whether it makes all earlier ones obsolete.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replace: bool,
}

/// What one call of a model has used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelCall {
    /// The model.
    pub model: String,
    /// Tokens that it read.
    pub input_tokens: u64,
    /// Tokens that it wrote.
    pub output_tokens: u64,
    /// The cost, in the unit of the mesh; unknown if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub cost: Option<f64>,
    /// Who serves the model, such as `anthropic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Why the answer ended: `stop`, `length`, `content_filter` or `tool_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// How long the call took, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why there is no answer, as a code such as `429`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ModelCall {
    /// A call whose cost is unknown.
    pub fn new(model: impl Into<String>, input_tokens: u64, output_tokens: u64) -> Self {
        Self { model: model.into(), input_tokens, output_tokens, ..Self::default() }
    }
}

/// A call of a tool that has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCall {
    /// The id of the call, unique in the task.
    pub id: String,
    /// The tool.
    pub name: String,
    /// How long the call took, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why it failed, as a code such as `tool_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A bid. What is absent is as in the computed bid.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BidLine {
    /// The cost of the task, in the unit of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub cost: Option<f64>,
    /// The duration of the task: milliseconds, or text like `2m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta: Option<Eta>,
    /// How well it fits, from 0 to 1. It can lower, never raise, what the card says.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub capability_match: Option<f64>,
}

/// The duration of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Eta {
    /// Milliseconds.
    Millis(#[cfg_attr(feature = "schema", schemars(range(min = 0)))] f64),
    /// A text like `2m`.
    Text(String),
}

impl From<Duration> for Eta {
    fn from(duration: Duration) -> Self {
        Self::Millis(duration.as_secs_f64() * 1_000.0)
    }
}

impl From<&str> for Eta {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What has an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A question to a person.
    Question(Question),
    /// A question to peers.
    Help(Help),
    /// A task for another agent.
    Delegate(Delegate),
    /// A search in the space of the task.
    Find(Find),
}

impl Request {
    /// The id of its answer.
    pub fn id(&self) -> &str {
        match self {
            Self::Question(Question { id, .. })
            | Self::Help(Help { id, .. })
            | Self::Delegate(Delegate { id, .. })
            | Self::Find(Find { id, .. }) => id,
        }
    }

    pub(crate) fn without_waiting(mut self) -> Self {
        match &mut self {
            Self::Question(Question { wait, .. })
            | Self::Help(Help { wait, .. })
            | Self::Delegate(Delegate { wait, .. })
            | Self::Find(Find { wait, .. }) => *wait = false,
        }
        self
    }
}

impl From<Question> for Request {
    fn from(question: Question) -> Self {
        Self::Question(question)
    }
}

impl From<Help> for Request {
    fn from(help: Help) -> Self {
        Self::Help(help)
    }
}

impl From<Delegate> for Request {
    fn from(delegate: Delegate) -> Self {
        Self::Delegate(delegate)
    }
}

impl From<Find> for Request {
    fn from(find: Find) -> Self {
        Self::Find(find)
    }
}

impl From<Request> for OutputLine {
    fn from(request: Request) -> Self {
        match request {
            Request::Question(question) => Self::Question(question),
            Request::Help(help) => Self::Help(help),
            Request::Delegate(delegate) => Self::Delegate(delegate),
            Request::Find(find) => Self::Find(find),
        }
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A member that is given, also as `null`.
pub(crate) fn given<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}
