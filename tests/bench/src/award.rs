//! From a task's request to its award: a manager, and bidders that answer at once. Measured inside the node's process,
//! where the manager's journal shows each of its commits the moment it is durable.

use crate::{
    child::{Child, ChildAddress, Role, report, wait_for_parent},
    load::{Connection, Requests, quantile},
    nodes,
};
use agent_node::{
    brain::echo::EchoBrain,
    node::{self, AgentSpec},
};
use anyhow::{Context as _, ensure};
use engine::settings::{AgentSettings, BidSettings, Openness};
use patterns::contract_net::Auction;
use protocol::{
    bid::{Cost, Eta},
    card::Skill,
    ids::Capability,
    routes,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{Filter, Key, StoreWatch};

const MANAGER: &str = "planner-01";
const CAPABILITY: &str = "build";
/// The time limit of one award.
const DEADLINE: Duration = Duration::from_secs(30);

/// A manager and its bidders.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AwardScenario {
    pub(crate) store: PathBuf,
    /// Agents registered for the capability.
    pub(crate) bidders: usize,
    /// The most agents asked in one round.
    pub(crate) fanout: usize,
    pub(crate) tasks: usize,
}

/// Times of awards, one task after the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AwardFigures {
    /// From the request to the durable award: the median.
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// From the cfp to the durable award: the median.
    pub(crate) cfp_p50: Duration,
    /// The manager's commits up to the award, one after the other.
    pub(crate) commits: usize,
    /// Memory in use before the first task, bytes.
    #[serde(default)]
    pub(crate) resident: u64,
}

/// AwardFigures tasks in a process of its own.
pub(crate) fn measure(scenario: AwardScenario) -> anyhow::Result<AwardFigures> {
    let mut child = Child::start(&Role::Award(scenario))?;
    let resident = child.resident()?;
    child.go()?;
    let awards: AwardFigures = child.hear()?;
    Ok(AwardFigures { resident, ..awards })
}

/// Starts the node, waits for the parent's line, awards the tasks and reports the times.
pub(crate) async fn serve(scenario: AwardScenario) -> anyhow::Result<()> {
    let mut seats = vec![nodes::seat(MANAGER, Arc::new(EchoBrain))?];
    for number in 0..scenario.bidders {
        seats.push(bidder(number)?);
    }
    let store = nodes::store(Some(&scenario.store))?;
    let auction = Auction { fanout: scenario.fanout, ..Auction::default() };
    let running = node::start(nodes::setup(seats, store.clone(), auction)?).await?;
    let manager = running.agents.iter().find(|(id, _)| id.as_str() == MANAGER).context("no manager")?;
    let mut connection = Connection::open(*manager.1).await?;
    report(&ChildAddress { address: *manager.1 })?;
    if !wait_for_parent().await {
        return Ok(());
    }
    let (mut whole, mut since_cfp, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..scenario.tasks {
        let journals = Filter::Below(Key::new(&[MANAGER, "journal"]));
        let watch = store.watch(journals, store.head())?;
        let sent = Instant::now();
        let task = send(&mut connection, number);
        let (times, done) = tokio::time::timeout(DEADLINE, async { tokio::join!(watch_award(watch), task) })
            .await
            .with_context(|| format!("task {number} was not awarded within {DEADLINE:?}"))?;
        let times = times?;
        done?;
        whole.push(times.award - sent);
        since_cfp.push(times.award - times.cfp);
        commits.push(times.commits);
    }
    whole.sort_unstable();
    since_cfp.sort_unstable();
    commits.sort_unstable();
    let commits = commits.get(commits.len() / 2).copied().unwrap_or_default();
    report(&AwardFigures {
        p50: quantile(&whole, 0.5),
        p99: quantile(&whole, 0.99),
        cfp_p50: quantile(&since_cfp, 0.5),
        commits,
        resident: 0,
    })?;
    while wait_for_parent().await {}
    Ok(())
}

fn bidder(number: usize) -> anyhow::Result<AgentSpec> {
    let build = Skill {
        id: Capability::parse(CAPABILITY)?,
        name: String::new(),
        description: String::new(),
        examples: Vec::new(),
        tags: Vec::new(),
        output_modes: Vec::new(),
    };
    let seat = nodes::seat(&format!("builder-{number:04}"), Arc::new(EchoBrain))?;
    let cost = Cost::new(0.01 * (number % 7) as f64).context("a cost")?;
    let (eta, max_parallel) = (Some(Eta(60_000)), Some(4));
    let bid = BidSettings { cost: Some(cost), eta, max_parallel, ..BidSettings::default() };
    let settings = AgentSettings { skills: vec![build], open: Openness::Closed, bid, ..seat.settings };
    Ok(AgentSpec { settings, ..seat })
}

async fn send(connection: &mut Connection, number: usize) -> anyhow::Result<()> {
    let body = json!({
        "messageId": format!("award-{number}"), "fromAgentId": "me", "toAgentId": MANAGER, "type": "task-request",
        "payload": { "taskId": format!("t-{number}"), "description": "say it back", "capability": CAPABILITY },
    });
    let mut requests = Requests::default();
    requests.post(routes::MESSAGES, &[("prefer", "wait=20")], &body.to_string());
    let (status, answer) = connection.send(requests.get(0).unwrap_or_default()).await?;
    let task: Value = serde_json::from_slice(answer)?;
    let state = task["status"]["state"].as_str().unwrap_or_default();
    ensure!(status == 200 && state == "TASK_STATE_COMPLETED", "task {number} ended {status} {task}");
    Ok(())
}

struct AwardTimes {
    cfp: Instant,
    award: Instant,
    commits: usize,
}

/// Reads the manager's journal as it grows: its first step calls, a later one awards.
async fn watch_award(mut watch: StoreWatch) -> anyhow::Result<AwardTimes> {
    let (mut cfp, mut commits) = (None, 0);
    loop {
        let records = watch.next().await?;
        let now = Instant::now();
        for record in records {
            commits += 1;
            let cfp = *cfp.get_or_insert(now);
            if record.value.windows(AWARD.len()).any(|part| part == AWARD) {
                return Ok(AwardTimes { cfp, award: now, commits });
            }
        }
    }
}

const AWARD: &[u8] = br#""type":"award","#;
