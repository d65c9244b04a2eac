//! What a pattern wants done: a closed list, which one driver performs.

use super::thought::Prompt;
use crate::{
    artifact::Artifact,
    envelope::Envelope,
    ids::{Address, AgentId, Capability, ConversationId, MessageId, TaskId},
    message::{Epoch, Payload},
    principal::Principal,
    signal::Signal,
    task::Status,
    time::{NodeTime, WallTime},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// What a pattern wants done. Closed: the driver performs each for every pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "effect")]
#[expect(clippy::large_enum_variant, reason = "most effects of a step are messages")]
pub enum Effect {
    /// Send a message; its id is the effect's. → `What::Told` or `What::Undelivered`.
    Tell(Tell),
    /// Send a message again as it was, under its own id. → `What::Told` or `What::Undelivered`, labelled `resend`.
    Resend(Box<Envelope>),
    /// Run one turn of the brain. → `What::Progress`*, then `What::Thought` or `What::ThoughtFailed`.
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
    /// Put a signal on the board. → `What::Published`, whenever the board can be reached.
    Publish {
        /// The signal; its id is the effect's.
        signal: Announcement,
    },
    /// Write a claim in the agent's own store. → `What::Claimed`.
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
    /// Claim an open task on the board, for this agent. → `What::Claimed` or `What::ClaimLost`, whenever the board
    /// can be reached.
    ClaimOpen {
        /// What is claimed.
        task: TaskId,
        /// For how long, without a sign of life.
        lease: Duration,
    },
    /// Start the lease of a claim on the board afresh. → `What::Claimed` or `What::ClaimExpired`.
    RenewOpen {
        /// What was claimed.
        task: TaskId,
        /// Which claim.
        epoch: Epoch,
    },
    /// End a claim on the board for good; the board tells of it. → `What::ClaimEnded` or `What::ClaimExpired`.
    CloseOpen {
        /// What was claimed.
        task: TaskId,
        /// Which claim.
        epoch: Epoch,
        /// Whether the task is done; else it will not be.
        is_done: bool,
    },
    /// Give a claim on the board back; the board offers the task again. → `What::ClaimEnded` or `What::ClaimExpired`.
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
    /// Look for peers with a capability. → `What::PeersFound`.
    FindPeers {
        /// Comes back in the event.
        label: String,
        /// What they must be able to do.
        capability: Capability,
    },
    /// Go off at a time. Setting a timer again moves it. → `What::Woke`.
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
    /// Ask the task's owner. → `What::Answered`.
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
    /// Comes back in `What::Told` and `What::Undelivered`.
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
