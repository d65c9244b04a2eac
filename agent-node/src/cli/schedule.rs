//! `mesh schedule`: when tasks of agents begin.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    endpoints::{self, AgentEndpoint, AtArgs, recipient},
    exit::{CliError, Exit},
    output,
};
use crate::schedules::{LastRunView, ScheduleView};
use clap::{Args, Subcommand};
use comfy_table::Cell;
use protocol::{bid::Eta, routes, time::WallTime};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct ScheduleArgs {
    #[command(subcommand)]
    verb: Option<ScheduleVerb>,
    #[command(flatten)]
    at: AtArgs,
}

#[derive(Debug, Subcommand)]
enum ScheduleVerb {
    /// List your schedules at all agents: when each is due next, what ran last, and why one was left out.
    #[command(visible_alias = "list")]
    Ls,
    /// Add a schedule: its tasks have your rights.
    Add(Box<AddArgs>),
    /// Pause a schedule: what is due meanwhile is left out.
    Pause(OfSchedule),
    /// Let a paused schedule go on.
    Resume(OfSchedule),
    /// Begin a task of a schedule now, whatever is due.
    Run(OfSchedule),
    /// Remove a schedule that was added; its tasks stay.
    Rm(OfSchedule),
}

#[derive(Debug, Args)]
struct OfSchedule {
    /// The name of the schedule.
    name: String,
    /// The agent; that one which has a schedule of this name if absent.
    #[arg(long, value_name = "AGENT")]
    of: Option<String>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("when").required(true).args(["cron", "every", "due"])))]
struct AddArgs {
    /// Its name: letters, digits, `_` and `-`.
    name: String,
    /// What is to be done.
    task: String,
    /// The agent that does it; the mesh's entrance if absent.
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
    /// When: minute, hour, day of the month, month and day of the week, such as `0 6 * * mon-fri`.
    #[arg(long)]
    cron: Option<String>,
    /// The time zone of --cron, such as Europe/Berlin; UTC if absent.
    #[arg(long, value_name = "ZONE", requires = "cron")]
    timezone: Option<String>,
    /// The time between two tasks, such as 15m.
    #[arg(long, value_name = "DURATION", value_parser = Eta::parse)]
    every: Option<Eta>,
    /// Once, at this time, such as 2026-12-24T18:00:00+01:00.
    #[arg(long, value_name = "TIME", value_parser = WallTime::parse)]
    due: Option<WallTime>,
    /// The capability that the task needs; the agent itself does it if absent.
    #[arg(long)]
    capability: Option<String>,
    /// What to do it with, as JSON.
    #[arg(long, value_name = "JSON", value_parser = parse_json)]
    input: Option<Value>,
    /// What becomes of tasks that were due while the agent was not there.
    #[arg(long, value_parser = ["latest", "all", "skip"])]
    missed: Option<String>,
    /// What becomes of a task that is due while the one before runs.
    #[arg(long, value_parser = ["skip", "wait", "allow"])]
    overlap: Option<String>,
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The schedules of the user at one agent.
#[derive(Debug, Deserialize)]
struct ScheduleList {
    schedules: Vec<ScheduleView>,
}

pub(super) async fn schedule(common: &CommonArgs, args: ScheduleArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    match args.verb.unwrap_or(ScheduleVerb::Ls) {
        ScheduleVerb::Ls => list(common, &client, &args.at).await,
        ScheduleVerb::Add(add) => {
            let agent = recipient(&client, &args.at, add.to.as_deref()).await?;
            let mut body = json!({
                "name": add.name, "task": add.task, "cron": add.cron, "timezone": add.timezone, "every": add.every,
                "at": add.due, "capability": add.capability, "input": add.input, "missed": add.missed, "overlap": add.overlap,
            });
            body.as_object_mut().into_iter().for_each(|members| members.retain(|_, value| !value.is_null()));
            let answer = client.post(&agent.endpoint, routes::SCHEDULES, &body).await?;
            let view: ScheduleView = serde_json::from_value(answer.clone()).map_err(unreadable)?;
            match common.json {
                true => output::json(&answer),
                false => output::line(&format!(
                    "{} of {}: next {}",
                    view.name,
                    agent.agent,
                    view.next_run.map_or("never".to_owned(), |next| next.to_string())
                )),
            }
        }
        ScheduleVerb::Pause(of) => change(common, &client, &args.at, &of, "pause").await,
        ScheduleVerb::Resume(of) => change(common, &client, &args.at, &of, "resume").await,
        ScheduleVerb::Run(of) => change(common, &client, &args.at, &of, "run").await,
        ScheduleVerb::Rm(of) => {
            let (agent, _) = located(&client, &args.at, &of).await?;
            client.delete(&agent.endpoint, &format!("{}/{}", routes::SCHEDULES, encoded(&of.name))).await?;
            match common.json {
                true => output::json(&json!({ "agent": agent.agent, "removed": of.name })),
                false => output::line(&format!("{} of {} is removed", of.name, agent.agent)),
            }
        }
    }
}

fn unreadable(error: serde_json::Error) -> CliError {
    CliError::new(Exit::Failed, format!("the agent's answer can't be read: {error}"))
}

/// Pauses, resumes or runs a schedule.
async fn change(
    common: &CommonArgs,
    client: &MeshClient,
    at: &AtArgs,
    of: &OfSchedule,
    verb: &str,
) -> Result<(), CliError> {
    let (agent, _) = located(client, at, of).await?;
    let path = format!("{}/{}/{verb}", routes::SCHEDULES, encoded(&of.name));
    let answer = client.post(&agent.endpoint, &path, &json!({})).await?;
    if common.json {
        return output::json(&answer);
    }
    let outcome = match (answer["taskId"].as_str(), answer["nextRun"].as_str()) {
        (Some(task), _) => task.to_owned(),
        (None, Some(next)) => format!("{} of {}: next {next}", of.name, agent.agent),
        (None, None) => format!("{} of {} is {verb}d", of.name, agent.agent),
    };
    output::line(&output::plain(&outcome))
}

/// The schedules at these agents. One that does not answer has none.
async fn schedules<'a>(
    client: &MeshClient,
    agents: &'a [AgentEndpoint],
) -> Vec<(&'a AgentEndpoint, ScheduleView)> {
    let answers = endpoints::get_each(client, agents, routes::SCHEDULES).await;
    let lists = answers.into_iter().filter_map(|(agent, answer)| {
        let list: ScheduleList = serde_json::from_value(answer.ok()?).ok()?;
        Some(list.schedules.into_iter().map(move |schedule| (agent, schedule)))
    });
    lists.flatten().collect()
}

async fn list(common: &CommonArgs, client: &MeshClient, at: &AtArgs) -> Result<(), CliError> {
    let endpoints = at.endpoints(client).await?;
    let all = schedules(client, &endpoints).await;
    if common.json {
        let line = |(agent, schedule): &(&AgentEndpoint, ScheduleView)| {
            let mut line = json!(schedule);
            line["agent"] = json!(agent.agent);
            line
        };
        return output::json(&all.iter().map(line).collect::<Vec<_>>());
    }
    if all.is_empty() {
        return output::line(
            "no schedules; `mesh schedule add` adds one, or `schedules:` in an agent's file",
        );
    }
    let rows = all.iter().map(|(agent, schedule)| {
        let next = schedule.next_run.map(|next| next.to_string());
        let next =
            next.unwrap_or_else(|| if schedule.paused_at.is_some() { "paused" } else { "never" }.to_owned());
        let cells = [
            schedule.name.clone(),
            agent.agent.to_string(),
            when(schedule),
            next,
            schedule.last_run.as_ref().map(last).unwrap_or_default(),
            why(schedule),
        ];
        cells.iter().map(|text| Cell::new(output::plain(text))).collect()
    });
    output::line(&output::table(&["schedule", "agent", "when", "next", "last", "left out"], rows))
}

/// When a schedule is due.
fn when(view: &ScheduleView) -> String {
    let schedule = &view.schedule;
    match (&schedule.cron, schedule.every, schedule.at) {
        (Some(cron), ..) => {
            [cron.as_str()].into_iter().chain(schedule.timezone.as_deref()).collect::<Vec<_>>().join(" ")
        }
        (None, Some(every), _) => format!("every {every}"),
        (None, None, at) => at.map(|at| format!("once {at}")).unwrap_or_default(),
    }
}

/// What ran last: when it was due, its task and the state of that, or why it was refused.
fn last(LastRunView { run, state }: &LastRunView) -> String {
    let task = run.task_id.as_ref().map(ToString::to_string);
    let what = task.or_else(|| run.refused.clone()).unwrap_or_default();
    let state = state.map(|state| format!(" {}", state.word())).unwrap_or_default();
    format!("{} {what}{state}", run.due)
}

/// Why something was left out, or waits.
fn why(view: &ScheduleView) -> String {
    let skipped = view.last_skipped.as_ref().map(|skipped| {
        let others = view.skips.saturating_sub(1);
        let others = if others > 0 { format!(" (and {others} before)") } else { String::new() };
        format!("{}: {}{others}", skipped.due, skipped.reason)
    });
    let problem = view.problem.as_ref().map(|problem| format!("now: {problem}"));
    problem.into_iter().chain(skipped).collect::<Vec<_>>().join("; ")
}

/// The schedule that is meant, and the agent that has it.
async fn located(
    client: &MeshClient,
    at: &AtArgs,
    of: &OfSchedule,
) -> Result<(AgentEndpoint, ScheduleView), CliError> {
    let agents = match &of.of {
        Some(name) => vec![recipient(client, at, Some(name)).await?],
        None => at.endpoints(client).await?,
    };
    let mut found = schedules(client, &agents).await;
    found.retain(|(_, schedule)| schedule.name == of.name);
    match found.len() {
        1 => Ok(found.remove(0)).map(|(agent, schedule)| (agent.clone(), schedule)),
        0 => Err(CliError::new(
            Exit::Refused,
            format!("no schedule {} of yours; `mesh schedule ls` lists them", of.name),
        )),
        _ => {
            let agents: Vec<_> = found.iter().map(|(agent, _)| agent.agent.as_str()).collect();
            Err(CliError::new(
                Exit::Usage,
                format!("{} have one of this name; say --of AGENT", agents.join(", ")),
            ))
        }
    }
}
