//! Entries, queries, leases and watch events of the registry; also the JSON types of its HTTP routes.

use protocol::{
    card::Card,
    identity::KeyCertificate,
    ids::{AgentId, Capability},
    principal::{Principal, SenderProof},
    routes,
};
use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};
use transport::operation::{Caller, Operation, OperationInfo};

/// How many messages an agent has delivered to each other agent in the last minute.
pub type SentCounts = BTreeMap<AgentId, u32>;

/// The most agents of which an agent tells how many messages it has sent them.
pub const MAX_SENT: usize = 32;

/// The [`MAX_SENT`] largest of `counts`.
pub fn busiest(counts: SentCounts) -> SentCounts {
    let mut counts: Vec<_> = counts.into_iter().filter(|(_, messages)| *messages > 0).collect();
    counts.sort_by_key(|(_, messages)| Reverse(*messages));
    counts.truncate(MAX_SENT);
    counts.into_iter().collect()
}

/// The membership state of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// Its heartbeats arrive in time.
    Alive,
    /// Two heartbeats are missing.
    Suspect,
    /// It is away: its lease is over, or it has drained. It may come back.
    Dead,
    /// It has left, or has been away for longer than its card allows.
    Departed,
}

impl Presence {
    /// Its name on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
            Self::Departed => "departed",
        }
    }

    /// What people are told.
    pub fn for_people(self) -> &'static str {
        match self {
            Self::Alive | Self::Suspect => self.word(),
            Self::Dead => "away",
            Self::Departed => "left",
        }
    }

    /// Whether the agent is alive or suspect.
    pub fn is_live(self) -> bool {
        match self {
            Self::Alive | Self::Suspect => true,
            Self::Dead | Self::Departed => false,
        }
    }
}

/// One agent with its state, as the registry reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentEntry {
    pub card: Arc<Card>,
    /// Its incarnation; grows with every registration of a new process.
    pub incarnation: u64,
    pub state: Presence,
    /// Whether it counts as departed only because it has been away for longer than its card says: it may come back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_lapsed: bool,
    /// Number of running tasks, from its last heartbeat.
    pub running: u32,
    /// Whether it accepts more work, from its last heartbeat.
    pub accepting: bool,
    /// How many messages it has sent in the last minute to each of the agents it talks with most, from its last heartbeat. Told to the
    /// person and to services of the mesh: counts tell of sealed stages. A watch does not have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sent: SentCounts,
    /// Milliseconds since its last heartbeat; a restarted registry counts from its start.
    pub last_seen_ms: u64,
    /// Its key, as the registry certifies it; `None` after a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyCertificate>,
}

impl AgentEntry {
    /// The agent's id.
    pub fn id(&self) -> &AgentId {
        &self.card.agent_id
    }

    /// The same as `by` may see it.
    pub(crate) fn shown_to(self, by: &Caller) -> Self {
        let is_told = match &by.principal {
            Principal::Service(_) => true,
            Principal::User(_) => {
                by.principal == Principal::local_user() && by.proof == SenderProof::Credential
            }
            Principal::Agent(_) | Principal::Brain(_) => false,
        };
        if is_told { self } else { self.without_sent() }
    }

    /// The same as a watch has it.
    pub(crate) fn without_sent(self) -> Self {
        Self { sent: SentCounts::new(), ..self }
    }
}

/// Whom a person asks who names nobody: an agent whose card says so, else the one with the lowest port; one that accepts work
/// before one that does not.
pub fn entrance(agents: &[AgentEntry]) -> Option<&AgentEntry> {
    let order = |entry: &&AgentEntry| {
        (!entry.card.entrance, !entry.accepting, port(&entry.card.endpoint).unwrap_or(u16::MAX))
    };
    agents.iter().min_by_key(order)
}

/// The port that a base URL names.
pub fn port(url: &str) -> Option<u16> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

/// The order of search results among agents with the same state and the same `accepting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchOrder {
    #[default]
    None,
    /// By the share of `maxParallel` in use, smallest first.
    LeastLoaded,
    /// By declared cost, then by load, lowest first.
    Cheapest,
}

/// Whether an agent needs one or all of the capabilities of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapabilityMatch {
    #[default]
    Any,
    All,
}

/// Finds agents, in the order of the query.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentQuery {
    /// Skill ids or tags; an empty list matches every agent.
    #[serde(rename = "capability")]
    pub capabilities: Vec<Capability>,
    /// Whether one of them suffices.
    #[serde(rename = "match")]
    pub matching: CapabilityMatch,
    /// The order of the results.
    pub prefer: SearchOrder,
    /// Whether dead and departed agents are included.
    #[serde(rename = "includeDead")]
    pub include_dead: bool,
}

impl Operation for AgentQuery {
    type Answer = AgentList;
    const INFO: OperationInfo = OperationInfo::get(routes::AGENTS);
}

impl AgentQuery {
    /// A query for live agents with `capability`, least loaded first.
    pub fn capability(capability: Capability) -> Self {
        Self { capabilities: vec![capability], prefer: SearchOrder::LeastLoaded, ..Self::default() }
    }
}

/// The answer to a registration; a repeat gets the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseGrant {
    /// The incarnation that every heartbeat must carry.
    pub incarnation: u64,
    /// The lease expires after this many milliseconds without a heartbeat.
    pub lease_ms: u64,
    /// The interval of heartbeats in milliseconds.
    pub heartbeat_ms: u64,
    /// The certificate of the agent's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<KeyCertificate>,
}

/// A heartbeat: the agent is alive; its load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The incarnation of the sender.
    pub incarnation: u64,
    /// Number of running tasks.
    #[serde(default)]
    pub running: u32,
    /// Whether it accepts more work.
    #[serde(default = "default_accepting")]
    pub accepting: bool,
    /// How many messages it has sent in the last minute, by recipient. The registry keeps the [`MAX_SENT`] largest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sent: SentCounts,
}

impl Heartbeat {
    /// One of an agent that has sent nothing.
    pub fn new(incarnation: u64, running: u32, accepting: bool) -> Self {
        Self { incarnation, running, accepting, sent: SentCounts::new() }
    }
}

fn default_accepting() -> bool {
    true
}

/// An event of a watch: a snapshot first, then each change; a new snapshot after a lag or a disconnect.
#[derive(Debug, Clone, PartialEq)]
pub enum RegistryEvent {
    /// Every agent, dead and departed ones included. Replaces all earlier events.
    Snapshot(Vec<AgentEntry>),
    /// The current entry of one agent.
    Change(Arc<AgentEntry>),
}

/// The body of a search result and of a watch's snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentList {
    pub agents: Vec<AgentEntry>,
}
