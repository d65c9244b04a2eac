//! How agents work together. A *pattern* is a pure state machine; a *conversation* is one agent's side of one run of it.
//!
//! Everything that happens is an [`Event`]; a pattern answers with [`Effect`]s; one driver records both in one commit and
//! then performs. Late, repeated and out-of-order events are tolerated by every pattern: they change nothing.

pub mod accountable;
pub mod thought;

pub mod broadcast;
pub mod contract_net;
pub mod delegation;
pub mod help_request;
pub mod joint;
pub mod open_task;
pub mod reaction;
pub mod redelivery;

use crate::{
    artifact::Artifact,
    card::Card,
    envelope::Envelope,
    ids::{Address, AgentId, Capability, ConversationId, MessageId, TaskId},
    message::{Epoch, Payload},
    principal::Principal,
    signal::Signal,
    task::Status,
    time::{NodeTime, WallTime},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, time::Duration};
use thought::{Progress, Prompt, TurnEnd};

/// A way of working together, from one agent's side.
pub trait Pattern: Serialize + DeserializeOwned {
    /// What follows from `event`. Same state, same event: same effects, in the same order.
    fn on(&mut self, event: &Event) -> Vec<Effect>;
}

/// Something that happened to a conversation, with both clocks as they stood then, read once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// On the node's clock.
    pub at: NodeTime,
    /// On the wall clock.
    pub wall: WallTime,
    /// What happened.
    pub what: What,
}

/// All that can happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum What {
    /// The conversation was opened. Always the first event, never seen again.
    Started,
    /// A message came for it.
    Heard {
        /// Who was proven to have sent it.
        by: Principal,
        /// The label of the message it answers, if it answers one of this conversation's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<String>,
        /// The message.
        envelope: Box<Envelope>,
    },
    /// The brain reported while thinking.
    Progress {
        /// The turn it belongs to.
        turn: u32,
        /// What it reported, in order.
        updates: Vec<Progress>,
    },
    /// The brain finished its turn.
    Thought {
        /// Which turn.
        turn: u32,
        /// What was left to report, then how the turn ended.
        updates: Vec<Progress>,
        /// How.
        end: TurnEnd,
    },
    /// The brain failed: it died, hung past its deadline, or said nothing that makes sense.
    ThoughtFailed {
        /// Which turn.
        turn: u32,
        /// Why.
        reason: String,
    },
    /// A claim was written; its epoch names everything done under it.
    Claimed {
        /// Whose work it is now.
        holder: AgentId,
        /// The revision of the claim's write.
        epoch: Epoch,
    },
    /// Somebody else holds the claim.
    ClaimLost {
        /// Who.
        holder: Option<AgentId>,
    },
    /// A claim's lease ran out.
    ClaimExpired {
        /// The claim.
        epoch: Epoch,
    },
    /// A claim on the board was ended there, as was asked.
    ClaimEnded {
        /// The claim.
        epoch: Epoch,
    },
    /// A timer went off. A timer set again under the same name goes off once, at the later setting.
    Woke {
        /// Its name.
        timer: String,
    },
    /// A message was acknowledged by its recipient.
    Told {
        /// The label it was told under.
        label: String,
        /// Who acknowledged it.
        by: AgentId,
    },
    /// A message was given up: refused, expired, or nobody to be found.
    Undelivered {
        /// The label it was told under.
        label: String,
        /// Why, as a `reasonCode`.
        reason: String,
        /// In words.
        message: String,
    },
    /// Signals were asked to be published and are on the board.
    Published {
        /// The signal's revision there.
        revision: u64,
    },
    /// The peers that were looked for.
    PeersFound {
        /// The label they were looked for under.
        label: String,
        /// Those there are, each as the directory knows it.
        candidates: Vec<Candidate>,
    },
    /// The task's owner answered the open question.
    Answered {
        /// Who.
        by: Principal,
        /// The answer.
        text: String,
        /// The same as an A2A client said it, with all its parts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Box<crate::a2a::message::Message>>,
    },
    /// The task's owner ended it.
    Cancelled {
        /// Who.
        by: Principal,
        /// Why.
        reason: String,
    },
    /// The node leaves before this is done: what others can do is handed back to them, the rest waits for its return.
    Leaving {
        /// Why, for those it is handed back to.
        reason: String,
    },
}

/// A peer that may be asked, as the directory and the manager's own records know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Its registered card.
    pub card: Card,
    /// Tasks it is doing, by its last heartbeat.
    pub running: u32,
    /// Whether its lease stands.
    pub is_alive: bool,
    /// How it kept its word with this manager: 0 to 1.
    pub track_record: f64,
}

/// What a pattern wants done. Closed: the driver performs each for every pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "effect")]
#[expect(clippy::large_enum_variant, reason = "most effects of a step are messages")]
pub enum Effect {
    /// Send a message; its id is the effect's. → [`What::Told`] or [`What::Undelivered`].
    Tell(Tell),
    /// Send a message again as it was, under its own id. → [`What::Told`] or [`What::Undelivered`], labelled `resend`.
    Resend(Box<Envelope>),
    /// Run one turn of the brain. → [`What::Progress`]*, then [`What::Thought`] or [`What::ThoughtFailed`].
    Think {
        /// Counts this conversation's turns, from 1.
        turn: u32,
        /// What the brain is asked.
        prompt: Box<Prompt>,
        /// When the turn must have ended, if before the node's own limit.
        deadline: Option<WallTime>,
    },
    /// Stop the brain; no event follows.
    StopThinking,
    /// Put a signal on the board. → [`What::Published`], whenever the board can be reached.
    Publish {
        /// The signal; its id is the effect's.
        signal: Announcement,
    },
    /// Write a claim in the agent's own store. → [`What::Claimed`].
    Claim {
        /// What is claimed.
        task: TaskId,
        /// For whom.
        holder: AgentId,
        /// For how long, without a sign of life.
        lease: Duration,
    },
    /// Free a claim in the agent's own store; no event follows.
    Release {
        /// What was claimed.
        task: TaskId,
        /// Which claim; another is not touched.
        epoch: Epoch,
    },
    /// Claim an open task on the board, for this agent. → [`What::Claimed`] or [`What::ClaimLost`], whenever the board
    /// can be reached.
    ClaimOpen {
        /// What is claimed.
        task: TaskId,
        /// For how long, without a sign of life.
        lease: Duration,
    },
    /// Start the lease of a claim on the board afresh. → [`What::Claimed`] or [`What::ClaimExpired`].
    RenewOpen {
        /// What was claimed.
        task: TaskId,
        /// Which claim.
        epoch: Epoch,
    },
    /// End a claim on the board for good; the board tells of it. → [`What::ClaimEnded`] or [`What::ClaimExpired`].
    CloseOpen {
        /// What was claimed.
        task: TaskId,
        /// Which claim.
        epoch: Epoch,
        /// Whether the task is done; else it will not be.
        is_done: bool,
    },
    /// Give a claim on the board back; the board offers the task again. → [`What::ClaimEnded`] or [`What::ClaimExpired`].
    ReleaseOpen {
        /// What was claimed.
        task: TaskId,
        /// Which claim.
        epoch: Epoch,
    },
    /// Keep and show the conversation's task from here on.
    TakeOn {
        /// What is to be done.
        spec: Box<crate::task::TaskSpec>,
        /// Whose task it is.
        owner: Principal,
        /// The claim it is done under.
        epoch: Epoch,
    },
    /// Look for peers with a capability. → [`What::PeersFound`].
    FindPeers {
        /// Comes back in the event.
        label: String,
        /// What they must be able to do.
        capability: Capability,
    },
    /// Go off at a time. Setting a timer again moves it. → [`What::Woke`].
    WakeAt {
        /// Its name within the conversation.
        timer: String,
        /// When.
        when: When,
    },
    /// Forget a timer; no event follows.
    Forget {
        /// Its name.
        timer: String,
    },
    /// Ask the task's owner. → [`What::Answered`].
    AskHuman {
        /// What.
        question: String,
        /// Whether it is a credential that is asked for.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        auth: bool,
    },
    /// Show progress of the task to whoever watches it.
    Update(Update),
    /// Note who is doing the task, so that it shows.
    Assign {
        /// Who; `None` when nobody is.
        doer: Option<AgentId>,
    },
    /// The conversation has come to its end.
    Finish(Outcome),
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tell {
    /// Comes back in [`What::Told`] and [`What::Undelivered`].
    pub label: String,
    /// To whom. A capability is resolved by the agent itself: it becomes the manager or asker of a conversation of
    /// its own, whose answers come back here.
    pub to: Address,
    /// The recipient's conversation, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The message this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MessageId>,
    /// The agents the task came through, this one excluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<AgentId>,
    /// When it is of no use any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<WallTime>,
    /// What is said.
    #[serde(flatten)]
    pub payload: Payload,
}

/// A signal to be published; the driver adds the publisher, the id and the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The signal's type.
    pub kind: crate::signal::SignalType,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The capability it speaks to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// Where the content lies.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub refs: serde_json::Map<String, serde_json::Value>,
}

impl Announcement {
    /// A signal of this type about this task.
    pub fn about(kind: crate::signal::SignalType, task: &TaskId) -> Self {
        Self {
            kind,
            subject: None,
            task_id: Some(task.clone()),
            capability: None,
            refs: serde_json::Map::new(),
        }
    }

    /// The signal itself.
    pub fn signed(self, id: String, from: AgentId, at: WallTime) -> Signal {
        Signal {
            id,
            kind: self.kind,
            from,
            subject: self.subject,
            task_id: self.task_id,
            capability: self.capability,
            refs: self.refs,
            at,
        }
    }
}

/// When a timer goes off: windows and leases on the node's clock, callers' deadlines on the wall's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// Stands still while the node is down.
    Node(NodeTime),
    /// Goes on while the node is down.
    Wall(WallTime),
}

/// Progress of a task, as its watchers see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Update {
    /// It stands somewhere else now.
    Status(Status),
    /// There is a result, or a piece of one.
    Artifact {
        /// The piece.
        artifact: Artifact,
        /// Whether it joins what came before.
        append: bool,
        /// Whether no piece follows.
        last_chunk: bool,
    },
}

/// How a conversation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The task's terminal status; for a conversation without a task, whether it came to something.
    pub status: Status,
    /// The task's results, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// How peers kept their word: feeds the manager's track records.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_word: BTreeMap<AgentId, Vec<bool>>,
    /// Whether the message is all there is, and no task was made of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_message: bool,
}

/// Every pattern there is. A new one is a file, a variant here, and a line in `each!`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "pattern")]
pub enum AnyPattern {
    /// One agent does a task.
    Delegation(delegation::Delegation),
    /// One agent asks others for their view, or gives its own.
    HelpRequest(help_request::HelpRequest),
    /// A message becomes a signal.
    Broadcast(broadcast::Broadcast),
    /// A manager gives a task to the best bidder.
    ContractNet(Box<contract_net::ContractNet>),
    /// A dead letter is sent again.
    Redelivery(redelivery::Redelivery),
    /// An agent reacts to a signal it subscribes to.
    Reaction(Box<reaction::Reaction>),
    /// An agent does a task that was offered on the board.
    OpenTask(Box<open_task::OpenTask>),
}

impl Pattern for AnyPattern {
    fn on(&mut self, event: &Event) -> Vec<Effect> {
        match self {
            Self::Delegation(pattern) => pattern.on(event),
            Self::HelpRequest(pattern) => pattern.on(event),
            Self::Broadcast(pattern) => pattern.on(event),
            Self::ContractNet(pattern) => pattern.on(event),
            Self::Redelivery(pattern) => pattern.on(event),
            Self::Reaction(pattern) => pattern.on(event),
            Self::OpenTask(pattern) => pattern.on(event),
        }
    }
}

impl AnyPattern {
    /// The version of the rules a state was computed by; recorded with every state.
    pub const RULES: u32 = 1;

    /// Its name, for people and traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delegation(_) => "delegation",
            Self::HelpRequest(_) => "help-request",
            Self::Broadcast(_) => "broadcast",
            Self::ContractNet(_) => "contract-net",
            Self::Redelivery(_) => "redelivery",
            Self::Reaction(_) => "reaction",
            Self::OpenTask(_) => "open-task",
        }
    }

    /// Whether it is work under somebody's award, which another bidder would get if it is handed back.
    pub fn has_runner_up(&self) -> bool {
        matches!(self, Self::Delegation(delegation)
            if delegation.accountable.is_awarded() && !delegation.accountable.is_last)
    }

    /// The award record, where there is one.
    pub fn award(&self) -> Option<&contract_net::record::AwardRecord> {
        match self {
            Self::ContractNet(net) => Some(net.record()),
            Self::Delegation(_)
            | Self::HelpRequest(_)
            | Self::Broadcast(_)
            | Self::Redelivery(_)
            | Self::Reaction(_)
            | Self::OpenTask(_) => None,
        }
    }
}
