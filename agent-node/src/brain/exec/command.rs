//! A running command and its pipes. It is given lines on its standard input, and its output is read until the turn has ended.

use super::{
    ExecBrain, ExecMode,
    process::{self, BrainProcess},
    stderr::{StderrLines, StderrTail},
};
use crate::brain::{
    BrainError, TurnHandle, TurnRequest,
    bidding::BrainEnd,
    json_lines::{self, BrainLine, TurnLine, input_line, line_parser::LineParser},
};
use futures_util::FutureExt as _;
use patterns::turn::{Progress, TurnEnd};
use std::{collections::VecDeque, io, process::ExitStatus};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::oneshot,
    time::Instant,
};
use wire::prompt::InputLine;

pub(super) struct RunningCommand {
    process: BrainProcess,
    mode: ExecMode,
    stdin: Option<ChildStdin>,
    /// What is to be written, and how much of it is.
    input: (Vec<u8>, usize),
    stdout: Option<ChildStdout>,
    output: LineParser,
    stderr: Option<ChildStderr>,
    stderr_lines: StderrLines,
    /// Lines of standard error that were written between two turns.
    unreported: Vec<String>,
    tail: StderrTail,
    status: Option<io::Result<ExitStatus>>,
}

/// What the lines of a turn have said so far.
#[derive(Default)]
struct ExecTurnState {
    end: Option<BrainEnd>,
    /// Whether a report expects an answer.
    is_waiting: bool,
    /// The checkpoints that are not durable yet, in order.
    checkpoints: VecDeque<oneshot::Receiver<()>>,
    recorded: u64,
}

impl RunningCommand {
    /// Starts the command of `exec`, for `turn` if it takes only one.
    pub(super) fn start(exec: &ExecBrain, turn: Option<&TurnRequest>) -> Result<Self, BrainError> {
        let mut process = BrainProcess::start(exec, turn)?;
        Ok(Self {
            mode: exec.mode,
            stdin: process.stdin(),
            input: Default::default(),
            stdout: process.stdout(),
            output: LineParser::new("", exec.max_line_bytes, exec.max_output_bytes),
            stderr: process.stderr(),
            stderr_lines: StderrLines::default(),
            unreported: Vec::new(),
            tail: StderrTail::default(),
            status: None,
            process,
        })
    }

    /// Runs one turn. A process that takes several turns is left as soon as the turn has ended; one that takes only this one has
    /// `exec.linger` to exit.
    pub(super) async fn run_turn(
        &mut self,
        exec: &ExecBrain,
        prompt: &[u8],
        key: &str,
        report: &TurnHandle,
    ) -> Result<BrainEnd, BrainError> {
        self.output.begin(key);
        (self.stderr_lines, self.tail) = Default::default();
        for line in std::mem::take(&mut self.unreported) {
            report.log_stderr(line).await;
        }
        self.write_later(prompt);
        let mut state = ExecTurnState::default();
        let (mut chunk, mut error_chunk) = (vec![0; 16 * 1024], vec![0; 2 * 1024]);
        let mut kill_at: Option<Instant> = None;
        let is_worker = self.mode == ExecMode::Worker;
        while !(is_worker && state.end.is_some())
            && (self.stdout.is_some() || self.stderr.is_some() || self.status.is_none())
        {
            tokio::select! {
                biased;
                () = Self::write(&mut self.stdin, &mut self.input), if self.has_input() => {}
                read = read(&mut self.stdout, &mut chunk), if self.stdout.is_some() => {
                    match read {
                        None | Some(0) => { self.stdout = None; self.output.finish(); }
                        Some(n) => self.output.push(&chunk[..n])?,
                    }
                    // What a worker writes behind the end is no longer of the turn.
                    while !(is_worker && state.end.is_some())
                        && let Some((number, line)) = self.output.next_line()?
                    {
                        match line {
                            TurnLine::Own(line) => state.apply(number, line, report, self.mode).await?,
                            TurnLine::OfAnother { key } => report.log_stderr(json_lines::dropped(&key)).await,
                        }
                    }
                }
                read = read(&mut self.stderr, &mut error_chunk), if self.stderr.is_some() => {
                    for line in self.take_stderr(read, &error_chunk) {
                        report.log_stderr(line).await;
                    }
                }
                is_recorded = async { state.checkpoints.front_mut()?.await.ok() }, if !state.checkpoints.is_empty() => {
                    state.checkpoints.pop_front();
                    // An error means that the turn is being stopped.
                    if is_recorded.is_some() {
                        state.recorded += 1;
                        let line = InputLine::Recorded { key: key.to_owned(), checkpoints: state.recorded };
                        self.write_later(&input_line::about_turn(&line).map_err(not_serializable)?);
                    }
                }
                ended = self.process.wait(), if self.status.is_none() => self.status = Some(ended),
                () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => break,
            }
            let is_ending = state.end.is_some() || self.stdout.is_none() || self.status.is_some();
            // The input of a process that takes one turn ends with the prompt or with the turn.
            let is_over = self.mode == ExecMode::OneShot || is_ending;
            if is_over && !is_worker && !self.has_input() {
                self.stdin = None;
            }
            if is_ending && kill_at.is_none() {
                kill_at = Some(Instant::now() + exec.linger);
            }
        }
        if is_worker && self.status.is_none() && state.end.is_some() {
            self.report_stderr_at_hand(report).await;
        } else if let Some(how) = self.status.as_ref().and_then(process::failure) {
            return Err(BrainError::Died { how, stderr: self.tail.text() });
        }
        match state.end {
            Some(end) => Ok(end),
            None if state.is_waiting => Ok(BrainEnd::Turn(TurnEnd::Waiting)),
            None => Err(BrainError::NoResult { stderr: self.tail.text() }),
        }
    }

    /// Whether it can take another turn.
    pub(super) fn is_usable(&self) -> bool {
        self.mode == ExecMode::Worker
            && self.status.is_none()
            && self.stdout.is_some()
            && self.stdin.is_some()
    }

    /// Tells it that the turn `key` is stopped, and drops what it reports. Returns whether the turn has ended within `exec.linger`.
    pub(super) async fn cancel(&mut self, exec: &ExecBrain, key: &str) -> bool {
        let Ok(line) = input_line::about_turn(&InputLine::Cancel { key: key.to_owned() }) else {
            return false;
        };
        self.write_later(&line);
        let (mut chunk, mut error_chunk) = (vec![0; 16 * 1024], vec![0; 2 * 1024]);
        let ends = async {
            loop {
                loop {
                    match self.output.next_line() {
                        Ok(Some((_, TurnLine::Own(BrainLine::End(_) | BrainLine::Bid(_))))) => return true,
                        Ok(Some((_, TurnLine::Own(BrainLine::Progress(_)) | TurnLine::OfAnother { .. }))) => {
                        }
                        Ok(None) => break,
                        Err(_) => return false,
                    }
                }
                tokio::select! {
                    () = Self::write(&mut self.stdin, &mut self.input), if self.has_input() => {}
                    read = read(&mut self.stdout, &mut chunk) => {
                        let Some(n @ 1..) = read else { return false };
                        if self.output.push(&chunk[..n]).is_err() {
                            return false;
                        }
                    }
                    read = read(&mut self.stderr, &mut error_chunk), if self.stderr.is_some() => {
                        let lines = self.take_stderr(read, &error_chunk);
                        self.keep_unreported(lines);
                    }
                }
            }
        };
        tokio::time::timeout(exec.linger, ends).await.unwrap_or(false)
    }

    /// The turn has ended: what follows is not of it.
    pub(super) fn end_turn(&mut self) {
        self.output.begin("");
    }

    /// Waits between two turns. Returns why it can take none any more.
    pub(super) async fn idle(&mut self) -> String {
        let (mut chunk, mut error_chunk) = ([0; 4 * 1024], vec![0; 2 * 1024]);
        loop {
            if let Err(why) = self.drop_late_lines() {
                return why;
            }
            tokio::select! {
                biased;
                ended = self.process.wait() => {
                    let how = process::failure(&ended).unwrap_or_else(|| "exit code 0".to_owned());
                    return format!("it ended between two turns: {how}");
                }
                read = read(&mut self.stdout, &mut chunk), if self.stdout.is_some() => match read {
                    None | Some(0) => self.stdout = None,
                    Some(n) => if let Err(error) = self.output.push(&chunk[..n]) {
                        return format!("between two turns: {error}");
                    }
                },
                read = read(&mut self.stderr, &mut error_chunk), if self.stderr.is_some() => {
                    let lines = self.take_stderr(read, &error_chunk);
                    self.keep_unreported(lines);
                }
            }
        }
    }

    /// Whether it can take the next turn; not if it has written something since its last one. The error says what. What is on
    /// standard error is of the last one.
    pub(super) fn check_silence(&mut self) -> Result<(), String> {
        let mut chunk = [0; 4 * 1024];
        while let Some(Some(n @ 1..)) = read(&mut self.stderr, &mut chunk).now_or_never() {
            let lines = self.take_stderr(Some(n), &chunk);
            self.keep_unreported(lines);
        }
        while let Some(Some(n @ 1..)) = read(&mut self.stdout, &mut chunk).now_or_never() {
            self.output.push(&chunk[..n]).map_err(|error| format!("between two turns: {error}"))?;
        }
        self.drop_late_lines()?;
        if self.output.has_rest() { Err(WRITES_BETWEEN_TURNS.to_owned()) } else { Ok(()) }
    }

    /// Drops the lines between two turns that name the turn that they are of.
    fn drop_late_lines(&mut self) -> Result<(), String> {
        loop {
            match self.output.next_line() {
                Ok(None) => return Ok(()),
                Ok(Some((_, TurnLine::OfAnother { key }))) => {
                    self.keep_unreported(vec![json_lines::dropped(&key)]);
                }
                Ok(Some((_, TurnLine::Own(_)))) | Err(_) => return Err(WRITES_BETWEEN_TURNS.to_owned()),
            }
        }
    }

    /// Ends its input, and kills it if it has not exited within `exec.linger`.
    pub(super) async fn close(mut self, exec: &ExecBrain) {
        self.stdin = None;
        let _ = tokio::time::timeout(exec.linger, self.process.wait()).await;
    }

    fn has_input(&self) -> bool {
        self.stdin.is_some() && self.input.1 < self.input.0.len()
    }

    fn write_later(&mut self, line: &[u8]) {
        self.input.0.extend_from_slice(line);
    }

    /// Writes a piece of the input. A command that has closed its standard input is given no more.
    async fn write(stdin: &mut Option<ChildStdin>, (bytes, written): &mut (Vec<u8>, usize)) {
        let Some(pipe) = stdin else { return };
        match pipe.write(&bytes[*written..]).await {
            Ok(n @ 1..) => *written += n,
            Ok(0) | Err(_) => *stdin = None,
        }
        if *written >= bytes.len() {
            bytes.clear();
            *written = 0;
        }
    }

    /// The lines that `read` completes on standard error.
    fn take_stderr(&mut self, read: Option<usize>, chunk: &[u8]) -> Vec<String> {
        match read {
            None | Some(0) => {
                self.stderr = None;
                self.stderr_lines.complete().into_iter().collect()
            }
            Some(n) => {
                self.tail.push(&chunk[..n]);
                self.stderr_lines.push(&chunk[..n])
            }
        }
    }

    /// Reports what the process has written to standard error before the end of the turn.
    async fn report_stderr_at_hand(&mut self, report: &TurnHandle) {
        let mut chunk = vec![0; 2 * 1024];
        while let Some(Some(n @ 1..)) = read(&mut self.stderr, &mut chunk).now_or_never() {
            for line in self.take_stderr(Some(n), &chunk) {
                report.log_stderr(line).await;
            }
        }
    }

    fn keep_unreported(&mut self, lines: Vec<String>) {
        let room = MAX_UNREPORTED.saturating_sub(self.unreported.len());
        self.unreported.extend(lines.into_iter().take(room));
    }
}

/// Why a process that writes a line between two turns takes no more.
const WRITES_BETWEEN_TURNS: &str = "it wrote a line between two turns";

/// The most lines of standard error that wait for the next turn.
const MAX_UNREPORTED: usize = 200;

/// Reads a piece of a pipe; `None` if it is closed or fails.
async fn read<R: tokio::io::AsyncRead + Unpin>(pipe: &mut Option<R>, chunk: &mut [u8]) -> Option<usize> {
    pipe.as_mut()?.read(chunk).await.ok()
}

pub(super) fn not_serializable(error: serde_json::Error) -> BrainError {
    BrainError::NotStarted { what: error.to_string(), source: None }
}

impl ExecTurnState {
    async fn apply(
        &mut self,
        number: u64,
        line: BrainLine,
        report: &TurnHandle,
        mode: ExecMode,
    ) -> Result<(), BrainError> {
        if self.end.is_some() {
            let problem = "comes after the end of the turn".to_owned();
            return Err(BrainError::InvalidLine { line: number, problem });
        }
        match line {
            BrainLine::End(end) => self.end = Some(BrainEnd::Turn(end)),
            BrainLine::Bid(answer) => self.end = Some(BrainEnd::Bid(answer)),
            BrainLine::Progress(Progress::Checkpoint(checkpoint)) if mode != ExecMode::OneShot => {
                self.checkpoints.push_back(report.begin_checkpoint(checkpoint).await);
            }
            BrainLine::Progress(progress) => {
                self.is_waiting |= json_lines::expects_answer(&progress);
                // The end of the turn counts even if the receiver is closed.
                report.send(progress).await;
            }
        }
        Ok(())
    }
}
