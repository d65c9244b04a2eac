//! `mesh ask`: sends a task to an agent, follows it, and prints its artifacts.

use super::{
    CommonArgs, artifacts,
    client::{MeshClient, encoded},
    convene::check_token,
    endpoints::{AgentEndpoint, AtArgs},
    exit::{self, CliError, Exit},
    interrupt::InterruptSignals,
    output,
    shell_quote::shell_quoted,
    watch::{TaskWatch, WatchProgress, status_of, text_of},
};
use crate::{clock::wall_time, text_file};
use blackboard::http_client::redact_url;
use clap::Args;
use protocol::{
    bid::Eta,
    ids::{AgentId, Capability, SpaceId, TaskId},
    problem::Reason,
    question::{Question, QuestionKind},
    routes,
    task::{EXTENSION, TaskState},
};
use registry::entry::entrance;
use serde_json::{Value, json};
use std::{io::IsTerminal, path::PathBuf};
use tokio::time::Instant;

mod planning;
pub(super) mod prompt;

use prompt::PromptEnd;

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
    /// The space whose knowledge the work may use and add to; `default` if absent.
    #[arg(long, value_name = "NAME", value_parser = SpaceId::parse)]
    space: Option<SpaceId>,
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
        members.extend(input.map(|input| ("input".to_owned(), input)));
    }
    let mut signals = InterruptSignals::listen()?;
    let at = ask.at.repeat_flag(common);
    let (task, accepted) =
        send(&client, &recipient, (payload, ask.space.as_ref()), &mut signals, &at).await?;
    if ask.no_wait {
        return if common.json { output::json(&accepted) } else { output::line(&task) };
    }

    let shows_progress = ask.verbose || !ask.quiet && std::io::stderr().is_terminal();
    if shows_progress {
        output::note(&format!("task {task} at {to}"));
    }
    let watch = TaskWatch {
        until: Some(until),
        json: false,
        shows_progress,
        says_wait: !ask.quiet,
        has_transcript: false,
        is_session: ask.plan,
        at: at.clone(),
    };
    let asks_here = !ask.quiet && !common.json && prompt::has_person();
    let (state, done) = follow(&client, endpoint, &task, &watch, asks_here, &mut signals).await?;
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
        (None, false) => artifacts::print(&found)?,
    }
    if end == Exit::Done {
        return if ask.plan { planning::check_complete(&task, &done) } else { Ok(()) };
    }
    Err(unfinished(&task, state, &done, &at))
}

/// Sends a task to `recipient`, with a new id if it has none; returns its id and the answer.
pub(super) async fn send(
    client: &MeshClient,
    recipient: &AgentEndpoint,
    (mut payload, space): (Value, Option<&SpaceId>),
    signals: &mut InterruptSignals,
    at: &str,
) -> Result<(String, Value), CliError> {
    let unique = uuid::Uuid::now_v7();
    let task = payload["taskId"].as_str().map_or_else(|| format!("t-{}", unique.simple()), str::to_owned);
    payload["taskId"] = json!(task);
    let to = &recipient.agent;
    let mut message = json!({
        "messageId": unique,
        "fromAgentId": "me",
        "toAgentId": to,
        "type": "task-request",
        "payload": payload,
    });
    if let Some(space) = space {
        message["spaceId"] = json!(space);
    }
    let accepted = tokio::select! {
        accepted = client.post(&recipient.endpoint, routes::MESSAGES, &message) => accepted,
        exit = signals.next() => {
            let message = format!("stopped before {to} answered; `mesh tasks show {task}{at}` says whether it has task {task}");
            return Err(CliError::new(exit, message));
        }
    };
    let accepted = accepted.map_err(|mut failure| {
        if failure.reason == Some(Reason::CapabilityNeeded) {
            failure.message += "; say --capability NAME";
        }
        recipient.explain(failure)
    })?;
    let accepted_id = accepted["taskId"].as_str().and_then(|id| TaskId::parse(id).ok());
    Ok((accepted_id.map_or(task, String::from), accepted))
}

/// Follows a task to its end, or until it waits for an answer that is not given here; returns its state and the task.
pub(super) async fn follow(
    client: &MeshClient,
    endpoint: &str,
    task: &str,
    watch: &TaskWatch,
    asks_here: bool,
    signals: &mut InterruptSignals,
) -> Result<(TaskState, Value), CliError> {
    let at = watch.at.as_str();
    let mut progress = WatchProgress::new();
    loop {
        let state = tokio::select! {
            state = watch.go_on(client, endpoint, task, &mut progress) => state?,
            exit = signals.next() => {
                let message = format!(
                    "no longer waits; task {task} goes on: `mesh tasks watch {task}{at}` follows it, `mesh tasks cancel {task}{at}` ends it"
                );
                return Err(CliError::new(exit, message));
            }
        };
        let mut now: Value = client.get(endpoint, &format!("{}/{}", routes::TASKS, encoded(task))).await?;
        if exit::of_state(state) != Exit::NeedsAnswer {
            return Ok((state, now));
        }
        // The question may have been answered meanwhile, or its time is over and the task is about to go on.
        let has_expired = |asked: &Question| asked.expires_at.is_some_and(|at| at <= wall_time());
        let open = open_questions(&now);
        let waits = status_of(&now["status"]).0.is_some_and(TaskState::is_interrupted);
        if !waits || !open.is_empty() && open.iter().all(has_expired) {
            continue;
        }
        if !asks_here {
            return Ok((state, now));
        }
        let exit = tokio::select! {
            end = prompt::answer_questions(client, endpoint, task, &mut now) => match end? {
                PromptEnd::Answered => continue,
                PromptEnd::Unanswered => return Ok((state, now)),
            },
            () = sleep_until(watch.until) => Exit::Timeout,
            exit = signals.next() => exit,
        };
        // Below the prompt.
        output::note("");
        let how = how_to_answer(&now, task, at);
        let message = format!(
            "no longer waits; task {task} waits for an answer: {how} gives it, `mesh tasks cancel {task}{at}` ends it"
        );
        return Err(CliError::new(exit, message));
    }
}

/// Returns at the deadline; never without one.
async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// How a task has ended that is not completed, or what it waits for.
pub(super) fn unfinished(task: &str, state: TaskState, done: &Value, at: &str) -> CliError {
    let message = output::plain(&text_of(&done["status"]));
    let end = exit::of_state(state);
    let message = match (end == Exit::NeedsAnswer, message.is_empty()) {
        (true, _) => {
            format!("task {task} asks: {message}; answer with {}", how_to_answer(done, task, at))
        }
        (false, true) => format!("task {task} {}", state.word()),
        (false, false) => format!("task {task} {}: {message}", state.word()),
    };
    CliError::new(end, message)
}

/// The questions that `task` waits for.
pub(super) fn open_questions(task: &Value) -> Vec<Question> {
    serde_json::from_value(task["metadata"][EXTENSION]["questions"].clone()).unwrap_or_default()
}

/// The command that answers the first open question of `task`.
pub(super) fn how_to_answer(task: &Value, id: &str, at: &str) -> String {
    let questions = open_questions(task);
    let Some(question) = questions.first() else { return format!("`mesh answer {id} TEXT{at}`") };
    let named = format!("`mesh answer {id} --question {}", shell_quoted(&output::plain(&question.id)));
    match question.kind {
        QuestionKind::Approval => format!("{named} --approve{at}`, or `--deny`"),
        QuestionKind::Form => format!("{named} --values JSON{at}`"),
        QuestionKind::Choice => {
            let options: Vec<_> = question
                .options
                .iter()
                .map(|option| shell_quoted(&output::plain(option)).into_owned())
                .collect();
            format!("{named} {}{at}`", options.join("|"))
        }
        QuestionKind::Text | QuestionKind::Credential if questions.len() > 1 => {
            format!("{named} TEXT{at}`")
        }
        QuestionKind::Text | QuestionKind::Credential => format!("`mesh answer {id} TEXT{at}`"),
    }
}

/// The agent to ask: the one of `--at` or the one named, or the mesh's entrance.
pub(super) async fn recipient(
    client: &MeshClient,
    at: &AtArgs,
    to: Option<&str>,
) -> Result<AgentEndpoint, CliError> {
    if let Some(at) = at.base() {
        let agent = match to {
            Some(name) => {
                AgentId::parse(name).map_err(|error| CliError::new(Exit::Usage, error.to_string()))?
            }
            None => client.card_at(&at).await?.agent_id,
        };
        return Ok(AgentEndpoint::given(agent, at));
    }
    if let Some(name) = to {
        return Ok(AgentEndpoint::registered(client.card_of(name).await?.as_ref()));
    }
    let agents = client.agents(None).await?;
    match entrance(&agents) {
        Some(entry) => Ok(AgentEndpoint::registered(&entry.card)),
        None => Err(CliError::new(
            Exit::Refused,
            format!("no agent is registered at {}", redact_url(&client.url)),
        )),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_answers_fits_the_kind_of_the_question() {
        let of = |questions: Value| {
            how_to_answer(&json!({ "metadata": { EXTENSION: { "questions": questions } } }), "t-1", " --at x")
        };
        let approval = json!({ "id": "rm", "kind": "approval", "text": "?" });
        assert_eq!(of(json!([approval])), "`mesh answer t-1 --question rm --approve --at x`, or `--deny`");
        let form = json!({ "id": "f", "kind": "form", "text": "?", "schema": {} });
        let choice = json!({ "id": "c", "kind": "choice", "text": "?", "options": ["s", "very large"] });
        assert_eq!(of(json!([choice])), "`mesh answer t-1 --question c s|'very large' --at x`");
        assert_eq!(of(json!([form])), "`mesh answer t-1 --question f --values JSON --at x`");
        let text = json!({ "id": "q", "text": "?" });
        assert_eq!(of(json!([text])), "`mesh answer t-1 TEXT --at x`");
        assert_eq!(of(json!([text, approval])), "`mesh answer t-1 --question q TEXT --at x`");
        assert_eq!(of(json!([])), "`mesh answer t-1 TEXT --at x`");
    }
}
