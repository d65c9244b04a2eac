//! `mesh convene`: has a team work on a goal in turns, shows what is said as it is said, and waits for the end.

use super::{
    CommonArgs,
    ask::{follow, prompt, recipient, send, unfinished},
    client::{MeshClient, encoded},
    endpoints::AtArgs,
    exit::{self, CliError, Exit},
    interrupt::InterruptSignals,
    output,
    watch::{TaskWatch, text_of},
};
use clap::Args;
use protocol::{
    bid::Eta,
    ids::TaskId,
    patterns::session::{CAPABILITY, graph::Graph},
    routes,
};
use serde_json::{Value, json};
use std::io::IsTerminal;
use tokio::time::Instant;

mod session_file;
pub(super) mod session_lines;

#[derive(Debug, Args)]
pub(super) struct ConveneArgs {
    /// Agents, or `capability:NAME`, that take turns at a round table; or one file (.yaml, .yml, .json) with seats or stages.
    #[arg(required = true, value_name = "AGENT|FILE")]
    seats: Vec<String>,
    /// What it is for, in words; `-` reads it from standard input.
    #[arg(required = true, value_name = "GOAL")]
    goal: String,
    #[command(flatten)]
    at: AtArgs,
    /// The agent that hosts the session; if absent, one that takes open requests.
    #[arg(long, value_name = "AGENT")]
    host: Option<String>,
    /// The task's id; a fresh one if absent. The same id and content again is the same session.
    #[arg(long, value_name = "ID")]
    task_id: Option<TaskId>,
    /// How long to wait, such as `90s` or `10m`.
    #[arg(long, default_value = "1h", value_parser = Eta::parse)]
    timeout: Eta,
    /// Return as soon as the session is accepted, printing its id.
    #[arg(long)]
    no_wait: bool,
    /// Print only the last words.
    #[arg(long, short)]
    quiet: bool,
    /// Say what happens on the way, even if standard error is no terminal.
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

pub(super) async fn convene(common: &CommonArgs, args: ConveneArgs) -> Result<(), CliError> {
    let until = Instant::now() + args.timeout.duration();
    let client = MeshClient::new(common)?;
    let goal = match args.goal.as_str() {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| CliError::new(Exit::Usage, format!("standard input cannot be read: {error}")))?,
        goal => goal.to_owned(),
    };
    let graph = graph(&args.seats)?;
    let recipient = recipient(&client, &args.at, args.host.as_deref()).await?;
    let (endpoint, at) = (recipient.endpoint.as_str(), args.at.repeat_flag(common));
    let mut signals = InterruptSignals::listen()?;
    let payload = json!({
        "taskId": args.task_id, "description": goal, "capability": CAPABILITY, "input": graph,
    });
    let (task, accepted) = send(&client, &recipient, payload, &mut signals, &at).await?;
    if args.no_wait {
        return if common.json { output::json(&accepted) } else { output::line(&task) };
    }
    let shows_progress = args.verbose || !args.quiet && std::io::stderr().is_terminal();
    if shows_progress {
        output::note(&format!("session {task}, hosted by {}", recipient.agent));
    }
    let has_transcript = !args.quiet && !common.json;
    let watch = TaskWatch { until: Some(until), json: false, shows_progress, has_transcript, at };
    let asks_here = has_transcript && prompt::has_person();
    let (state, done) = follow(&client, endpoint, &task, &watch, asks_here, &mut signals).await?;
    signals.exit_on_next();
    if common.json {
        output::json(&done)?;
    }
    if shows_progress {
        let path = format!("{}/{}/session", routes::TASKS, encoded(&task));
        let answer: Value = client.get(endpoint, &path).await?;
        session_lines::summary(&answer["session"]).iter().for_each(|line| output::note(line));
    }
    if exit::of_state(state) != Exit::Done {
        return Err(unfinished(&task, state, &done, &watch.at));
    }
    if args.quiet && !common.json {
        output::line(&text_of(&done["status"]))?;
    }
    Ok(())
}

/// The graph of a session: that of the only file, or a round table.
fn graph(seats: &[String]) -> Result<Value, CliError> {
    if let [only] = seats
        && session_file::is_name(only)
    {
        return session_file::read(only.as_ref());
    }
    if let Some(file) = seats.iter().find(|seat| session_file::is_name(seat)) {
        let message = format!("{file} is a file; it is named alone, or agents are");
        return Err(CliError::new(Exit::Usage, message));
    }
    let seat = |name: &String| match name.strip_prefix("capability:") {
        Some(capability) => json!({ "capability": capability }),
        None => json!(name),
    };
    let graph = json!({ "seats": seats.iter().map(seat).collect::<Vec<_>>() });
    match Graph::read(Some(&graph)) {
        Ok(_) => Ok(graph),
        Err(why) => Err(CliError::new(Exit::Usage, why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_table_has_the_named_seats_and_a_file_stands_alone() {
        let graph =
            |seats: &[&str]| super::graph(&seats.iter().map(|seat| (*seat).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            graph(&["a", "capability:plan"]).unwrap(),
            json!({ "seats": ["a", { "capability": "plan" }] })
        );
        let failure = graph(&["a", "team.yaml"]).unwrap_err();
        assert!(failure.message.contains("named alone"), "{failure:?}");
        let failure = graph(&["a", "a"]).unwrap_err();
        assert!(failure.message.contains("two seats are called \"a\""), "{failure:?}");
        let failure = graph(&["nothing/there.yaml"]).unwrap_err();
        assert_eq!((failure.exit, failure.message.contains("nothing/there.yaml")), (Exit::Config, true));
    }
}
