//! Finds a task among the agents.

use super::{
    client::{MeshClient, encoded},
    endpoints::{self, AgentEndpoint},
    exit::{CliError, Exit},
};
use crate::tasks::search::{ME, TaskSearch};
use futures_util::{StreamExt as _, stream};
use protocol::{ids::AgentId, problem::Reason, routes, task::EXTENSION};
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
/// How many requests run at once.
const AT_ONCE: usize = 16;

/// The most ids that an error names.
const MOST_NAMED: usize = 5;

/// Finds the task at its accountable agent. `-` is the task that the caller has requested last, and the beginning of an id stands for the only
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
    // The newest task is one that the caller has requested, no part of one that an agent has.
    let requester = if task == "-" { ME.to_owned() } else { String::new() };
    let search = TaskSearch { requester, ..TaskSearch::newest(MOST_LISTED) };
    let listed = accountable(client, endpoints, &search).await.unwrap_or_default();
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

/// The newest tasks of all agents that `search` selects, without the turns of sessions: each once, with the agent that is
/// accountable for it.
pub(super) async fn accountable(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    search: &TaskSearch,
) -> Result<Vec<TaskOfAgent>, CliError> {
    Ok(with_accountable(client, endpoints, listed(client, endpoints, search).await?, search).await)
}

/// A task and an agent that has it.
pub(super) type TaskOfAgent = (String, Value);

/// Of `tasks`, which `search` has selected, each once, with the agent that is accountable for it.
pub(super) async fn with_accountable(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    tasks: Vec<TaskOfAgent>,
    search: &TaskSearch,
) -> Vec<TaskOfAgent> {
    let mut best: BTreeMap<String, TaskOfAgent> = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (agent, task) in tasks {
        *counts.entry(agent.clone()).or_default() += 1;
        let id = task["id"].as_str().unwrap_or_default().to_owned();
        let is_turn = task["metadata"][EXTENSION].get("seat").is_some();
        if !is_turn && best.get(&id).is_none_or(|(_, known)| hops(&task) < hops(known)) {
            best.insert(id, (agent, task));
        }
    }
    // The accountable agent may have one that the filters do not select, or that is behind the end of its list.
    let limit: usize = search.limit.as_ref().and_then(|limit| limit.parse().ok()).unwrap_or_default();
    let is_cut = |agent: &AgentId| counts.get(agent.as_str()).is_some_and(|count| *count >= limit);
    let may_have_more = |agent: &AgentId| !search.selects_all() || is_cut(agent);
    let asked: Vec<_> = endpoints.iter().filter(|endpoint| may_have_more(&endpoint.agent)).collect();
    let parts = best.into_values().map(async |listed| match is_a_part(client, &asked, &listed.1).await {
        true => None,
        false => Some(listed),
    });
    let parts: Vec<_> = stream::iter(parts).buffered(AT_ONCE).collect().await;
    parts.into_iter().flatten().collect()
}

/// Whether the agent that gave the task to its own has the same task.
async fn is_a_part(client: &MeshClient, endpoints: &[&AgentEndpoint], task: &Value) -> bool {
    let path = task["metadata"][EXTENSION]["path"].as_array();
    let giver = path.and_then(|path| path.last()).and_then(Value::as_str);
    let Some(endpoint) = endpoints.iter().find(|endpoint| Some(endpoint.agent.as_str()) == giver) else {
        return false;
    };
    let path = format!("{}/{}", routes::TASKS, encoded(task["id"].as_str().unwrap_or_default()));
    let whole: Result<Value, _> = client.get(&endpoint.endpoint, &path).await;
    whole.is_ok_and(|whole| hops(&whole) < hops(task))
}

/// The newest tasks of all agents that `search` selects, with the agent.
pub(super) async fn listed(
    client: &MeshClient,
    endpoints: &[AgentEndpoint],
    search: &TaskSearch,
) -> Result<Vec<TaskOfAgent>, CliError> {
    let answers = endpoints::get_all(client, endpoints, &list_path(search)).await?;
    Ok(answers.into_iter().flat_map(|(agent, answer)| of_answer(agent, &answer)).collect())
}

/// The path of the list of tasks that `search` selects.
pub(super) fn list_path(search: &TaskSearch) -> String {
    format!("{}?{}", routes::TASKS, serde_html_form::to_string(search).unwrap_or_default())
}

/// The tasks in an agent's answer to [`list_path`].
pub(super) fn of_answer(agent: &AgentId, answer: &Value) -> Vec<TaskOfAgent> {
    let tasks = answer["tasks"].as_array().into_iter().flatten();
    tasks.map(|task| (agent.to_string(), task.clone())).collect()
}

/// Finds the task of this id at its accountable agent: the one with the shortest path.
pub(super) async fn find_exactly(
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
