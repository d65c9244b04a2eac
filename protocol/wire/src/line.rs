//! The lines that a brain writes. The node reads them by these types: unknown members are refused by name, and the doc
//! comments are the descriptions in the published JSON Schema.

use crate::{
    amount::{Cost, Fraction},
    artifact::{Artifact, Part, PartContent, given},
    entry::{EntryKind, Grade, MemoryScope},
    ids::{Address, AgentId, Capability, TaskId},
    is_true,
    question::Question,
    usage::{Budget, ModelUsage, ToolUse},
    yes,
};
use serde::{Deserialize, Deserializer, Serialize};
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
    Say(Say),
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
    Checkpoint(Checkpoint),
    /// What one call of a model has used.
    Usage(ModelUsage),
    /// A call of a tool that has ended, for traces and metrics.
    Tool(ToolUse),
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
        /// Whether neither waiting nor another try changes it: this agent is not awarded the task again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lasting: bool,
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
    /// Ends the turn: another agent answers in its place, and the chat goes on with that one. If it can't be handed over, the next
    /// turn is told why, in the answer `handoff-AGENT`.
    Handoff(Handoff),
    /// Answers a call for proposals with a bid. What is absent is as in the computed bid.
    Bid(BidLine),
    /// Answers a call for proposals without a bid.
    #[serde(rename = "no-bid")]
    NoBid {
        /// Why.
        reason: String,
    },
    /// Ends the turn until an answer comes: all of those with `wait: true`, or else the first of the others.
    Wait {
        /// A task of anybody's. The answer comes when it has ended, with this id as its `id`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// Ends the turn for a while. It begins again with the same checkpoints.
    Pause {
        /// How long, milliseconds.
        after_ms: u64,
        /// Why.
        reason: String,
    },
}

/// A result, or a piece of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ArtifactLine {
    /// A whole A2A artifact, instead of the members below but `append` and `lastChunk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Whether no piece follows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
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

    /// Bytes, as base64.
    pub fn base64(name: impl Into<String>, base64: impl Into<String>) -> Self {
        Self { raw: Some(base64.into()), ..Self::named(name) }
    }

    /// With the media type of the content.
    #[must_use]
    pub fn media_type(self, media_type: impl Into<String>) -> Self {
        Self { media_type: Some(media_type.into()), ..self }
    }

    /// The artifact that it has, whole or as one part. The error says what it lacks.
    pub fn into_artifact(self) -> Result<Artifact, &'static str> {
        let contents = [
            self.text.map(PartContent::Text),
            self.data.map(PartContent::Data),
            self.raw.map(PartContent::Raw),
            self.url.map(PartContent::Url),
        ];
        let mut contents = contents.into_iter().flatten();
        match (self.artifact, self.name, contents.next(), contents.next()) {
            (Some(artifact), None, None, None) => Ok(artifact),
            (Some(_), ..) => {
                Err("\"artifact\" is a whole artifact; beside it only \"append\" and \"lastChunk\"")
            }
            (None, None, ..) => Err("missing field `name`"),
            (None, Some(name), Some(content), None) => Ok(Artifact {
                artifact_id: self.artifact_id.unwrap_or_else(|| name.clone()),
                name: Some(name),
                description: self.description,
                parts: vec![Part {
                    media_type: self.media_type,
                    filename: self.filename,
                    ..Part::new(content)
                }],
                ..Artifact::default()
            }),
            (None, Some(_), ..) => {
                Err("an artifact needs exactly one of text, data, raw, url; or the full form in \"artifact\"")
            }
        }
    }
}

impl From<Artifact> for ArtifactLine {
    /// The whole artifact: hands on a result of another agent.
    fn from(artifact: Artifact) -> Self {
        Self { artifact: Some(artifact), ..Self::default() }
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
    pub capability: Option<Capability>,
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
#[serde(rename_all = "camelCase", try_from = "HelpLine")]
pub struct Help {
    /// Your name for it; its answer has it.
    pub id: String,
    /// Whose view is wanted.
    pub to: Address,
    /// What is asked.
    pub question: String,
    /// Ids of artifacts that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// What its doer may use. Without it, and if the task is bounded, a share of what is free.
    #[serde(skip_serializing_if = "Budget::is_none")]
    pub budget: Budget,
    /// Whether the turn ends with it. Otherwise it is sent at once, and the turn goes on.
    #[serde(skip_serializing_if = "is_true")]
    pub wait: bool,
}

/// A question to peers, with the capability or the address of those whose view is wanted.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HelpLine {
    /// Your name for it; its answer has it.
    id: String,
    /// Whose view is wanted: a capability.
    capability: Option<Capability>,
    /// Whose view is wanted: an agent's id, or `capability:NAME`.
    to: Option<Address>,
    /// What is asked.
    question: String,
    /// Ids of artifacts that it is about.
    #[serde(default)]
    artifacts: Vec<String>,
    /// What its doer may use. Without it, and if the task is bounded, a share of what is free.
    budget: Option<Budget>,
    /// Whether the turn ends with it (`true` if absent). With `false` it is sent at once, and the turn goes on.
    #[serde(default = "yes")]
    wait: bool,
}

impl TryFrom<HelpLine> for Help {
    type Error = &'static str;

    fn try_from(line: HelpLine) -> Result<Self, Self::Error> {
        let HelpLine { id, capability, to, question, artifacts, budget, wait } = line;
        let to = match (capability, to) {
            (Some(capability), None) => Address::Capability(capability),
            (None, Some(to)) => to,
            _ => return Err("exactly one of \"capability\" and \"to\" is needed"),
        };
        Ok(Self { id, to, question, artifacts, budget: budget.unwrap_or_default(), wait })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Help {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Help".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        HelpLine::json_schema(generator)
    }
}

impl Help {
    /// A question to an agent's id, or to `capability:NAME`. Panics if `to` is neither.
    pub fn new(id: impl Into<String>, to: impl ToAddress, question: impl Into<String>) -> Self {
        let (id, to, question) = (id.into(), to.to_address(), question.into());
        Self { id, to, question, artifacts: Vec::new(), budget: Budget::default(), wait: true }
    }

    /// With a bound of what its doer may use.
    #[must_use]
    pub fn budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }
}

/// An address, or a text that is one.
pub trait ToAddress {
    /// The address. Panics if the text is none.
    fn to_address(self) -> Address;
}

impl ToAddress for Address {
    fn to_address(self) -> Address {
        self
    }
}

impl<T: AsRef<str>> ToAddress for T {
    fn to_address(self) -> Address {
        Address::try_from(self.as_ref()).unwrap_or_else(|error| panic!("{error}"))
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
    pub to: Address,
    /// By which of the agent's capabilities, if `to` is an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// The description of the work.
    pub description: String,
    /// What to do it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Ids of artifacts that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// What its doer may use. Without it, and if the task is bounded, a share of what is free.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Budget::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Budget>"))]
    pub budget: Budget,
    /// Whether the agent may let others do it, if it is full or its brain fails. Only if `to` is an agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hand_on: bool,
    /// Whether the turn ends with it (`true` if absent). With `false` it is sent at once, and the turn goes on.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
}

impl Delegate {
    /// A task for an agent's id, or for `capability:NAME`. Panics if `to` is neither.
    pub fn new(id: impl Into<String>, to: impl ToAddress, description: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            to: to.to_address(),
            capability: None,
            description: description.into(),
            input: None,
            artifacts: Vec::new(),
            budget: Budget::default(),
            hand_on: false,
            wait: true,
        }
    }

    /// With a bound of what its doer may use.
    #[must_use]
    pub fn budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }
}

/// A chat that is handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Handoff {
    /// The agent with which it goes on; the one that has handed it over, to give it back.
    pub to: AgentId,
    /// Why. The person and that agent read it.
    pub reason: String,
}

fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(value).map(Option::unwrap_or_default)
}

/// A message to other seats of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Say {
    /// The names of the seats, or ["team"] for all.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub to: Vec<String>,
    /// The message.
    pub text: String,
    /// If it is for one seat and you `pass`: you talk alone (if not given), or it works on this and you have your turn again.
    ///
    /// Only in a stage with `side`.
    #[serde(default, skip_serializing_if = "SideMode::is_dialogue")]
    pub mode: SideMode,
}

/// What a message to one seat opens, in a stage with `side`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SideMode {
    /// A conversation of the two, in turns.
    #[default]
    Dialogue,
    /// The other seat works on it, and its answer comes back to this seat, which has its turn again.
    Delegation,
}

impl SideMode {
    /// Whether it opens no more than a conversation.
    pub fn is_dialogue(&self) -> bool {
        *self == Self::Dialogue
    }
}

/// A directive of a supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DirectiveLine {
    /// Words for a stage or a seat, a stage to begin again, or a constraint for all stages from now on.
    pub verb: SupervisorVerb,
    /// What you say, and why.
    pub text: String,
    /// The stage; if not given, all that run. A redirect needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The only seat of the stage that the words are for.
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

/// A finding for the team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Post {
    /// What you found out.
    pub content: String,
    /// A title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How much it matters.
    ///
    /// `medium` if absent.
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
    /// What to remember.
    pub content: String,
    /// What it is; learning if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_type: Option<MemoryType>,
    /// A title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How important it is.
    ///
    /// `medium` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<Grade>,
    /// Who reads it: only you, or the team (if not given).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<MemoryScope>,
    /// Areas in which you know more now, and how much more, such as {"rust": 1}.
    ///
    /// Your teammates are told the five that you know best.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = { "type": "integer", "minimum": 1 })))]
    pub expertise: BTreeMap<String, u32>,
    /// Files that you have analysed, by their paths.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files: BTreeSet<String>,
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
            files: BTreeSet::new(),
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

/// A note to yourself. Once it is recorded, every later turn of the task is given it, also after a crash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkpoint {
    /// What is noted.
    pub data: Value,
    /// Whether it makes all earlier ones obsolete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// What is left of all earlier turns of the context, in the brain's words. Later turns are given this turn and no earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// A bid. What is absent is as in the computed bid.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BidLine {
    /// The cost of the task, in the unit of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The duration of the task: milliseconds, or text like `2m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta: Option<Eta>,
    /// How well it fits, from 0 to 1. It can lower, never raise, what the card says.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub capability_match: Option<Fraction>,
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

    /// The same request; the turn that makes it goes on.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
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
