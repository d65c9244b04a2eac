//! The loop of an agent with a model: processor per answer of the model. The provider and the tool server run in this
//! process, the agent in a child process.

use crate::{
    Figure, Options,
    accept::StoreKind,
    child::{Child, ChildAddress, Role, report, wait_for_parent},
    load::{Connection, Requests},
    millis, nodes,
    provider::{CALLS, Provider, TOOL},
};
use agent_node::{
    brain::exec::BrainRights,
    config::Team,
    node::{self, AgentSpec},
};
use anyhow::{Context as _, ensure};
use patterns::contract_net::Auction;
use protocol::routes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

const AGENT: &str = "thinker-01";
/// Tasks before the measurement.
const WARM_UP: usize = 20;

/// An agent with a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Thinker {
    /// The directory of its store; in memory if none.
    pub(crate) store: Option<PathBuf>,
    /// The base URL of the provider and of the tool server.
    pub(crate) provider: String,
    /// Whether it has the tool server.
    pub(crate) has_tool_server: bool,
}

/// Runs `tasks` tasks of ten calls one after the other; the figure is the processor of the child per answer of the model.
pub(crate) fn measure(
    options: &Options,
    store: StoreKind,
    has_tool_server: bool,
    tasks: usize,
) -> anyhow::Result<Figure> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let provider = Provider::start(has_tool_server)?;
    let in_dir = (store == StoreKind::Embedded).then(|| dir.path().join("store"));
    let thinker = Thinker { store: in_dir, provider: provider.url.clone(), has_tool_server };
    let node = Child::start(&Role::Thinker(thinker))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut connection = runtime.block_on(Connection::open(node.address))?;
    let mut run = |mut numbers: Range<usize>| {
        numbers.try_for_each(|number| runtime.block_on(ask(&mut connection, number)))
    };
    run(0..WARM_UP)?;
    let (used, answers, started) = (node.processor_seconds(), provider.answers(), Instant::now());
    run(WARM_UP..WARM_UP + tasks)?;
    let (elapsed, used) = (started.elapsed(), node.processor_seconds() - used);
    let answers = provider.answers() - answers;
    ensure!(answers == tasks * (CALLS + 1), "{answers} answers of the model for {tasks} tasks");
    let each = |whole: f64| whole / answers as f64;
    let store = if store == StoreKind::Memory { "memory" } else { "embedded" };
    let tool = if has_tool_server { "a call of a tool server" } else { "a tool of the mesh" };
    Ok(Figure {
        name: format!("agent loop, {store}, {tool}"),
        value: each(used * 1e3),
        unit: "ms/answer",
        detail: format!("processor; {:.2} ms elapsed", each(millis(elapsed))),
    })
}

/// Serves until the parent ends.
pub(crate) async fn serve(thinker: Thinker) -> anyhow::Result<()> {
    let Thinker { store, provider, has_tool_server } = thinker;
    let tools = if has_tool_server { format!("{{ mcp: '{provider}/mcp' }}") } else { String::new() };
    let llm = format!("model: openai/m, url: '{provider}/v1', key: k, tools: [{tools}]");
    let team = format!("agents: [{{ agent: {AGENT}, open: true, brain: {{ llm: {{ {llm} }} }} }}]");
    let team = Team::parse("the benchmark", &team, None)?;
    let brain = team.agents.first().context("no agent")?.brain.brain(&BrainRights::default(), None)?;
    let seat = AgentSpec { brain, ..nodes::seat(AGENT, Arc::new(agent_node::brain::echo::EchoBrain))? };
    let setup = nodes::setup(vec![seat], nodes::store(store.as_ref())?, Auction::default())?;
    let running = node::start(setup).await?;
    let (_, address) = running.agents.iter().next().context("the agent has no address")?;
    report(&ChildAddress { address: *address })?;
    while wait_for_parent().await {}
    running.stop(Duration::ZERO).await;
    Ok(())
}

async fn ask(connection: &mut Connection, number: usize) -> anyhow::Result<()> {
    let body = json!({
        "messageId": format!("loop-{number}"), "fromAgentId": "me", "toAgentId": AGENT, "type": "task-request",
        "payload": { "taskId": format!("t-{number}"), "description": format!("Call {TOOL} ten times.") },
    });
    let mut requests = Requests::default();
    requests.post(routes::MESSAGES, &[("prefer", "wait=20")], &body.to_string());
    let (status, answer) = connection.send(requests.get(0).unwrap_or_default()).await?;
    let task: Value = serde_json::from_slice(answer)?;
    let state = task["status"]["state"].as_str().unwrap_or_default();
    ensure!(status == 200 && state == "TASK_STATE_COMPLETED", "task {number} ended {status} {task}");
    Ok(())
}
