//! The registry's client: the same calls and results whether the registry is in this process or behind HTTP.

mod remote;
#[cfg(test)]
mod tests;
mod watch;

pub use watch::RegistryWatch;

use crate::{
    entry::{AgentEntry, AgentQuery, Heartbeat, LeaseGrant},
    pinned_keys::{KeyCursor, KeyPage},
    registrar::{
        ChangeKey, Deregister, FindAgents, GetAgent, ReadKeyRecords, RecordHeartbeat, Register,
        ReportSuspicion, SupervisedRegistry,
    },
    registration_request::RegistrationRequest,
};
use blackboard::http_client::HttpClient;
use protocol::{
    card::Card,
    identity::{KeyCertificate, KeyChange, PublicIdentity},
    ids::AgentId,
    principal::Principal,
    problem::Problem,
};
use remote::RemoteRegistry;
use std::sync::Arc;

/// A handle to the registry. Cheap to clone.
#[derive(Clone)]
pub struct Registry(RegistryBackend);

#[derive(Clone)]
enum RegistryBackend {
    Local(SupervisedRegistry),
    Remote(RemoteRegistry),
}

impl Registry {
    /// The registry in this process. The holder is trusted to register only agents of this process.
    pub fn local(registry: impl Into<SupervisedRegistry>) -> Self {
        Self(RegistryBackend::Local(registry.into()))
    }

    /// The registry at `base` (`http://127.0.0.1:8000`). `wire` must sign as the agent that registers.
    pub fn remote(base: &str, wire: HttpClient) -> Self {
        Self(RegistryBackend::Remote(RemoteRegistry::new(base, wire)))
    }

    /// Pins the key of an agent, and returns its certificate if the registry is in this process; else the client of this handle
    /// has learnt it. Fails with `key_mismatch` if another key is pinned.
    pub async fn admit_key(&self, identity: &Arc<PublicIdentity>) -> Result<Option<KeyCertificate>, Problem> {
        match &self.0 {
            RegistryBackend::Local(registry) => registry.admit_key(identity.clone()).await.map(Some),
            // Its client tells its key where that is not known.
            RegistryBackend::Remote(remote) => remote.get(identity.id()).await.map(|_| None),
        }
    }

    /// Registers the agent of `card`. `instance` is random for each start of its process. A repeat gets the first answer.
    /// A new process of the same agent supersedes the old one, which is then refused with `stale_incarnation`.
    pub async fn register(&self, card: Arc<Card>, instance: String) -> Result<LeaseGrant, Problem> {
        let by = Principal::Agent(card.agent_id.clone());
        let request = RegistrationRequest { card, instance };
        match &self.0 {
            RegistryBackend::Local(registry) => registry.ask(Register { by, request }).await?,
            RegistryBackend::Remote(remote) => remote.register(&request).await,
        }
    }

    /// Renews the lease and reports the load. Fails with `agent_not_found` if the lease has expired (register again), and
    /// with `stale_incarnation` if another process has taken over (stop).
    pub async fn heartbeat(&self, id: &AgentId, heartbeat: Heartbeat) -> Result<(), Problem> {
        let by = Principal::Agent(id.clone());
        match &self.0 {
            RegistryBackend::Local(registry) => {
                registry.ask(RecordHeartbeat { by, id: id.clone(), heartbeat }).await?
            }
            RegistryBackend::Remote(remote) => remote.heartbeat(id, heartbeat).await,
        }
    }

    /// Reports that `reporter` could not reach that incarnation of `id`. Two reports shorten the lease of `id` to one
    /// heartbeat interval; one changes nothing.
    pub async fn report_suspicion(
        &self,
        reporter: &AgentId,
        id: &AgentId,
        incarnation: u64,
    ) -> Result<(), Problem> {
        let by = Principal::Agent(reporter.clone());
        match &self.0 {
            RegistryBackend::Local(registry) => {
                registry.ask(ReportSuspicion { by, id: id.clone(), incarnation }).await?
            }
            RegistryBackend::Remote(remote) => remote.report_suspicion(id, incarnation).await,
        }
    }

    /// Deregisters that incarnation of the agent; a repeat is no error.
    pub async fn deregister(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        self.send_deregister(id, incarnation, false).await
    }

    /// Deregisters an agent that has finished or handed back its work.
    pub async fn deregister_drained(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        self.send_deregister(id, incarnation, true).await
    }

    async fn send_deregister(&self, id: &AgentId, incarnation: u64, is_drained: bool) -> Result<(), Problem> {
        let by = Principal::Agent(id.clone());
        match &self.0 {
            RegistryBackend::Local(registry) => {
                registry.ask(Deregister { by, id: id.clone(), incarnation, is_drained }).await?
            }
            RegistryBackend::Remote(remote) => remote.deregister(id, incarnation, is_drained).await,
        }
    }

    /// Replaces the key of the agent `id`, as its old key says. Returns the certificate of the new one; a repeat gets the same.
    pub async fn change_key(&self, id: &AgentId, change: KeyChange) -> Result<KeyCertificate, Problem> {
        let by = Principal::Agent(id.clone());
        match &self.0 {
            RegistryBackend::Local(registry) => {
                registry.ask(ChangeKey { by, id: id.clone(), change }).await?
            }
            RegistryBackend::Remote(remote) => remote.change_key(id, &change).await,
        }
    }

    /// The key records that changed after `after`; all from the beginning without it, or if the registry has restarted.
    pub async fn key_records(&self, after: Option<KeyCursor>) -> Result<KeyPage, Problem> {
        match &self.0 {
            RegistryBackend::Local(registry) => registry.ask(ReadKeyRecords(after)).await?,
            RegistryBackend::Remote(remote) => remote.key_records(after).await,
        }
    }

    /// The agents that match `query`, in its order.
    pub async fn find(&self, query: &AgentQuery) -> Result<Vec<AgentEntry>, Problem> {
        match &self.0 {
            RegistryBackend::Local(registry) => registry.ask(FindAgents(query.clone())).await,
            RegistryBackend::Remote(remote) => remote.find(query).await,
        }
    }

    /// One agent in any state; `None` if the registry has no row of it.
    pub async fn get(&self, id: &AgentId) -> Result<Option<AgentEntry>, Problem> {
        match &self.0 {
            RegistryBackend::Local(registry) => registry.ask(GetAgent(id.clone())).await,
            RegistryBackend::Remote(remote) => remote.get(id).await,
        }
    }

    /// Watches the directory: a snapshot first, then each change.
    pub fn watch(&self) -> RegistryWatch {
        match &self.0 {
            RegistryBackend::Local(registry) => RegistryWatch::local(registry.clone()),
            RegistryBackend::Remote(remote) => RegistryWatch::remote(remote.clone()),
        }
    }
}
