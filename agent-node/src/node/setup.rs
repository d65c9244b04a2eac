//! What a process is made of, before it starts.

use super::{keys, late, reach::Reach, services::Service};
use crate::{brain::Brain, http::edge::Caller, telemetry::Telemetry};
use blackboard::{board::BoardConfig, store::Shared};
use protocol::{
    a2a::agent_policy::AgentPolicy,
    card::{BidTerms, Card, Skill},
    ids::AgentId,
    limits::Limits,
    patterns::{contract_net::Auction, delegation::Timeouts},
    signature::Secret,
};
use registry::config::Config as RegistryConfig;
use std::{net::IpAddr, sync::Arc};

/// One agent to run.
#[derive(Clone)]
pub struct Seat {
    /// Its id.
    pub id: AgentId,
    /// One sentence about it.
    pub description: String,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// Whether it takes requests that name no capability.
    pub open: bool,
    /// What it offers to A2A clients.
    pub a2a: AgentPolicy,
    /// On what terms it works.
    pub terms: BidTerms,
    /// Types of signals it reacts to, each exact or ending in `*`.
    pub subscribe: Vec<String>,
    /// Who thinks for it.
    pub brain: Arc<dyn Brain>,
    /// Where it listens; 0 takes any free port.
    pub port: u16,
    /// What it waits for before it knows what it can do, if it does.
    pub waits: Option<late::Waits>,
}

/// Everything a process is made of.
pub struct Setup {
    /// The address to listen on.
    pub listen: IpAddr,
    /// How others reach it there.
    pub reach: Reach,
    /// The port of the registry and the board, if they are here; 0 takes any free one.
    pub port: u16,
    /// The registry; `None` for a process without agents that is no registry itself.
    pub registry: Option<Service>,
    /// The board.
    pub board: Service,
    /// The agents.
    pub seats: Vec<Seat>,
    /// The store.
    pub store: Shared,
    /// What proves that an agent is one of the mesh.
    pub secret: Secret,
    /// What every agent takes.
    pub limits: Limits,
    /// How work is given away.
    pub auction: Auction,
    /// How long agents wait for what they asked.
    pub patience: Timeouts,
    /// The registry's timing.
    pub registry_config: RegistryConfig,
    /// The board's timing and limits.
    pub board_config: BoardConfig,
    /// Where calls beyond the mesh may go.
    pub outside: protocol::address_policy::AddressPolicy,
    /// Where agents keep the keys they sign their cards with.
    pub keys: keys::Keys,
    /// How full the store is, if that can be told.
    pub gauge: Option<blackboard::store::embedded::Gauge>,
    /// Where foreign agents call back.
    pub hooks: crate::outbox::a2a::callbacks::CallbackRegistry,
    /// What foreign agents are shown as proof of who calls.
    pub keyring: crate::outbox::a2a::credentials::Keyring,
    /// What tells of all this to whoever watches.
    pub telemetry: Telemetry,
    /// Users who prove who they are.
    pub callers: Vec<Caller>,
    /// The port where its agents take A2A over gRPC, if they do; 0 takes any free one.
    pub grpc: Option<u16>,
}

/// What the agent of `seat` is registered with.
pub(super) fn card(seat: &Seat, endpoint: String, limits: &Limits) -> Card {
    Card {
        agent_id: seat.id.clone(),
        description: seat.description.clone(),
        endpoint,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        skills: seat.skills.clone(),
        open: seat.open,
        subscribe: seat.subscribe.clone(),
        terms: seat.terms.clone(),
        limits: limits.clone(),
        waits_for: seat.waits.as_ref().map(|waits| waits.why.clone()),
    }
}
