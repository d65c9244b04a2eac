//! Coordination patterns. A *pattern* is a pure state machine; a *conversation* is one agent's side of one run of it.
//!
//! A pattern takes [`Event`]s and returns [`Effect`]s. The engine records both in one commit and then performs the effects.
//! Every pattern tolerates late, repeated and out-of-order events: they change nothing.

pub mod chunk;
pub mod context;
pub mod effect;
mod helper_questions;
mod label;
pub mod ownership;
mod progress;
mod result_check;
pub mod speech;
pub mod turn;
mod turn_log;
pub mod turn_record;
mod view;

pub mod broadcast;
pub mod contract_net;
pub mod help_request;
pub mod offer;
pub mod open_task;
pub mod reaction;
pub mod redelivery;
pub mod session;
pub mod work;

pub use chunk::ChunkRange;
pub use effect::{
    Effect, Outcome, OutgoingMessage, OutgoingSignal, ProducedArtifact, RecordedArtifacts, TimerAt, Update,
    WorkSoFar,
};
pub use label::{Label, RequestKey, SessionTimer, Timer};
pub use view::{
    AuctionPhase, AuctionView, AwardFence, OpenTaskView, RecordedTurnProgress, SessionView, View, WorkPhase,
};

use protocol::{
    card::Card,
    envelope::Envelope,
    ids::{AgentId, Capability, QuestionId},
    message::{Epoch, MessageKind},
    principal::Principal,
    question::Answer,
    spaces::request::SpaceAnswer,
    time::{NodeTime, WallTime},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use speech::Directive;
use turn::{Progress, TurnEnd};
use work::{doing, hosting};

/// One agent's side of a coordination pattern: a state machine without I/O, clock and randomness.
///
/// A new pattern is a file below `patterns/` and a line in [`patterns!`]. It describes itself here; no other code
/// matches on its name. A late, repeated or foreign event changes nothing.
pub trait Pattern: Serialize + DeserializeOwned {
    /// Its name, for people and traces.
    const NAME: &'static str;
    /// The messages that open a conversation of this pattern.
    const OPENED_BY: &'static [MessageKind];
    /// The messages that an open conversation of this pattern takes.
    const RECEIVES: &'static [MessageKind];

    /// Handles `event` and returns the effects. The same state and event give the same effects in the same order.
    fn on(&mut self, event: &Event) -> Vec<Effect>;

    /// What the engine asks of its state. It is cheap.
    fn view(&self) -> View<'_>;
}

/// An event of a conversation and its time on both clocks, read once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// On the node's clock.
    pub at: NodeTime,
    /// On the wall clock.
    pub wall: WallTime,
    pub what: EventKind,
}

/// The closed list of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum EventKind {
    /// The conversation was opened. It is the first event and occurs once.
    Started,
    /// A message was received.
    MessageReceived {
        by: Principal,
        /// The label of the message of this conversation that it answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        answers: Option<Label>,
        envelope: Box<Envelope>,
    },
    /// No other turn of the context of the task is under way any more: from there it goes on.
    ContextFree { start: Box<context::ContextStart> },
    /// The first turn started after it had waited for a free slot.
    TurnStarted {
        turn: u32,
        /// Whether it has waited for a quota.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_held: bool,
    },
    /// The first turn waits until a quota opens again, and why.
    TurnHeld { turn: u32, why: String },
    /// A quota is used up, or nearly: what is told to the owners of running tasks.
    QuotaNear { message: String },
    /// The brain reported progress of a running turn.
    TurnProgress {
        /// The turn it belongs to.
        turn: u32,
        /// What it reported, in order.
        updates: Vec<Progress>,
    },
    /// A turn of the brain ended.
    TurnEnded {
        turn: u32,
        /// Updates that were not reported before the end, in order.
        updates: Vec<Progress>,
        end: TurnEnd,
    },
    /// A turn failed: the brain died, missed its deadline, or its output was invalid.
    TurnFailed { turn: u32, reason: String },
    /// A claim was written. Work under it carries its epoch.
    Claimed {
        /// The holder of the claim.
        holder: AgentId,
        /// The revision of the claim's write.
        epoch: Epoch,
    },
    /// Another agent holds the claim.
    ClaimLost { holder: Option<AgentId> },
    /// A claim's lease ran out.
    ClaimExpired { epoch: Epoch },
    /// The board ended a claim at this agent's request.
    ClaimEnded { epoch: Epoch },
    /// A timer fired. Setting a timer again under the same name replaces the earlier setting.
    TimerFired { timer: Timer },
    /// A message was acknowledged by its recipient.
    Delivered {
        /// The label it was sent under.
        label: Label,
        by: AgentId,
    },
    /// A message waits: its recipient is away.
    RecipientAway {
        /// The label it was sent under.
        label: Label,
        to: AgentId,
        since: WallTime,
    },
    /// Delivery of a message was given up: it was refused, it expired, or no recipient was found.
    Undelivered {
        /// The label it was sent under.
        label: Label,
        to: AgentId,
        /// Why, as a `reasonCode`.
        reason: String,
        /// A message for people.
        message: String,
    },
    /// A signal is on the board.
    Published {
        /// The signal's revision there.
        revision: u64,
    },
    /// The board refused a signal for good.
    PublishRefused {
        /// Why, as a `reasonCode`.
        reason: String,
        /// A message for people.
        message: String,
    },
    /// The answer of a space of the board.
    SpaceAnswered {
        /// The label of the request.
        label: Label,
        answer: SpaceAnswer,
    },
    /// The result of a search for peers.
    PeersFound {
        /// The label of the search.
        label: Label,
        /// The peers, as the directory knows them.
        candidates: Vec<Candidate>,
        /// If none has the capability, the known one whose name is most like the one that was searched for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nearest: Option<Capability>,
    },
    /// It is the turn of a waiting auction to call for proposals.
    CallDue {
        /// The peers, as the directory knows them.
        candidates: Vec<Candidate>,
    },
    /// The task's owner answered a question, or sent a message.
    Answered {
        by: Principal,
        /// The question; if absent, the only open one that takes a text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<QuestionId>,
        answer: Answer,
        /// The answer as an A2A client sent it, with all its parts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Box<protocol::a2a::message::Message>>,
    },
    /// The owner of a session steers it.
    Directed { by: Principal, directive: Box<Directive> },
    /// The task's owner cancelled it.
    Cancelled { by: Principal, reason: String },
    /// The node is draining. Work that another agent can do and that has no record yet is handed back; the rest waits for the
    /// restart.
    Draining {
        /// The reason for the decline. Without one nothing is handed back.
        reason: Option<String>,
        /// For how long the agent may be away, milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        away_ms: Option<u64>,
    },
    /// The agent has started again. Work under an award goes on when its manager has been told.
    Restarted,
}

/// A peer that may be asked: what its directory entry says about one capability, and its fulfilment history with this agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    pub agent: AgentId,
    /// How well its registered card supports the capability, from 0 to 1.
    pub support: f64,
    /// The media types in which it answers; empty if any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// How many tasks it does at a time.
    pub max_parallel: u32,
    /// The number of its running tasks, by its last heartbeat.
    pub running: u32,
    /// Whether its lease in the registry is valid, and it takes work.
    pub is_alive: bool,
    /// Since when it is away, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_since: Option<WallTime>,
    /// Its fulfilment history with this manager, from 0 to 1.
    pub track_record: f64,
}

impl Candidate {
    /// Whether it does fewer tasks than it can.
    pub fn has_free_place(&self) -> bool {
        self.running < self.max_parallel.max(1)
    }

    /// The candidate with this card, alive, idle and without a history.
    pub fn new(card: &Card, capability: &Capability) -> Self {
        Self {
            agent: card.agent_id.clone(),
            support: card.support(capability),
            output_modes: card.output_modes(capability),
            max_parallel: card.terms.max_parallel.max(1),
            running: 0,
            is_alive: true,
            away_since: None,
            track_record: 0.0,
        }
    }
}

/// The registry of patterns. Each line `module::Pattern` adds a variant to [`AnyPattern`].
macro_rules! patterns {
    ($($module:ident::$name:ident,)*) => {
        /// Any pattern with its state.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", tag = "pattern")]
        pub enum AnyPattern { $($name(Box<$module::$name>),)* }

        $(impl From<$module::$name> for AnyPattern {
            fn from(pattern: $module::$name) -> Self {
                Self::$name(Box::new(pattern))
            }
        })*

        impl AnyPattern {
            /// The description of every pattern.
            pub const ALL: &'static [PatternDescription] = &[$(PatternDescription::of::<$module::$name>(),)*];

            /// See [`Pattern::on`]. If the work is handed on, the conversation goes on as another pattern.
            pub fn on(&mut self, event: &Event) -> Vec<Effect> {
                let mut effects = match self { $(Self::$name(pattern) => pattern.on(event),)* };
                if let Some(Effect::HandOn(next)) = effects.last() {
                    *self = next.as_ref().clone();
                    let started = Event { at: event.at, wall: event.wall, what: EventKind::Started };
                    effects.extend(self.on(&started));
                }
                effects
            }

            /// See [`Pattern::view`].
            pub fn view(&self) -> View<'_> {
                match self { $(Self::$name(pattern) => pattern.view(),)* }
            }

            /// The description of its pattern.
            pub fn description(&self) -> PatternDescription {
                match self { $(Self::$name(_) => PatternDescription::of::<$module::$name>(),)* }
            }
        }
    };
}

patterns! {
    doing::Doing,
    hosting::Hosting,
    help_request::HelpRequest,
    broadcast::Broadcast,
    contract_net::ContractNet,
    redelivery::Redelivery,
    reaction::Reaction,
    open_task::OpenTask,
    offer::Offer,
}

/// The constants of a [`Pattern`], as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternDescription {
    /// Its name, for people and traces.
    pub name: &'static str,
    /// The messages that open a conversation of it.
    pub opened_by: &'static [MessageKind],
    /// The messages that an open conversation of it takes.
    pub receives: &'static [MessageKind],
}

impl PatternDescription {
    const fn of<P: Pattern>() -> Self {
        Self { name: P::NAME, opened_by: P::OPENED_BY, receives: P::RECEIVES }
    }
}

impl AnyPattern {
    /// The version of the rules a state was computed by; recorded with every state.
    pub const RULES: u32 = 13;

    /// Whether it can [`Self::read`] a state that rules of this version have computed: these, or the last ones.
    pub fn reads(rules: u32) -> bool {
        (Self::RULES - 1..=Self::RULES).contains(&rules)
    }

    /// The state of a pattern that `rules` have recorded as `state`. Fails if it is damaged or of rules that are not read.
    pub fn read(rules: u32, state: Value) -> Result<Self, String> {
        if !Self::reads(rules) {
            return Err(format!("it is of rules {rules}, this version has {}", Self::RULES));
        }
        serde_json::from_value(state).map_err(|error| error.to_string())
    }

    /// Its name, for people and traces.
    pub fn name(&self) -> &'static str {
        self.description().name
    }

    /// Whether a message of this kind opens a conversation of some pattern.
    pub fn is_opened_by(kind: MessageKind) -> bool {
        Self::ALL.iter().any(|pattern| pattern.opened_by.contains(&kind))
    }

    /// Whether an open conversation of it takes messages of this kind.
    pub fn receives(&self, kind: MessageKind) -> bool {
        self.description().receives.contains(&kind)
    }
}

#[cfg(test)]
mod tests;
