//! The registry as an agent or a person sees it: in this process or behind HTTP, the same calls and the same answers.

mod remote;
#[cfg(test)]
mod tests;
mod watch;

pub use watch::Watch;

use crate::{
    application::Application,
    entry::{Entry, Heartbeat, Query, Registered},
    registrar::{Beat, Deregister, Find, Keeper, Look, Register, RegistryActor, Suspect},
};
use actix::{Handler, Message, dev::ToEnvelope};
use blackboard::http_client::HttpClient;
use protocol::{
    card::Card,
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
};
use remote::Remote;
use std::sync::Arc;

/// A handle to the registry. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Place);

#[derive(Clone)]
enum Place {
    Here(Keeper),
    There(Remote),
}

impl Registry {
    /// The registry in this process. Whoever holds it is trusted to register only agents of this process.
    pub fn local(registry: impl Into<Keeper>) -> Self {
        Self(Place::Here(registry.into()))
    }

    /// The registry at `base` (`http://127.0.0.1:8000`). What an agent registers, `wire` has to sign as that agent.
    pub fn remote(base: &str, wire: HttpClient) -> Self {
        Self(Place::There(Remote::new(base, wire)))
    }

    /// Registers the agent of `card`, whose process is `instance`: a text that is random for each start of a process.
    /// A repeat gets the first answer. A new process of the same agent supersedes the old one; a superseded one is
    /// refused with `stale_incarnation`, for good.
    pub async fn register(&self, card: Arc<Card>, instance: String) -> Result<Registered, Problem> {
        let by = Principal::Agent(card.agent_id.clone());
        let application = Application { card, instance };
        match &self.0 {
            Place::Here(registry) => ask(registry, Register { by, application }).await?,
            Place::There(remote) => remote.register(&application).await,
        }
    }

    /// Says that the agent lives, and how busy it is. `agent_not_found` means: register again, as the registry has
    /// given it up; `stale_incarnation` means: another process has taken over, stop.
    pub async fn heartbeat(&self, id: &AgentId, heartbeat: Heartbeat) -> Result<(), Problem> {
        let by = Principal::Agent(id.clone());
        match &self.0 {
            Place::Here(registry) => ask(registry, Beat { by, id: id.clone(), heartbeat }).await?,
            Place::There(remote) => remote.heartbeat(id, heartbeat).await,
        }
    }

    /// Says that `reporter` could not reach that life of `id`. Two who say so make the registry wait for one heartbeat
    /// only; one alone changes nothing.
    pub async fn suspect(&self, reporter: &AgentId, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        let by = Principal::Agent(reporter.clone());
        match &self.0 {
            Place::Here(registry) => ask(registry, Suspect { by, id: id.clone(), incarnation }).await?,
            Place::There(remote) => remote.suspect(id, incarnation).await,
        }
    }

    /// Says goodbye for that life of the agent; a repeat is no error.
    pub async fn deregister(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        self.leave(id, incarnation, false).await
    }

    /// The same, after it has finished or handed back what it did.
    pub async fn leave_drained(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        self.leave(id, incarnation, true).await
    }

    async fn leave(&self, id: &AgentId, incarnation: u64, is_drained: bool) -> Result<(), Problem> {
        let by = Principal::Agent(id.clone());
        match &self.0 {
            Place::Here(registry) => {
                ask(registry, Deregister { by, id: id.clone(), incarnation, is_drained }).await?
            }
            Place::There(remote) => remote.deregister(id, incarnation, is_drained).await,
        }
    }

    /// The agents that `query` asks for, in its order.
    pub async fn find(&self, query: &Query) -> Result<Vec<Entry>, Problem> {
        match &self.0 {
            Place::Here(registry) => ask(registry, Find(query.clone())).await,
            Place::There(remote) => remote.find(query).await,
        }
    }

    /// What is known of one agent; for a day after it left, that it has.
    pub async fn look(&self, id: &AgentId) -> Result<Option<Entry>, Problem> {
        match &self.0 {
            Place::Here(registry) => ask(registry, Look(id.clone())).await,
            Place::There(remote) => remote.look(id).await,
        }
    }

    /// Follows who is there: first everybody, then each change.
    pub fn watch(&self) -> Watch {
        match &self.0 {
            Place::Here(registry) => Watch::here(registry.clone()),
            Place::There(remote) => Watch::there(remote.clone()),
        }
    }
}

/// Asks the actor; one that is gone is an unavailable registry.
pub(crate) async fn ask<M>(registry: &Keeper, message: M) -> Result<M::Result, Problem>
where
    M: Message<Result: Send> + Send + 'static,
    RegistryActor: Handler<M>,
    <RegistryActor as actix::Actor>::Context: ToEnvelope<RegistryActor, M>,
{
    let gone = |_| Problem::new(Reason::RegistryUnavailable, "the registry did not live to answer");
    registry.actor()?.send(message).await.map_err(gone)
}
