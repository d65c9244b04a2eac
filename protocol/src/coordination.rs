//! How agents work together. A *pattern* is a pure state machine; a *conversation* is one agent's side of one run of it.
//!
//! Everything that happens is an [`Event`]; a pattern answers with [`Effect`]s; one driver records both in one commit and
//! then performs. Late, repeated and out-of-order events are tolerated by every pattern: they change nothing.

pub mod accountable;
pub mod effect;
pub mod thought;

pub mod broadcast;
pub mod contract_net;
pub mod delegation;
pub mod help_request;
pub mod joint;
pub mod open_task;
pub mod reaction;
pub mod redelivery;

pub use effect::{Announcement, Effect, Outcome, Tell, Update, When};

use crate::{
    card::Card,
    envelope::Envelope,
    ids::AgentId,
    message::Epoch,
    principal::Principal,
    time::{NodeTime, WallTime},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thought::{Progress, TurnEnd};

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
