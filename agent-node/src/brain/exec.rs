//! Any command as a brain: one JSON line in, JSON lines out ([`super::lines`]), then its exit.

mod child;
mod output;

use super::{Ask, Brain, BrainError, Turn, lines::Said};
use child::Child;
use output::{Output, Tail};
use protocol::patterns::turn::{Progress, TurnEnd, TurnSubject};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    time::Instant,
};

/// A command and how it is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Exec {
    /// The program and its arguments. `mesh` as the program is `mesh` below.
    pub command: Vec<String>,
    /// The executable that `mesh` stands for; this very one if `None`.
    pub mesh: Option<PathBuf>,
    /// Where it runs; here if `None`. A program like `./build.sh` is looked for there.
    pub dir: Option<PathBuf>,
    /// Its environment, beside `PATH`, `HOME` and `LANG`, which it inherits, and the `TRACEPARENT` of its turn. Nothing
    /// else gets in.
    pub env: BTreeMap<String, String>,
    /// The longest line it may say, bytes.
    pub max_line_bytes: usize,
    /// The most it may say in a turn, bytes.
    pub max_output_bytes: usize,
    /// How long it may go on after it said its last, or after its output ended, before it is killed.
    pub linger: Duration,
}

impl Exec {
    /// `command` with the usual limits.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            mesh: None,
            dir: None,
            env: BTreeMap::new(),
            max_line_bytes: 1 << 20,
            max_output_bytes: 16 << 20,
            linger: Duration::from_secs(2),
        }
    }
}

impl Brain for Exec {
    fn think(&self, ask: Ask, report: mpsc::Sender<Progress>) -> Turn {
        let exec = self.clone();
        Box::pin(async move { exec.turn(&ask, &report).await })
    }

    fn name(&self) -> &'static str {
        "exec"
    }
}

impl Exec {
    async fn turn(&self, ask: &Ask, report: &mpsc::Sender<Progress>) -> Result<TurnEnd, BrainError> {
        let unspeakable =
            |error: serde_json::Error| BrainError::NotStarted { what: error.to_string(), source: None };
        let mut question = serde_json::to_vec(ask).map_err(unspeakable)?;
        question.push(b'\n');

        let mut child = Child::start(self, ask.trace.as_ref())?;
        let (mut stdin, mut stdout, mut stderr) = (child.stdin(), child.stdout(), child.stderr());
        let mut output = Output::new(self.max_line_bytes, self.max_output_bytes);
        let mut last_words = Tail::default();
        let is_task = matches!(ask.prompt.about, TurnSubject::Task { .. });
        let mut heard = Heard { has_made: !ask.prompt.produced.is_empty(), ..Heard::default() };
        let (mut chunk, mut error_chunk) = (vec![0; 16 * 1024], vec![0; 2 * 1024]);
        let mut written = 0;
        let mut status = None;
        let mut cut_at: Option<Instant> = None;

        while stdout.is_some() || stderr.is_some() || status.is_none() {
            tokio::select! {
                biased;
                sent = async { stdin.as_mut()?.write(&question[written..]).await.ok() }, if stdin.is_some() => {
                    // A brain that does not care for the question may leave it unread.
                    written += sent.unwrap_or(question.len());
                    if written >= question.len() || sent == Some(0) {
                        stdin = None;
                    }
                }
                read = async { stdout.as_mut()?.read(&mut chunk).await.ok() }, if stdout.is_some() => {
                    let lines = match read {
                        None | Some(0) => { stdout = None; output.end()? }
                        Some(n) => output.take(&chunk[..n])?,
                    };
                    for (line, said) in lines {
                        heard.hear(line, said, report).await?;
                    }
                }
                read = async { stderr.as_mut()?.read(&mut error_chunk).await.ok() }, if stderr.is_some() => {
                    match read {
                        None | Some(0) => stderr = None,
                        Some(n) => last_words.take(&error_chunk[..n]),
                    }
                }
                ended = child.wait(), if status.is_none() => status = Some(ended),
                () = tokio::time::sleep_until(cut_at.unwrap_or_else(Instant::now)), if cut_at.is_some() => break,
            }
            let nearly_over = heard.end.is_some() || stdout.is_none() || status.is_some();
            if nearly_over && cut_at.is_none() {
                cut_at = Some(Instant::now() + self.linger);
            }
        }
        drop(child);

        if let Some(how) = status.and_then(child::how_it_died) {
            return Err(BrainError::Died { how, stderr: last_words.text() });
        }
        match heard.end {
            // What a task lacks is said by the rule; what was meant for it, only here.
            Some(end) if is_task && !heard.has_made && !heard.waits => Ok(output.judged(end)),
            Some(end) => Ok(end),
            None if heard.waits => Ok(TurnEnd::Waiting),
            None => Err(BrainError::Silent { stderr: last_words.text() }),
        }
    }
}

#[derive(Default)]
struct Heard {
    end: Option<TurnEnd>,
    waits: bool,
    /// Whether there is an artifact, of this turn or an earlier one.
    has_made: bool,
}

impl Heard {
    async fn hear(
        &mut self,
        line: u64,
        said: Said,
        report: &mpsc::Sender<Progress>,
    ) -> Result<(), BrainError> {
        if self.end.is_some() {
            let problem = "comes after the end of the turn".to_owned();
            return Err(BrainError::Nonsense { line, problem });
        }
        match said {
            Said::End(end) => self.end = Some(end),
            Said::Progress(progress) => {
                self.waits |= super::lines::asks(&progress);
                self.has_made |= matches!(progress, Progress::Artifact { .. });
                // Nobody listens: the turn's end still counts.
                let _ = report.send(progress).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
