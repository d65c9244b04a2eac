//! The node under measure: one agent whose brain never ends, so that its tasks stay open.

use super::child::{Ready, parent_spoke, say};
use crate::{
    brain::{Ask, Brain, Turn},
    node::{self, Seat, Service, Setup},
};
use anyhow::Context as _;
use blackboard::{
    board::BoardConfig,
    store::{Shared, embedded, memory},
};
use protocol::{
    card::Terms,
    coordination::{contract_net::Auction, delegation::Patience, thought::Progress},
    ids::AgentId,
    limits::Limits,
    signature::Secret,
};
use registry::config::Config as RegistryConfig;
use serde::{Deserialize, Serialize};
use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// The agent that holds the tasks.
pub(super) const HOLDER: &str = "builder-01";
/// The agent that asks for them.
pub(super) const ASKER: &str = "planner-01";

/// A node whose tasks stay open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Held {
    /// Where its store is; in memory if nowhere.
    pub(super) store: Option<PathBuf>,
    /// What signatures are proven by.
    pub(super) secret: Vec<u8>,
}

/// A brain that waits for ever.
struct Waits;

impl Brain for Waits {
    fn think(&self, _: Ask, _: mpsc::Sender<Progress>) -> Turn {
        Box::pin(std::future::pending())
    }

    fn name(&self) -> &'static str {
        "waits"
    }
}

/// The store in `dir`, or one in memory.
pub(super) fn store(dir: Option<&PathBuf>) -> anyhow::Result<Shared> {
    Ok(match dir {
        Some(dir) => embedded::open(dir, embedded::Options::default())?,
        None => memory::new(),
    })
}

/// A process of these agents with registry and board, on any free ports, without a limit on rates.
pub(super) fn setup(
    seats: Vec<Seat>,
    store: Shared,
    secret: &[u8],
    auction: Auction,
) -> anyhow::Result<Setup> {
    let limits = Limits { max_rate_per_second: 0, think_ms: 3_600_000, ..Limits::default() };
    Ok(Setup {
        listen: Ipv4Addr::LOCALHOST.into(),
        reach: Default::default(),
        port: 0,
        registry: Some(Service::Here),
        board: Service::Here,
        seats,
        store,
        secret: Secret::new(secret)?,
        limits,
        auction,
        patience: Patience::default(),
        registry_config: RegistryConfig::default(),
        board_config: BoardConfig::default(),
        outside: Default::default(),
        keys: Default::default(),
        hooks: Default::default(),
        keyring: Default::default(),
        telemetry: Default::default(),
        grpc: None,
        callers: Vec::new(),
        gauge: None,
    })
}

/// An agent without skills.
pub(super) fn seat(id: &str, brain: Arc<dyn Brain>) -> anyhow::Result<Seat> {
    Ok(Seat {
        id: AgentId::parse(id)?,
        description: String::new(),
        skills: Vec::new(),
        open: true,
        a2a: Default::default(),
        terms: Terms { max_parallel: 256, ..Terms::default() },
        subscribe: Vec::new(),
        brain,
        port: 0,
        waits: None,
    })
}

/// Serves until the parent is gone.
pub(super) async fn serve(held: Held) -> anyhow::Result<()> {
    let seats = vec![seat(HOLDER, Arc::new(Waits))?, seat(ASKER, Arc::new(Waits))?];
    let running =
        node::start(setup(seats, store(held.store.as_ref())?, &held.secret, Auction::default())?).await?;
    let holder = AgentId::parse(HOLDER)?;
    let address = *running.agents.get(&holder).context("the holder has no address")?;
    say(&Ready { address })?;
    while parent_spoke().await {}
    running.stop(Duration::ZERO).await;
    Ok(())
}
