//! `mesh tasks cancel` and `mesh tasks retry`: of one task, or of all that `--where` selects, after showing them.

use super::{coloured, list};
use crate::{
    cli::{
        CommonArgs,
        client::{MeshClient, encoded},
        endpoints::AgentEndpoint,
        exit::{CliError, Exit},
        located_task::{TaskOfAgent, accountable, find},
        output, prompt,
        task_filter_args::TaskFilterArgs,
        watch::status_of,
    },
    tasks::search::ME,
};
use clap::Args;
use futures_util::StreamExt;
use protocol::{routes, words::counted};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
};

/// The most tasks of each agent that one command selects.
const MOST_SELECTED: usize = 1_000;

/// How many requests run at once.
const AT_ONCE: usize = 8;

/// Which tasks a verb is for, instead of one.
#[derive(Debug, Args)]
pub(super) struct BulkArgs {
    /// All of your tasks for which this filter of `mesh tasks ls` holds, such as `state=failed`; may be repeated.
    #[arg(long = "where", id = "terms", value_name = "NAME=VALUE")]
    terms: Vec<String>,
    /// Only list the tasks.
    #[arg(long, conflicts_with_all = ["task", "yes"])]
    dry_run: bool,
    /// Do not ask; without it nothing is done in a pipe.
    #[arg(long, short, conflicts_with = "task")]
    yes: bool,
}

/// What is done with a task.
#[derive(Debug)]
pub(super) enum TaskAction {
    Cancel { reason: String },
    Retry,
}

impl TaskAction {
    /// What it does, for a question.
    fn word(&self) -> &'static str {
        match self {
            Self::Cancel { .. } => "cancel",
            Self::Retry => "retry",
        }
    }

    /// The tasks that it is for.
    fn state(&self) -> &'static str {
        match self {
            Self::Cancel { .. } => "open",
            Self::Retry => "ended",
        }
    }

    /// Does it; returns the answer of the agent.
    async fn perform(&self, client: &MeshClient, endpoint: &str, task: &str) -> Result<Value, CliError> {
        let (verb, body) = match self {
            Self::Cancel { reason } => ("cancel", json!({ "reason": reason })),
            Self::Retry => ("retry", json!({})),
        };
        client.post(endpoint, &format!("{}/{}/{verb}", routes::TASKS, encoded(task)), &body).await
    }

    /// What `answer` says has become of `task`.
    fn result(&self, task: &str, answer: &Value) -> String {
        match self {
            Self::Cancel { .. } => {
                let state =
                    status_of(&answer["status"]).0.map_or_else(|| "is told to end".to_owned(), coloured);
                format!("{task} {state}")
            }
            Self::Retry => format!("{task} is sent again as {}", output::plain(new_task(answer))),
        }
    }
}

fn new_task(answer: &Value) -> &str {
    answer["taskId"].as_str().unwrap_or_default()
}

/// Does `action` with the task, or with all that `bulk` selects.
pub(super) async fn act(
    common: &CommonArgs,
    client: &MeshClient,
    endpoints: Vec<AgentEndpoint>,
    (task, bulk): (Option<String>, &BulkArgs),
    action: &TaskAction,
) -> Result<(), CliError> {
    let Some(task) = task else { return act_on_all(common, client, endpoints, bulk, action).await };
    let found = find(client, &endpoints, &task).await?;
    let task = found.id();
    let answer = action.perform(client, &found.endpoint, &task).await?;
    match common.json {
        true => output::json(&answer),
        false => output::line(&action.result(&task, &answer)),
    }
}

async fn act_on_all(
    common: &CommonArgs,
    client: &MeshClient,
    endpoints: Vec<AgentEndpoint>,
    bulk: &BulkArgs,
    action: &TaskAction,
) -> Result<(), CliError> {
    let filter = TaskFilterArgs::of_terms(&bulk.terms)?;
    let mut search = filter.search(MOST_SELECTED);
    if search.requester.is_empty() {
        ME.clone_into(&mut search.requester);
    }
    if search.state.is_empty() {
        action.state().clone_into(&mut search.state);
    }
    let endpoints = filter.select(endpoints);
    let of_agent: BTreeMap<_, _> =
        endpoints.iter().map(|endpoint| (endpoint.agent.to_string(), endpoint.endpoint.as_str())).collect();
    let is_meant = |(_, task): &TaskOfAgent| {
        let has_ended = status_of(&task["status"]).0.is_some_and(|state| state.is_terminal());
        has_ended == matches!(action, TaskAction::Retry)
    };
    let mut tasks = accountable(client, &endpoints, &search).await?;
    tasks.retain(is_meant);
    let (word, count) = (action.word(), counted(tasks.len(), "task", "tasks"));
    if tasks.is_empty() {
        let state = action.state();
        return match common.json {
            true => Ok(()),
            false => output::line(&format!("no {state} task of yours matches")),
        };
    }
    if !bulk.yes {
        match common.json {
            true => tasks.iter().try_for_each(|(agent, task)| {
                output::json_line(&json!({ "agentId": agent, "taskId": task["id"], "wouldDo": word }))
            })?,
            false => output::line(&list::table(tasks.iter().map(|task| (0, task))))?,
        }
        if bulk.dry_run {
            output::note(&format!("would {word} {count}; --yes does it"));
            return Ok(());
        }
        if !prompt::has_person() {
            return Err(CliError::new(
                Exit::Usage,
                format!("would {word} {count}: --yes does it without asking"),
            ));
        }
        if !prompt::confirm(&format!("{word} {count}? y or n: ")).await? {
            return Err(CliError::new(Exit::Canceled, "nothing is done"));
        }
    }
    let results = tasks.iter().map(async |(agent, task)| {
        let id = task["id"].as_str().unwrap_or_default();
        let endpoint = of_agent.get(agent).copied().unwrap_or_default();
        (id, action.perform(client, endpoint, id).await)
    });
    let mut results = futures_util::stream::iter(results).buffer_unordered(AT_ONCE);
    let (mut done, mut failed) = (0, 0);
    let shows_progress = std::io::stderr().is_terminal() && !common.json;
    while let Some((id, result)) = results.next().await {
        done += 1;
        failed += usize::from(result.is_err());
        if shows_progress {
            clear_line();
        }
        match (result, common.json) {
            (Ok(answer), false) => output::line(&action.result(&output::plain(id), &answer))?,
            (Ok(answer), true) => output::json_line(&match action {
                TaskAction::Cancel { .. } => json!({ "taskId": id, "state": answer["status"]["state"] }),
                TaskAction::Retry => json!({ "taskId": id, "newTaskId": new_task(&answer) }),
            })?,
            (Err(failure), false) => output::line(&format!("{}: {}", output::plain(id), failure.message))?,
            (Err(failure), true) => output::json_line(&json!({ "taskId": id, "error": failure.message }))?,
        }
        if shows_progress && done < tasks.len() {
            let _ = write!(std::io::stderr().lock(), "{done} of {count}");
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(CliError::new(Exit::Failed, format!("{failed} of {count} failed"))),
    }
}

fn clear_line() {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
}
