//! The measured nodes.

use crate::child::{ChildAddress, report, wait_for_parent};
use agent_node::{
    brain::{Brain, TurnFuture, TurnHandle, TurnRequest},
    config::MeshConfig,
    node::{self, AgentSpec, NodeSetup},
    outbox::outbound_client::OutboundClient,
    services::ServiceLocation,
    signing_keys::SigningKeys,
    tool_login::ToolLogins,
};
use anyhow::Context as _;
use engine::settings::{AgentBounds, AgentSettings, BidSettings};
use patterns::contract_net::Auction;
use protocol::{bid::Eta, ids::AgentId, limits::Limits, signature::Secret};
use serde::{Deserialize, Serialize};
use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};
use store::{SharedStore, embedded, memory};

/// The agent that has the tasks.
pub(crate) const HOLDER: &str = "builder-01";
/// The bound of a turn that never ends.
const HOUR: Eta = Eta(3_600_000);

/// The join secret of every measured process.
pub(crate) const SECRET: [u8; 32] = [7; 32];
/// The agent that sends the signed messages.
pub(crate) const SENDER: &str = "planner-01";

/// A node with one agent whose brain never ends, so that its tasks stay open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TaskNode {
    /// The directory of its store; in memory if none.
    pub(crate) store: Option<PathBuf>,
    /// The directory of its keys.
    pub(crate) keys: PathBuf,
}

/// A brain whose turn never ends.
struct BlockingBrain;

impl Brain for BlockingBrain {
    fn think(&self, _: TurnRequest, _: TurnHandle) -> TurnFuture {
        Box::pin(std::future::pending())
    }

    fn name(&self) -> &'static str {
        "never-ends"
    }
}

/// The store in `dir`, or one in memory.
pub(crate) fn store(dir: Option<&PathBuf>) -> anyhow::Result<SharedStore> {
    Ok(match dir {
        Some(dir) => embedded::open(dir, embedded::StoreOptions::default())?,
        None => memory::new(),
    })
}

/// The setup of a process with these agents, a registry and a board, on any free ports, without a rate limit.
pub(crate) fn setup(
    agents: Vec<AgentSpec>,
    store: SharedStore,
    auction: Auction,
) -> anyhow::Result<NodeSetup> {
    let limits = Limits { max_rate_per_second: 0, ..Limits::default() };
    let outside = OutboundClient::new(Default::default(), Default::default())?;
    Ok(NodeSetup {
        listen: Ipv4Addr::LOCALHOST.into(),
        advertise: Default::default(),
        port: 0,
        registry: Some(ServiceLocation::Local),
        board: ServiceLocation::Local,
        agents,
        store,
        space_store: None,
        requests: None,
        secret: Secret::new(&SECRET)?,
        mesh: MeshConfig { limits, auction, ..MeshConfig::default() },
        logins: ToolLogins::new(std::env::temp_dir().join("mesh-bench-logins"), outside.clone()),
        outside,
        keys: Default::default(),
        hooks: Default::default(),
        telemetry: Default::default(),
        tokens: Default::default(),
        gauge: None,
    })
}

/// An agent without skills.
pub(crate) fn seat(id: &str, brain: Arc<dyn Brain>) -> anyhow::Result<AgentSpec> {
    Ok(AgentSpec {
        workspaces: Default::default(),
        schedules: Default::default(),
        triggers: Default::default(),
        id: AgentId::parse(id)?,
        settings: AgentSettings {
            bid: BidSettings { max_parallel: Some(256), ..BidSettings::default() },
            bounds: AgentBounds { idle: Some(HOUR), turn: Some(HOUR), ..AgentBounds::default() },
            ..AgentSettings::default()
        },
        brain,
        acceptance: Default::default(),
        port: None,
        pending_card: None,
        peer: None,
        access: Default::default(),
    })
}

/// Serves until the parent ends.
pub(crate) async fn serve(node: TaskNode) -> anyhow::Result<()> {
    let agents = vec![seat(HOLDER, Arc::new(BlockingBrain))?, seat(SENDER, Arc::new(BlockingBrain))?];
    let setup = setup(agents, store(node.store.as_ref())?, Auction::default())?;
    let keys = SigningKeys::at(Some(node.keys));
    let running = node::start(NodeSetup { keys, ..setup }).await?;
    let address = *running.agents.get(&AgentId::parse(HOLDER)?).context("the holder has no address")?;
    report(&ChildAddress { address })?;
    while wait_for_parent().await {}
    running.stop(Duration::ZERO).await;
    Ok(())
}
