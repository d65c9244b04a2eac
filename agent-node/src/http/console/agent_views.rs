//! The agents of the mesh, as the registry of this process knows them, or its cache of the registry; and one of them.

use super::{cost_view, scope::ConsoleScope, task_list};
use crate::{
    brain::brain_tools::{BrainTools, OfferedTool, ToolPermission, ToolServerReport, ToolServerState},
    http::{
        node_state::{HostedAgent, NodeState},
        routes::{health::snapshot_of, tools::tools_of},
    },
    tool_login::ServerLogin,
};
use console::{
    location::ConsoleLocation,
    state_mark::StateTone,
    views::{
        agent::{
            AgentData, HostedAgentData, TaskRecord,
            tools::{AgentTools, ToolLine, ToolLoginLine, ToolRule, ToolServerLine, ToolServerStatus},
        },
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
use registry::entry::{AgentQuery, Presence, SentCounts};
use std::{
    collections::BTreeMap,
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
    let mut failures = last_failures(scope, scope.ids()).await?;
    let line = |agent: KnownAgent| {
        let last_failure = failures.remove(&agent.card.agent_id);
        AgentLine { last_failure, ..line(scope, node, &agent) }
    };
    let mut lines: Vec<_> = all(node).await?.into_iter().map(line).collect();
    lines.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(lines)
}

/// The tasks of these agents that failed last.
async fn last_failures(
    scope: &ConsoleScope,
    agents: Vec<AgentId>,
) -> Result<BTreeMap<AgentId, TaskLine>, Problem> {
    let read = scope.read(move |scope| {
        let last = |id: &AgentId| Ok((id.clone(), task_list::last_failure(scope, id)?));
        agents.iter().map(last).collect::<Result<Vec<_>, store::Error>>()
    });
    Ok(read.await?.into_iter().filter_map(|(id, failed)| Some((id, failed?))).collect())
}

/// An agent, as the registry of this process knows it, or its cache of the registry.
struct KnownAgent {
    card: Arc<Card>,
    presence: AgentPresence,
    running: u32,
    /// What it has sent in the last minute, as far as it is known here.
    sent: SentCounts,
}

/// What the agents have sent each other in the last minute, as far as the viewer may know and it is known here.
pub(super) async fn sent(
    scope: &ConsoleScope,
    node: &NodeState,
) -> Result<Vec<(AgentId, SentCounts)>, Problem> {
    let all = all(node).await?.into_iter();
    Ok(all.map(|agent| (agent.card.agent_id.clone(), sent_of(scope, node, &agent))).collect())
}

/// Counts tell of sealed stages: they are shown to the person, who sees those.
fn sent_of(scope: &ConsoleScope, node: &NodeState, agent: &KnownAgent) -> SentCounts {
    if !(scope.is_signed_in() && sees_all(&scope.by)) {
        return SentCounts::new();
    }
    match node.agents.get(&agent.card.agent_id) {
        Some(local) => local.status.sent.of_last_minute(node.clock.node()),
        None => agent.sent.clone(),
    }
}

/// The ids of all agents.
pub(super) async fn ids(node: &NodeState) -> Result<Vec<String>, Problem> {
    let mut ids: Vec<_> = all(node).await?.into_iter().map(|agent| agent.card.agent_id.to_string()).collect();
    ids.sort();
    Ok(ids)
}

async fn all(node: &NodeState) -> Result<Vec<KnownAgent>, Problem> {
    if let Some(registry) = &node.local_services.registry {
        let query = AgentQuery { include_dead: true, ..AgentQuery::default() };
        let entries = registry.read(query).await?.agents.into_iter().map(|entry| {
            let presence = match entry.state {
                Presence::Alive | Presence::Suspect if entry.accepting => AgentPresence::Ready,
                Presence::Alive | Presence::Suspect => AgentPresence::Waiting,
                Presence::Dead => AgentPresence::Away,
                Presence::Departed => AgentPresence::Left,
            };
            KnownAgent { card: entry.card, presence, running: entry.running, sent: entry.sent }
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
        KnownAgent { card, presence, running, sent: SentCounts::new() }
    });
    Ok(cards.collect())
}

fn line(scope: &ConsoleScope, node: &NodeState, agent: &KnownAgent) -> AgentLine {
    let (card, presence) = (&agent.card, agent.presence);
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
        running: local.map_or(agent.running, |local| local.status.running()),
        places: card.terms.max_parallel,
        queued: local.filter(|_| sees_all(&scope.by)).map(queued),
        is_here: local.is_some(),
        trouble: failed.or(waits_for),
        last_failure: None,
        sent: sent_of(scope, node, agent).into_iter().map(|(to, count)| (to.to_string(), count)).collect(),
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
    let found = all(node).await?.into_iter().find(|agent| agent.card.agent_id.as_str() == at.agent);
    let found = found
        .ok_or_else(|| Problem::new(Reason::AgentNotFound, format!("no agent {} is registered", at.agent)))?;
    let hosted = match scope.agents.iter().find(|local| local.id == found.card.agent_id) {
        Some(local) => Some(hosted(scope, node, local).await?),
        None => None,
    };
    let here = hosted.as_ref().map(|_| found.card.agent_id.clone());
    let last_failure = last_failures(scope, Vec::from_iter(here)).await?.into_values().next();
    let line = AgentLine { last_failure, ..line(scope, node, &found) };
    Ok(AgentData { line, card: Card::clone(&found.card), hosted })
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
        tools: tools(scope, node, local),
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

/// What the agent can call. Who may see all sees the servers with their state; others those at which they can log in, as by
/// `GET /a2a/logins`.
fn tools(scope: &ConsoleScope, node: &NodeState, local: &HostedAgent) -> AgentTools {
    let mut logins = if scope.is_signed_in() { node.logins.of_agent(&local.id) } else { Vec::new() };
    let mut tools =
        AgentTools { triggers: local.triggers.keys().cloned().collect(), ..AgentTools::default() };
    if scope.is_signed_in() && sees_all(&scope.by) {
        let masked = tools_of(node, local);
        tools.brain = masked["brain"].as_str().map(str::to_owned);
        let known: BrainTools = serde_json::from_value(masked).unwrap_or_default();
        tools.built_in = known.built_in.into_iter().map(tool).collect();
        tools.servers.extend(known.servers.into_iter().map(|server| {
            let at = logins.iter().position(|login| login.server == server.name);
            let login = at.map(|at| login_line(scope, &logins.swap_remove(at)));
            ToolServerLine { login, ..server_line(server) }
        }));
    }
    tools.servers.extend(logins.into_iter().map(|login| ToolServerLine {
        login: Some(login_line(scope, &login)),
        name: login.server,
        place: login.url,
        ..ToolServerLine::default()
    }));
    tools
}

fn server_line(server: ToolServerReport) -> ToolServerLine {
    let tone = match server.state {
        ToolServerState::Connected => StateTone::Ok,
        ToolServerState::Starting => StateTone::Busy,
        ToolServerState::Failed => StateTone::Bad,
        ToolServerState::NotStarted | ToolServerState::Ended => StateTone::Idle,
    };
    ToolServerLine {
        status: Some(ToolServerStatus {
            tone,
            words: server.state.words(),
            why: server.why,
            failed_at: server.failed_at,
            last_used: server.last_used,
        }),
        name: server.name,
        place: server.place,
        login: None,
        tools: server.tools.into_iter().map(tool).collect(),
        left_out: server.left_out.into_iter().map(|tool| (tool.name, tool.why)).collect(),
    }
}

fn tool(OfferedTool { name, description, permission }: OfferedTool) -> ToolLine {
    let rule = match permission {
        ToolPermission::Allowed => ToolRule::Allowed,
        ToolPermission::Asked => ToolRule::Asked,
        ToolPermission::Denied | ToolPermission::Hidden => ToolRule::Denied,
    };
    ToolLine { name, description, rule }
}

/// Whether the viewer, or the agent, has logged in.
fn login_line(scope: &ConsoleScope, login: &ServerLogin) -> ToolLoginLine {
    let known = login.known(&scope.by).ok().flatten();
    let ends = known.as_ref().and_then(|known| known.ends?.duration_since(UNIX_EPOCH).ok());
    let ends = ends.map(|ends| WallTime(i64::try_from(ends.as_millis()).unwrap_or(i64::MAX)));
    ToolLoginLine { is_logged_in: known.is_some(), ends }
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
