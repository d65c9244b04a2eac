//! `mesh tasks ls`: the tasks of all agents, once or live, as a table, a tree, lines or JSON.

use crate::{
    cli::{
        CommonArgs,
        client::MeshClient,
        endpoints::{self, AgentEndpoint, AtArgs},
        exit::{CliError, Exit},
        live_view::{self, LiveLine, LiveView},
        located_task::{
            TaskOfAgent, UNSEEN, accountable, find_exactly, list_path, listed, of_answer, sees_no_sessions,
            with_accountable,
        },
        output,
        task_filter_args::TaskFilterArgs,
        task_tree,
        watch::status_of,
    },
    tasks::search::TaskSearch,
};
use clap::Args;
use comfy_table::Cell;
use protocol::task::EXTENSION;
use serde_json::{Value, json};
use std::{cmp::Reverse, collections::BTreeSet};

/// The most characters of what is said about a task.
const MOST_SAID: usize = 60;

#[derive(Debug, Args)]
pub(super) struct TaskListArgs {
    #[command(flatten)]
    filter: TaskFilterArgs,
    /// The most tasks asked of each agent.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Name every agent's part in a task, not only the accountable one's, and the turns of sessions.
    #[arg(long)]
    all: bool,
    /// Show each task under the one that it is a part of, over all agents.
    #[arg(long)]
    tree: bool,
    /// Go on: redraw the list on a terminal, print a line for each change in a pipe.
    #[arg(long)]
    watch: bool,
}

impl TaskListArgs {
    fn search(&self, has_artifacts: bool) -> TaskSearch {
        TaskSearch { include_artifacts: Some(has_artifacts), ..self.filter.search(usize::from(self.limit)) }
    }

    /// The level in the tree and the place of each of `tasks`, in the order in which they are shown.
    fn order(&self, tasks: &[TaskOfAgent]) -> Vec<(usize, usize)> {
        match self.tree {
            true => task_tree::in_tree_order(tasks),
            false => (0..tasks.len()).map(|at| (0, at)).collect(),
        }
    }

    /// The table of `tasks`, or that there are none.
    fn shown(&self, tasks: &[TaskOfAgent]) -> String {
        match (tasks.is_empty(), self.filter.selects_all()) {
            (true, true) => "no tasks yet; `mesh ask` sends one".to_owned(),
            (true, false) => "no task matches".to_owned(),
            (false, _) => table(self.order(tasks).into_iter().map(|(level, at)| (level, &tasks[at]))),
        }
    }
}

/// The table of tasks, each with its level in a tree.
pub(super) fn table<'a>(tasks: impl Iterator<Item = (usize, &'a TaskOfAgent)>) -> String {
    let head = ["task", "state", "agent", "doer", "changed", "description"];
    output::table(&head, tasks.map(|(level, (agent, task))| row(level, agent, task)))
}

pub(super) async fn list(
    common: &CommonArgs,
    client: &MeshClient,
    (endpoints, at): (Vec<AgentEndpoint>, &AtArgs),
    args: &TaskListArgs,
) -> Result<(), CliError> {
    if args.watch {
        return watch(common, client, at, args).await;
    }
    if at.base().is_none()
        && let Some(gone) = endpoints::not_asked(client).await
    {
        output::note(&format!("mesh: {gone}; their tasks are not listed"));
    }
    let endpoints = args.filter.select(endpoints);
    let search = args.search(common.json);
    let mut tasks = match args.all {
        true => listed(client, &endpoints, &search).await?,
        false => accountable(client, &endpoints, &search).await?,
    };
    sort(&mut tasks);
    if common.json {
        let tasks = args.order(&tasks).into_iter().map(|(level, at)| {
            let mut shown = json_of(&tasks[at]);
            if args.tree {
                shown["level"] = level.into();
            }
            shown
        });
        return output::json(&json!({ "tasks": tasks.collect::<Vec<_>>() }));
    }
    let shown = args.shown(&tasks);
    match tasks.is_empty() && sees_no_sessions(client, &endpoints).await {
        true => output::line(&format!("{shown} ({UNSEEN})")),
        false => output::line(&shown),
    }
}

/// The latest change first.
fn sort(tasks: &mut [TaskOfAgent]) {
    tasks.sort_by_key(|(_, task)| Reverse(changed(task).to_owned()));
}

fn changed(task: &Value) -> &str {
    task["status"]["timestamp"].as_str().unwrap_or_default()
}

fn json_of((agent, task): &TaskOfAgent) -> Value {
    json!({ "agentId": agent, "taskId": task["id"], "task": task })
}

fn text(value: &Value) -> String {
    output::plain(value.as_str().unwrap_or("-"))
}

fn row(level: usize, agent: &str, task: &Value) -> Vec<Cell> {
    let ours = &task["metadata"][EXTENSION];
    let (state, _) = status_of(&task["status"]);
    vec![
        format!("{}{}", "  ".repeat(level), text(&task["id"])).into(),
        state.map_or_else(|| "?".into(), |state| output::cell(state.word(), output::colour_of(state))),
        agent.into(),
        text(&ours["doer"]).into(),
        changed(task).into(),
        said(task).into(),
    ]
}

/// The beginning of a task's description, behind its turn if it is one of a session.
fn said(task: &Value) -> String {
    let of_task = text(&task["metadata"][EXTENSION]["description"]);
    let said = turn_of(task).into_iter().chain([of_task]).collect::<Vec<_>>().join(": ");
    said.chars().take(MOST_SAID).collect()
}

/// Stage, round and seat, if the task is the turn of a session.
fn turn_of(task: &Value) -> Option<String> {
    let seat = task["metadata"][EXTENSION].get("seat")?;
    let text = |name: &str| output::plain(seat[name].as_str().unwrap_or_default());
    Some(format!("{} {} {}", text("stage"), seat["round"], text("seat")))
}

/// Shows the list as it changes. A task that the filters no longer select is shown once more.
async fn watch(
    common: &CommonArgs,
    client: &MeshClient,
    at: &AtArgs,
    args: &TaskListArgs,
) -> Result<(), CliError> {
    let search = args.search(false);
    let mut before = BTreeSet::new();
    live_view::follow(async || {
        let endpoints = args.filter.select(at.endpoints(client).await?);
        let mut view = LiveView::default();
        let (mut tasks, mut failed, mut is_cut) = (Vec::new(), Vec::new(), false);
        for (endpoint, answer) in endpoints::get_each(client, &endpoints, &list_path(&search)).await {
            match answer {
                Ok(answer) => {
                    let of_agent = of_answer(&endpoint.agent, &answer);
                    is_cut |= of_agent.len() >= usize::from(args.limit);
                    tasks.extend(of_agent);
                }
                Err(failure) if failure.exit == Exit::Usage => return Err(failure),
                Err(failure) => failed.push((&endpoint.agent, failure.message)),
            }
        }
        if !args.all {
            tasks = with_accountable(client, &endpoints, tasks, &search).await;
        }
        sort(&mut tasks);
        view.screen = args.shown(&tasks);
        for (agent, why) in failed {
            let text = format!("mesh: {agent} is left out: {why}");
            view.screen.push_str(&format!("\n{text}"));
            if !common.json {
                let at_end = Some(format!("mesh: {agent} answers again"));
                view.lines.insert(format!("agent {agent}"), LiveLine { text, at_end });
            }
        }
        let id = |task: &TaskOfAgent| (task.0.clone(), task.1["id"].as_str().unwrap_or_default().to_owned());
        let now: BTreeSet<_> = tasks.iter().map(id).collect();
        // What is cut off at the end of a list may still match.
        for (agent, task) in before.difference(&now).filter(|_| !is_cut) {
            let found = find_exactly(client, &endpoints, task).await;
            tasks.extend(found.ok().map(|found| (agent.clone(), found.task)));
        }
        before = now;
        for task in &tasks {
            let (agent, id) = id(task);
            let text = if common.json { json_of(task).to_string() } else { line(task) };
            view.lines.insert(format!("task {id} {agent}"), LiveLine { text, at_end: None });
        }
        Ok(view)
    })
    .await
}

/// A task on one line.
fn line((agent, task): &TaskOfAgent) -> String {
    let (state, message) = status_of(&task["status"]);
    let doer = task["metadata"][EXTENSION]["doer"].as_str().map(|doer| format!(" → {}", output::plain(doer)));
    let state = state.map_or("?", |state| state.word());
    let message = if message.is_empty() { message } else { format!(" ({message})") };
    let (id, doer) = (text(&task["id"]), doer.unwrap_or_default());
    format!("{} {id} {state} {agent}{doer} {}{message}", changed(task), said(task))
}
