//! `mesh tasks`: lists, shows, watches, cancels, repeats and answers tasks of all agents, or of the one at `--at`.

mod bulk;
mod list;

use bulk::{BulkArgs, TaskAction};

use super::{
    CommonArgs, artifacts,
    award::check_line,
    client::{MeshClient, encoded},
    convene::{session_lines, show_summary},
    endpoints::AtArgs,
    exit::{self, CliError, Exit},
    located_task::{LocatedTask, accountable, find},
    model_talk, output,
    questions::how_to_answer,
    task_tree,
    watch::{TaskWatch, status_of},
};
use crate::tasks::search::TaskSearch;
use clap::{Args, Subcommand};
use patterns::session::CAPABILITY;
use protocol::{
    acceptance::ResultCheck,
    artifact::Artifact,
    bid::Eta,
    question::Decision,
    routes,
    task::{EXTENSION, TaskOrigin, TaskState},
    usage::Usage,
};
use serde_json::{Value, json};
use std::{io::IsTerminal, path::PathBuf};
use tokio::time::Instant;

/// The most tasks of each agent among which parts of a task are looked for.
const MOST_PARTS: usize = 1_000;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct TasksArgs {
    #[command(subcommand)]
    verb: Option<TasksVerb>,
    #[command(flatten)]
    list: list::TaskListArgs,
    #[command(flatten)]
    at: AtArgs,
}

#[derive(Debug, Subcommand)]
enum TasksVerb {
    /// The tasks of all agents, newest change first.
    #[command(visible_alias = "ls")]
    List(list::TaskListArgs),
    /// One task, with its artifacts; of a session, with what was said.
    Show {
        /// The task's id or its beginning; the newest task if absent.
        #[arg(default_value = "-")]
        task: String,
        /// Write the artifacts into this directory instead of printing the task; of a session, its transcript, too.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// With --out: replace files that exist.
        #[arg(long, requires = "out")]
        force: bool,
        /// Show what was said between its agent and the agent's model: prompts, answers, calls of tools and their results.
        #[arg(long, conflicts_with = "out")]
        model: bool,
    },
    /// Follow a task until it ends or waits for an answer; the exit code says which.
    Watch {
        /// The task's id or its beginning; `-` is the newest task.
        task: String,
        /// How long to wait; without end if absent.
        #[arg(long, value_parser = Eta::parse)]
        timeout: Option<Eta>,
    },
    /// End a task, or all open ones that `--where` selects.
    Cancel {
        /// The task's id or its beginning; `-` is the newest task.
        #[arg(required_unless_present = "terms", conflicts_with = "terms")]
        task: Option<String>,
        /// Why; its agents are told.
        #[arg(long, default_value = "canceled by its user")]
        reason: String,
        #[command(flatten)]
        bulk: BulkArgs,
    },
    /// Send a task again, or all ended ones that `--where` selects: each as a new task whose thread names the old one.
    Retry {
        /// The task's id or its beginning; `-` is the newest task.
        #[arg(required_unless_present = "terms", conflicts_with = "terms")]
        task: Option<String>,
        #[command(flatten)]
        bulk: BulkArgs,
    },
    /// Answer what a task asks.
    Answer {
        /// The task's id or its beginning; `-` is the newest task.
        task: String,
        /// The answer.
        text: String,
    },
}

pub(super) async fn tasks(common: &CommonArgs, tasks: TasksArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let endpoints = tasks.at.endpoints(&client).await?;
    let at = tasks.at.repeat_flag(common);
    match tasks.verb.unwrap_or(TasksVerb::List(tasks.list)) {
        TasksVerb::List(args) => list::list(common, &client, (endpoints, &tasks.at), &args).await,
        TasksVerb::Show { task, out, force, model } => {
            let found = find(&client, &endpoints, &task).await?;
            let (task, LocatedTask { endpoint, task: found }) = (found.id(), found);
            match out {
                _ if model => model_talk::show(&client, &endpoint, &task, common.json).await,
                Some(dir) => {
                    let mut files = exported(&found);
                    client.fetch_files(&endpoint, &mut files).await?;
                    artifacts::write(&files, &dir, force)
                }
                None if common.json => output::json(&found),
                None => {
                    let search = TaskSearch::newest(MOST_PARTS);
                    let tasks = accountable(&client, &endpoints, &search).await.unwrap_or_default();
                    show(&found, &task_tree::lines(&task, &tasks))?;
                    if is_session(&found) {
                        show_summary(&client, &endpoint, &task).await;
                    }
                    Ok(())
                }
            }
        }
        TasksVerb::Watch { task, timeout } => {
            let found = find(&client, &endpoints, &task).await?;
            let task = found.id();
            let until = timeout.map(|time| Instant::now() + time.duration());
            let shows_progress =
                !common.json && (std::io::stderr().is_terminal() || !std::io::stdout().is_terminal());
            let is_session = is_session(&found.task);
            let watch = TaskWatch {
                until,
                json: common.json,
                streams: !common.json && !is_session && std::io::stdout().is_terminal(),
                shows_progress,
                has_transcript: is_session && !common.json,
                is_session,
                at: at.clone(),
                ..TaskWatch::default()
            };
            let state = watch.task(&client, &found.endpoint, &task).await?;
            if is_session && shows_progress {
                show_summary(&client, &found.endpoint, &task).await;
            }
            let end = exit::of_state(state);
            if end == Exit::Done {
                return Ok(());
            }
            let state = state.word();
            if end != Exit::NeedsAnswer {
                return Err(CliError::new(end, format!("task {task} {state}")));
            }
            let now = find(&client, &endpoints, &task).await?.task;
            let how = how_to_answer(&now, &task, &at);
            Err(CliError::new(end, format!("task {task} {state}; answer with {how}")))
        }
        TasksVerb::Cancel { task, reason, bulk } => {
            let action = TaskAction::Cancel { reason };
            bulk::act(common, &client, endpoints, (task, &bulk), &action).await
        }
        TasksVerb::Retry { task, bulk } => {
            bulk::act(common, &client, endpoints, (task, &bulk), &TaskAction::Retry).await
        }
        TasksVerb::Answer { task, text } => {
            let found = find(&client, &endpoints, &task).await?;
            answer(common, &client, &found, &text).await
        }
    }
}

async fn answer(
    common: &CommonArgs,
    client: &MeshClient,
    found: &LocatedTask,
    text: &str,
) -> Result<(), CliError> {
    let task = found.id();
    let path = format!("{}/{}/answer", routes::TASKS, encoded(&task));
    let after = client.post(&found.endpoint, &path, &json!({ "text": text })).await?;
    if common.json {
        return output::json(&after);
    }
    let state = status_of(&after["status"]).0.map_or_else(|| "answered".to_owned(), coloured);
    output::line(&format!("{task} {state}"))
}

fn coloured(state: TaskState) -> String {
    output::paint(state.word(), output::colour_of(state))
}

/// The first agent of the path, if another agent delegated this task.
pub(super) fn origin(task: &Value) -> Option<String> {
    task["metadata"][EXTENSION]["path"].get(0)?.as_str().map(output::plain)
}

fn is_session(task: &Value) -> bool {
    task["metadata"][EXTENSION]["capability"] == CAPABILITY
}

fn show(task: &Value, parts: &[String]) -> Result<(), CliError> {
    let ours = &task["metadata"][EXTENSION];
    let text = |value: &Value| value.as_str().map(output::plain);
    let (state, message) = status_of(&task["status"]);
    let path: Vec<_> = ours["path"].as_array().into_iter().flatten().filter_map(text).collect();
    let lines = [
        ("task", text(&task["id"])),
        ("state", state.map(coloured)),
        ("message", Some(message).filter(|message| !message.is_empty())),
        ("capability", text(&ours["capability"])),
        ("origin", begun_by(ours)),
        ("doer", text(&ours["doer"])),
        ("path", Some(path.join(" → ")).filter(|path| !path.is_empty())),
        ("conversation", text(&ours["conversationId"])),
        ("created", text(&ours["createdAt"])),
        ("changed", text(&task["status"]["timestamp"])),
        ("usage", serde_json::from_value(ours["usage"].clone()).ok().map(|usage| usage_line(&usage))),
        ("description", text(&ours["description"])),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            output::line(&format!("{:<13} {value}", output::paint(name, output::Colour::Grey)))?;
        }
    }
    for answered in answered_lines(task) {
        output::line(&format!("{:<13} {answered}", output::paint("question", output::Colour::Grey)))?;
    }
    for part in parts {
        output::line(&format!("{:<13} {part}", output::paint("part", output::Colour::Grey)))?;
    }
    let checks = ours["checks"].as_array().into_iter().flatten();
    for check in checks.filter_map(|check| serde_json::from_value::<ResultCheck>(check.clone()).ok()) {
        output::line(&format!(
            "{:<13} {}",
            output::paint("check", output::Colour::Grey),
            check_line(&check).trim()
        ))?;
    }
    if is_session(task) {
        return show_session(task);
    }
    let artifacts = artifacts::of_task(task);
    if artifacts.is_empty() {
        return Ok(());
    }
    output::line("")?;
    artifacts::print(&artifacts)
}

/// The schedule or the trigger that has begun a task.
fn begun_by(ours: &Value) -> Option<String> {
    let origin = serde_json::from_value::<TaskOrigin>(ours["origin"].clone()).ok()?;
    Some(output::plain(&origin.to_string()))
}

fn usage_line(usage: &Usage) -> String {
    let mut line =
        format!("{} + {} tokens, cost {}", usage.input_tokens, usage.output_tokens, usage.cost.get());
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    };
    add(usage.estimated_tokens, "estimated");
    add(usage.unpriced_tokens, "tokens without a price");
    add(usage.unreported_tokens, "tokens charged for agents that did not say");
    add(usage.unknown, "pieces of work of unknown use");
    line
}

/// Who has answered the questions of a task, how and when, each on one line.
pub(super) fn answered_lines(task: &Value) -> Vec<String> {
    let answered = task["metadata"][EXTENSION]["answered"].as_array().into_iter().flatten();
    let line = |answered: &Value| {
        let decision = serde_json::from_value::<Decision>(answered["decision"].clone()).ok();
        let part = |name: &str| output::plain(answered[name].as_str().unwrap_or_default());
        let what = decision.map_or("answered", Decision::word);
        format!("{} was {what} by {} at {}", part("id"), part("by"), part("at"))
    };
    answered.map(line).collect()
}

/// The artifacts of a task; of a session, its transcript, too.
fn exported(task: &Value) -> Vec<Artifact> {
    let mut artifacts = artifacts::of_task(task);
    if is_session(task) {
        let said: Vec<_> = transcript(task).collect();
        artifacts.push(Artifact::text("transcript.txt", "text/plain", &(said.join("\n") + "\n")));
    }
    artifacts
}

fn transcript(task: &Value) -> impl Iterator<Item = String> {
    task["artifacts"].as_array().into_iter().flatten().filter_map(session_lines::speech)
}

fn show_session(task: &Value) -> Result<(), CliError> {
    output::line("")?;
    transcript(task).try_for_each(|speech| output::line(&speech))
}
