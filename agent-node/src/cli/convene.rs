//! `mesh convene`: has a team work on a goal in turns, shows what is said as it is said, and waits for the end.

use super::{
    CommonArgs, artifacts,
    client::{MeshClient, encoded},
    endpoints::{AtArgs, recipient},
    exit::{self, CliError, Exit},
    interrupt::InterruptSignals,
    output, prompt,
    sent_task::{follow, send, unfinished},
    watch::{TaskWatch, WatchProgress, text_of},
};
use clap::Args;
use patterns::session::{CAPABILITY, graph::Graph};
use protocol::{
    bid::Eta,
    ids::{SpaceId, TaskId},
    routes,
};
use serde_json::{Value, json};
use std::{io::IsTerminal, path::PathBuf};
use tokio::time::Instant;

mod restart;
pub(super) mod session_file;
pub(super) mod session_lines;

#[derive(Debug, Args)]
pub(super) struct ConveneArgs {
    /// Agents, `capability:NAME` or `person:NAME`, that take turns at a round table, or one file (.yaml, .yml, .json) with seats or
    /// stages; then the goal in words, or `-` to read it from standard input. With --from only the goal, or nothing for the old one.
    #[arg(required_unless_present = "from", value_name = "AGENT|FILE... GOAL")]
    words: Vec<String>,
    #[command(flatten)]
    at: AtArgs,
    /// Begin again with the graph of this session, in a new one that is given what was said in it.
    #[arg(long, value_name = "TASK")]
    from: Option<String>,
    /// The agent that hosts the session; if absent, `lead` of the cast, or one that takes open requests.
    #[arg(long, value_name = "AGENT")]
    host: Option<String>,
    /// The task's id; a fresh one if absent. The same id and content again is the same session.
    #[arg(long, value_name = "ID")]
    task_id: Option<TaskId>,
    /// The space whose knowledge the work may use and add to; that of the file if absent.
    #[arg(long, value_name = "NAME", value_parser = SpaceId::parse)]
    space: Option<SpaceId>,
    /// How long to wait, such as `90s` or `10m`.
    #[arg(long, default_value = "1h", value_parser = Eta::parse)]
    timeout: Eta,
    /// Return as soon as the session is accepted, printing its id.
    #[arg(long)]
    no_wait: bool,
    /// Write the files that were made into this directory: those of the work plan, or all artifacts if nothing was planned.
    #[arg(long, value_name = "DIR", conflicts_with = "no_wait")]
    out: Option<PathBuf>,
    /// Replace files in it that are there.
    #[arg(long, requires = "out")]
    force: bool,
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
    let mut seats = args.words;
    let goal = seats.pop();
    let misplaced = match (&args.from, seats.is_empty()) {
        (Some(_), false) => Some("--from has the graph of the session; beside it only a goal is given"),
        (None, true) => Some("agents or a file are needed, and then the goal"),
        (Some(_), true) | (None, false) => None,
    };
    if let Some(why) = misplaced {
        return Err(CliError::new(Exit::Usage, why));
    }
    let goal = match goal.as_deref().unwrap_or_default() {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| CliError::new(Exit::Usage, format!("standard input cannot be read: {error}")))?,
        goal => goal.to_owned(),
    };
    let restarted = match &args.from {
        Some(task) => Some(restart::read(&client, &args.at.endpoints(&client).await?, task).await?),
        None => None,
    };
    let (graph, space) = match &restarted {
        Some(restarted) => (restarted.graph.clone(), None),
        None => graph(&seats)?,
    };
    let space = args.space.or(space);
    // An address is that of the host.
    let lead = graph["cast"]["lead"].as_str().filter(|_| args.at.base().is_none());
    let recipient = recipient(&client, &args.at, args.host.as_deref().or(lead)).await?;
    let said = match &restarted {
        Some(restarted) => restarted.store(&client, &recipient.endpoint).await?,
        None => Vec::new(),
    };
    let goal = match &restarted {
        Some(restarted) if goal.is_empty() => restarted.goal.clone(),
        Some(_) | None => goal,
    };
    let (endpoint, at) = (recipient.endpoint.as_str(), args.at.repeat_flag(common));
    if !args.no_wait {
        check_token(&client, endpoint).await?;
    }
    let mut signals = InterruptSignals::listen()?;
    let payload = json!({
        "taskId": args.task_id, "description": goal, "capability": CAPABILITY, "input": graph,
        "artifacts": said,
    });
    let (task, accepted) = send(&client, &recipient, (payload, space.as_ref()), &mut signals, &at).await?;
    if args.no_wait {
        return if common.json { output::json(&accepted) } else { output::line(&task) };
    }
    let shows_progress = args.verbose || !args.quiet && std::io::stderr().is_terminal();
    if shows_progress {
        output::note(&format!("session {task}, hosted by {}", recipient.agent));
    }
    let has_transcript = !args.quiet && !common.json;
    let watch = TaskWatch {
        until: Some(until),
        shows_progress,
        has_transcript,
        is_session: true,
        at,
        ..TaskWatch::default()
    };
    let asks_here = has_transcript && prompt::has_person();
    let (state, done) =
        follow(&client, endpoint, &task, (&watch, &mut WatchProgress::new()), asks_here, &mut signals)
            .await?;
    signals.exit_on_next();
    if common.json {
        output::json(&done)?;
    }
    if shows_progress {
        show_summary(&client, endpoint, &task).await;
    }
    if exit::of_state(state) != Exit::Done {
        return Err(unfinished(&task, state, &done, &watch.at));
    }
    if args.quiet && !common.json {
        output::line(&text_of(&done["status"]))?;
    }
    match &args.out {
        Some(dir) => {
            let mut made = artifacts::result_of(artifacts::of_task(&done));
            client.fetch_files(endpoint, &mut made).await?;
            artifacts::write(&made, dir, args.force)
        }
        None => Ok(()),
    }
}

/// Refuses to start a session that would not be shown.
pub(super) async fn check_token(client: &MeshClient, endpoint: &str) -> Result<(), CliError> {
    if client.credential(endpoint).await.is_some() {
        return Ok(());
    }
    let message = format!(
        "a session is shown only with the person's token of the mesh of {endpoint}: give --token DIR/token, with the DIR of `mesh up --data`; or start it with --no-wait"
    );
    Err(CliError::new(Exit::Usage, message))
}

/// Prints how each stage of the session has gone and what was used.
pub(super) async fn show_summary(client: &MeshClient, endpoint: &str, task: &str) {
    let path = format!("{}/{}/session", routes::TASKS, encoded(task));
    match client.get::<Value>(endpoint, &path).await {
        Ok(answer) => session_lines::summary(&answer["session"]).iter().for_each(|line| output::note(line)),
        Err(failure) => output::note(&failure.message),
    }
}

/// The graph of a session, and its space if that is named: those of the only file, or a round table.
fn graph(seats: &[String]) -> Result<(Value, Option<SpaceId>), CliError> {
    if let [only] = seats
        && session_file::is_name(only)
    {
        return Ok(session_file::read(only.as_ref())?);
    }
    if let Some(file) = seats.iter().find(|seat| session_file::is_name(seat)) {
        let message = format!("{file} is a file; it is named alone, or agents are");
        return Err(CliError::new(Exit::Usage, message));
    }
    let graph = json!({ "seats": seats });
    match Graph::read(Some(&graph)) {
        Ok(_) => Ok((graph, None)),
        Err(faults) => {
            let faults: Vec<_> = faults.0.into_iter().map(|fault| fault.what).collect();
            Err(CliError::new(Exit::Usage, faults.join("; ")))
        }
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
            graph(&["a", "capability:plan", "person:ada"]).unwrap().0,
            json!({ "seats": ["a", "capability:plan", "person:ada"] })
        );
        let failure = graph(&["a", "team.yaml"]).unwrap_err();
        assert!(failure.message.contains("named alone"), "{failure:?}");
        let failure = graph(&["a", "a"]).unwrap_err();
        assert!(failure.message.contains("two seats are called \"a\""), "{failure:?}");
        let failure = graph(&["nothing/there.yaml"]).unwrap_err();
        assert_eq!((failure.exit, failure.message.contains("nothing/there.yaml")), (Exit::Config, true));
    }
}
