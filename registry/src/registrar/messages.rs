//! The messages of [`super::RegistryActor`].

use crate::{
    config::Config,
    directory::DirectoryStats,
    entry::{AgentEntry, AgentQuery, Heartbeat, LeaseGrant},
    pinned_keys::{KeyCursor, KeyPage, PinnedKey},
    registration_request::RegistrationRequest,
};
use actix::Message;
use protocol::{
    identity::{KeyCertificate, KeyChange, PublicIdentity},
    ids::AgentId,
    principal::Principal,
    problem::Problem,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::broadcast;

/// Registers an agent.
#[derive(Message)]
#[rtype(result = "Result<LeaseGrant, Problem>")]
pub struct Register {
    pub by: Principal,
    pub request: RegistrationRequest,
}

/// Renews a lease.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct RecordHeartbeat {
    pub by: Principal,
    /// The agent of the lease.
    pub id: AgentId,
    /// Its incarnation and load.
    pub heartbeat: Heartbeat,
}

/// Reports that one agent could not reach another.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct ReportSuspicion {
    pub by: Principal,
    /// The agent it could not reach.
    pub id: AgentId,
    pub incarnation: u64,
}

/// Deregisters an agent.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct Deregister {
    pub by: Principal,
    /// The agent that leaves.
    pub id: AgentId,
    pub incarnation: u64,
    /// Whether it has finished or handed back its work.
    pub is_drained: bool,
}

/// Pins the key of an agent that has proven the join secret; refused if another key is pinned for its id.
#[derive(Message)]
#[rtype(result = "Result<KeyCertificate, Problem>")]
pub struct AdmitKey(pub Arc<PublicIdentity>);

/// Replaces the key of an agent, as the old key says.
#[derive(Message)]
#[rtype(result = "Result<KeyCertificate, Problem>")]
pub struct ChangeKey {
    pub by: Principal,
    pub id: AgentId,
    /// What its old key says.
    pub change: KeyChange,
}

/// Gives up the key of an id, as a person says.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct ResetKey(pub AgentId);

/// Forgets an agent that is not there, as a person says.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct Forget(pub AgentId);

/// Certifies every key anew, after the registry's own key was replaced.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Recertify;

/// Returns the key records that changed after a cursor; all from the beginning if it is of another life of the registry.
#[derive(Message)]
#[rtype(result = "Result<KeyPage, Problem>")]
pub struct ReadKeyRecords(pub Option<KeyCursor>);

/// Returns the keys of all ids.
#[derive(Message)]
#[rtype(result = "Vec<PinnedKey>")]
pub struct ListKeys;

/// Returns the agents that match a query.
#[derive(Message)]
#[rtype(result = "Vec<AgentEntry>")]
pub struct FindAgents(pub AgentQuery);

/// Returns one agent in any state, or `None`.
#[derive(Message)]
#[rtype(result = "Option<AgentEntry>")]
pub struct GetAgent(pub AgentId);

/// All agents, and a receiver of every change after that.
pub type WatchStart = (Vec<AgentEntry>, broadcast::Receiver<Arc<AgentEntry>>);

/// Starts a watch; refused if there are too many.
#[derive(Message)]
#[rtype(result = "Result<WatchStart, Problem>")]
pub struct WatchDirectory;

/// Checks every lease; resolves once the resulting changes are durable.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct SweepLeases;

/// Returns the state of the registry.
#[derive(Message)]
#[rtype(result = "RegistryState")]
pub struct GetRegistryState;

/// The state of the registry, for `/state`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryState {
    /// Its timing and limits.
    pub config: Config,
    /// Counts of agents by state.
    pub agents: DirectoryStats,
    /// The number of watchers.
    pub watchers: usize,
    /// Signals the board has not accepted yet; counted up to 1,000.
    pub signals_waiting: usize,
}
