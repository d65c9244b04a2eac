//! Following one task to its end, through broken streams too.

use super::{
    client::{Client, Told, encoded},
    exit::{Exit, Failure},
    output,
};
use blackboard::http_client::redact_url;
use futures_util::StreamExt;
use protocol::{routes, task::TaskState};
use serde_json::Value;
use std::{
    io::{IsTerminal, Write},
    pin::pin,
    time::Duration,
};
use tokio::time::Instant;

/// Broken streams in a row that are put up with.
const PATIENCE: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// How a task is followed.
pub(super) struct Watch {
    /// The last moment to wait for.
    pub(super) until: Option<Instant>,
    /// Whether every event is printed to standard output, one a line.
    pub(super) json: bool,
    /// Whether what happens is told on standard error.
    pub(super) tell: bool,
    /// What to add to a command so that it finds the task.
    pub(super) at: String,
}

/// What a task's status says: the state, and the sentence about it.
pub(super) fn status_of(status: &Value) -> (Option<TaskState>, String) {
    let state = serde_json::from_value(status["state"].clone()).ok();
    (state, output::plain(&text_of(status)))
}

/// The sentence as it was said.
pub(super) fn text_of(status: &Value) -> String {
    let parts = status["message"]["parts"].as_array();
    let text: Vec<_> = parts.into_iter().flatten().filter_map(|part| part["text"].as_str()).collect();
    text.join(" ")
}

impl Watch {
    /// Follows `task`, which is known to be at `endpoint`, until it ends, waits for an answer, or time is up. Returns its last known state.
    pub(super) async fn task(
        &self,
        client: &Client,
        endpoint: &str,
        task: &str,
    ) -> Result<TaskState, Failure> {
        let path = format!("{}/{}/events", routes::TASKS, encoded(task));
        let mut seen = Seen { last_id: None, state: TaskState::Submitted, line: None, since: Instant::now() };
        let mut broken = 0;
        let at = &self.at;
        loop {
            let end = match self.until {
                Some(until) => {
                    tokio::time::timeout_at(until, self.stream(client, endpoint, &path, &mut seen)).await
                }
                None => Ok(self.stream(client, endpoint, &path, &mut seen).await),
            };
            self.wipe();
            match end {
                Err(_) => {
                    let message = format!(
                        "the time is up and task {task} is {}; `mesh tasks watch {task}{at}` follows it, `mesh tasks cancel {task}{at}` ends it",
                        seen.state.word()
                    );
                    return Err(Failure::new(Exit::Timeout, message));
                }
                Ok(Ok(_)) if is_still(seen.state) => {
                    return Ok(seen.state);
                }
                Ok(Ok(true)) => broken = 0,
                Ok(Err(mut failure)) if failure.exit != Exit::Unreachable || broken >= PATIENCE => {
                    if failure.exit == Exit::Unreachable {
                        failure.message += &format!(
                            "; task {task} goes on when it is back, `mesh tasks watch {task}{at}` follows it"
                        );
                    }
                    return Err(failure);
                }
                Ok(Ok(false) | Err(_)) => broken += 1,
            }
            if broken > PATIENCE {
                let message =
                    format!("the stream of task {task} from {} ends again and again", redact_url(endpoint));
                return Err(Failure::new(Exit::Unreachable, message));
            }
            // `backon` retries until success; here the count of failures decides about the exit as well.
            tokio::time::sleep(FIRST_PAUSE * 2u32.pow(broken.min(4))).await;
        }
    }

    /// One stream, until it ends or there is nothing more to wait for. Whether anything came.
    async fn stream(
        &self,
        client: &Client,
        endpoint: &str,
        path: &str,
        seen: &mut Seen,
    ) -> Result<bool, Failure> {
        let mut events = pin!(client.follow(endpoint, path, seen.last_id.as_deref()).await?);
        let mut progressed = false;
        let mut beat = tokio::time::interval(Duration::from_secs(1));
        loop {
            let told = tokio::select! {
                told = events.next() => told,
                _ = beat.tick() => { self.beat(seen); continue }
            };
            let Some(told) = told else { return Ok(progressed) };
            progressed = true;
            self.hear(told?, seen)?;
            if is_still(seen.state) {
                return Ok(true);
            }
        }
    }

    fn hear(&self, told: Told, seen: &mut Seen) -> Result<(), Failure> {
        if !told.id.is_empty() {
            seen.last_id = Some(told.id);
        }
        if self.json {
            output::json_line(&told.data)?;
        }
        let status = match (&told.data["task"]["status"], &told.data["statusUpdate"]["status"]) {
            (Value::Null, status) | (status, _) => status,
        };
        if let (Some(state), text) = status_of(status) {
            seen.state = state;
            let line =
                if text.is_empty() { state.word().to_owned() } else { format!("{}: {text}", state.word()) };
            if seen.line.as_ref() != Some(&line) {
                self.say(&line, seen);
                seen.line = Some(line);
            }
        }
        let artifact = &told.data["artifactUpdate"]["artifact"];
        if let Some(id) = artifact["artifactId"].as_str() {
            let name = artifact["name"].as_str().unwrap_or(id);
            self.say(&format!("artifact {}", output::plain(name)), seen);
        }
        Ok(())
    }

    fn say(&self, what: &str, seen: &Seen) {
        if self.tell {
            self.wipe();
            output::note(&format!("{:>6.1}s  {what}", seen.since.elapsed().as_secs_f64()));
        }
    }

    fn beat(&self, seen: &Seen) {
        if self.tell && std::io::stderr().is_terminal() {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K{:>6.1}s  …", seen.since.elapsed().as_secs_f64());
            let _ = err.flush();
        }
    }

    fn wipe(&self) {
        if self.tell && std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

struct Seen {
    last_id: Option<String>,
    state: TaskState,
    line: Option<String>,
    since: Instant,
}

/// Whether nothing more comes by itself.
fn is_still(state: TaskState) -> bool {
    match state {
        TaskState::InputRequired | TaskState::AuthRequired => true,
        TaskState::Submitted
        | TaskState::Working
        | TaskState::Completed
        | TaskState::Failed
        | TaskState::Canceled
        | TaskState::Rejected => state.is_terminal(),
    }
}
