//! The operations of the registry, and the other messages of [`super::RegistryActor`].

use crate::{
    config::Config,
    directory::DirectoryStats,
    entry::{AgentEntry, Heartbeat},
    pinned_keys::{KeyCursor, KeyPage, PinnedKey},
};
use actix::Message;
use protocol::{
    identity::{KeyCertificate, KeyChange, PublicIdentity},
    ids::AgentId,
    problem::{Problem, Reason},
    routes,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::broadcast;
use transport::operation::{Operation, OperationInfo};

/// Renews a lease and reports the load. Fails with `agent_not_found` if the lease has expired (register again), and with
/// `stale_incarnation` if another process has taken over (stop).
#[derive(Debug, Serialize, Deserialize)]
pub struct RecordHeartbeat {
    /// The agent of the lease.
    pub id: AgentId,
    #[serde(flatten)]
    pub heartbeat: Heartbeat,
}

impl Operation for RecordHeartbeat {
    type Answer = ();
    const INFO: OperationInfo = OperationInfo::agents("PUT", "/registry/agents/{id}/heartbeat").status(204);
}

/// Reports that the caller could not reach an agent. Two reports shorten its lease to one heartbeat interval; one changes nothing.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReportSuspicion {
    /// The agent that it could not reach.
    pub id: AgentId,
    pub incarnation: u64,
}

impl Operation for ReportSuspicion {
    type Answer = ();
    const INFO: OperationInfo = OperationInfo::agents("POST", "/registry/agents/{id}/suspicion").status(204);
}

/// Deregisters that incarnation of an agent; a repeat is no error.
#[derive(Debug, Serialize, Deserialize)]
pub struct Deregister {
    /// The agent that leaves.
    pub id: AgentId,
    pub incarnation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<LeaveReason>,
}

/// Why an agent deregisters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaveReason {
    /// It has finished or handed back its work.
    Drained,
}

impl Operation for Deregister {
    type Answer = ();
    const INFO: OperationInfo = OperationInfo::agents("DELETE", "/registry/agents/{id}").status(204);
}

/// Returns one agent in any state. Fails with `agent_not_found` if the registry has no row of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct GetAgent {
    pub id: AgentId,
}

impl Operation for GetAgent {
    type Answer = AgentEntry;
    const INFO: OperationInfo = OperationInfo::get("/registry/agents/{id}");
}

/// Replaces the key of an agent, as its old key says. Returns the certificate of the new one; a repeat gets the same.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChangeKey {
    pub id: AgentId,
    /// What its old key says.
    #[serde(flatten)]
    pub change: KeyChange,
}

impl Operation for ChangeKey {
    type Answer = KeyCertificate;
    const INFO: OperationInfo = OperationInfo::agents("POST", "/registry/keys/{id}/change");
}

/// Returns the key records that changed after a cursor; all from the beginning without it, or if it is of another life of the
/// registry.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ReadKeyRecords {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

impl ReadKeyRecords {
    /// Those after `cursor`.
    pub fn after(cursor: Option<KeyCursor>) -> Self {
        let (life, revision) = cursor.map(|cursor| (cursor.life, cursor.revision)).unzip();
        Self { life, revision }
    }

    pub(super) fn cursor(self) -> Result<Option<KeyCursor>, Problem> {
        match (self.life, self.revision) {
            (Some(life), Some(revision)) => Ok(Some(KeyCursor { life, revision })),
            (None, None) => Ok(None),
            (_, _) => {
                Err(Problem::new(Reason::InvalidField, "life and revision are the cursor of the last page"))
            }
        }
    }
}

impl Operation for ReadKeyRecords {
    type Answer = KeyPage;
    const INFO: OperationInfo = OperationInfo::get(routes::KEY_RECORDS);
}

/// Pins the key of an agent that has proven the join secret; refused if another key is pinned for its id.
#[derive(Message)]
#[rtype(result = "Result<KeyCertificate, Problem>")]
pub struct AdmitKey(pub Arc<PublicIdentity>);

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

/// Returns the keys of all ids.
#[derive(Message)]
#[rtype(result = "Vec<PinnedKey>")]
pub struct ListKeys;

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
