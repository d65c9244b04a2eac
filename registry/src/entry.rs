//! What the registry says of an agent, and how it is asked. These are the words of its HTTP routes too.

use protocol::{
    card::Card,
    ids::{AgentId, Capability},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Whether an agent is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// Heard of in time.
    Alive,
    /// Two heartbeats are missing.
    Suspect,
    /// Its lease ran out.
    Dead,
    /// It said goodbye.
    Departed,
}

impl Presence {
    /// Whether it may still be spoken to.
    pub fn is_live(self) -> bool {
        match self {
            Self::Alive | Self::Suspect => true,
            Self::Dead | Self::Departed => false,
        }
    }
}

/// One agent, as the registry knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What it said of itself.
    pub card: Arc<Card>,
    /// Which life of it this is; grows with every registration of a new process.
    pub incarnation: u64,
    /// Whether it is there.
    pub state: Presence,
    /// Tasks it runs, by its last heartbeat.
    pub running: u32,
    /// Whether it takes more work, by its last heartbeat.
    pub accepting: bool,
    /// How long ago it was last heard of, milliseconds; a restarted registry counts from its start.
    pub last_seen_ms: u64,
}

impl Entry {
    /// Its id.
    pub fn id(&self) -> &AgentId {
        &self.card.agent_id
    }
}

/// Which of two agents is named first, after alive ones before suspect ones and those that accept work before others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefer {
    /// By id.
    #[default]
    None,
    /// The smaller share of its `maxParallel` in use.
    LeastLoaded,
    /// The lower declared cost, then the smaller load.
    Cheapest,
}

/// Whether one of the capabilities is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// One is enough.
    #[default]
    Any,
    /// It takes all.
    All,
}

/// Which agents are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// As a skill or as a tag of one; none means every agent.
    pub capabilities: Vec<Capability>,
    /// Whether one of them is enough.
    pub matching: Match,
    /// The order.
    pub prefer: Prefer,
    /// Whether agents that are gone are named too.
    pub include_dead: bool,
}

impl Query {
    /// Live agents with `capability`, the least loaded first.
    pub fn capability(capability: Capability) -> Self {
        Self { capabilities: vec![capability], prefer: Prefer::LeastLoaded, ..Self::default() }
    }
}

/// The answer to a registration; the same again for a repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// To be named in every heartbeat.
    pub incarnation: u64,
    /// Without a heartbeat for this long, it is gone.
    pub lease_ms: u64,
    /// How often to send one.
    pub heartbeat_ms: u64,
}

/// That an agent lives, and how busy it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// Which life of it speaks.
    pub incarnation: u64,
    /// Tasks it runs.
    #[serde(default)]
    pub running: u32,
    /// Whether it takes more.
    #[serde(default = "yes")]
    pub accepting: bool,
}

fn yes() -> bool {
    true
}

/// What a watcher hears: the full set first, then each change; the full set again after it was too slow or cut off.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// Everybody who is known, those that are gone included. Replaces all that was heard before.
    Snapshot(Vec<Entry>),
    /// One agent as it is by now.
    Change(Arc<Entry>),
}
