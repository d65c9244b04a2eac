//! `mesh tasks`: every agent is asked, or the one at `--at`; of one task, whoever is accountable for it comes first.

use super::{
    Common, artifacts,
    client::{Client, encoded},
    exit::{self, Exit, Failure},
    output,
    places::{self, At, Place},
    watch::{Watch, status_of},
};
use clap::{Args, Subcommand};
use protocol::{
    bid::Eta,
    problem::Reason,
    routes,
    task::{EXTENSION, TaskState},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, io::IsTerminal};
use tokio::time::Instant;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Tasks {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    list: List,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The tasks of all agents, newest change first.
    List(List),
    /// One task, with its artifacts.
    Show { task: String },
    /// Follow a task to its end; the exit code says how it ended.
    Watch {
        task: String,
        /// How long to wait; without end if absent.
        #[arg(long, value_parser = Eta::parse)]
        timeout: Option<Eta>,
    },
    /// End a task.
    Cancel {
        task: String,
        #[arg(long, default_value = "canceled by its user")]
        reason: String,
    },
    /// Answer what a task asks.
    Answer { task: String, text: String },
}

#[derive(Debug, Args)]
struct List {
    /// The most tasks asked of each agent.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Name every agent's part in a task, not only the accountable one's.
    #[arg(long)]
    all: bool,
}

/// A task where it was found.
pub(super) struct Found {
    pub(super) endpoint: String,
    pub(super) task: Value,
}

pub(super) async fn tasks(common: &Common, tasks: Tasks) -> Result<(), Failure> {
    let client = Client::new(common)?;
    let places = tasks.at.places(&client).await?;
    let at = tasks.at.again(common);
    match tasks.verb.unwrap_or(Verb::List(tasks.list)) {
        Verb::List(wanted) => list(common, &client, &places, &wanted).await,
        Verb::Show { task } => {
            let found = find(&client, &places, &task).await?;
            if common.json { output::json(&found.task) } else { show(&found.task) }
        }
        Verb::Watch { task, timeout } => {
            let found = find(&client, &places, &task).await?;
            let until = timeout.map(|time| Instant::now() + time.duration());
            let tell = !common.json && (std::io::stderr().is_terminal() || !std::io::stdout().is_terminal());
            let state =
                Watch { until, json: common.json, tell, at }.task(&client, &found.endpoint, &task).await?;
            let end = exit::of_state(state);
            if end == Exit::Done {
                return Ok(());
            }
            Err(Failure::new(end, format!("task {task} {}", state.word())))
        }
        Verb::Cancel { task, reason } => {
            let found = find(&client, &places, &task).await?;
            act(common, &client, &found, &task, "cancel", &json!({ "reason": reason })).await
        }
        Verb::Answer { task, text } => {
            let found = find(&client, &places, &task).await?;
            act(common, &client, &found, &task, "answer", &json!({ "text": text })).await
        }
    }
}

async fn act(
    common: &Common,
    client: &Client,
    found: &Found,
    task: &str,
    verb: &str,
    body: &Value,
) -> Result<(), Failure> {
    let path = format!("{}/{}/{verb}", routes::TASKS, encoded(task));
    let after = client.post(&found.endpoint, &path, body).await?;
    if common.json {
        return output::json(&after);
    }
    let state = status_of(&after["status"]).0.map_or_else(|| "answered".to_owned(), painted);
    output::line(&format!("{task} {state}"))
}

/// The task at the one of `places` that is accountable for it: nobody it came through.
pub(super) async fn find(client: &Client, places: &[Place], task: &str) -> Result<Found, Failure> {
    let path = format!("{}/{}", routes::TASKS, encoded(task));
    let mut best: Option<Found> = None;
    let mut other = None;
    let mut beyond = Vec::new();
    for (place, answer) in places::ask(client, places, &path).await {
        match answer {
            Ok(task) if best.as_ref().is_none_or(|best| hops(&task) < hops(&best.task)) => {
                best = Some(Found { endpoint: place.endpoint.clone(), task });
            }
            Ok(_) => {}
            Err(failure) if failure.reason == Some(Reason::TaskNotFound) => {}
            Err(failure) if place.is_beyond(&failure) => beyond.push(place),
            Err(failure) => other = Some(failure),
        }
    }
    if let Some(found) = best {
        return Ok(found);
    }
    let who = match places {
        [one] if one.is_told => format!("{} knows no task", one.agent),
        _ => "no agent knows a task".to_owned(),
    };
    Err(match (other, beyond.is_empty()) {
        (Some(failure), _) => failure,
        (None, false) => places::beyond(&beyond),
        (None, true) => Failure::new(Exit::Refused, format!("{who} {task} of yours (task_not_found)")),
    })
}

fn painted(state: TaskState) -> String {
    output::paint(state.word(), output::colour_of(state))
}

fn hops(task: &Value) -> usize {
    task["metadata"][EXTENSION]["path"].as_array().map_or(0, Vec::len)
}

/// The agent that a task began with, if this is another's part of it.
pub(super) fn asker(task: &Value) -> Option<String> {
    task["metadata"][EXTENSION]["path"].get(0)?.as_str().map(output::plain)
}

async fn list(common: &Common, client: &Client, places: &[Place], wanted: &List) -> Result<(), Failure> {
    let path = format!("{}?limit={}", routes::TASKS, wanted.limit);
    let mut all = Vec::new();
    for (id, answer) in places::all(client, places, &path).await? {
        let tasks = answer["tasks"].as_array().into_iter().flatten();
        all.extend(tasks.map(|task| (id.to_string(), task.clone())));
    }
    if !wanted.all {
        all = accountable(all);
    }
    let changed = |task: &Value| task["status"]["timestamp"].as_str().unwrap_or_default().to_owned();
    all.sort_by_key(|(_, task)| std::cmp::Reverse(changed(task)));
    if common.json {
        let tasks: Vec<_> =
            all.iter().map(|(agent, task)| json!({ "agentId": agent, "task": task })).collect();
        return output::json(&json!({ "tasks": tasks }));
    }
    if all.is_empty() {
        return output::line("no tasks yet; `mesh ask` sends one");
    }
    let rows = all.iter().map(|(agent, task)| {
        let ours = &task["metadata"][EXTENSION];
        let text = |value: &Value| output::plain(value.as_str().unwrap_or("-"));
        let (state, _) = status_of(&task["status"]);
        let what: String = text(&ours["description"]).chars().take(60).collect();
        vec![
            text(&task["id"]).into(),
            state.map_or_else(|| "?".into(), |state| output::cell(state.word(), output::colour_of(state))),
            agent.into(),
            text(&ours["doer"]).into(),
            changed(task).into(),
            what.into(),
        ]
    });
    output::line(&output::table(&["task", "state", "agent", "doer", "changed", "description"], rows))
}

/// Of every task the one part that has come the shortest way.
fn accountable(all: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let mut best: BTreeMap<String, (String, Value)> = BTreeMap::new();
    for (agent, task) in all {
        let id = task["id"].as_str().unwrap_or_default().to_owned();
        if best.get(&id).is_none_or(|(_, known)| hops(&task) < hops(known)) {
            best.insert(id, (agent, task));
        }
    }
    best.into_values().collect()
}

fn show(task: &Value) -> Result<(), Failure> {
    let ours = &task["metadata"][EXTENSION];
    let text = |value: &Value| value.as_str().map(output::plain);
    let (state, message) = status_of(&task["status"]);
    let path: Vec<_> = ours["path"].as_array().into_iter().flatten().filter_map(text).collect();
    let lines = [
        ("task", text(&task["id"])),
        ("state", state.map(painted)),
        ("message", Some(message).filter(|message| !message.is_empty())),
        ("capability", text(&ours["capability"])),
        ("doer", text(&ours["doer"])),
        ("path", Some(path.join(" → ")).filter(|path| !path.is_empty())),
        ("conversation", text(&ours["conversationId"])),
        ("created", text(&ours["createdAt"])),
        ("changed", text(&task["status"]["timestamp"])),
        ("description", text(&ours["description"])),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            output::line(&format!("{:<13} {value}", output::paint(name, output::Colour::Grey)))?;
        }
    }
    let artifacts = artifacts::of(task);
    if artifacts.is_empty() {
        return Ok(());
    }
    output::line("")?;
    artifacts::print(&artifacts)
}
