//! Finds a task among the agents.

use super::{
    client::{MeshClient, encoded},
    endpoints::{self, AgentEndpoint},
    exit::{CliError, Exit},
};
use protocol::{problem::Reason, routes, task::EXTENSION};
use serde_json::Value;

/// A task and the agent's base URL.
pub(super) struct LocatedTask {
    pub(super) endpoint: String,
    pub(super) task: Value,
}

/// Finds the task at its accountable agent: the one with the shortest path.
pub(super) async fn find(
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

pub(super) fn hops(task: &Value) -> usize {
    task["metadata"][EXTENSION]["path"].as_array().map_or(0, Vec::len)
}
