//! What the file of an agent says of it and its engine needs. The doc comments of keys are their descriptions in the published JSON
//! Schema.

mod openness;
mod quota;
mod signal_filter;
mod token_count;

use protocol::{
    a2a::agent_policy::AgentPolicy,
    bid::{Cost, Eta},
    card::{BidTerms, Card, Skill},
    compaction::Compaction,
    ids::AgentId,
    limits::Limits,
    usage::TaskBounds,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeSet, time::Duration};

pub use openness::Openness;
pub use quota::{Quota, QuotaRequester, WhenReached, of_mesh};
pub use signal_filter::SignalFilter;
pub use token_count::TokenCount;

/// The settings of one agent. The loader of the file fills the members that serde skips: they have several forms in it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSettings {
    /// One sentence for people.
    #[serde(skip)]
    pub description: String,
    #[serde(skip)]
    pub skills: Vec<Skill>,
    /// The names of the repositories that sessions which it hosts may work in.
    #[serde(skip)]
    pub workspaces: BTreeSet<String>,
    /// What its bids are made of.
    pub bid: BidSettings,
    /// How long its brain may think, and what its work on one task may use.
    pub bounds: AgentBounds,
    /// What its work may use in an hour, a day or a month.
    #[schemars(transform = quota::of_agent)]
    pub quotas: Vec<Quota>,
    /// The signals it reacts to: types, each exact or ending in `*`, or what else they must be about.
    #[serde(deserialize_with = "signal_filter::filters")]
    #[schemars(with = "Vec<signal_filter::FilterForms>")]
    pub subscribe: Vec<SignalFilter>,
    /// Whether it does what is addressed to it without a capability. `false`: it refuses that, unless it has one skill only, which is
    /// meant then. `delegate`: a peer with the capability `orchestrate` does it.
    pub open: Openness,
    /// Whether the command line and MCP choose it if nobody is named. Without one, the agent with the lowest port.
    pub entrance: bool,
    /// A word for people and prompts, such as `coordinator`. It gives no rights.
    pub role: Option<String>,
    /// How long it may be away before it counts as left: milliseconds, or text like `2m`, which is meant if absent. What is addressed
    /// to it waits until then.
    #[schemars(with = "Option<EtaForms>")]
    pub comes_back_in: Option<Eta>,
    /// How much of its earlier turns a turn on the same seat of a session is given again: `full` (if absent), `summary` or such as
    /// `last 5`.
    #[schemars(with = "CompactionForms")]
    pub compaction: Compaction,
    /// What it offers to A2A clients.
    pub a2a: AgentPolicy,
}

/// The kinds of turns, each with what is kept of it.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompactionForms {
    /// Turns at a table.
    pub table: Option<String>,
    /// Turns of side conversations that have ended.
    pub side: Option<String>,
    /// All other turns of seats.
    pub tasks: Option<String>,
}

impl AgentSettings {
    /// The card with which the agent `id` registers. Its version is that of this program.
    pub fn card(&self, id: AgentId, endpoint: String, limits: Limits) -> Card {
        Card {
            agent_id: id,
            description: self.description.clone(),
            endpoint,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            skills: self.skills.clone(),
            open: self.open == Openness::Open,
            entrance: self.entrance,
            role: self.role.clone(),
            subscribe: self.subscribe.iter().map(|filter| filter.kind.clone()).collect(),
            terms: self.bid.terms(),
            comes_back_in: self.comes_back_in,
            limits,
            waits_for: None,
        }
    }
}

/// Who answers calls for proposals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BidSource {
    /// The brain.
    Brain,
}

/// What an agent's bids are made of.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BidSettings {
    /// What a task costs, in the mesh's own unit.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub cost: Option<Cost>,
    /// How long a task takes: milliseconds, or text like `2m`.
    #[schemars(with = "Option<EtaForms>")]
    pub eta: Option<Eta>,
    /// Tasks at once.
    #[schemars(range(min = 1))]
    pub max_parallel: Option<u32>,
    /// Who answers calls for proposals; bids are computed if absent.
    pub ask: Option<BidSource>,
    /// How long the brain has for an answer: milliseconds, or text like `2s`; 2 s if absent. The computed bid is made if it has none.
    #[schemars(with = "Option<EtaForms>")]
    pub within: Option<Eta>,
}

impl BidSettings {
    /// The terms of its card.
    pub fn terms(&self) -> BidTerms {
        let defaults = BidTerms::default();
        BidTerms {
            cost: self.cost.unwrap_or(defaults.cost),
            eta: self.eta.unwrap_or(defaults.eta),
            max_parallel: self.max_parallel.unwrap_or(defaults.max_parallel),
        }
    }

    /// How long the brain has to answer a call for proposals; `None` means that bids are computed.
    pub fn brain_timeout(&self) -> Option<Duration> {
        self.ask.map(|BidSource::Brain| self.within.unwrap_or(Eta(2_000)).duration())
    }
}

/// How long an agent's brain may think, and what its work on one task may use.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentBounds {
    /// How long it may report nothing: milliseconds, or text like `2m`.
    #[schemars(with = "Option<EtaForms>")]
    pub idle: Option<Eta>,
    /// How long a turn may take: milliseconds, or text like `20m`.
    #[schemars(with = "Option<EtaForms>")]
    pub turn: Option<Eta>,
    /// Turns of one task.
    #[schemars(range(min = 1))]
    pub turns: Option<u32>,
    /// Tokens of models, in and out: a number, or text like `200k`.
    #[schemars(with = "Option<EtaForms>")]
    pub tokens: Option<TokenCount>,
    /// Cost, in the mesh's own unit.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub cost: Option<Cost>,
}

impl AgentBounds {
    /// How long its brain may report nothing; 2 minutes if not set.
    pub fn idle(&self) -> Duration {
        self.idle.unwrap_or(Eta(2 * 60_000)).duration()
    }

    /// How long a turn may take; 20 minutes if not set.
    pub fn turn(&self) -> Duration {
        self.turn.unwrap_or(Eta(20 * 60_000)).duration()
    }

    /// What the work on one task may use.
    pub fn task(&self) -> TaskBounds {
        TaskBounds { turns: self.turns, tokens: self.tokens.map(|tokens| tokens.0), cost: self.cost }
    }
}

/// A number, or a text with a unit.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum EtaForms {
    Millis(u64),
    Text(String),
}
