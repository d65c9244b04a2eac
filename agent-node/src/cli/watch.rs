//! Follows one task to its end; resumes broken streams.

use super::{
    client::{MeshClient, StreamEvent, encoded},
    convene::session_lines,
    exit::{CliError, Exit},
    output,
};
use futures_util::StreamExt;
use patterns::session::RECORD;
use protocol::{routes, task::TaskState, time::WallTime};
use rustix::termios::tcgetwinsize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    pin::pin,
    time::Duration,
};
use tokio::time::{Instant, MissedTickBehavior};
use transport::http_client::redact_url;

/// Most consecutive broken streams.
const MAX_BROKEN: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// How long a task may take before a person is told what it waits for.
const SILENCE: Duration = Duration::from_secs(2);

/// How a task is followed. The default shows nothing of it.
#[derive(Default)]
pub(super) struct TaskWatch {
    pub(super) until: Option<Instant>,
    /// Whether events are printed to standard output as JSON lines.
    pub(super) json: bool,
    /// Whether the text of artifacts is printed to standard output as it arrives.
    pub(super) streams: bool,
    /// Whether progress is printed to standard error.
    pub(super) shows_progress: bool,
    /// Whether progress is only what the agent calls and asks, and that it is busy: a line each, without the time.
    pub(super) is_chat: bool,
    /// Whether standard error says what a person must know where the progress does not: with whom a chat goes on, and what the task waits
    /// for, once for each status, after [`SILENCE`].
    pub(super) says_wait: bool,
    /// Whether what the seats of a session say is printed to standard output; otherwise it is part of the progress.
    pub(super) has_transcript: bool,
    /// Whether the task is a session, whose stage, seats and usage are shown below the progress.
    pub(super) is_session: bool,
    /// The flag that suggested commands need to find the task.
    pub(super) at: String,
}

/// The state of a task's status, and its message on one line.
pub(super) fn status_of(status: &Value) -> (Option<TaskState>, String) {
    let state = serde_json::from_value(status["state"].clone()).ok();
    (state, output::plain(&text_of(status)))
}

/// The message of a status, unchanged.
pub(super) fn text_of(status: &Value) -> String {
    let parts = status["message"]["parts"].as_array();
    let text: Vec<_> = parts.into_iter().flatten().filter_map(|part| part["text"].as_str()).collect();
    text.join(" ")
}

impl TaskWatch {
    /// Follows `task` at `endpoint` until it ends or waits for an answer; returns its state. Fails at the deadline.
    pub(super) async fn task(
        &self,
        client: &MeshClient,
        endpoint: &str,
        task: &str,
    ) -> Result<TaskState, CliError> {
        self.go_on(client, endpoint, task, &mut WatchProgress::new()).await
    }

    /// The same, from where `progress` ends: after an answer, until the task ends or waits again.
    pub(super) async fn go_on(
        &self,
        client: &MeshClient,
        endpoint: &str,
        task: &str,
        progress: &mut WatchProgress,
    ) -> Result<TaskState, CliError> {
        let path = format!("{}/{}", routes::TASKS, encoded(task));
        progress.is_settled = false;
        let mut broken = 0;
        let at = &self.at;
        loop {
            let end = match self.until {
                Some(until) => {
                    tokio::time::timeout_at(until, self.stream(client, endpoint, &path, progress)).await
                }
                None => Ok(self.stream(client, endpoint, &path, progress).await),
            };
            self.clear_line(progress);
            progress.text.end_line()?;
            match end {
                Err(_) => {
                    let state = progress.line.as_deref().unwrap_or(progress.state.word());
                    let message = format!(
                        "the time is up and task {task} is {state}; `mesh tasks watch {task}{at}` follows it, `mesh tasks cancel {task}{at}` ends it"
                    );
                    return Err(CliError::new(Exit::Timeout, message));
                }
                Ok(Ok(_)) if progress.is_settled => {
                    return Ok(progress.state);
                }
                Ok(Ok(true)) => broken = 0,
                Ok(Err(mut failure)) if failure.exit != Exit::Unreachable || broken >= MAX_BROKEN => {
                    if failure.exit == Exit::Unreachable {
                        failure.message += &format!(
                            "; task {task} goes on when it is back, `mesh tasks watch {task}{at}` follows it"
                        );
                    }
                    return Err(failure);
                }
                Ok(Ok(false) | Err(_)) => broken += 1,
            }
            if broken > MAX_BROKEN {
                let message =
                    format!("the stream of task {task} from {} ends again and again", redact_url(endpoint));
                return Err(CliError::new(Exit::Unreachable, message));
            }
            // `backon` retries until success; here the count of failures decides about the exit as well.
            tokio::time::sleep(FIRST_PAUSE * 2u32.pow(broken.min(4))).await;
        }
    }

    /// Reads one stream until it ends or the task settles. Returns whether an event arrived.
    async fn stream(
        &self,
        client: &MeshClient,
        endpoint: &str,
        path: &str,
        progress: &mut WatchProgress,
    ) -> Result<bool, CliError> {
        let events = format!("{path}/events");
        let mut events = pin!(client.follow(endpoint, &events, progress.last_id.as_deref()).await?);
        let mut has_events = false;
        let mut timer = tokio::time::interval_at(progress.begun, Duration::from_secs(1));
        timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                _ = timer.tick() => {
                    if self.is_session && self.has_footer() {
                        progress.session = session_line(client, endpoint, path).await;
                    }
                    self.show_timer(progress);
                    self.say_wait(progress)?;
                    continue
                }
            };
            let Some(event) = event else { return Ok(has_events) };
            has_events = true;
            let Some(status) = self.handle(event?, progress)? else { continue };
            progress.is_settled = progress.state.is_terminal()
                || progress.state.is_interrupted() && is_last(client, endpoint, path, &status).await?;
            if progress.is_settled {
                return Ok(true);
            }
        }
    }

    /// Prints the event. Returns its status, if it has one.
    fn handle(&self, event: StreamEvent, progress: &mut WatchProgress) -> Result<Option<Value>, CliError> {
        if !event.id.is_empty() {
            progress.last_id = Some(event.id);
        }
        if self.json {
            output::json_line(&event.data)?;
        }
        let activity = &event.data["activity"];
        if let Some(line) = activity_line(activity) {
            progress.clock.set(activity);
            match self.shows_progress {
                true => self.note(&line, progress)?,
                false if self.says_wait && is_handover(activity) => note_beside(&line, progress)?,
                false => {}
            }
            return Ok(None);
        }
        let status = match (&event.data["task"]["status"], &event.data["statusUpdate"]["status"]) {
            (Value::Null, status) | (status, _) => status,
        };
        let mut changed = None;
        if let (Some(state), text) = status_of(status) {
            progress.state = state;
            progress.clock.set(status);
            let line =
                if text.is_empty() { state.word().to_owned() } else { format!("{}: {text}", state.word()) };
            if progress.line.as_ref() != Some(&line) {
                if !self.is_chat || state == TaskState::Submitted && !text.is_empty() {
                    self.note(&line, progress)?;
                    if self.shows_progress {
                        progress.said = Some(line.clone());
                    }
                }
                progress.line = Some(line);
            }
            changed = Some(status.clone());
        }
        let artifact = &event.data["artifactUpdate"]["artifact"];
        match session_lines::speech(artifact) {
            Some(speech) if self.has_transcript => {
                self.clear_line(progress);
                output::line(&speech)?;
            }
            Some(speech) => self.note(&output::plain(&speech), progress)?,
            None if artifact["artifactId"] == RECORD => {}
            None => {
                if let Some(id) = artifact["artifactId"].as_str() {
                    match text_of_artifact(artifact).filter(|_| self.streams) {
                        Some(text) => {
                            self.clear_line(progress);
                            let is_append = event.data["artifactUpdate"]["append"] == true;
                            progress.text.show(id, &text, is_append)?;
                            progress.shown_at = Instant::now();
                        }
                        None if self.is_chat => {}
                        None => {
                            let name = artifact["name"].as_str().unwrap_or(id);
                            self.note(&format!("artifact {}", output::plain(name)), progress)?;
                        }
                    }
                }
            }
        }
        Ok(changed)
    }

    fn note(&self, what: &str, progress: &mut WatchProgress) -> Result<(), CliError> {
        if self.shows_progress {
            self.clear_line(progress);
            progress.text.end_line()?;
            progress.shown_at = Instant::now();
            match self.is_chat {
                true => output::note(&format!("  · {what}")),
                false => output::note(&format!("{:>6.1}s  {what}", progress.clock.elapsed().as_secs_f64())),
            }
        }
        Ok(())
    }

    /// Says what the task waits for: its last status, if that was not said.
    fn say_wait(&self, progress: &mut WatchProgress) -> Result<(), CliError> {
        // Progress that is no chat has every status.
        let is_silent = self.is_chat || !self.shows_progress;
        if !self.says_wait || !is_silent || progress.shown_at.elapsed() < SILENCE {
            return Ok(());
        }
        let status = progress.line.clone().unwrap_or_else(|| progress.state.word().to_owned());
        // Half an answer says that the task works.
        let is_known = progress.text.is_mid_line && status == progress.state.word();
        if is_known || progress.said.as_ref() == Some(&status) {
            return Ok(());
        }
        match self.shows_progress {
            true => self.note(&status, progress)?,
            false => note_beside(&format!("the task is {status}"), progress)?,
        }
        progress.said = Some(status);
        Ok(())
    }

    /// Whether there is a line below the progress that changes in place.
    fn has_footer(&self) -> bool {
        self.shows_progress && !self.is_chat && std::io::stderr().is_terminal()
    }

    fn show_timer(&self, progress: &WatchProgress) {
        if !self.has_footer() || progress.text.is_mid_line {
            return;
        }
        let mut err = std::io::stderr().lock();
        let what = progress.session.as_deref().unwrap_or("…");
        let line = format!("{:>6.1}s  {}", progress.clock.elapsed().as_secs_f64(), output::plain(what));
        // A line that wraps could not be cleared.
        let width = tcgetwinsize(&err).map_or(0, |size| usize::from(size.ws_col)).max(40);
        let line: String = line.chars().take(width - 1).collect();
        let _ = write!(err, "\r\x1b[K{line}");
        let _ = err.flush();
    }

    fn clear_line(&self, progress: &WatchProgress) {
        if self.has_footer() && !progress.text.is_mid_line {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Prints to standard error; on a terminal below the text that was printed.
fn note_beside(what: &str, progress: &mut WatchProgress) -> Result<(), CliError> {
    if std::io::stdout().is_terminal() {
        progress.text.end_line()?;
    }
    output::note(what);
    Ok(())
}

/// What is known of a task while it is followed.
pub(super) struct WatchProgress {
    last_id: Option<String>,
    state: TaskState,
    /// Whether the task has ended or waits for an answer.
    is_settled: bool,
    line: Option<String>,
    /// When it was first looked at.
    begun: Instant,
    /// When something of it was shown last; before that, when it was first looked at.
    shown_at: Instant,
    /// The last status that standard error has.
    said: Option<String>,
    /// What goes on in the session, if it is one.
    session: Option<String>,
    clock: TaskClock,
    text: StreamedText,
}

/// What of the artifacts was printed as it arrived.
#[derive(Default)]
struct StreamedText {
    artifacts: BTreeMap<String, StreamedArtifact>,
    last: Option<String>,
    /// Whether the last line is not ended.
    is_mid_line: bool,
}

impl StreamedText {
    fn show(&mut self, artifact: &str, text: &str, is_append: bool) -> Result<(), CliError> {
        let (is_new_line, text) =
            self.artifacts.entry(artifact.to_owned()).or_default().take(text, is_append);
        if text.is_empty() {
            return Ok(());
        }
        if is_new_line || self.last.as_deref() != Some(artifact) {
            self.end_line()?;
        }
        output::piece(&text)?;
        self.last = Some(artifact.to_owned());
        self.is_mid_line = !text.ends_with('\n');
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.is_mid_line) { output::piece("\n") } else { Ok(()) }
    }
}

/// The printed text of an artifact. An agent may send a whole artifact again that it has sent in pieces, as at the end of an answer, or
/// when it passes on what another agent has made: what is the same is printed once.
#[derive(Default)]
struct StreamedArtifact {
    printed: String,
    /// How many bytes of `printed` the artifact has: all, unless it was replaced by what has begun with the same text so far.
    repeated: usize,
}

impl StreamedArtifact {
    /// Takes a piece. Returns what of the artifact is to be printed, and whether that begins it anew.
    fn take(&mut self, piece: &str, is_append: bool) -> (bool, String) {
        if !is_append {
            self.repeated = 0;
        }
        let (same, ahead) = self.printed.split_at(self.repeated);
        if ahead.starts_with(piece) {
            self.repeated += piece.len();
            return (false, String::new());
        }
        let (is_anew, text) = match piece.strip_prefix(ahead) {
            Some(rest) => (false, rest.to_owned()),
            None => (true, format!("{same}{piece}")),
        };
        if is_anew {
            self.printed.clear();
        }
        self.printed.push_str(&text);
        self.repeated = self.printed.len();
        (is_anew, text)
    }

    /// Whether nothing was printed that the artifact does not have.
    fn is_whole(&self) -> bool {
        self.printed[self.repeated..].trim().is_empty()
    }
}

impl WatchProgress {
    /// Nothing is known yet.
    pub(super) fn new() -> Self {
        let clock = TaskClock { first: None, offset: Duration::ZERO, since: Instant::now() };
        Self {
            last_id: None,
            state: TaskState::Submitted,
            is_settled: false,
            line: None,
            begun: Instant::now(),
            shown_at: Instant::now(),
            said: None,
            session: None,
            clock,
            text: StreamedText::default(),
        }
    }

    /// Whether the text of an artifact was printed as it arrived.
    pub(super) fn has_shown(&self, artifact: &str) -> bool {
        self.text.artifacts.get(artifact).is_some_and(StreamedArtifact::is_whole)
    }
}

/// The text of a piece of an artifact that is nothing but text, and no file.
fn text_of_artifact(artifact: &Value) -> Option<String> {
    let parts = artifact["parts"].as_array()?.iter();
    parts.map(|part| part["text"].as_str().filter(|_| part["filename"].is_null())).collect()
}

/// The time since the first status of a task, by the timestamps of its statuses. Replayed events arrive at once.
struct TaskClock {
    first: Option<WallTime>,
    /// From the first status to the last one.
    offset: Duration,
    /// When the last one was received.
    since: Instant,
}

impl TaskClock {
    fn set(&mut self, status: &Value) {
        let Some(at) = status["timestamp"].as_str().and_then(|text| WallTime::parse(text).ok()) else {
            return;
        };
        self.offset = self.first.get_or_insert(at).until(at);
        self.since = Instant::now();
    }

    fn elapsed(&self) -> Duration {
        self.offset + self.since.elapsed()
    }
}

/// What the agent of a task does on the way, on one line.
fn activity_line(activity: &Value) -> Option<String> {
    let word = |name: &str| output::plain(activity[name].as_str().unwrap_or_default());
    let line = match activity["kind"].as_str()? {
        "asked" => format!("asked {}: {}", word("to"), word("text")),
        "answered" if word("text").is_empty() => {
            format!("{}: {}", word("by"), word("state"))
        }
        "answered" => format!("{}: {}: {}", word("by"), word("state"), word("text")),
        "handedOver" => format!("now with agent {}: {}", word("to"), word("text")),
        "handedBack" => "now with the agent itself again".to_owned(),
        "tool" => {
            let end = activity["error"].as_str().unwrap_or("done");
            format!("tool {}: {}", word("name"), output::plain(end))
        }
        _ => return None,
    };
    Some(line)
}

/// Whether `activity` changes with whom a chat goes on.
fn is_handover(activity: &Value) -> bool {
    activity["kind"].as_str().is_some_and(|kind| ["handedOver", "handedBack"].contains(&kind))
}

/// What goes on in a session, on one line; `None` if it can't be seen.
async fn session_line(client: &MeshClient, endpoint: &str, path: &str) -> Option<String> {
    let answer: Value = client.get(endpoint, &format!("{path}/session")).await.ok()?;
    Some(session_lines::now(&answer["session"]))
}

/// Whether `status` is the task's last one. The question of a replayed event may have been answered, and the same text asked again;
/// one that has expired at once is followed by a status of the same time.
async fn is_last(client: &MeshClient, endpoint: &str, path: &str, status: &Value) -> Result<bool, CliError> {
    let task: Value = client.get(endpoint, path).await?;
    Ok(["state", "timestamp"].iter().all(|member| task["status"][member] == status[member]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_that_is_sent_again_is_printed_once() {
        let mut artifact = StreamedArtifact::default();
        let mut take = |piece: &str, is_append| {
            let (is_anew, text) = artifact.take(piece, is_append);
            (is_anew, text, artifact.is_whole())
        };
        for (piece, is_append, is_anew, text, is_whole) in [
            ("one ", false, false, "one ", true),
            ("twö\n", true, false, "twö\n", true),
            // The whole again, with and without the space at its end, at once and in pieces.
            ("one twö\n", false, false, "", true),
            ("one twö", false, false, "", true),
            ("one", false, false, "", false),
            (" twö\nthree", true, false, "three", true),
            // Another text, which begins alike.
            ("one", false, false, "", false),
            (" more", true, true, "one more", true),
            ("two", false, true, "two", true),
            ("", true, false, "", true),
        ] {
            assert_eq!(take(piece, is_append), (is_anew, text.to_owned(), is_whole), "{piece:?}");
        }
    }
}
