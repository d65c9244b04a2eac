//! From a task's request to its award: a manager, and bidders that answer at once. Measured inside the node's process,
//! where the manager's journal shows each of its commits the moment it is durable.

use super::{
    child::{Child, Program, Ready, Role, parent_spoke, say},
    load::{Connection, Requests, quantile},
    subject,
};
use crate::{
    brain::echo::Echo,
    node::{self, Seat},
};
use anyhow::{Context as _, ensure};
use blackboard::store::{Batch, Filter, Key, Lane, Shared, Watch, Write};
use protocol::{
    bid::{Cost, Eta},
    card::{Skill, Terms},
    coordination::contract_net::Auction,
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

const MANAGER: &str = "planner-01";
/// How often the bare commits are tried.
const PROBES: usize = 50;
const CAPABILITY: &str = "build";
/// How long one award may take before the measure is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A manager and its bidders.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Scene {
    /// Where the store is.
    pub(super) store: PathBuf,
    /// How many are registered for the capability.
    pub(super) bidders: usize,
    /// How many of them are asked at most.
    pub(super) fanout: usize,
    /// How many tasks are given away.
    pub(super) tasks: usize,
    /// What signatures are proven by.
    pub(super) secret: Vec<u8>,
}

/// What giving away one task after the other came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Awards {
    /// Half of the awards were durable within this after the task was sent.
    pub(super) p50: Duration,
    /// All but a hundredth.
    pub(super) p99: Duration,
    /// The same, from the moment the calls for proposals went out.
    pub(super) call_p50: Duration,
    /// So many commits of one small record, one after the other, and nothing else.
    pub(super) bare: Duration,
    /// The manager's commits up to the award, one after the other.
    pub(super) commits: usize,
    /// Memory in use before the first task, bytes.
    #[serde(default)]
    pub(super) resident: u64,
}

/// Gives tasks away in a process of its own.
pub(super) fn measure(program: &Program, scene: Scene) -> anyhow::Result<Awards> {
    let mut child = Child::start(program, &Role::Award(scene))?;
    let resident = child.resident()?;
    child.go()?;
    let awards: Awards = child.hear()?;
    Ok(Awards { resident, ..awards })
}

/// Starts the node, waits for the parent's word, gives the tasks away, and says what came of it.
pub(super) async fn serve(scene: Scene) -> anyhow::Result<()> {
    let mut seats = vec![subject::seat(MANAGER, Arc::new(Echo))?];
    for number in 0..scene.bidders {
        seats.push(bidder(number)?);
    }
    let store = subject::store(Some(&scene.store))?;
    let auction = Auction { fanout: scene.fanout, ..Auction::default() };
    let running = node::start(subject::setup(seats, store.clone(), &scene.secret, auction)?).await?;
    let manager = running.agents.iter().find(|(id, _)| id.as_str() == MANAGER).context("no manager")?;
    let mut connection = Connection::open(*manager.1).await?;
    say(&Ready { address: *manager.1 })?;
    if !parent_spoke().await {
        return Ok(());
    }
    let (mut whole, mut called, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..scene.tasks {
        let journals = Filter::Below(Key::new(&[MANAGER, "journal"]));
        let watch = store.watch(journals, store.head())?;
        let sent = Instant::now();
        let task = give_away(&mut connection, number);
        let (seen, done) = tokio::time::timeout(PATIENCE, async { tokio::join!(awarded(watch), task) })
            .await
            .with_context(|| format!("task {number} was not given away within {PATIENCE:?}"))?;
        let seen = seen?;
        done?;
        whole.push(seen.award - sent);
        called.push(seen.award - seen.call);
        commits.push(seen.commits);
    }
    whole.sort_unstable();
    called.sort_unstable();
    commits.sort_unstable();
    let commits = commits.get(commits.len() / 2).copied().unwrap_or_default();
    say(&Awards {
        p50: quantile(&whole, 0.5),
        p99: quantile(&whole, 0.99),
        call_p50: quantile(&called, 0.5),
        bare: bare(&store, commits).await?,
        commits,
        resident: 0,
    })?;
    while parent_spoke().await {}
    Ok(())
}

/// What so many commits take here and now: the median of some tries.
async fn bare(store: &Shared, commits: usize) -> anyhow::Result<Duration> {
    let mut took = Vec::new();
    for _ in 0..PROBES {
        let begun = Instant::now();
        for _ in 0..commits {
            let write =
                Write::Append(Key::new(&["bench", "probe", "1"]), bytes::Bytes::from_static(&[b'x'; 256]));
            store.commit(Lane::Progress, Batch { writes: vec![write], expectations: Vec::new() }).await?;
        }
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    Ok(quantile(&took, 0.5))
}

fn bidder(number: usize) -> anyhow::Result<Seat> {
    let build = Skill {
        id: Capability::parse(CAPABILITY)?,
        name: String::new(),
        description: String::new(),
        examples: Vec::new(),
        tags: Vec::new(),
        output_modes: Vec::new(),
    };
    let seat = subject::seat(&format!("builder-{number:04}"), Arc::new(Echo))?;
    let cost = Cost::new(0.01 * (number % 7) as f64).context("a cost")?;
    let terms = Terms { cost, eta: Eta(60_000), max_parallel: 4 };
    Ok(Seat { skills: vec![build], open: false, terms, ..seat })
}

async fn give_away(connection: &mut Connection, number: usize) -> anyhow::Result<()> {
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

struct Seen {
    call: Instant,
    award: Instant,
    commits: usize,
}

/// Reads the manager's journal as it grows: its first step calls, a later one awards.
async fn awarded(mut watch: Watch) -> anyhow::Result<Seen> {
    let (mut call, mut commits) = (None, 0);
    loop {
        let records = watch.next().await?;
        let now = Instant::now();
        for record in records {
            commits += 1;
            let call = *call.get_or_insert(now);
            if record.value.windows(AWARD.len()).any(|part| part == AWARD) {
                return Ok(Seen { call, award: now, commits });
            }
        }
    }
}

const AWARD: &[u8] = br#""type":"award","#;
