//! Coordination patterns. A *pattern* is a pure state machine; a *conversation* is one agent's side of one run of it.
//!
//! A pattern takes [`Event`]s and returns [`Effect`]s. The engine records both in one commit and then performs the effects.
//! Every pattern tolerates late, repeated and out-of-order events: they change nothing.

pub mod chunk;
pub mod effect;
pub mod ownership;
mod progress;
mod result_check;
pub mod space_request;
pub mod speech;
pub mod turn;
pub mod turn_log;

pub mod broadcast;
pub mod contract_net;
pub mod delegation;
pub mod help_request;
pub mod offer;
pub mod open_task;
pub mod reaction;
pub mod redelivery;
pub mod session;

pub use chunk::ChunkRange;
pub use effect::{
    Effect, Outcome, OutgoingMessage, OutgoingSignal, ProducedArtifact, RecordedArtifacts, TimerAt, Update,
};

use crate::{
    artifact::Artifact,
    card::Card,
    envelope::Envelope,
    ids::{AgentId, Capability, QuestionId},
    message::{Epoch, MessageKind, Payload},
    principal::Principal,
    question::Answer,
    task::TaskSpec,
    time::{NodeTime, WallTime},
    usage::{RemainingBudget, Usage},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use space_request::SpaceAnswer;
use speech::{Directive, DirectiveOutcome};
use turn::{Progress, TurnEnd};

/// One agent's side of a coordination pattern: a state machine without I/O, clock and randomness.
///
/// A new pattern is a file below `patterns/` and a line in [`patterns!`]. It describes itself here; no other code
/// matches on its name. A late, repeated or foreign event changes nothing.
pub trait Pattern: Serialize + DeserializeOwned {
    /// The label of a message or search of the pattern; the resulting event carries it.
    type Label;
    /// The name of a timer of the pattern.
    type Timer;

    /// Its name, for people and traces.
    const NAME: &'static str;
    /// The messages that open a conversation of this pattern.
    const OPENED_BY: &'static [MessageKind];
    /// The messages that an open conversation of this pattern takes.
    const RECEIVES: &'static [MessageKind];

    /// Handles `event` and returns the effects. The same state and event give the same effects in the same order.
    fn on(&mut self, event: &Event<Self::Label, Self::Timer>) -> Vec<Effect<Self::Label, Self::Timer>>;

    /// How far its work is, if it is unfinished work of this agent.
    fn work(&self) -> Option<WorkPhase> {
        None
    }

    /// How far its auction is, if it waits for a place at a bidder or has one.
    fn auction(&self) -> Option<AuctionView<'_>> {
        None
    }

    /// Whether another bidder would get the work if it is handed back.
    fn has_runner_up(&self) -> bool {
        false
    }

    /// Why a bid won, if bids were called for.
    fn award(&self) -> Option<&contract_net::record::AwardRecord> {
        None
    }

    /// Whether its work is done and its end waits for the agent or board that granted the work.
    fn is_closing(&self) -> bool {
        false
    }

    /// Why a message of `agent` is refused as `fenced`: it names an award that is not in force any more.
    fn why_fenced(&self, _agent: &AgentId, _payload: &Payload) -> Option<String> {
        None
    }

    /// The open task of the board that it does or claims.
    fn open_task(&self) -> Option<OpenTaskView<'_>> {
        None
    }

    /// The principal on whose behalf it acts, if it is about no task of this agent.
    fn acts_for(&self) -> Option<Principal> {
        None
    }

    /// The agent that has awarded the work.
    fn manager(&self) -> Option<&AgentId> {
        None
    }

    /// The peer that holds the award in force, and the label of that award.
    fn awarded(&self) -> Option<(&AgentId, Self::Label)> {
        None
    }

    /// The dead letter that it sends again.
    fn dead_letter(&self) -> Option<&Envelope> {
        None
    }

    /// The session that it hosts, as people see it.
    fn session(&self) -> Option<serde_json::Value> {
        None
    }

    /// What would become of a directive to the session that it hosts, or why it is refused.
    fn check_directive(&self, _: &Directive) -> Result<DirectiveOutcome, String> {
        Err("it is no session".to_owned())
    }

    /// What its running turn is given that changes while the turn runs.
    fn turn_progress(&self) -> RecordedTurnProgress {
        RecordedTurnProgress::default()
    }
}

/// What a turn is given of the progress so far, and what it may still use. If it begins again after a crash, its own progress is
/// part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedTurnProgress {
    /// The chunks of the artifacts that have been produced.
    pub produced: ChunkRange,
    /// Further ones, which are in the state of the conversation.
    pub artifacts: Vec<Artifact>,
    /// The checkpoints that count.
    pub checkpoints: ChunkRange,
    /// What the task has used.
    pub used: Usage,
    /// What is left of its bounds.
    pub remaining: RemainingBudget,
}

/// How far the work of a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkPhase {
    /// A turn runs, waits for a free slot, or is about to be decided: it counts against the card's `maxParallel`.
    Active,
    /// It waits for other agents.
    AwaitsAgents,
    /// It waits for a person's answer, which may never arrive.
    AwaitsPerson,
    /// It goes on after a pause.
    Paused,
}

/// An auction, for the queue of those that wait for a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AuctionView<'a> {
    /// The capability of the task.
    pub capability: &'a Capability,
    /// The principal at the root of the task.
    pub principal: &'a Principal,
    /// How far it is.
    pub phase: AuctionPhase,
}

/// How far an auction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuctionPhase {
    /// It waits for a place. → [`EventKind::CallDue`]
    Waiting {
        /// When a place is expected to be free.
        until: NodeTime,
    },
    /// It has waited and calls again.
    Calling,
    /// A bidder has accepted the task.
    Placed,
}

/// An open task of the board that an agent does or claims.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenTaskView<'a> {
    /// The specification of the task.
    pub spec: &'a TaskSpec,
    /// The principal that offered it.
    pub owner: &'a Principal,
    /// The epoch of the claim it is done under.
    pub epoch: Option<Epoch>,
    /// Whether the result of the claim is pending.
    pub is_pending: bool,
}

/// The label or timer of a pattern that uses none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Uninhabited {}

/// An event of a conversation and its time on both clocks, read once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event<L = AnyLabel, T = AnyTimer> {
    /// On the node's clock.
    pub at: NodeTime,
    /// On the wall clock.
    pub wall: WallTime,
    pub what: EventKind<L, T>,
}

/// The closed list of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum EventKind<L = AnyLabel, T = AnyTimer> {
    /// The conversation was opened. It is the first event and occurs once.
    Started,
    /// A message was received.
    MessageReceived {
        by: Principal,
        /// The label of the message of this conversation that it answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        answers: Option<L>,
        envelope: Box<Envelope>,
    },
    /// The first turn started after it had waited for a free slot.
    TurnStarted { turn: u32 },
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
    TimerFired { timer: T },
    /// A message was acknowledged by its recipient.
    Delivered {
        /// The label it was sent under.
        label: L,
        by: AgentId,
    },
    /// Delivery of a message was given up: it was refused, it expired, or no recipient was found.
    Undelivered {
        /// The label it was sent under.
        label: L,
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
        label: L,
        answer: SpaceAnswer,
    },
    /// The result of a search for peers.
    PeersFound {
        /// The label of the search.
        label: L,
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
        message: Option<Box<crate::a2a::message::Message>>,
    },
    /// The owner of a session steers it.
    Directed { by: Principal, directive: Box<Directive> },
    /// The task's owner cancelled it.
    Cancelled { by: Principal, reason: String },
    /// The node is draining. Work that another agent can do is handed back; the rest waits for the restart.
    Draining {
        /// The reason for the decline. Without one nothing is handed back.
        reason: Option<String>,
    },
}

impl<L, T> Event<L, T> {
    /// The same event with its label and timer replaced; `None` if there is no replacement.
    pub fn try_map<L2, T2>(
        &self,
        map_label: impl Fn(&L) -> Option<L2>,
        map_timer: impl Fn(&T) -> Option<T2>,
    ) -> Option<Event<L2, T2>> {
        let what = match &self.what {
            EventKind::Started => EventKind::Started,
            EventKind::MessageReceived { by, answers, envelope } => {
                let answers = match answers {
                    Some(label) => Some(map_label(label)?),
                    None => None,
                };
                EventKind::MessageReceived { by: by.clone(), answers, envelope: envelope.clone() }
            }
            EventKind::TurnStarted { turn } => EventKind::TurnStarted { turn: *turn },
            EventKind::TurnProgress { turn, updates } => {
                EventKind::TurnProgress { turn: *turn, updates: updates.clone() }
            }
            EventKind::TurnEnded { turn, updates, end } => {
                EventKind::TurnEnded { turn: *turn, updates: updates.clone(), end: end.clone() }
            }
            EventKind::TurnFailed { turn, reason } => {
                EventKind::TurnFailed { turn: *turn, reason: reason.clone() }
            }
            EventKind::Claimed { holder, epoch } => {
                EventKind::Claimed { holder: holder.clone(), epoch: *epoch }
            }
            EventKind::ClaimLost { holder } => EventKind::ClaimLost { holder: holder.clone() },
            EventKind::ClaimExpired { epoch } => EventKind::ClaimExpired { epoch: *epoch },
            EventKind::ClaimEnded { epoch } => EventKind::ClaimEnded { epoch: *epoch },
            EventKind::TimerFired { timer } => EventKind::TimerFired { timer: map_timer(timer)? },
            EventKind::Delivered { label, by } => {
                EventKind::Delivered { label: map_label(label)?, by: by.clone() }
            }
            EventKind::Undelivered { label, to, reason, message } => EventKind::Undelivered {
                label: map_label(label)?,
                to: to.clone(),
                reason: reason.clone(),
                message: message.clone(),
            },
            EventKind::Published { revision } => EventKind::Published { revision: *revision },
            EventKind::PublishRefused { reason, message } => {
                EventKind::PublishRefused { reason: reason.clone(), message: message.clone() }
            }
            EventKind::SpaceAnswered { label, answer } => {
                EventKind::SpaceAnswered { label: map_label(label)?, answer: answer.clone() }
            }
            EventKind::PeersFound { label, candidates, nearest } => EventKind::PeersFound {
                label: map_label(label)?,
                candidates: candidates.clone(),
                nearest: nearest.clone(),
            },
            EventKind::CallDue { candidates } => EventKind::CallDue { candidates: candidates.clone() },
            EventKind::Answered { by, question, answer, message } => EventKind::Answered {
                by: by.clone(),
                question: question.clone(),
                answer: answer.clone(),
                message: message.clone(),
            },
            EventKind::Directed { by, directive } => {
                EventKind::Directed { by: by.clone(), directive: directive.clone() }
            }
            EventKind::Cancelled { by, reason } => {
                EventKind::Cancelled { by: by.clone(), reason: reason.clone() }
            }
            EventKind::Draining { reason } => EventKind::Draining { reason: reason.clone() },
        };
        Some(Event { at: self.at, wall: self.wall, what })
    }
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
    /// Whether its lease in the registry is valid.
    pub is_alive: bool,
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
            track_record: 0.0,
        }
    }
}

/// The registry of patterns. Each line `module::Pattern` adds a variant to [`AnyPattern`], [`AnyLabel`] and [`AnyTimer`].
macro_rules! patterns {
    ($($module:ident::$name:ident,)*) => {
        /// Any pattern with its state.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", tag = "pattern")]
        pub enum AnyPattern { $($name(Box<$module::$name>),)* }

        /// The label of any pattern. The engine stores it without knowing it.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum AnyLabel { $($name(<$module::$name as Pattern>::Label),)* }

        /// The timer of any pattern. The engine stores it without knowing it.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum AnyTimer { $($name(<$module::$name as Pattern>::Timer),)* }

        $(impl From<$module::$name> for AnyPattern {
            fn from(pattern: $module::$name) -> Self {
                Self::$name(Box::new(pattern))
            }
        })*

        impl AnyPattern {
            /// The description of every pattern.
            pub const ALL: &'static [PatternDescription] = &[$(PatternDescription::of::<$module::$name>(),)*];

            /// See [`Pattern::on`]; no effects, if it carries another pattern's label or timer.
            pub fn on(&mut self, event: &Event) -> Vec<Effect> {
                match self {
                    $(Self::$name(pattern) => {
                        let label = |any: &AnyLabel| {
                            if let AnyLabel::$name(label) = any { Some(label.clone()) } else { None }
                        };
                        let timer = |any: &AnyTimer| {
                            if let AnyTimer::$name(timer) = any { Some(timer.clone()) } else { None }
                        };
                        let event = event.try_map(label, timer);
                        let effects = event.map(|event| pattern.on(&event)).unwrap_or_default();
                        effects.into_iter().map(|effect| effect.map(AnyLabel::$name, AnyTimer::$name)).collect()
                    })*
                }
            }

            /// The description of its pattern.
            pub fn description(&self) -> PatternDescription {
                match self { $(Self::$name(_) => PatternDescription::of::<$module::$name>(),)* }
            }

            /// See [`Pattern::work`].
            pub fn work(&self) -> Option<WorkPhase> {
                match self { $(Self::$name(pattern) => pattern.work(),)* }
            }

            /// See [`Pattern::auction`].
            pub fn auction(&self) -> Option<AuctionView<'_>> {
                match self { $(Self::$name(pattern) => pattern.auction(),)* }
            }

            /// See [`Pattern::has_runner_up`].
            pub fn has_runner_up(&self) -> bool {
                match self { $(Self::$name(pattern) => pattern.has_runner_up(),)* }
            }

            /// See [`Pattern::award`].
            pub fn award(&self) -> Option<&contract_net::record::AwardRecord> {
                match self { $(Self::$name(pattern) => pattern.award(),)* }
            }

            /// See [`Pattern::is_closing`].
            pub fn is_closing(&self) -> bool {
                match self { $(Self::$name(pattern) => pattern.is_closing(),)* }
            }

            /// See [`Pattern::why_fenced`].
            pub fn why_fenced(&self, agent: &AgentId, payload: &Payload) -> Option<String> {
                match self { $(Self::$name(pattern) => pattern.why_fenced(agent, payload),)* }
            }

            /// See [`Pattern::acts_for`].
            pub fn acts_for(&self) -> Option<Principal> {
                match self { $(Self::$name(pattern) => pattern.acts_for(),)* }
            }

            /// See [`Pattern::open_task`].
            pub fn open_task(&self) -> Option<OpenTaskView<'_>> {
                match self { $(Self::$name(pattern) => pattern.open_task(),)* }
            }

            /// See [`Pattern::manager`].
            pub fn manager(&self) -> Option<&AgentId> {
                match self { $(Self::$name(pattern) => pattern.manager(),)* }
            }

            /// See [`Pattern::awarded`].
            pub fn awarded(&self) -> Option<(&AgentId, AnyLabel)> {
                match self {
                    $(Self::$name(pattern) => {
                        let (peer, label) = pattern.awarded()?;
                        Some((peer, AnyLabel::$name(label)))
                    })*
                }
            }

            /// See [`Pattern::session`].
            pub fn session(&self) -> Option<serde_json::Value> {
                match self { $(Self::$name(pattern) => pattern.session(),)* }
            }

            /// See [`Pattern::check_directive`].
            pub fn check_directive(&self, directive: &Directive) -> Result<DirectiveOutcome, String> {
                match self { $(Self::$name(pattern) => pattern.check_directive(directive),)* }
            }

            /// See [`Pattern::turn_progress`].
            pub fn turn_progress(&self) -> RecordedTurnProgress {
                match self { $(Self::$name(pattern) => pattern.turn_progress(),)* }
            }

            /// See [`Pattern::dead_letter`].
            pub fn dead_letter(&self) -> Option<&Envelope> {
                match self { $(Self::$name(pattern) => pattern.dead_letter(),)* }
            }
        }
    };
}

patterns! {
    delegation::Delegation,
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
    pub const RULES: u32 = 10;

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
