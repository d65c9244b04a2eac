//! What a mesh is doing: its agents with load and health, its open tasks with what they wait for, and what was used.

use crate::{
    cli::{
        client::MeshClient,
        cost::AgentCosts,
        endpoints::{self, AgentEndpoint, AtArgs},
        exit::{CliError, Exit},
        located_task::{TaskOfAgent, list_path, of_answer, with_accountable},
        ls, output,
        watch::status_of,
    },
    clock::wall_time,
    http::routes::health::Readiness,
    tasks::search::{PERSON, PLACE, TaskSearch, waits_for},
};
use comfy_table::Cell;
use futures_util::future::join3;
use protocol::{
    card::Card,
    routes,
    task::{EXTENSION, TaskState},
    time::WallTime,
    words::{counted, cut},
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use transport::http_client::redact_url;

/// The most open tasks of each agent.
const MOST_TASKS: usize = 200;

/// The most characters of the description of a task in its line, and of why it waits.
const MOST_SAID: usize = 80;

/// How long a process may take to say whether it is ready.
const READINESS_TIMEOUT: Duration = Duration::from_secs(2);

/// What there is at one time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MeshOverview {
    pub(super) at: WallTime,
    /// By their names.
    pub(super) agents: Vec<AgentLoad>,
    /// Open tasks, those that wait for a person first.
    pub(super) tasks: Vec<OpenTaskLine>,
    /// What is broken, or could not be asked.
    pub(super) problems: Vec<String>,
}

/// An agent: how much it has to do, what it has used this month, and whether it is well.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentLoad {
    pub(super) agent: String,
    pub(super) state: &'static str,
    /// How many of its places are taken.
    pub(super) running: u32,
    /// How many tasks it does at once.
    pub(super) places: u32,
    /// Turns and offers that wait for a place; absent if its process does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<u64>,
    /// Tasks that it has called for bids on, and that have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) auctions: Option<u64>,
    pub(super) tokens: u64,
    pub(super) cost: f64,
    /// What is wrong with it; empty if nothing is known to be.
    pub(super) trouble: String,
    pub(super) endpoint: String,
    pub(super) skills: Vec<String>,
}

/// An open task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenTaskLine {
    pub(super) task: String,
    pub(super) agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) doer: Option<String>,
    pub(super) state: String,
    /// `person`, `place`, or the agent that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits_for: Option<String>,
    /// The message of its status.
    pub(super) why: String,
    pub(super) since: WallTime,
    pub(super) capability: Option<String>,
    pub(super) requester: String,
    pub(super) description: String,
    pub(super) tokens: u64,
    pub(super) cost: f64,
}

/// What one process says of itself and of its agents.
struct ProcessAnswer {
    base: String,
    /// The agent by whose address it was found, if by one.
    agent: Option<String>,
    /// A snapshot of each of its agents.
    snapshots: Value,
    readiness: Result<Readiness, CliError>,
}

impl MeshOverview {
    /// Asks the registry, the agents and their processes.
    pub(super) async fn look(client: &MeshClient, at: &AtArgs) -> Result<Self, CliError> {
        let mut problems = Vec::new();
        let (mut agents, mut endpoints) = (Vec::new(), Vec::new());
        if let Some(base) = at.base() {
            let card = client.card_at(&base).await?;
            endpoints.push(AgentEndpoint::given(card.agent_id.clone(), base));
            agents.push((Arc::new(card), "alive", 0));
        } else {
            let live = client.agents(None).await?;
            let gone = client.gone_agents().await.unwrap_or_default();
            endpoints.extend(live.iter().map(|entry| AgentEndpoint::registered(&entry.card)));
            let all = live.iter().chain(&gone);
            agents.extend(all.map(|entry| (entry.card.clone(), ls::presence(entry).0, entry.running)));
        }
        let first = at.base().is_none().then(|| client.url.clone());
        let (tasks, costs, processes) = join3(
            open_tasks(client, &endpoints),
            used(client, &endpoints),
            processes(client, first, &endpoints),
        )
        .await;
        let (tasks, failed) = tasks;
        problems.extend(failed);
        for process in &processes {
            process.add_problems(&mut problems);
        }
        let mut agents: Vec<_> = agents
            .into_iter()
            .map(|(card, state, running)| load(&card, (state, running), &processes, &costs))
            .collect();
        agents.sort_by(|a, b| a.agent.cmp(&b.agent));
        problems.sort();
        problems.dedup();
        Ok(Self { at: wall_time(), agents, tasks, problems })
    }

    /// Nothing but the problem that the mesh could not be asked.
    pub(super) fn failed(failure: CliError) -> Self {
        Self { at: wall_time(), agents: Vec::new(), tasks: Vec::new(), problems: vec![failure.message] }
    }

    /// All of it in a line.
    pub(super) fn summary(&self) -> String {
        let well = self.agents.iter().filter(|agent| agent.is_well()).count();
        let (running, places) = self.agents.iter().filter(|agent| agent.is_well()).fold(
            (0, 0),
            |(running, places): (u32, u32), agent| {
                (running.saturating_add(agent.running), places.saturating_add(agent.places))
            },
        );
        let waiting = self.tasks.iter().filter(|task| task.waits_for.as_deref() == Some(PERSON)).count();
        let tokens: u64 = self.agents.iter().map(|agent| agent.tokens).sum();
        let cost: f64 = self.agents.iter().map(|agent| agent.cost).sum();
        format!(
            "{well} of {} well, {running} of {places} places taken, {}, {waiting} waiting for a person, {tokens} tokens and cost {} this month",
            counted(self.agents.len(), "agent", "agents"),
            counted(self.tasks.len(), "open task", "open tasks"),
            rounded(cost),
        )
    }

    /// The same as on the screen, as tables.
    pub(super) fn tables(&self) -> String {
        let mut parts = vec![self.summary()];
        let table = |head: &[&str], rows: Vec<Vec<String>>| {
            output::table(head, rows.into_iter().map(|row| row.into_iter().map(Cell::new).collect()))
        };
        if !self.agents.is_empty() {
            parts.push(table(&AgentLoad::HEAD, self.agents.iter().map(AgentLoad::row).collect()));
        }
        if !self.tasks.is_empty() {
            parts.push(table(&OpenTaskLine::HEAD, self.tasks.iter().map(|task| task.row(self.at)).collect()));
        }
        if !self.problems.is_empty() {
            parts.push(self.problems.iter().map(|why| output::plain(why)).collect::<Vec<_>>().join("\n"));
        }
        parts.join("\n\n")
    }
}

impl AgentLoad {
    /// The heads of its columns.
    pub(super) const HEAD: [&'static str; 8] =
        ["agent", "state", "running", "queue", "auctions", "tokens", "cost", "health"];

    pub(super) fn row(&self) -> Vec<String> {
        let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        vec![
            output::plain(&self.agent),
            self.state.to_owned(),
            format!("{}/{}", self.running, self.places),
            count(self.queue),
            count(self.auctions),
            self.tokens.to_string(),
            rounded(self.cost),
            if self.trouble.is_empty() { "ok".to_owned() } else { output::plain(&self.trouble) },
        ]
    }

    /// Whether it is there and nothing is known to be wrong with it.
    pub(super) fn is_well(&self) -> bool {
        self.trouble.is_empty()
    }
}

impl OpenTaskLine {
    /// The heads of its columns.
    pub(super) const HEAD: [&'static str; 8] =
        ["task", "state", "agent", "waits for", "for", "tokens", "cost", "what and why"];

    pub(super) fn row(&self, now: WallTime) -> Vec<String> {
        let why =
            if self.why.is_empty() { String::new() } else { format!(" ({})", cut(&self.why, MOST_SAID)) };
        vec![
            output::plain(&self.task),
            self.state.clone(),
            output::plain(&self.agent),
            output::plain(self.waits_for.as_deref().unwrap_or("-")),
            age(self.since, now),
            self.tokens.to_string(),
            rounded(self.cost),
            output::plain(&format!("{}{why}", cut(&self.description, MOST_SAID))),
        ]
    }

    fn of((agent, task): &TaskOfAgent) -> Self {
        let ours = &task["metadata"][EXTENSION];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (state, why) = status_of(&task["status"]);
        let doer = text(&ours["doer"]);
        let usage =
            serde_json::from_value::<protocol::usage::Usage>(ours["usage"].clone()).unwrap_or_default();
        let since = task["status"]["timestamp"].as_str().and_then(|text| WallTime::parse(text).ok());
        Self {
            task: text(&task["id"]).unwrap_or_default(),
            agent: agent.clone(),
            waits_for: state.and_then(|state| waits_for(state, doer.as_deref())).map(str::to_owned),
            doer,
            state: state.map_or("?", TaskState::word).to_owned(),
            why,
            since: since.unwrap_or(WallTime(0)),
            capability: text(&ours["capability"]),
            requester: text(&ours["owner"]).unwrap_or_default(),
            description: text(&ours["description"]).unwrap_or_default(),
            tokens: usage.tokens(),
            cost: usage.cost.get(),
        }
    }
}

/// How long ago `since` is, in its largest unit.
pub(super) fn age(since: WallTime, now: WallTime) -> String {
    let seconds = now.0.saturating_sub(since.0).max(0) / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn rounded(cost: f64) -> String {
    let text = format!("{cost:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The open tasks of the agents, each once, and who could not be asked.
async fn open_tasks(client: &MeshClient, endpoints: &[AgentEndpoint]) -> (Vec<OpenTaskLine>, Vec<String>) {
    let limit = TaskSearch::newest(MOST_TASKS);
    let open = TaskSearch { state: "open".to_owned(), ..limit.clone() };
    let (mut tasks, mut failed) = (Vec::new(), Vec::new());
    for (endpoint, answer) in endpoints::get_each(client, endpoints, &list_path(&open)).await {
        match answer {
            Ok(answer) => tasks.extend(of_answer(&endpoint.agent, &answer)),
            Err(failure) => failed.push(format!("{}: {}", endpoint.agent, failure.message)),
        }
    }
    // While a part is open, so is its whole: both are in the list.
    let tasks = with_accountable(client, endpoints, tasks, &limit).await;
    let mut tasks: Vec<_> = tasks.iter().map(OpenTaskLine::of).collect();
    let urgency = |task: &OpenTaskLine| match task.waits_for.as_deref() {
        Some(PERSON) => 0,
        Some(PLACE) => 1,
        Some(_) => 2,
        None => 3,
    };
    tasks.sort_by(|a, b| (urgency(a), a.since, &a.task).cmp(&(urgency(b), b.since, &b.task)));
    (tasks, failed)
}

/// The tokens and the cost of each agent this month.
async fn used(client: &MeshClient, endpoints: &[AgentEndpoint]) -> BTreeMap<String, (u64, f64)> {
    let path = format!("{}?by=agent", routes::COSTS);
    let mut used = BTreeMap::new();
    for (endpoint, answer) in endpoints::get_each(client, endpoints, &path).await {
        // Who does not answer is a problem of the list of tasks already.
        let Some(costs) = answer.ok().and_then(|answer| serde_json::from_value::<AgentCosts>(answer).ok())
        else {
            continue;
        };
        let sum = costs
            .costs
            .iter()
            .fold((0, 0.0), |(tokens, cost), row| (tokens + row.amount.tokens, cost + row.amount.cost.get()));
        used.insert(endpoint.agent.to_string(), sum);
    }
    used
}

/// Asks the process at `first`, then those of the agents that none has told of.
async fn processes(
    client: &MeshClient,
    first: Option<String>,
    endpoints: &[AgentEndpoint],
) -> Vec<ProcessAnswer> {
    let mut answers: Vec<ProcessAnswer> = Vec::new();
    let mut told = BTreeSet::new();
    let agents = endpoints.iter().map(|endpoint| (Some(endpoint.agent.as_str()), endpoint.endpoint.clone()));
    for (agent, base) in first.into_iter().map(|base| (None, base)).chain(agents) {
        if agent.is_some_and(|agent| told.contains(agent)) {
            continue;
        }
        let readiness = client.readiness(&base, READINESS_TIMEOUT).await;
        let is_there = !readiness.as_ref().is_err_and(|failure| failure.exit == Exit::Unreachable);
        let state: Value = match is_there {
            true => client.get(&base, routes::STATE).await.unwrap_or_default(),
            false => Value::Null,
        };
        let snapshots = state["agents"].clone();
        told.extend(snapshots.as_object().into_iter().flat_map(|agents| agents.keys().cloned()));
        let tells_all = snapshots.is_object() || !is_there;
        answers.push(ProcessAnswer { base, agent: agent.map(str::to_owned), snapshots, readiness });
        // Who is shown no snapshots by one process is shown none by the others.
        if !tells_all {
            break;
        }
    }
    answers
}

impl ProcessAnswer {
    /// Adds what is broken in it, beside its agents.
    fn add_problems(&self, problems: &mut Vec<String>) {
        let base = redact_url(&self.base);
        match &self.readiness {
            Ok(readiness) => {
                let broken =
                    readiness.checks.iter().filter(|(name, check)| !check.ok && !name.starts_with("agent "));
                problems.extend(broken.map(|(name, check)| {
                    format!("{base}: {name}: {}", check.why.as_deref().unwrap_or("broken"))
                }));
                problems.extend(readiness.damaged.iter().map(|what| format!("{base}: {what}")));
            }
            // The list of its tasks fails, too.
            Err(_) if self.agent.is_some() => {}
            Err(failure) => problems.push(format!("{base}: {}", failure.message)),
        }
    }

    /// What is wrong with an agent, as the process says.
    fn trouble(&self, agent: &str) -> Option<String> {
        let Ok(readiness) = &self.readiness else {
            return (self.agent.as_deref() == Some(agent)).then(|| "no answer".to_owned());
        };
        let failed = readiness.checks.get(&format!("agent {agent}")).filter(|check| !check.ok);
        let failed = failed.map(|check| check.why.clone().unwrap_or_else(|| "down".to_owned()));
        let parked = readiness.parked.get(agent).and_then(Value::as_object).map(|parked| {
            format!("{} parked", counted(parked.len(), "conversation is", "conversations are"))
        });
        failed.or_else(|| readiness.waiting.get(agent).cloned()).or(parked)
    }
}

fn load(
    card: &Card,
    (state, running): (&'static str, u32),
    processes: &[ProcessAnswer],
    used: &BTreeMap<String, (u64, f64)>,
) -> AgentLoad {
    let agent = card.agent_id.to_string();
    let snapshot =
        processes.iter().map(|process| &process.snapshots[agent.as_str()]).find(|told| told.is_object());
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let places = card.terms.max_parallel;
    let queue = snapshot.map(|told| {
        number(&told["thinking"]).saturating_sub(u64::from(places)) + number(&told["waitingOffers"])
    });
    let active = snapshot.and_then(|told| told["running"].as_u64()?.try_into().ok()).unwrap_or(running);
    let told = processes.iter().find_map(|process| process.trouble(&agent));
    let is_away = ["away", "left", "suspect"].contains(&state);
    let (tokens, cost) = used.get(&agent).copied().unwrap_or_default();
    AgentLoad {
        state,
        // A task whose turn waits for a place is active, too; the queue has it.
        running: active.min(places),
        places,
        queue,
        auctions: snapshot.map(|told| number(&told["conversations"]["contract-net"])),
        tokens,
        cost,
        trouble: told
            .or_else(|| card.waits_for.clone())
            .or(is_away.then(|| state.to_owned()))
            .unwrap_or_default(),
        endpoint: card.endpoint.clone(),
        skills: card.skills.iter().map(|skill| skill.id.to_string()).collect(),
        agent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_age_has_its_largest_unit() {
        let age_of = |seconds: i64| age(WallTime(0), WallTime(seconds * 1_000));
        assert_eq!([0, 59, 60, 7_199, 90_000].map(age_of), ["0s", "59s", "1m", "1h", "1d"]);
    }

    #[test]
    fn a_task_says_what_it_waits_for_and_why() {
        let status = json!({
            "state": "TASK_STATE_SUBMITTED", "timestamp": "2026-11-01T00:00:00Z",
            "message": { "parts": [{ "text": "waiting for a bidder" }] },
        });
        let ours = json!({ "description": "count\u{1b}[2J", "owner": "user:local" });
        let task = json!({ "id": "t-1", "status": status, "metadata": { EXTENSION: ours } });
        let line = OpenTaskLine::of(&("a-01".to_owned(), task));
        let now = WallTime::parse("2026-11-01T00:02:00Z").unwrap();
        let expected =
            ["t-1", "submitted", "a-01", "place", "2m", "0", "0", "count\\u001b[2J (waiting for a bidder)"];
        assert_eq!(line.row(now), expected);
    }
}
