//! The measured nodes.

use crate::child::{ChildAddress, report, wait_for_parent};
use agent_node::{
    brain::{Ask, Brain, Turn},
    node::{self, Seat, Service, Setup},
};
use anyhow::Context as _;
use blackboard::{
    board::BoardConfig,
    store::{Shared, embedded, memory},
};
use protocol::{
    card::BidTerms,
    ids::AgentId,
    limits::Limits,
    patterns::{contract_net::Auction, delegation::Timeouts, turn::Progress},
    signature::Secret,
};
use registry::config::Config as RegistryConfig;
use serde::{Deserialize, Serialize};
use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// The agent that has the tasks.
pub(crate) const HOLDER: &str = "builder-01";
/// The join secret of every measured process.
pub(crate) const SECRET: [u8; 32] = [7; 32];
/// The agent that sends the signed messages.
pub(crate) const SENDER: &str = "planner-01";

/// A node with one agent whose brain never ends, so that its tasks stay open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TaskNode {
    /// The directory of its store; in memory if none.
    pub(crate) store: Option<PathBuf>,
}

/// A brain whose turn never ends.
struct BlockingBrain;

impl Brain for BlockingBrain {
    fn think(&self, _: Ask, _: mpsc::Sender<Progress>) -> Turn {
        Box::pin(std::future::pending())
    }

    fn name(&self) -> &'static str {
        "never-ends"
    }
}

/// The store in `dir`, or one in memory.
pub(crate) fn store(dir: Option<&PathBuf>) -> anyhow::Result<Shared> {
    Ok(match dir {
        Some(dir) => embedded::open(dir, embedded::Options::default())?,
        None => memory::new(),
    })
}

/// The setup of a process with these agents, a registry and a board, on any free ports, without a rate limit.
pub(crate) fn setup(seats: Vec<Seat>, store: Shared, auction: Auction) -> anyhow::Result<Setup> {
    let limits = Limits { max_rate_per_second: 0, think_ms: 3_600_000, ..Limits::default() };
    Ok(Setup {
        listen: Ipv4Addr::LOCALHOST.into(),
        reach: Default::default(),
        port: 0,
        registry: Some(Service::Here),
        board: Service::Here,
        seats,
        store,
        secret: Secret::new(&SECRET)?,
        limits,
        auction,
        patience: Timeouts::default(),
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
pub(crate) fn seat(id: &str, brain: Arc<dyn Brain>) -> anyhow::Result<Seat> {
    Ok(Seat {
        id: AgentId::parse(id)?,
        description: String::new(),
        skills: Vec::new(),
        open: true,
        a2a: Default::default(),
        terms: BidTerms { max_parallel: 256, ..BidTerms::default() },
        subscribe: Vec::new(),
        brain,
        port: 0,
        waits: None,
    })
}

/// Serves until the parent ends.
pub(crate) async fn serve(node: TaskNode) -> anyhow::Result<()> {
    let seats = vec![seat(HOLDER, Arc::new(BlockingBrain))?, seat(SENDER, Arc::new(BlockingBrain))?];
    let running = node::start(setup(seats, store(node.store.as_ref())?, Auction::default())?).await?;
    let address = *running.agents.get(&AgentId::parse(HOLDER)?).context("the holder has no address")?;
    report(&ChildAddress { address })?;
    while wait_for_parent().await {}
    running.stop(Duration::ZERO).await;
    Ok(())
}
