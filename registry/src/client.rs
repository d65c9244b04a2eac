//! The registry's client: the same calls and results whether the registry is in this process or behind HTTP.

#[cfg(test)]
mod tests;
mod watch;

pub use watch::RegistryWatch;

use crate::registrar::{GetAgent, OWNER, SupervisedRegistry};
use protocol::{
    identity::{KeyCertificate, PublicIdentity},
    ids::AgentId,
    principal::{MeshService, Principal, SenderProof},
    problem::{Problem, Reason},
};
use std::sync::Arc;
use transport::http_client::{HttpClient, is_foreign_response, redact_url};
use transport::operation::{Caller, Operation, RemoteService, Service};

/// A handle to the registry. Cheap to clone.
#[derive(Clone)]
pub struct Registry(RegistryBackend);

#[derive(Clone)]
enum RegistryBackend {
    Local(SupervisedRegistry),
    Remote(RemoteService),
}

impl Registry {
    /// The registry in this process. The holder is trusted to register only agents of this process.
    pub fn local(registry: impl Into<SupervisedRegistry>) -> Self {
        Self(RegistryBackend::Local(registry.into()))
    }

    /// The registry at `base` (`http://127.0.0.1:8000`). `wire` must sign as the agent that registers.
    pub fn remote(base: &str, wire: HttpClient) -> Self {
        let wire = wire.with_unreachable_reason(Reason::RegistryUnavailable);
        Self(RegistryBackend::Remote(RemoteService::new(base, OWNER, wire)))
    }

    /// Performs `operation` as the agent `by`.
    pub async fn call<O: Operation>(&self, by: &AgentId, operation: O) -> Result<O::Answer, Problem>
    where
        SupervisedRegistry: Service<O>,
    {
        Service::call(self, &Caller::agent(by), operation).await
    }

    /// Performs an operation that everybody may.
    pub async fn read<O: Operation>(&self, operation: O) -> Result<O::Answer, Problem>
    where
        SupervisedRegistry: Service<O>,
    {
        let principal = Principal::Service(MeshService::Registry);
        let nobody = Caller { principal, proof: SenderProof::Credential, root: None };
        Service::call(self, &nobody, operation).await
    }

    /// Pins the key of an agent, and returns its certificate if the registry is in this process; else the client of this handle
    /// has learnt it. Fails with `key_mismatch` if another key is pinned.
    pub async fn admit_key(&self, identity: &Arc<PublicIdentity>) -> Result<Option<KeyCertificate>, Problem> {
        match &self.0 {
            RegistryBackend::Local(registry) => registry.admit_key(identity.clone()).await.map(Some),
            // Its client tells its key where that is not known.
            RegistryBackend::Remote(_) => match self.read(GetAgent { id: identity.id().clone() }).await {
                Err(problem) if problem.reason != Reason::AgentNotFound => Err(problem),
                _ => Ok(None),
            },
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

impl<O: Operation> Service<O> for Registry
where
    SupervisedRegistry: Service<O>,
{
    async fn call(&self, by: &Caller, operation: O) -> Result<O::Answer, Problem> {
        match &self.0 {
            RegistryBackend::Local(registry) => registry.call(by, operation).await,
            RegistryBackend::Remote(remote) => check_registry(remote, remote.call(by, operation).await),
        }
    }
}

/// `answer`, but an error that no registry would answer says so.
fn check_registry<T>(remote: &RemoteService, answer: Result<T, Problem>) -> Result<T, Problem> {
    answer.map_err(|problem| {
        let is_foreign = is_foreign_response(&problem) || problem.reason == Reason::RouteNotFound;
        if is_foreign { not_a_registry(remote, &problem.message) } else { problem }
    })
}

/// The problem of an address at which something other than a registry listens.
fn not_a_registry(remote: &RemoteService, answer: &str) -> Problem {
    let base = redact_url(remote.base());
    let message = format!(
        "what listens at {base} is no registry ({answer}): --registry (MESH_REGISTRY) wants the base URL of `mesh registry` or \
         `mesh up`, such as http://127.0.0.1:8000"
    );
    Problem::new(Reason::RegistryUnavailable, message)
}
