//! The agents of the mesh, as the registry of this process knows them, or its cache of the registry; and one of them.

use super::{cost_view, scope::ConsoleScope, task_list};
use crate::http::{
    node_state::{HostedAgent, NodeState},
    routes::health::snapshot_of,
};
use console::{
    location::ConsoleLocation,
    views::{
        agent::{AgentData, HostedAgentData, TaskRecord, ToolServerLine},
        agents::{AgentLine, AgentPresence},
        task_line::TaskLine,
    },
};
use engine::PeerLocation;
use protocol::{
    card::Card,
    ids::AgentId,
    problem::{Problem, Reason},
    signal::sees_all,
    task::TaskState,
    time::WallTime,
};
use registry::entry::{AgentQuery, Presence};
use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// The tasks of which the record of an agent is made, and those that are listed.
const RECORD: usize = 200;
const LISTED: usize = 6;
/// The days of which costs are shown.
const DAYS: u32 = 30;

/// The agents, by id.
pub(super) async fn lines(scope: &ConsoleScope, node: &NodeState) -> Result<Vec<AgentLine>, Problem> {
    let agents = all(node).await?.into_iter();
    let mut lines: Vec<_> =
        agents.map(|(card, presence, running)| line(scope, node, &card, presence, running)).collect();
    lines.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(lines)
}

/// The ids of all agents.
pub(super) async fn ids(node: &NodeState) -> Result<Vec<String>, Problem> {
    let mut ids: Vec<_> = all(node).await?.into_iter().map(|(card, ..)| card.agent_id.to_string()).collect();
    ids.sort();
    Ok(ids)
}

/// Every agent: its card, whether it is there, and how many tasks it runs.
async fn all(node: &NodeState) -> Result<Vec<(Arc<Card>, AgentPresence, u32)>, Problem> {
    if let Some(registry) = &node.local_services.registry {
        let query = AgentQuery { include_dead: true, ..AgentQuery::default() };
        let entries = registry.read(query).await?.agents.into_iter().map(|entry| {
            let presence = match entry.state {
                Presence::Alive | Presence::Suspect if entry.accepting => AgentPresence::Ready,
                Presence::Alive | Presence::Suspect => AgentPresence::Waiting,
                Presence::Dead => AgentPresence::Away,
                Presence::Departed => AgentPresence::Left,
            };
            (entry.card, presence, entry.running)
        });
        return Ok(entries.collect());
    }
    let cards = node.peers.cards().into_iter().map(|card| {
        let presence = match node.peers.locate(&card.agent_id) {
            PeerLocation::At(_) | PeerLocation::Here => AgentPresence::Ready,
            PeerLocation::Away { .. } | PeerLocation::Unknown => AgentPresence::Away,
            PeerLocation::Left => AgentPresence::Left,
        };
        let running = node.peers.running(&card.agent_id);
        (card, presence, running)
    });
    Ok(cards.collect())
}

fn line(
    scope: &ConsoleScope,
    node: &NodeState,
    card: &Card,
    presence: AgentPresence,
    running: u32,
) -> AgentLine {
    let local = node.agents.get(&card.agent_id);
    let failed = local.and_then(|local| local.status.failed());
    let waits_for = local.and_then(|local| local.status.waits_for()).or_else(|| card.waits_for.clone());
    let presence = match (&failed, &waits_for) {
        (Some(_), _) => AgentPresence::Down,
        (None, Some(_)) if presence == AgentPresence::Ready => AgentPresence::Waiting,
        (None, _) => presence,
    };
    let endpoint = local.map(|local| public_base(node, &local.id)).unwrap_or_default();
    let queued = |local: &HostedAgent| local.status.unfinished().saturating_sub(local.status.running());
    AgentLine {
        id: card.agent_id.to_string(),
        description: card.description.clone(),
        skills: card.skills.iter().map(|skill| skill.id.to_string()).collect(),
        version: card.version.clone(),
        endpoint: endpoint.unwrap_or_else(|| card.endpoint.clone()),
        presence,
        running: local.map_or(running, |local| local.status.running()),
        places: card.terms.max_parallel,
        queued: local.filter(|_| sees_all(&scope.by)).map(queued),
        is_here: local.is_some(),
        trouble: failed.or(waits_for),
    }
}

/// Where a browser reaches an agent of this process, if a proxy leads there.
fn public_base(node: &NodeState, agent: &AgentId) -> Option<String> {
    let end = format!("/{agent}");
    node.public_urls.urls().find(|url| url.ends_with(&end)).map(str::to_owned)
}

/// The data of the page of an agent.
pub(super) async fn data(
    scope: &ConsoleScope,
    node: &NodeState,
    at: &ConsoleLocation,
) -> Result<AgentData, Problem> {
    let found = all(node).await?.into_iter().find(|(card, ..)| card.agent_id.as_str() == at.agent);
    let (card, presence, running) = found
        .ok_or_else(|| Problem::new(Reason::AgentNotFound, format!("no agent {} is registered", at.agent)))?;
    let hosted = match scope.agents.iter().find(|local| local.id == card.agent_id) {
        Some(local) => Some(hosted(scope, node, local).await?),
        None => None,
    };
    Ok(AgentData { line: line(scope, node, &card, presence, running), card: Card::clone(&card), hosted })
}

async fn hosted(
    scope: &ConsoleScope,
    node: &NodeState,
    local: &HostedAgent,
) -> Result<HostedAgentData, Problem> {
    let id = local.id.clone();
    let newest = scope.read(move |scope| task_list::of_agent(scope, &id, RECORD)).await?;
    let since = cost_view::days_ago(node.clock.wall(), DAYS);
    let days = cost_view::days(scope, node, std::slice::from_ref(local), since).await?;
    let knows_all = sees_all(&scope.by);
    let state = if knows_all { state(node, local).await } else { Vec::new() };
    let parked = local.status.parked().into_iter().filter(|_| knows_all);
    Ok(HostedAgentData {
        record: record(newest),
        servers: servers(scope, node, local),
        triggers: local.triggers.keys().cloned().collect(),
        days,
        state,
        parked: parked.map(|(conversation, why)| (conversation.to_string(), why)).collect(),
    })
}

/// How `tasks`, the newest first, have ended.
fn record(tasks: Vec<TaskLine>) -> TaskRecord {
    let count = |wanted: &[TaskState]| tasks.iter().filter(|task| wanted.contains(&task.state)).count();
    let took = |task: &TaskLine| task.created.until(task.changed);
    let completed = tasks.iter().filter(|task| task.state == TaskState::Completed);
    let mut times: Vec<Duration> = completed.map(took).collect();
    times.sort_unstable();
    TaskRecord {
        looked_at: tasks.len(),
        completed: times.len(),
        failed: count(&[TaskState::Failed, TaskState::Rejected]),
        open: count(&[
            TaskState::Submitted,
            TaskState::Working,
            TaskState::InputRequired,
            TaskState::AuthRequired,
        ]),
        median: times.get(times.len() / 2).copied(),
        newest: tasks.into_iter().take(LISTED).collect(),
    }
}

/// The tool servers that take a login, and whether the viewer, or the agent, has logged in. Shown to those who have proven who
/// they are, as by `GET /a2a/logins`.
fn servers(scope: &ConsoleScope, node: &NodeState, local: &HostedAgent) -> Vec<ToolServerLine> {
    if !scope.is_signed_in() {
        return Vec::new();
    }
    let line = |login: crate::tool_login::ServerLogin| {
        let known = login.known(&scope.by).ok().flatten();
        let ends = known.as_ref().and_then(|known| known.ends?.duration_since(UNIX_EPOCH).ok());
        ToolServerLine {
            name: login.server,
            url: login.url,
            is_logged_in: known.is_some(),
            ends: ends.map(|ends| WallTime(i64::try_from(ends.as_millis()).unwrap_or(i64::MAX))),
        }
    };
    node.logins.of_agent(&local.id).into_iter().map(line).collect()
}

/// What `/state` says of the agent.
async fn state(node: &NodeState, local: &HostedAgent) -> Vec<(String, String)> {
    let snapshot = match snapshot_of(node, local).await {
        Ok(snapshot) => snapshot,
        Err(why) => return vec![("State".to_owned(), why)],
    };
    let open: usize = snapshot.conversations.values().sum();
    let outbox: usize = snapshot.outbox.values().sum();
    let counts = &snapshot.counts;
    let figures = [
        ("Brain", snapshot.brain.to_owned()),
        ("Turns", snapshot.thinking.to_string()),
        ("Conversations", open.to_string()),
        ("Messages on their way", outbox.to_string()),
        ("Offers that wait", snapshot.waiting_offers.to_string()),
        ("Timers", snapshot.timers.to_string()),
        ("Admitted since its start", counts.admitted.to_string()),
        ("Refused since its start", counts.refused.to_string()),
        ("Failed steps", counts.panics.to_string()),
    ];
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
