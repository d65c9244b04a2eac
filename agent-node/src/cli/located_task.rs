//! Finds a task among the agents.

use super::{
    client::{MeshClient, encoded},
    endpoints::{self, AgentEndpoint},
    exit::{CliError, Exit},
};
use protocol::{problem::Reason, routes, task::EXTENSION};
use serde_json::Value;
use std::collections::BTreeMap;

/// A task and the agent's base URL.
pub(super) struct LocatedTask {
    pub(super) endpoint: String,
    pub(super) task: Value,
}

impl LocatedTask {
    /// Its whole id.
    pub(super) fn id(&self) -> String {
        self.task["id"].as_str().unwrap_or_default().to_owned()
    }
}

/// The most tasks of each agent among which one is looked for by the beginning of its id.
const MOST_LISTED: usize = 1_000;

/// The most ids that an error names.
const MOST_NAMED: usize = 5;

/// Finds the task at its accountable agent. `-` is the task that was created last, and the beginning of an id stands for the only
/// task whose id begins so.
pub(super) async fn find(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    task: &str,
) -> Result<LocatedTask, CliError> {
    let missing = match find_exactly(client, endpoints, task).await {
        Err(failure) if failure.exit == Exit::Refused => failure,
        found => return found,
    };
    let listed = accountable(client, endpoints, MOST_LISTED).await.unwrap_or_default();
    let named = listed.iter().map(|(_, task)| task);
    let named: Vec<_> = match task {
        "-" => named.max_by_key(|task| created(task)).into_iter().collect(),
        _ => named.filter(|known| known["id"].as_str().is_some_and(|id| id.starts_with(task))).collect(),
    };
    match named[..] {
        [] => Err(missing),
        [one] => find_exactly(client, endpoints, one["id"].as_str().unwrap_or_default()).await,
        _ => {
            let ids: Vec<_> = named.iter().filter_map(|task| task["id"].as_str()).collect();
            let more = if ids.len() > MOST_NAMED { " and more" } else { "" };
            let ids = ids.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join(", ");
            Err(CliError::new(Exit::Usage, format!("{task} is the beginning of several tasks: {ids}{more}")))
        }
    }
}

fn created(task: &Value) -> &str {
    task["metadata"][EXTENSION]["createdAt"].as_str().unwrap_or_default()
}

/// The newest tasks of all agents, at most `limit` of each, without the turns of sessions: each once, with the agent that is
/// accountable for it.
pub(super) async fn accountable(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    limit: usize,
) -> Result<Vec<(String, Value)>, CliError> {
    let mut best: BTreeMap<String, (String, Value)> = BTreeMap::new();
    for (agent, task) in listed(client, endpoints, limit).await? {
        let id = task["id"].as_str().unwrap_or_default().to_owned();
        let is_turn = task["metadata"][EXTENSION].get("seat").is_some();
        if !is_turn && best.get(&id).is_none_or(|(_, known)| hops(&task) < hops(known)) {
            best.insert(id, (agent, task));
        }
    }
    Ok(best.into_values().collect())
}

/// The newest tasks of all agents, at most `limit` of each, with the agent.
pub(super) async fn listed(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    limit: usize,
) -> Result<Vec<(String, Value)>, CliError> {
    let path = format!("{}?limit={limit}", routes::TASKS);
    let mut all = Vec::new();
    for (id, answer) in endpoints::get_all(client, endpoints, &path).await? {
        let tasks = answer["tasks"].as_array().into_iter().flatten();
        all.extend(tasks.map(|task| (id.to_string(), task.clone())));
    }
    Ok(all)
}

/// Finds the task of this id at its accountable agent: the one with the shortest path.
async fn find_exactly(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    task: &str,
) -> Result<LocatedTask, CliError> {
    let path = format!("{}/{}", routes::TASKS, encoded(task));
    let mut best: Option<LocatedTask> = None;
    let mut error = None;
    let mut unreachable = Vec::new();
    for (endpoint, answer) in endpoints::get_each(client, endpoints, &path).await {
        match answer {
            Ok(task) if best.as_ref().is_none_or(|best| hops(&task) < hops(&best.task)) => {
                best = Some(LocatedTask { endpoint: endpoint.endpoint.clone(), task });
            }
            Ok(_) => {}
            Err(failure) if failure.reason == Some(Reason::TaskNotFound) => {}
            Err(failure) if endpoint.is_unreachable_address(&failure) => unreachable.push(endpoint),
            Err(failure) => error = Some(failure),
        }
    }
    if let Some(found) = best {
        return Ok(found);
    }
    let (message, gone) = match endpoints {
        [one] if one.is_given => (format!("{} knows no task", one.agent), None),
        _ => ("no agent knows a task".to_owned(), endpoints::not_asked(client).await),
    };
    let mut gone = gone.map(|gone| format!("; {gone}")).unwrap_or_default();
    if sees_no_sessions(client, endpoints).await {
        gone.push_str(&format!("; {UNSEEN}"));
    }
    Err(match (error, unreachable.is_empty()) {
        (Some(failure), _) => failure,
        (None, false) => endpoints::unreachable_error(&unreachable),
        (None, true) => {
            CliError::new(Exit::Refused, format!("{message} {task} of yours (task_not_found){gone}"))
        }
    })
}

/// Said to a person without a token.
pub(super) const UNSEEN: &str = "sessions are shown only with the person's token (--token DIR/token)";

pub(super) async fn sees_no_sessions(client: &MeshClient, endpoints: &[AgentEndpoint]) -> bool {
    match endpoints.first() {
        Some(endpoint) => client.credential(&endpoint.endpoint).await.is_none(),
        None => false,
    }
}

fn hops(task: &Value) -> usize {
    task["metadata"][EXTENSION]["path"].as_array().map_or(0, Vec::len)
}
