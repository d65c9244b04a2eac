//! `mesh ask`: sends a task to an agent, follows it, and prints its artifacts.

use super::{
    CommonArgs, artifacts,
    client::MeshClient,
    convene::check_token,
    endpoints::{AtArgs, recipient},
    exit::{self, CliError, Exit},
    interrupt::InterruptSignals,
    output, prompt,
    sent_task::{follow, say_in_context, send, unfinished},
    watch::{TaskWatch, WatchProgress, text_of},
};
use crate::text_file;
use clap::Args;
use engine::settings::TokenCount;
use protocol::{
    bid::{Cost, Eta},
    budget::Budget,
    ids::{Capability, SpaceId, TaskId},
    task::EXTENSION,
};
use serde_json::{Value, json};
use std::{io::IsTerminal, path::PathBuf};
use tokio::time::Instant;

mod planning;

#[derive(Debug, Args)]
pub(super) struct AskArgs {
    /// What to do, in words; `-` reads it from standard input.
    text: String,
    #[command(flatten)]
    at: AtArgs,
    /// The agent's id; with neither it nor --at, the agent that is the entrance of the mesh, or has the lowest port.
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
    /// The ability it needs.
    #[arg(long, value_name = "NAME")]
    capability: Option<Capability>,
    /// Have it planned: whoever advertises a skill for it does its part, and one answer is made of the parts.
    #[arg(long, conflicts_with = "capability")]
    plan: bool,
    /// With --plan: look at this card instead of in the registry.
    #[arg(long, value_name = "URL", requires = "plan")]
    card: Vec<String>,
    /// With --plan: look at this host's well-known card instead of in the registry.
    #[arg(long, value_name = "HOST", requires = "plan", conflicts_with = "card")]
    host: Vec<String>,
    /// The task's id; a fresh one if absent. The same id and content again is the same task.
    #[arg(long, value_name = "ID")]
    task_id: Option<TaskId>,
    /// What to do it with: JSON, or `@file` that holds JSON or text.
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Say it in this context of yours with the agent: it goes on from what was said there before (`mesh context ls`).
    #[arg(long, value_name = "NAME", conflicts_with_all = ["plan", "task_id", "space"])]
    context: Option<String>,
    /// The space whose knowledge the work may use and add to; `default` if absent.
    #[arg(long, value_name = "NAME", value_parser = SpaceId::parse)]
    space: Option<SpaceId>,
    /// What the work may cost, with all that others do for it, such as 0.50, in the mesh's own unit. A result that is complete when the
    /// last call passes it counts.
    #[arg(long, value_name = "COST", value_parser = parse_cost, conflicts_with_all = ["plan", "context"])]
    budget: Option<Cost>,
    /// The same of the tokens of models, such as 200k.
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens, conflicts_with_all = ["plan", "context"])]
    max_tokens: Option<u64>,
    /// How long to wait, such as `90s` or `10m`.
    #[arg(long, default_value = "10m", value_parser = Eta::parse)]
    timeout: Eta,
    /// Write the artifacts into this directory instead of printing them.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With --out: replace files that exist.
    #[arg(long, requires = "out")]
    force: bool,
    /// Return as soon as the task is accepted, printing its id.
    #[arg(long)]
    no_wait: bool,
    /// Say nothing of what happens on the way.
    #[arg(long, short)]
    quiet: bool,
    /// Say what happens on the way, even if standard error is no terminal.
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

pub(super) async fn ask(common: &CommonArgs, ask: AskArgs) -> Result<(), CliError> {
    let until = Instant::now() + ask.timeout.duration();
    let client = MeshClient::new(common)?;
    let text = match ask.text.as_str() {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| CliError::new(Exit::Usage, format!("standard input cannot be read: {error}")))?,
        text => text.to_owned(),
    };
    let input = ask.input.as_deref().map(input).transpose()?;
    let input = if ask.plan { planning::input(&ask, input)? } else { input };
    let recipient = recipient(&client, &ask.at, ask.to.as_deref()).await?;
    let (to, endpoint) = (&recipient.agent, recipient.endpoint.as_str());
    if ask.plan && !ask.no_wait {
        check_token(&client, endpoint).await?;
    }
    let mut payload = json!({ "taskId": ask.task_id, "description": text });
    if let Some(members) = payload.as_object_mut() {
        if ask.plan {
            members.insert("capability".to_owned(), json!(patterns::session::CAPABILITY));
        }
        members.extend(ask.capability.as_ref().map(|name| ("capability".to_owned(), json!(name))));
        let budget = Budget { tokens: ask.max_tokens, cost: ask.budget };
        members.extend((!budget.is_none()).then(|| ("budget".to_owned(), json!(budget))));
        members.extend(input.map(|input| ("input".to_owned(), input)));
    }
    let mut signals = InterruptSignals::listen()?;
    let at = ask.at.repeat_flag(common);
    let (task, accepted) = match &ask.context {
        None => send(&client, &recipient, (payload, ask.space.as_ref()), &mut signals, &at).await?,
        Some(context) => {
            let words = json!([{ "text": text }]);
            let metadata = metadata_of(&payload);
            let task = say_in_context(&client, &recipient, context, (words, metadata)).await?;
            (task["id"].as_str().unwrap_or_default().to_owned(), task)
        }
    };
    if ask.no_wait {
        return if common.json { output::json(&accepted) } else { output::line(&task) };
    }

    let shows_progress = ask.verbose || !ask.quiet && std::io::stderr().is_terminal();
    if shows_progress {
        output::note(&format!("task {task} at {to}"));
    }
    let watch = TaskWatch {
        until: Some(until),
        streams: !common.json && ask.out.is_none() && !ask.plan && std::io::stdout().is_terminal(),
        shows_progress,
        says_wait: !ask.quiet,
        is_session: ask.plan,
        at: at.clone(),
        ..TaskWatch::default()
    };
    let mut progress = WatchProgress::new();
    let asks_here = !ask.quiet && !common.json && prompt::has_person();
    let (state, done) =
        follow(&client, endpoint, &task, (&watch, &mut progress), asks_here, &mut signals).await?;
    signals.exit_on_next();
    if let (true, None) = (ask.plan, &ask.out) {
        planning::show(&done, common.json)?;
    }
    let mut found = artifacts::of_task(&done);
    if !common.json || ask.out.is_some() {
        client.fetch_files(endpoint, &mut found).await?;
    }
    let end = exit::of_state(state);
    let message = text_of(&done["status"]);
    // Without artifacts, the final message is the result.
    let is_message_only = found.is_empty() && end == Exit::Done && !message.is_empty() && !ask.plan;
    match (&ask.out, common.json) {
        (_, false) if is_message_only => output::bytes(message.as_bytes())?,
        (Some(dir), is_json) => {
            if is_json {
                output::json(&done)?;
            }
            artifacts::write(&found, dir, ask.force).map_err(|mut failure| {
                failure.message +=
                    &format!("; `mesh tasks show {task}{at}` prints what task {task} has made");
                failure
            })?;
        }
        (None, _) if ask.plan => {}
        (None, true) => output::json(&done)?,
        (None, false) => {
            found.retain(|artifact| !progress.has_shown(&artifact.artifact_id));
            artifacts::print(&found)?;
            // The result stays what a pipe is given.
            if end == Exit::Done && !message.is_empty() && !ask.quiet {
                output::note(&message);
            }
        }
    }
    if let Some(figures) = done["metadata"][EXTENSION]["overBudget"].as_str().filter(|_| end == Exit::Done) {
        output::note(&format!("completed, over budget: {figures}"));
    }
    if end == Exit::Done {
        return if ask.plan { planning::check_complete(&task, &done) } else { Ok(()) };
    }
    Err(unfinished(&task, state, &done, &at))
}

/// The members of the mesh's extension that a message in a context has, of those of a task. An absent input is none: `null` would be
/// data beside the text.
fn metadata_of(payload: &Value) -> Value {
    let given = ["capability", "input"].map(|name| Some((name.to_owned(), payload.get(name)?.clone())));
    Value::Object(given.into_iter().flatten().collect())
}

/// Parses `--input`: JSON, or `@file` with JSON or text.
fn input(text: &str) -> Result<Value, CliError> {
    let usage = |what: String| CliError::new(Exit::Usage, what);
    match text.strip_prefix('@') {
        Some(path) => {
            let text =
                text_file::read(path.as_ref()).map_err(|error| usage(format!("--input: {path}: {error}")))?;
            Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
        }
        None => serde_json::from_str(text)
            .map_err(|error| usage(format!("--input is no JSON: {error}; `@file` reads a file"))),
    }
}

fn parse_cost(text: &str) -> Result<Cost, String> {
    let cost = text.parse().ok().and_then(Cost::new).filter(|cost| cost.micros() > 0);
    cost.ok_or_else(|| "must be above 0, such as 0.50".to_owned())
}

fn parse_tokens(text: &str) -> Result<u64, String> {
    TokenCount::try_from(text.to_owned()).map(|tokens| tokens.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_a_context_has_no_input_unless_one_is_given() {
        assert_eq!(metadata_of(&json!({ "description": "x" })), json!({}));
        let payload = json!({ "description": "x", "capability": "count", "input": [1] });
        assert_eq!(metadata_of(&payload), json!({ "capability": "count", "input": [1] }));
    }
}
