//! `mesh chat`: a chat with an agent on the terminal. Each message is a task in one A2A context; the agent keeps what was said.

use super::{
    CommonArgs,
    client::{MeshClient, encoded},
    contexts,
    endpoints::{AgentEndpoint, AtArgs, recipient},
    exit::{self, CliError, Exit},
    interrupt::InterruptSignals,
    output, prompt,
    sent_task::{follow, print_result, say_in_context, unfinished},
    shell_quote::shell_quoted,
    watch::{TaskWatch, WatchProgress, status_of},
};
use base64::Engine as _;
use clap::Args;
use comfy_table::Cell;
use protocol::{bid::Eta, routes, task::EXTENSION, usage::Usage};
use serde_json::{Value, json};
use std::io::{BufRead as _, IsTerminal};
use tokio::time::Instant;

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// The agent; the entrance of the mesh if absent.
    agent: Option<String>,
    /// The name of the chat, which goes on if there is one; a new chat if absent.
    #[arg(long, short, value_name = "NAME")]
    context: Option<String>,
    /// Go on with the chat that was used last with this agent.
    #[arg(long = "continue", conflicts_with = "context")]
    goes_on: bool,
    /// How long to wait for each answer, such as `90s` or `10m`; without end if absent.
    #[arg(long, value_parser = Eta::parse)]
    timeout: Option<Eta>,
    #[command(flatten)]
    at: AtArgs,
}

/// How many of the newest turns of a chat that goes on are shown.
const SHOWN: usize = 3;
/// The largest file of a message, bytes.
const MAX_FILE: u64 = 8 << 20;

const HELP: &str = "\
/file PATH   send a file with the next message
/tasks       the messages of this chat as tasks
/cost        what this chat has used
/history     what was said in this chat
/help        this
/quit        leave; so does Ctrl-D
Ctrl-C stops an answer, not the chat.";

struct ChatSession<'a> {
    client: &'a MeshClient,
    with: &'a AgentEndpoint,
    context: String,
    /// The files of the next message, as parts.
    files: Vec<Value>,
    at: String,
    timeout: Option<Eta>,
    is_terminal: bool,
    /// Whether standard output has JSON, an object a line.
    is_json: bool,
}

pub(super) async fn chat(common: &CommonArgs, args: ChatArgs) -> Result<(), CliError> {
    let client = MeshClient::new(common)?;
    let with = recipient(&client, &args.at, args.agent.as_deref()).await?;
    let newest = match args.goes_on {
        true => contexts::newest(&client, &with.endpoint, 1).await?.pop(),
        false => None,
    };
    let is_new = args.context.is_none() && newest.is_none();
    let context = args.context.or_else(|| newest.map(|chat| chat.of.context_id)).unwrap_or_else(new_name);
    let is_terminal = std::io::stdin().is_terminal();
    let at = args.at.repeat_flag(common);
    let mut session = ChatSession {
        client: &client,
        with: &with,
        context,
        files: Vec::new(),
        at,
        timeout: args.timeout,
        is_terminal,
        is_json: common.json,
    };
    let agent = &with.agent;
    if is_terminal {
        output::note(&format!("chat {} with {agent}; /help lists the commands", session.context));
    }
    // In a pipe standard output has only what is asked for.
    if is_terminal && !common.json && !is_new {
        session.show_history(SHOWN).await?;
    }
    let mut signals = InterruptSignals::listen()?;
    let outcome = session.talk(&mut signals).await;
    signals.exit_on_next();
    if is_terminal {
        let name = shell_quoted(&session.context).into_owned();
        output::note(&format!("\n`mesh chat {agent} --context {name}{}` goes on", session.at));
    }
    outcome
}

/// A name that no other chat has.
fn new_name() -> String {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    format!("chat-{}", &unique[..8])
}

impl ChatSession<'_> {
    /// Takes lines until the end of the input. Without a terminal it ends at the first message that is not answered, and fails at the end
    /// of the input if there was an unknown command.
    async fn talk(&mut self, signals: &mut InterruptSignals) -> Result<(), CliError> {
        let mut end = Ok(());
        loop {
            let line = tokio::select! {
                line = self.read_line() => line?,
                exit = signals.next() => return if self.is_terminal { Ok(()) } else { Err(CliError::new(exit, "stopped")) },
            };
            let Some(line) = line else { return end };
            let command = line.strip_prefix('/').filter(|rest| !rest.starts_with('/'));
            let outcome = match command.map(|command| command.split_once(' ').unwrap_or((command, ""))) {
                None if line.is_empty() => Ok(()),
                // `//` begins a message that begins with `/`.
                None => {
                    self.say(
                        line.strip_prefix("//").map_or(line.clone(), |rest| format!("/{rest}")).as_str(),
                        signals,
                    )
                    .await
                }
                Some(("quit" | "exit", _)) => return end,
                Some(("help", _)) => self.tell(HELP),
                Some(("file", path)) => self.attach(path.trim()),
                Some(("tasks", _)) => self.show_tasks().await,
                Some(("cost", _)) => self.show_cost().await,
                Some(("history", _)) => self.show_history(usize::MAX).await,
                Some((other, _)) => {
                    output::note(&format!(
                        "there is no /{other}; /help lists the commands, and //{other} says it"
                    ));
                    if !self.is_terminal {
                        end = Err(CliError::new(Exit::Usage, ""));
                    }
                    Ok(())
                }
            };
            match outcome {
                Err(failure) if self.is_terminal => output::note(&failure.message),
                outcome => outcome?,
            }
        }
    }

    async fn read_line(&self) -> Result<Option<String>, CliError> {
        let unreadable =
            |error: std::io::Error| CliError::new(Exit::Failed, format!("the input cannot be read: {error}"));
        if self.is_terminal {
            return prompt::read_line("> ").await.map_err(unreadable);
        }
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line)?;
            Ok((read > 0).then(|| line.trim().to_owned()))
        });
        line.await.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(unreadable)
    }

    /// Says it, and shows the answer as it arrives. Ctrl-C stops the answer.
    async fn say(&mut self, text: &str, signals: &mut InterruptSignals) -> Result<(), CliError> {
        let (client, endpoint) = (self.client, self.with.endpoint.as_str());
        let parts = std::iter::once(json!({ "text": text })).chain(self.files.iter().cloned());
        let parts = parts.collect::<Vec<_>>();
        let task = say_in_context(client, self.with, &self.context, (json!(parts), json!({}))).await?;
        self.files.clear();
        let id = task["id"].as_str().unwrap_or_default();
        let watch = TaskWatch {
            until: self.timeout.map(|time| Instant::now() + time.duration()),
            json: self.is_json,
            streams: !self.is_json,
            shows_progress: self.is_terminal,
            is_chat: true,
            says_wait: true,
            at: self.at.clone(),
            ..TaskWatch::default()
        };
        let mut progress = WatchProgress::new();
        let asks_here = self.is_terminal && prompt::has_person();
        let followed = follow(client, endpoint, id, (&watch, &mut progress), asks_here, signals).await;
        let (state, done) = match followed {
            Err(failure) if failure.exit == Exit::Interrupted => {
                let path = format!("{}/{}/cancel", routes::TASKS, encoded(id));
                client.post(endpoint, &path, &json!({ "reason": "stopped by the person" })).await?;
                return Err(CliError::new(Exit::Interrupted, "\nstopped"));
            }
            followed => followed?,
        };
        if exit::of_state(state) != Exit::Done {
            return Err(unfinished(id, state, &done, &self.at));
        }
        if self.is_json { Ok(()) } else { print_result(client, endpoint, &done, &progress).await }
    }

    /// Tells the person something that is no answer.
    fn tell(&self, text: &str) -> Result<(), CliError> {
        if self.is_json {
            output::note(text);
            return Ok(());
        }
        output::line(text)
    }

    /// Keeps a file for the next message.
    fn attach(&mut self, path: &str) -> Result<(), CliError> {
        let failed = |why: String| CliError::new(Exit::Usage, format!("{path}: {why}"));
        if path.is_empty() {
            return Err(CliError::new(Exit::Usage, "/file PATH"));
        }
        let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
        if size > MAX_FILE {
            return Err(failed(format!("has {size} bytes, and a message takes at most {MAX_FILE}")));
        }
        let content = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let name = std::path::Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        // What is no text is known by its first bytes.
        let media_type = std::str::from_utf8(&content).is_ok().then_some("text/plain");
        let raw = base64::engine::general_purpose::STANDARD.encode(content);
        self.files.push(json!({ "raw": raw, "filename": name, "mediaType": media_type }));
        self.tell(&format!("{name} goes with the next message"))
    }

    /// The tasks of this chat, the newest first: at most a page.
    async fn tasks(&self) -> Result<Vec<Value>, CliError> {
        let context = encoded(&self.context);
        let path = format!("/a2a/v1/tasks?contextId={context}&pageSize=100&A2A-Version=1.0");
        let found: Value = self.client.get(&self.with.endpoint, &path).await?;
        Ok(found["tasks"].as_array().cloned().unwrap_or_default())
    }

    async fn show_tasks(&self) -> Result<(), CliError> {
        let tasks = self.tasks().await?;
        if self.is_json {
            return output::json_line(&json!({ "tasks": tasks }));
        }
        let rows = tasks.iter().map(|task| {
            let (state, _) = status_of(&task["status"]);
            let text = output::plain(task["metadata"][EXTENSION]["description"].as_str().unwrap_or_default());
            let text: String = text.chars().take(60).collect();
            let id = task["id"].as_str().unwrap_or_default();
            [id, state.map_or("?", |state| state.word()), &text]
                .map(|text| Cell::new(output::plain(text)))
                .to_vec()
        });
        output::line(&output::table(&["TASK", "STATE", "SAID"], rows))
    }

    async fn show_cost(&self) -> Result<(), CliError> {
        let tasks = self.tasks().await?;
        let usage = tasks.iter().filter_map(|task| {
            serde_json::from_value::<Usage>(task["metadata"][EXTENSION]["usage"].clone()).ok()
        });
        let used = usage.fold(Usage::default(), |sum, used| sum.plus(&used));
        if self.is_json {
            return output::json_line(&json!({ "messages": tasks.len(), "usage": used }));
        }
        let what = format!("{} tokens, a cost of {:.4}", used.tokens(), used.cost.get());
        output::line(&format!("{what}, in the newest {} messages", tasks.len()))
    }

    async fn show_history(&self, most: usize) -> Result<(), CliError> {
        let Some(chat) = contexts::find(self.client, &self.with.endpoint, &self.context).await? else {
            return Ok(());
        };
        if self.is_json {
            return output::json_line(&chat);
        }
        let left_out = chat.turns.len().saturating_sub(most);
        if left_out > 0 {
            output::note(&format!("… {left_out} earlier messages; /history shows them"));
        }
        match chat.to_markdown(self.with.agent.as_str(), most).trim_end() {
            "" => Ok(()),
            text => output::line(text),
        }
    }
}
