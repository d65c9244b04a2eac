//! The input and output of a turn of a brain: one JSON line in, JSON lines out.

use super::speech::{Directive, SideMode};
use protocol::{
    a2a::message::Message,
    acceptance::ResultRevision,
    answer::SeatEnd,
    artifact::{Artifact, Part},
    handoff::{ChatHandover, Handoff},
    ids::{Address, AgentId, Capability, Digest, SpaceId, TaskId},
    message::Epoch,
    question::Question,
    signal::{SignalRecord, SignalType},
    spaces::{
        EntryDraft,
        brief::{BriefRecord, TurnBrief},
        request::EntrySearch,
    },
    task::PastTask,
    usage::{ModelUsage, RemainingBudget, ToolUse, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

pub use wire::{
    answer::RequestResult,
    context::{PastTurn, TurnContext},
    line::{Checkpoint, Delegate, Help},
    task::{PeerQuestion, ResultToCheck, Task as TurnTask},
};

/// One turn's question. A brain keeps nothing between turns: all it needs is here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    pub turn: u32,
    /// The epoch of the award or claim that the task is done under: a fencing token for writes outside of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// What to do, or what to say something about.
    #[serde(flatten)]
    pub about: TurnSubject,
    /// What this brain has produced so far: in earlier turns, and in this one before it began again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produced: Vec<Artifact>,
    /// The results of all requests of earlier turns of the task, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<RequestResult>,
    /// The owner's messages that no earlier turn was given, as an A2A client sent them, with all their parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Earlier tasks of the same A2A context, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastTask>,
    /// The checkpoints that count, of this turn and of earlier ones, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Value>,
    /// The earlier turns of the seat, if it is the turn of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<TurnContext>>,
    /// How its chat came to the agent, if another one has handed it over, or back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<ChatHandover>,
    /// The space of the task; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceId>,
    /// The session to whose findings its own belong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<TaskId>,
    /// What that space knows that matters to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Box<TurnBrief>>,
    /// What the task has used so far.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub used: Usage,
    /// What is left of its bounds.
    #[serde(default, skip_serializing_if = "RemainingBudget::is_default")]
    pub remaining: RemainingBudget,
    /// What was refused of an earlier result of this task, if the task is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Box<ResultRevision>>,
}

impl Prompt {
    /// All artifacts that the turn is given.
    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        let subject = match &self.about {
            TurnSubject::Task(task) => task.artifacts.as_slice(),
            TurnSubject::Help(asked) => asked.artifacts.as_slice(),
            TurnSubject::Check { .. } | TurnSubject::Signal(_) => &[],
        };
        let earlier = self.context.iter().flat_map(|context| &context.turns);
        let earlier = earlier.flat_map(|turn| turn.new.iter().chain(&turn.produced));
        let answered = self.answers.iter().flat_map(|answer| &answer.artifacts);
        let refused = self.revision.iter().flat_map(|revision| &revision.artifacts);
        earlier.chain(subject).chain(answered).chain(refused).chain(&self.produced)
    }

    /// The parts of all artifacts and messages that the turn is given.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let said = self.messages.iter().flat_map(|message| &message.parts);
        self.artifacts().flat_map(|artifact| &artifact.parts).chain(said)
    }

    /// The prompt of turn number `turn` with nothing but its subject.
    pub fn new(turn: u32, about: TurnSubject) -> Self {
        Self {
            turn,
            epoch: None,
            about,
            produced: Vec::new(),
            answers: Vec::new(),
            messages: Vec::new(),
            history: Vec::new(),
            checkpoints: Vec::new(),
            context: None,
            handover: None,
            space: None,
            session: None,
            brief: None,
            used: Usage::default(),
            remaining: RemainingBudget::default(),
            revision: None,
        }
    }

    /// The owner's messages that no earlier turn was given, without the one that began the task: the first turn is about that.
    pub fn new_messages(&self) -> impl Iterator<Item = &Message> {
        let first = self.messages.first().filter(|first| self.turn == 1 && first.task_id.is_none());
        self.messages.iter().skip(usize::from(first.is_some()))
    }

    /// The answers that no earlier turn was given.
    pub fn new_answers(&self) -> impl Iterator<Item = &RequestResult> {
        self.answers.iter().filter(|answer| answer.for_turn == self.turn)
    }
}

/// What a turn is about.
pub type TurnSubject = wire::task::Subject<Box<SignalRecord>>;

/// The most bytes of all checkpoints of a task that count, as JSON; a turn with more fails.
pub const MAX_CHECKPOINT_BYTES: usize = 8 << 20;

/// What a brain reports while it thinks. `help`, `delegate` and `question` are taken up when the turn ends, unless they say
/// `wait: false`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Progress {
    /// How far it is.
    Status { message: String },
    /// A result, or a piece of one.
    #[serde(rename_all = "camelCase")]
    Artifact {
        artifact: Artifact,
        /// Whether it joins the artifact of the same id.
        #[serde(default)]
        append: bool,
        /// Whether no piece follows.
        #[serde(default)]
        last_chunk: bool,
    },
    /// Something everyone may hear.
    #[serde(rename_all = "camelCase")]
    Signal {
        signal: SignalType,
        /// What it is about.
        #[serde(default)]
        subject: Option<String>,
        /// The capability it concerns.
        #[serde(default)]
        capability: Option<Capability>,
        /// References to the content.
        #[serde(default)]
        refs: Map<String, Value>,
    },
    /// A question to a peer, or to peers with a capability. A later turn gets the answer.
    Help(Help),
    /// A task for another agent. A later turn gets the result.
    Delegate(Delegate),
    /// A message to other seats of a session. It travels with the end of the turn.
    Say {
        /// The names of the seats, or `team` for all.
        to: Vec<String>,
        text: String,
        /// What it opens, if it is for one seat.
        #[serde(default, skip_serializing_if = "SideMode::is_dialogue")]
        mode: SideMode,
    },
    /// A directive of a supervisor to its session. It travels with the end of the turn.
    Directive(Box<Directive>),
    /// A question to the task's owner. A later turn gets the answer.
    Question(Question),
    /// An entry for the space of the task.
    Post { entry: Box<EntryDraft> },
    /// A search in the space of the task. A later turn gets the result.
    #[serde(rename_all = "camelCase")]
    Find {
        /// The brain's name for it.
        id: String,
        /// What is searched for.
        #[serde(flatten)]
        query: EntrySearch,
        /// Whether the turn ends with it. Otherwise it is sent at once, and the turn goes on.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        wait: bool,
    },
    /// The chat of the task is handed over, and the turn ends. A later turn is told if that is refused.
    Handoff(HandoffRequest),
    /// The end of a task of anybody's is awaited. A later turn gets it.
    #[serde(rename_all = "camelCase")]
    AwaitTask {
        /// The id of the task.
        id: String,
        /// The same.
        task: TaskId,
    },
    /// The brief that the turn was given. The node reports it, not the brain.
    Brief(Box<BriefRecord>),
    /// A note to itself.
    Checkpoint(Checkpoint),
    /// What one call of a model has used.
    Usage(ModelUsage),
    /// A call of a tool has ended.
    Tool(ToolUse),
    /// A line for the node's log.
    Log { message: String },
}

/// A chat that a brain hands over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandoffRequest {
    /// The brain's name for it.
    pub id: String,
    /// The agent with which the chat goes on.
    pub to: AgentId,
    /// Why.
    pub reason: String,
    /// Why it can't be, as far as the mesh knows which agents there are. The engine adds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl From<Handoff> for HandoffRequest {
    fn from(Handoff { to, reason }: Handoff) -> Self {
        Self { id: format!("handoff-{to}"), to, reason, refusal: None }
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

/// What makes a request the same again, in the JSON that every version digests.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
enum RequestContent<'a> {
    Help {
        id: &'a str,
        to: &'a Address,
        question: &'a str,
        artifacts: &'a [String],
    },
    Delegate {
        id: &'a str,
        to: &'a Address,
        #[serde(skip_serializing_if = "Option::is_none")]
        capability: Option<&'a Capability>,
        description: &'a str,
        input: Option<&'a Value>,
        artifacts: &'a [String],
    },
    Find {
        id: &'a str,
        #[serde(flatten)]
        query: &'a EntrySearch,
    },
    AwaitTask {
        id: &'a str,
    },
    Handoff {
        id: &'a str,
        to: &'a AgentId,
    },
    Question(Question),
}

impl Progress {
    /// The brain's own id of this request.
    pub fn request_id(&self) -> Option<&String> {
        match self {
            Self::Help(Help { id, .. })
            | Self::Delegate(Delegate { id, .. })
            | Self::Question(Question { id, .. })
            | Self::Find { id, .. }
            | Self::Handoff(HandoffRequest { id, .. })
            | Self::AwaitTask { id, .. } => Some(id),
            _ => None,
        }
    }

    /// A number for the content of this request, without `wait`, `budget` and `expiresAt`: a repeat of it has the same.
    pub fn request_content(&self) -> Option<u64> {
        let content = match self {
            Self::Help(Help { id, to, question, artifacts, .. }) => {
                RequestContent::Help { id, to, question, artifacts }
            }
            Self::Delegate(Delegate { id, to, capability, description, input, artifacts, .. }) => {
                let (capability, input) = (capability.as_ref(), input.as_ref());
                RequestContent::Delegate { id, to, capability, description, input, artifacts }
            }
            Self::Find { id, query, .. } => RequestContent::Find { id, query },
            Self::AwaitTask { id, .. } => RequestContent::AwaitTask { id },
            Self::Handoff(HandoffRequest { id, to, .. }) => RequestContent::Handoff { id, to },
            Self::Question(asked) => {
                RequestContent::Question(Question { wait: true, expires_at: None, ..asked.clone() })
            }
            _ => return None,
        };
        serde_json::to_vec(&content).ok().map(|json| Digest::of(&json).prefix())
    }

    /// Whether the result of this request comes with a later turn, and if so, whether the turn ends with it.
    pub fn waits(&self) -> Option<bool> {
        match self {
            Self::Help(Help { wait, .. })
            | Self::Delegate(Delegate { wait, .. })
            | Self::Question(Question { wait, .. })
            | Self::Find { wait, .. } => Some(*wait),
            Self::AwaitTask { .. } | Self::Handoff(_) => Some(true),
            _ => None,
        }
    }
}

/// The shortest pause of a turn. A brain that always asks for a shorter one is not called without a break.
pub const MIN_PAUSE: Duration = Duration::from_secs(1);

/// How long a turn pauses that asks for `after_ms` milliseconds.
pub(super) fn pause_length(after_ms: u64) -> Duration {
    Duration::from_millis(after_ms).max(MIN_PAUSE)
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "end")]
pub enum TurnEnd {
    /// The work is done. Without an artifact or a message there is no result, and that is a failure.
    Done {
        /// A summary, or for help: the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// It can't be done.
    Failed { reason: String },
    /// It can't be done, and neither waiting nor another try changes that. An agent whose work ends so is not awarded it again.
    LastingFailure { reason: String },
    /// It will not be done: the agent does not take it.
    Rejected { reason: String },
    /// The answer, without a task. If there is a task already, it is done with this as its summary.
    Message { text: String },
    /// The turn of a seat in a session is over.
    Seat {
        /// What it says to all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Whether the seat is done with the stage, and the label.
        #[serde(flatten)]
        seat: SeatEnd,
    },
    /// The chat of the task is handed over.
    Handoff(HandoffRequest),
    /// It waits for the results of its requests: of all that end a turn, or else for the first of the others.
    Waiting,
    /// It waits for these, and for the end of a task of anybody's.
    WaitingFor { task: TaskId },
    /// It goes on later with the same checkpoints. Until then it takes no place.
    #[serde(rename_all = "camelCase")]
    Pause {
        /// After which time, milliseconds; at least [`MIN_PAUSE`].
        after_ms: u64,
        reason: String,
    },
}
