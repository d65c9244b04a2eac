//! What the registry's actor is asked.

use crate::{
    application::Application,
    config::Config,
    directory::Figures,
    entry::{Entry, Heartbeat, Query, Registered},
};
use actix::Message;
use protocol::{ids::AgentId, principal::Principal, problem::Problem};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::broadcast;

/// Registers an agent.
#[derive(Message)]
#[rtype(result = "Result<Registered, Problem>")]
pub struct Register {
    /// Who asks.
    pub by: Principal,
    /// For what.
    pub application: Application,
}

/// Renews a lease.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct Beat {
    /// Who asks.
    pub by: Principal,
    /// Whose lease.
    pub id: AgentId,
    /// What it says.
    pub heartbeat: Heartbeat,
}

/// Says that one agent could not reach another.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct Suspect {
    /// Who says so.
    pub by: Principal,
    /// Whom it could not reach.
    pub id: AgentId,
    /// Which life of it.
    pub incarnation: u64,
}

/// Says goodbye.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct Deregister {
    /// Who asks.
    pub by: Principal,
    /// Who leaves.
    pub id: AgentId,
    /// Which life of it.
    pub incarnation: u64,
    /// Whether it has finished what it did.
    pub is_drained: bool,
}

/// Asks for agents.
#[derive(Message)]
#[rtype(result = "Vec<Entry>")]
pub struct Find(pub Query);

/// Asks for one agent, gone or not.
#[derive(Message)]
#[rtype(result = "Option<Entry>")]
pub struct Look(pub AgentId);

/// Everybody who is known, and what changes from that moment on.
pub type Following = (Vec<Entry>, broadcast::Receiver<Arc<Entry>>);

/// Asks for everybody who is known, and for what changes from that moment on.
#[derive(Message)]
#[rtype(result = "Result<Following, Problem>")]
pub struct Follow;

/// Looks at every lease; resolves when what follows from it is durable.
#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
pub struct Sweep;

/// Asks how the registry is.
#[derive(Message)]
#[rtype(result = "State")]
pub struct Observe;

/// How the registry is, for `/state`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Its timing and limits.
    pub config: Config,
    /// How many agents there are.
    pub agents: Figures,
    /// Who watches.
    pub watchers: usize,
    /// Signals the board has not taken yet; counted up to 1,000.
    pub signals_waiting: usize,
}
