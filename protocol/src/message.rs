//! The closed list of messages and what each carries (DESIGN §4). Unknown members are tolerated and kept.
#![warn(clippy::wildcard_enum_match_arm, reason = "a new kind of message must be noticed everywhere here")]

use crate::{
    a2a::message::Message,
    acceptance::{AcceptanceDemand, ResultRevision},
    answer::SeatEnd,
    artifact::{self, Artifact, ArtifactChunk, ArtifactRef},
    bid::{Cost, Eta, Fraction},
    budget::Budget,
    handoff::{HandedChat, Handoff},
    ids::{AgentId, Capability, QuestionId, SpaceId, TaskId},
    json::any_version::of_any_version,
    principal::{Principal, RootProof, TaskRoot},
    problem::{Problem, Reason},
    question::Answer,
    run_root::RunRoot,
    signal::SignalType,
    task::{Status, TaskSpec, TaskState, TaskTerms},
    time::WallTime,
    usage::Usage,
};
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::ops::Deref;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident($payload:ty) = $wire:literal;)*) => {
        /// A message's `type`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum MessageKind { $($(#[$doc])* #[serde(rename = $wire)] $name,)* }

        /// A message's content, typed by its [`MessageKind`].
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "type", content = "payload")]
        pub enum Payload { $($(#[$doc])* #[serde(rename = $wire)] $name($payload),)* }

        impl MessageKind {
            /// Every kind.
            pub const ALL: &'static [MessageKind] = &[$(MessageKind::$name,)*];

            /// Its name on the wire.
            pub fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)* }
            }

            /// The kind `text` names; the problem names the valid ones.
            pub fn parse(text: &str) -> Result<Self, Problem> {
                match text {
                    $($wire => Ok(Self::$name),)*
                    _ => {
                        let valid: Vec<_> = Self::ALL.iter().map(|kind| kind.wire()).collect();
                        let got: String = text.chars().take(80).collect();
                        let message = format!("type must be one of {}; got {got:?}", valid.join(", "));
                        Err(Problem::new(Reason::UnknownType, message))
                    }
                }
            }
        }

        impl Payload {
            /// Which kind of message this is the content of.
            pub fn kind(&self) -> MessageKind {
                match self { $(Self::$name(_) => MessageKind::$name,)* }
            }

            /// The unknown members.
            pub fn extra(&self) -> &Map<String, Value> {
                match self { $(Self::$name(p) => &p.extra,)* }
            }

            /// The typed content of a `kind` message; the problem names the member that is wrong.
            pub fn parse(kind: MessageKind, members: Map<String, Value>) -> Result<Self, Problem> {
                Ok(match kind { $(MessageKind::$name => Self::$name(typed(members)?),)* })
            }
        }

        /// The value of `payload`, without its kind.
        pub(crate) struct PayloadContent<'a>(pub(crate) &'a Payload);

        impl Serialize for PayloadContent<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self.0 { $(Payload::$name(content) => content.serialize(to),)* }
            }
        }
    };
}

kinds! {
    /// A request for work.
    TaskRequest(TaskRequest) = "task-request";
    /// Progress of a task.
    TaskUpdate(TaskUpdate) = "task-update";
    /// The result of a task.
    TaskResponse(TaskResponse) = "task-response";
    /// The cancel of a task.
    TaskCancel(TaskCancel) = "task-cancel";
    /// The answer to the open question of a task.
    TaskAnswer(TaskAnswer) = "task-answer";
    /// A question to a peer.
    HelpRequest(HelpRequest) = "help-request";
    /// The answer to a help request.
    HelpResponse(HelpResponse) = "help-response";
    /// A signal to publish on the board.
    Broadcast(Broadcast) = "broadcast";
    /// A call for proposals (FIPA contract net).
    Cfp(Cfp) = "cfp";
    Bid(Bid) = "bid";
    /// A refusal to bid.
    NoBid(NoBid) = "no-bid";
    /// An award to a bidder.
    Award(Award) = "award";
    /// The acceptance of an award.
    AwardAccept(AwardAccept) = "award-accept";
    /// The decline of an award.
    AwardDecline(AwardDecline) = "award-decline";
    /// A reject to a bidder.
    Reject(Reject) = "reject";
}

impl MessageKind {
    /// What a user may send; directives have a route of their own.
    pub const OF_USERS: [Self; 5] =
        [Self::TaskRequest, Self::TaskCancel, Self::TaskAnswer, Self::HelpRequest, Self::Broadcast];

    /// Whether it may be lost: it is neither recorded nor retried (DESIGN §4).
    pub fn is_best_effort(self) -> bool {
        matches!(self, Self::Cfp | Self::Bid | Self::NoBid | Self::Reject)
    }
}

/// Work that an agent asks of another one, or the end of it, as people who watch a task are shown it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkNotice<'a> {
    /// The task, unless it is a help request.
    pub task: Option<&'a TaskId>,
    /// How it has ended; `None` when it is asked for.
    pub end: Option<&'static str>,
    /// What is asked for, or why there is no result; empty if there is one.
    pub text: &'a str,
}

impl Payload {
    /// The work that it asks for or ends, if it is about that.
    pub fn work_notice(&self) -> Option<WorkNotice<'_>> {
        if let Self::TaskRequest(request) = self {
            return Some(WorkNotice {
                task: request.task_id.as_ref(),
                end: None,
                text: &request.description,
            });
        }
        if let Self::HelpRequest(request) = self {
            return Some(WorkNotice { task: None, end: None, text: &request.question });
        }
        if let Self::TaskResponse(answer) = self {
            let why = answer.message.as_deref().filter(|_| answer.state != TaskState::Completed);
            let (task, end) = (Some(&answer.task_id), Some(answer.state.word()));
            return Some(WorkNotice { task, end, text: why.unwrap_or_default() });
        }
        let Self::HelpResponse(answer) = self else { return None };
        let (end, text) = match &answer.declined {
            Some(why) => ("declined", why.as_str()),
            None => ("completed", ""),
        };
        Some(WorkNotice { task: None, end: Some(end), text })
    }

    /// The artifacts of a request: references, and whole ones.
    pub fn artifacts_mut(&mut self) -> Option<(&mut Vec<ArtifactRef>, &mut Vec<Artifact>)> {
        if let Self::TaskRequest(request) = self {
            return Some((&mut request.artifacts, &mut request.inline_artifacts));
        }
        let Self::HelpRequest(request) = self else { return None };
        Some((&mut request.artifacts, &mut request.inline_artifacts))
    }

    /// How the turn of a seat ended, if it is the result of one.
    pub fn seat_end(&self) -> Option<&SeatEnd> {
        if let Self::TaskResponse(response) = self { response.seat.as_ref() } else { None }
    }

    /// The task it is about, if it names one.
    pub fn task_id(&self) -> Option<&TaskId> {
        match self {
            Self::TaskRequest(p) => p.task_id.as_ref(),
            Self::HelpRequest(p) => p.task_id.as_ref(),
            Self::Broadcast(p) => p.task_id.as_ref(),
            Self::HelpResponse(_) => None,
            Self::TaskUpdate(p) => Some(&p.task_id),
            Self::TaskResponse(p) => Some(&p.task_id),
            Self::TaskCancel(p) => Some(&p.task_id),
            Self::TaskAnswer(p) => Some(&p.task_id),
            Self::Cfp(p) => Some(&p.task_id),
            Self::Bid(p) => Some(&p.task_id),
            Self::NoBid(p) => Some(&p.task_id),
            Self::Award(p) => Some(&p.task_id),
            Self::AwardAccept(p) => Some(&p.task_id),
            Self::AwardDecline(p) => Some(&p.task_id),
            Self::Reject(p) => Some(&p.task_id),
        }
    }

    /// What it answers to a question, if it is a `task-answer`.
    pub fn answer(&self) -> Option<&Value> {
        if let Self::TaskAnswer(answer) = self { Some(&answer.answer) } else { None }
    }

    /// The principal for whom its sender says to ask, if it says so.
    pub fn on_behalf_of(&self) -> Option<&Principal> {
        if let Self::TaskRequest(request) = self { request.on_behalf_of.as_ref() } else { None }
    }

    /// The principal for whom `sender` says to ask, with the proof of that, if it says so.
    pub fn root(&self, sender: &Principal) -> Option<TaskRoot> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "only what asks for work names one")]
        let (principal, proof) = match self {
            Self::TaskRequest(request) => (request.on_behalf_of.as_ref()?, request.root_proof),
            Self::HelpRequest(request) => (request.on_behalf_of.as_ref()?, request.root_proof),
            Self::Award(award) => (&award.task.root, award.task.root_proof),
            _ => return None,
        };
        Some(TaskRoot::named_by(sender, principal.clone(), proof))
    }

    /// The award that it reports under, if it is a report of awarded work.
    pub fn reported_epoch(&self) -> Option<Epoch> {
        match self {
            Self::TaskUpdate(p) => p.epoch,
            Self::TaskResponse(p) => p.epoch,
            Self::AwardAccept(p) => Some(p.epoch),
            Self::TaskRequest(_)
            | Self::TaskCancel(_)
            | Self::TaskAnswer(_)
            | Self::HelpRequest(_)
            | Self::HelpResponse(_)
            | Self::Broadcast(_)
            | Self::Cfp(_)
            | Self::Bid(_)
            | Self::NoBid(_)
            | Self::Award(_)
            | Self::AwardDecline(_)
            | Self::Reject(_) => None,
        }
    }

    /// Adds chunks of artifacts: to an update as they are, to a request or response the artifacts that they make, if `only`
    /// is empty, or those that it names in its order.
    pub fn add_chunks(&mut self, chunks: Vec<ArtifactChunk>, only: &[String]) {
        let assembled = |chunks| {
            let mut artifacts = artifact::assemble(chunks);
            artifacts.retain(|artifact| only.is_empty() || only.contains(&artifact.artifact_id));
            artifacts.sort_by_key(|artifact| only.iter().position(|id| *id == artifact.artifact_id));
            artifacts
        };
        match self {
            Self::TaskUpdate(p) => {
                let mut chunks = chunks.into_iter();
                if let Some(ArtifactChunk { artifact, append, last_chunk }) = chunks.next() {
                    (p.artifact, p.append, p.last_chunk) = (Some(artifact), append, last_chunk);
                }
                p.chunks = chunks.collect();
            }
            Self::TaskResponse(p) => p.artifacts = assembled(chunks),
            Self::TaskRequest(p) => drop(p.inline_artifacts.splice(..0, assembled(chunks))),
            Self::HelpRequest(p) => drop(p.inline_artifacts.splice(..0, assembled(chunks))),
            Self::Award(p) => {
                if let Some(revision) = &mut p.revision {
                    revision.artifacts = assembled(chunks);
                }
            }
            Self::HelpResponse(_)
            | Self::Broadcast(_)
            | Self::TaskCancel(_)
            | Self::TaskAnswer(_)
            | Self::Cfp(_)
            | Self::Bid(_)
            | Self::NoBid(_)
            | Self::AwardAccept(_)
            | Self::AwardDecline(_)
            | Self::Reject(_) => {}
        }
    }

    /// The schema that a request demands of its result.
    pub fn demanded_schema(&self) -> Option<&Value> {
        let Self::TaskRequest(request) = self else { return None };
        request.accept.as_ref()?.schema.as_ref()
    }

    /// What the work that it reports on has used.
    pub fn usage(&self) -> Option<&Usage> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "only results report it")]
        match self {
            Self::TaskResponse(p) => Some(&p.usage),
            Self::HelpResponse(p) => Some(&p.usage),
            _ => None,
        }
    }

    /// The space of the task that an award carries.
    pub fn awarded_space(&self) -> Option<&SpaceId> {
        if let Self::Award(award) = self { award.task.space.as_ref() } else { None }
    }

    /// The content as JSON, without its kind.
    pub fn to_json(&self) -> Value {
        serde_json::json!(PayloadContent(self))
    }
}

fn typed<T: DeserializeOwned>(members: Map<String, Value>) -> Result<T, Problem> {
    let payload = Value::Object(members);
    // Keeping track of the path costs as much again, so only what is wrong is read with it.
    let typed = T::deserialize(&payload).or_else(|_| serde_path_to_error::deserialize(&payload));
    typed.map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
        // What is flattened has no path.
        let terms = serde_path_to_error::deserialize::<_, TaskTerms>(&payload).err();
        let in_terms = terms.filter(|terms| terms.inner().to_string() == error.inner().to_string());
        let error = in_terms.unwrap_or(error);
        let field = match error.path().to_string() {
            whole if whole == "." => "payload".to_owned(),
            member => format!("payload.{member}"),
        };
        let said = error.into_inner().to_string();
        let (field, message) = match missing(&said) {
            Some(member) => (format!("{field}.{member}"), format!("{field}.{member} is required")),
            None => (field.clone(), format!("{field}: {said}")),
        };
        Problem::new(Reason::InvalidField, message).with("field", field)
    })
}

/// Checks the bounds and demands of a payload that a person has written: a mistyped one would not count. 400 `invalid_field` for
/// a member of theirs that is not known.
pub fn check_hand_written(payload: &Map<String, Value>) -> Result<(), Problem> {
    #[derive(Deserialize)]
    struct HandWritten {
        #[serde(default, rename = "budget")]
        _budget: Option<Budget>,
        #[serde(default, rename = "accept")]
        _accept: Option<AcceptanceDemand>,
    }
    let written = ["budget", "accept"].map(|name| (name.to_owned(), payload.get(name).cloned()));
    let written = written.into_iter().filter_map(|(name, value)| Some((name, value?)));
    typed::<HandWritten>(written.collect()).map(drop)
}

/// The missing member, if the serde error text `said` reports one.
fn missing(said: &str) -> Option<&str> {
    said.strip_prefix("missing field `")?.split('`').next()
}

/// Numbers a sender's updates of one task, from 1, without gaps.
pub type Seq = u64;
/// The revision of the claim under which work is done; grows with every new award.
pub type Epoch = u64;

/// The reason of a `no-bid` or an `award-decline` if all places of the bidder are taken.
pub const BUSY: &str = "busy";

macro_rules! payload {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $(=> #[$fattr:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$fdoc])* $(#[$fattr])* pub $field: $ty,)*
            /// Unknown members, kept unchanged.
            #[serde(flatten)]
            pub extra: Map<String, Value>,
        }
    };
}

payload! {
    TaskRequest {
        => #[serde(flatten)]
        terms: TaskTerms,
        /// The caller's name for it; minted if absent.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// References to content it starts from.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<ArtifactRef>,
        /// Content it starts from, inline; between agents.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        inline_artifacts: Vec<Artifact>,
        /// The URL for the answer; an agent's must be its registered endpoint.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<String>,
        /// The principal who asked first; believed from agents only.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        on_behalf_of: Option<Principal>,
        /// How the agent that met that principal knew who it is; believed from agents only.
        => #[serde(default, deserialize_with = "RootProof::known", skip_serializing_if = "Option::is_none")]
        root_proof: Option<RootProof>,
        /// The requester's own task that this one is a part of; believed from agents only.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_task_id: Option<TaskId>,
        /// The run that it is a part of; believed from agents only.
        => #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Option::is_none")]
        run: Option<RunRoot>,
        /// What its result must pass before it counts.
        => #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Option::is_none")]
        accept: Option<Box<AcceptanceDemand>>,
        /// What the work on it may use.
        => #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Budget::is_none")]
        budget: Budget,
        /// Whether the agent that it addresses may let others do it, as it may with the task of a user; between agents.
        => #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hand_on: bool,
        /// Whether it is the review of a result, which is not checked itself; believed from an agent's request to itself only.
        => #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_review: bool,
        /// The session to whose findings its own belong; believed from agents only.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<TaskId>,
        /// Agents that are not asked for a bid; believed from an agent's request to itself only.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        exclude: Vec<AgentId>,
        /// The chat that it is a message of, if its requester has handed that over; between agents.
        => #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Option::is_none")]
        handed: Option<Box<HandedChat>>,
    }
}

payload! {
    TaskUpdate {
        task_id: TaskId,
        /// The sender's sequence number.
        seq: Seq,
        /// The award it works under.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
        /// Its status.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<Status>,
        /// A result, or a piece of one.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        artifact: Option<Artifact>,
        /// Whether it is appended to the artifact.
        => #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        append: bool,
        /// Whether no piece follows.
        => #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        last_chunk: bool,
        /// Results or pieces that follow `artifact`; between agents.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        chunks: Vec<ArtifactChunk>,
        /// Whether the pieces of all earlier updates no longer count; between agents.
        => #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        restarts: bool,
        /// For how long the sender is away with its work, milliseconds: it goes on with it when it is back. 0: it is back. Under
        /// an award.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        away_ms: Option<u64>,
    }
}

payload! {
    /// Ends a task towards its requester.
    TaskResponse {
        task_id: TaskId,
        /// The sender's sequence number.
        seq: Seq,
        state: TaskState,
        /// The award it was done under.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
        /// The agent whose brain did it, if it is not the sender: the word of the sender, which is accountable.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        doer: Option<AgentId>,
        /// All results, unless `chunks` is given.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<Artifact>,
        /// The number of pieces in the updates, which hold all results; between agents.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        chunks: Option<u64>,
        /// For people: a summary, or the reason.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Whether neither waiting nor another try changes the failure: the sender is not awarded the task again.
        => #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lasting: bool,
        /// What it has used, that of other agents included; believed from agents only.
        => #[serde(default, skip_serializing_if = "Usage::is_none")]
        usage: Usage,
        /// How the turn of a seat ended; believed from agents only.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        seat: Option<SeatEnd>,
        /// To whom the sender hands the chat on that it was given with the task, or back; between agents.
        => #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Option::is_none")]
        handed_on: Option<Handoff>,
    }
}

payload! {
    TaskCancel {
        task_id: TaskId,
        /// Why.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The award it ends; a later one is not touched.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    }
}

payload! {
    /// The owner's answer to a question of the agent that does its task.
    TaskAnswer {
        task_id: TaskId,
        /// The question; if absent, the only open one that takes a text.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        question_id: Option<QuestionId>,
        /// The answer: a text, the values of a form, or `{decision: approve | deny, reason}`.
        answer: Value,
        /// The award of the agent that asked; under another one it changes nothing.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
        /// The answer as an A2A client sent it, with all its parts.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Box<Message>>,
    }
}

impl Deref for TaskRequest {
    type Target = TaskTerms;

    fn deref(&self) -> &TaskTerms {
        &self.terms
    }
}

impl TaskRequest {
    /// Asks for work by these terms and nothing else.
    pub fn new(terms: TaskTerms) -> Self {
        Self {
            terms,
            task_id: None,
            artifacts: Vec::new(),
            inline_artifacts: Vec::new(),
            reply_to: None,
            on_behalf_of: None,
            root_proof: None,
            parent_task_id: None,
            run: None,
            accept: None,
            budget: Budget::default(),
            hand_on: false,
            is_review: false,
            session: None,
            exclude: Vec::new(),
            handed: None,
            extra: Map::new(),
        }
    }
}

impl TaskUpdate {
    /// An update without news: a sign of life.
    pub fn new(task_id: TaskId, seq: Seq, epoch: Option<Epoch>) -> Self {
        Self {
            task_id,
            seq,
            epoch,
            status: None,
            artifact: None,
            append: false,
            last_chunk: false,
            chunks: Vec::new(),
            restarts: false,
            away_ms: None,
            extra: Map::new(),
        }
    }

    /// Its pieces, in order.
    pub fn into_chunks(self) -> impl Iterator<Item = ArtifactChunk> {
        let (append, last_chunk) = (self.append, self.last_chunk);
        let first = self.artifact.map(|artifact| ArtifactChunk { artifact, append, last_chunk });
        first.into_iter().chain(self.chunks)
    }
}

impl TaskCancel {
    /// Its reason, in words.
    pub fn words(&self) -> String {
        self.reason.clone().unwrap_or_else(|| "cancelled by its requester".to_owned())
    }
}

impl TaskAnswer {
    /// An answer to `question`, or to the only open one that takes a text.
    pub fn new(
        task_id: TaskId,
        epoch: Option<Epoch>,
        question: Option<&QuestionId>,
        answer: &Answer,
        message: Option<&Message>,
    ) -> Self {
        let (answer, message) = (answer.to_json(), message.cloned().map(Box::new));
        Self { task_id, question_id: question.cloned(), answer, epoch, message, extra: Map::new() }
    }
}

payload! {
    /// Asks a peer for its view; the requester does not wait.
    HelpRequest {
        /// What it is about.
        question: String,
        /// Whose view is wanted.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        capability: Option<Capability>,
        /// References to what the question is about.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<ArtifactRef>,
        /// What the question is about, inline; between agents.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        inline_artifacts: Vec<Artifact>,
        /// The task it belongs to.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// The principal who asked first; believed from agents only.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        on_behalf_of: Option<Principal>,
        /// How the agent that met that principal knew who it is; believed from agents only.
        => #[serde(default, deserialize_with = "RootProof::known", skip_serializing_if = "Option::is_none")]
        root_proof: Option<RootProof>,
        /// What the answer may use.
        => #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Budget::is_none")]
        budget: Budget,
        /// The session to whose findings its own belong; believed from agents only.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<TaskId>,
        /// The run that it is a part of; believed from agents only.
        => #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Option::is_none")]
        run: Option<RunRoot>,
        /// Agents that the work on the answer does not ask.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        exclude: Vec<AgentId>,
    }
}

payload! {
    /// Answers a help request: an answer, or why there is none.
    HelpResponse {
        /// The answer.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// Why there is none.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        declined: Option<String>,
        /// Artifacts of the answer.
        => #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<Artifact>,
        /// What it has used.
        => #[serde(default, skip_serializing_if = "Usage::is_none")]
        usage: Usage,
    }
}

payload! {
    /// Puts a signal on the board.
    Broadcast {
        signal: SignalType,
        /// What it is about.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
        /// References to the content.
        => #[serde(default, skip_serializing_if = "Map::is_empty")]
        refs: Map<String, Value>,
        /// The task it belongs to.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// The capability it concerns.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        capability: Option<Capability>,
    }
}

payload! {
    Cfp {
        task_id: TaskId,
        /// The capability it needs.
        capability: Capability,
        /// The description of the work.
        description: String,
        /// When the manager stops waiting, by the manager's clock.
        bid_by: WallTime,
        /// What a bid must respect: `deadline`, `maxCost`, `acceptedModes`.
        => #[serde(default, skip_serializing_if = "Map::is_empty")]
        constraints: Map<String, Value>,
    }
}

payload! {
    /// Offers to do it.
    Bid {
        task_id: TaskId,
        /// What it would cost.
        cost: Cost,
        /// How long it would take.
        eta: Eta,
        /// How well the bidder thinks it fits; can lower, never raise, what its card supports.
        => #[serde(default, rename = "capability_match", alias = "capabilityMatch", skip_serializing_if = "Option::is_none")]
        capability_match: Option<Fraction>,
        /// How busy the bidder is.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        load: Option<Fraction>,
        /// How long the bid is valid.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_for_ms: Option<u64>,
        /// When the bidder could start, if not at once.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        starts_in_ms: Option<u64>,
    }
}

payload! {
    NoBid {
        task_id: TaskId,
        /// Why; [`BUSY`] if all places of the bidder are taken.
        reason: String,
        /// When a place is expected to be free, if the reason is [`BUSY`].
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        free_in_ms: Option<u64>,
        /// What its work waits for, if the reason is [`BUSY`] and it is no place.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        waits_for: Option<String>,
    }
}

payload! {
    /// Awards the work to a bidder.
    Award {
        task_id: TaskId,
        /// The epoch of the award; all later messages about it carry it.
        epoch: Epoch,
        /// The lease: how long the bidder may be silent.
        lease_ms: u64,
        /// The specification of the task.
        task: TaskSpec,
        /// Whether no other bidder is left: if the work is handed back, a new round follows.
        => #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_last: bool,
        /// What was refused of the bidder's result under the award before.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<Box<ResultRevision>>,
    }
}

payload! {
    AwardAccept {
        task_id: TaskId,
        epoch: Epoch,
    }
}

payload! {
    AwardDecline {
        task_id: TaskId,
        epoch: Epoch,
        /// Why; [`BUSY`] if all places of the bidder are taken.
        reason: String,
        /// When a place is expected to be free, if the reason is [`BUSY`].
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        free_in_ms: Option<u64>,
        /// What it has used, that of other agents included.
        => #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    }
}

payload! {
    Reject {
        task_id: TaskId,
        reason: String,
    }
}
