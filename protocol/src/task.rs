//! The one task: A2A's states, A2A's JSON (A2A §4.1.1–4.1.3). What the mesh adds is in `metadata` under
//! [`EXTENSION`].

use crate::{
    a2a::{
        self,
        message::{Message, Role},
    },
    acceptance::{AcceptanceDemand, MAX_CHECKS, ResultCheck},
    artifact::Artifact,
    budget::Budget,
    handoff::HandedChat,
    ids::{AgentId, ConversationId, SpaceId, TaskId},
    json::any_version::of_any_version,
    principal::{Principal, RootProof, TaskRoot},
    question::Question,
    run_root::RunRoot,
    spaces::Space,
    time::WallTime,
    usage::Usage,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use std::{fmt, ops::Deref};

pub use wire::task::{PastTask, TaskState, TaskTerms};

/// The URI under which a task's metadata carries what the mesh adds: path, conversation, award.
pub const EXTENSION: &str = "urn:agent-mesh:ext:task:v1";

/// Which turn of a session a task with this input is, if it is one: session, stage, iteration, round and seat.
pub fn seat_turn(input: Option<&Value>) -> Option<Value> {
    let seat = input?.get("seat")?.as_object()?;
    let named = ["session", "stage", "iteration", "round", "seat"].map(|name| (name, seat.get(name)));
    let known = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.clone())));
    Some(Value::Object(known.collect()))
}

/// The key of an open task on the board. Ids of open tasks belong to the publisher.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTaskKey {
    /// The principal that offered it.
    pub publisher: Principal,
    /// The publisher's id for it.
    pub task_id: TaskId,
}

impl fmt::Display for OpenTaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.task_id, self.publisher)
    }
}

/// The specification of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSpec {
    pub task_id: TaskId,
    /// Read them as members of the specification.
    #[serde(flatten)]
    pub terms: TaskTerms,
    /// Content it starts from, already resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The agents on its path, oldest first, each authenticated by the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<AgentId>,
    /// The requester's own task that this one is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// The run that it is a part of; absent if it is the root of one.
    #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Option::is_none")]
    pub run: Option<RunRoot>,
    /// The principal at the root of the request. It may see everything that is done for it.
    pub root: Principal,
    /// How the agent that met the root proved who it is; unproven if absent.
    #[serde(default, deserialize_with = "RootProof::known", skip_serializing_if = "Option::is_none")]
    pub root_proof: Option<RootProof>,
    /// What the work on it may use.
    #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Budget::is_none")]
    pub budget: Budget,
    /// What its result must pass, as its requester demands it.
    #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Option::is_none")]
    pub accept: Option<Box<AcceptanceDemand>>,
    /// The A2A request, if an A2A client sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<Box<A2aRequestContext>>,
    /// The space that it belongs to; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceId>,
    /// The session to whose findings its own belong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<TaskId>,
    /// What began it in place of a request.
    #[serde(default, deserialize_with = "TaskOrigin::known", skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<TaskOrigin>>,
    /// Earlier tasks of the same A2A context, the oldest first, at most [`MAX_PAST_BYTES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastTask>,
    /// Agents that are not asked for a bid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<AgentId>,
    /// The chat that it is a message of, if its requester has handed that over.
    #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Option::is_none")]
    pub handed: Option<Box<HandedChat>>,
}

impl Deref for TaskSpec {
    type Target = TaskTerms;

    fn deref(&self) -> &TaskTerms {
        &self.terms
    }
}

impl TaskSpec {
    /// The task `task_id` of `root`, which demands `terms` and nothing else.
    pub fn new(task_id: TaskId, terms: TaskTerms, root: Principal) -> Self {
        Self {
            task_id,
            terms,
            artifacts: Vec::new(),
            path: Vec::new(),
            parent: None,
            run: None,
            root,
            root_proof: None,
            budget: Budget::default(),
            accept: None,
            contact: None,
            space: None,
            session: None,
            origin: None,
            history: Vec::new(),
            exclude: Vec::new(),
            handed: None,
        }
    }

    /// The task as a brain is given it.
    pub fn for_brain(&self) -> wire::task::Task {
        let Self { task_id, terms, artifacts, .. } = self;
        wire::task::Task { task_id: task_id.clone(), terms: terms.clone(), artifacts: artifacts.clone() }
    }

    /// The principal at its root, with the proof of that.
    pub fn task_root(&self) -> TaskRoot {
        TaskRoot { principal: self.root.clone(), proof: self.root_proof }
    }

    /// The space that it belongs to.
    pub fn space(&self) -> SpaceId {
        self.space.clone().unwrap_or_else(|| Space::initial_default().id)
    }
}

/// What began a task in place of a request of somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TaskOrigin {
    /// A schedule of the agent.
    Schedule {
        name: String,
        /// When it was due; when it was asked for, if somebody has run it by hand.
        due_at: WallTime,
        /// Whether somebody has run it by hand.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_hand: bool,
    },
    /// A webhook that another system has called.
    Trigger {
        name: String,
        /// The delivery, as its sender names it.
        delivery: String,
    },
}

impl TaskOrigin {
    /// An origin that this version knows. What a later version adds counts as none.
    pub fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<Self>>, D::Error> {
        Ok(serde_json::from_value(Value::deserialize(from)?).ok())
    }
}

impl fmt::Display for TaskOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schedule { name, due_at, by_hand: false } => write!(f, "schedule {name}, due {due_at}"),
            Self::Schedule { name, due_at, by_hand: true } => {
                write!(f, "schedule {name}, run by hand at {due_at}")
            }
            Self::Trigger { name, delivery } => write!(f, "trigger {name}, delivery {delivery}"),
        }
    }
}

/// The most bytes of the history of a context, as JSON.
pub const MAX_PAST_BYTES: usize = 16 * 1024;

/// The A2A request that began a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aRequestContext {
    /// The context the client named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The tenant it belongs to; no other sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Whether it is for this agent alone: it is neither auctioned nor passed on, and it goes before other work of its owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_addressed: bool,
    /// The message of the client.
    pub message: Message,
}

/// A status: the state, and an optional message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The status of the task.
    pub state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The questions that wait for a person.
    #[serde(default, deserialize_with = "of_any_version", skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// Whether it tells of a pause or of its end: the tasks that wait for this one show it, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pause: bool,
    /// The agent whose words they are, if another one works under an award.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AgentId>,
}

impl Status {
    /// The state with a message.
    pub fn new(state: TaskState, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::of(state) }
    }

    /// The state alone.
    pub fn of(state: TaskState) -> Self {
        Self { state, message: None, questions: Vec::new(), is_pause: false, by: None }
    }
}

/// A task as its agent stores and shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub spec: TaskSpec,
    /// The conversation that does it.
    pub conversation: ConversationId,
    /// The principal that requested it from this agent.
    pub owner: Principal,
    /// Other principals that may see it.
    #[serde(default)]
    pub participants: Vec<Principal>,
    /// The agent that does it, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doer: Option<AgentId>,
    pub status: Status,
    /// When the status changed last.
    pub changed_at: WallTime,
    /// When it was accepted.
    pub created_at: WallTime,
    /// What has been produced so far. The stored row has none: the chunks are records of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The messages since it began: questions and answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Whether the agent answered with a message instead of a task (A2A §3.1.1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_message: bool,
    /// What it has used, that of other agents included.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub usage: Usage,
    /// What is reserved for other agents that work on parts of it.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    pub reserved: Budget,
    /// The bound that its work has passed with what may be its last call, and the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget: Option<String>,
    /// The checks of its results, the oldest first, at most [`MAX_CHECKS`](crate::acceptance::MAX_CHECKS).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ResultCheck>,
}

/// The most messages of one task that are kept, beside the one it began with; the oldest go first.
pub const MAX_HISTORY: usize = 200;

/// Whether `principal` may see a task: its `owner`, the one for whom its `root` was opened, and its `participants` may.
pub fn may_see(
    principal: &Principal,
    owner: &Principal,
    root: &Principal,
    participants: &[Principal],
) -> bool {
    [owner, root].contains(&principal) || participants.contains(principal)
}

impl Task {
    /// Whether `principal` may see it.
    pub fn is_visible_to(&self, principal: &Principal) -> bool {
        may_see(principal, &self.owner, &self.spec.root, &self.participants)
    }

    /// The context it belongs to: the one its client named, else its own.
    pub fn context_id(&self) -> &str {
        let named = self.spec.contact.as_ref().and_then(|contact| contact.context_id.as_deref());
        named.unwrap_or(self.conversation.as_str())
    }

    /// The tenant it belongs to.
    pub fn tenant(&self) -> Option<&str> {
        self.spec.contact.as_ref()?.tenant.as_deref()
    }

    /// Appends the owner's message to the history, after the open question.
    pub fn append_owner_message(&mut self, message: Message) {
        if self.status.state.is_interrupted() {
            self.history.extend(self.status_message(&self.status, self.changed_at));
        }
        self.history.push(message);
        let old = self.history.len().saturating_sub(MAX_HISTORY);
        self.history.drain(..old);
    }

    /// Appends the record of a check; the oldest go first.
    pub fn append_check(&mut self, check: ResultCheck) {
        self.checks.push(check);
        let old = self.checks.len().saturating_sub(MAX_CHECKS);
        self.checks.drain(..old);
    }

    /// A2A's TaskStatus.
    pub fn status_a2a(&self, status: &Status, at: WallTime) -> a2a::task::TaskStatus {
        let message = self.status_message(status, at);
        a2a::task::TaskStatus { state: status.state, message, timestamp: Some(at) }
    }

    fn status_message(&self, status: &Status, at: WallTime) -> Option<Message> {
        let text = status.message.as_ref()?;
        let id = format!("{}.{}.{}", self.spec.task_id, status.state.word(), at.0);
        Some(self.signed(Message::text(id, Role::Agent, text)))
    }

    /// The answer, if there is no task.
    pub fn answer_a2a(&self) -> Message {
        let text = self.status.message.clone().unwrap_or_default();
        let message = Message::text(format!("{}.answer", self.spec.task_id), Role::Agent, text);
        Message { context_id: Some(self.context_id().to_owned()), ..message }
    }

    /// The same message with this task's id.
    fn signed(&self, message: Message) -> Message {
        Message {
            task_id: Some(self.spec.task_id.to_string()),
            context_id: Some(self.context_id().to_owned()),
            ..message
        }
    }

    /// A2A's Task, with what the mesh adds under [`EXTENSION`].
    pub fn to_a2a(&self) -> a2a::task::A2aTask {
        let mut ours = json!({
            "conversationId": self.conversation,
            "description": self.spec.description,
            "owner": self.owner,
            "createdAt": self.created_at,
            "path": self.spec.path,
        });
        if let Some(members) = ours.as_object_mut() {
            let named = [
                ("capability", self.spec.capability.as_ref().map(|capability| json!(capability))),
                ("parentTaskId", self.spec.parent.as_ref().map(|parent| json!(parent))),
                ("space", self.spec.space.as_ref().map(|space| json!(space))),
                ("origin", self.spec.origin.as_ref().map(|origin| json!(origin))),
                ("doer", self.doer.as_ref().map(|doer| json!(doer))),
                ("seat", seat_turn(self.spec.input.as_ref())),
                ("checks", (!self.checks.is_empty()).then(|| json!(self.checks))),
                ("usage", (!self.usage.is_none()).then(|| json!(self.usage))),
                ("budget", (!self.spec.budget.is_none()).then(|| json!(self.spec.budget))),
                ("reserved", (!self.reserved.is_none()).then(|| json!(self.reserved))),
                ("overBudget", self.over_budget.as_ref().map(|figures| json!(figures))),
                ("questions", (!self.status.questions.is_empty()).then(|| json!(self.status.questions))),
            ];
            members.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        let first = self.spec.contact.as_ref().map(|contact| contact.message.clone());
        a2a::task::A2aTask {
            id: self.spec.task_id.to_string(),
            context_id: self.context_id().to_owned(),
            status: self.status_a2a(&self.status, self.changed_at),
            artifacts: self.artifacts.clone(),
            history: first.into_iter().chain(self.history.clone()).map(|said| self.signed(said)).collect(),
            metadata: [(EXTENSION.to_owned(), ours)].into_iter().collect(),
        }
    }
}
