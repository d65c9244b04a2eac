//! The process of a brain: turns from standard input, lines to standard output.

use crate::{
    Brain, End, InputLine, OutputLine,
    brain::bid_line,
    content,
    end::end_line,
    turn::{NodeLink, Turn},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    any::Any,
    io::{self, BufRead, Write},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::ExitCode,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
};

/// Takes one turn, or as a worker (`MESH_EXEC_MODE`) one after the other until the node needs the process no more.
///
/// A worker ends at once if the node ends while a turn runs: nobody takes its result.
pub fn run(brain: impl Brain) -> ExitCode {
    let input = io::BufReader::new(io::stdin());
    let ended = match std::env::var_os("MESH_EXEC_MODE") {
        Some(_) => run_many(brain, input, io::stdout(), || std::process::exit(1)),
        None => run_one(brain, input, io::stdout()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mesh-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_one(
    mut brain: impl Brain,
    mut input: impl BufRead,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let mut text = String::new();
    input.read_line(&mut text)?;
    let link = Arc::new(ProcessLink::new(output, false));
    take(&mut brain, read(&text)?, &link)
}

/// Takes turns until the input ends. `abandon` is called if it ends while a turn runs.
fn run_many(
    mut brain: impl Brain,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    abandon: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let link = Arc::new(ProcessLink::new(output, true));
    let (prompts, next) = mpsc::channel();
    let reader = link.clone();
    std::thread::spawn(move || {
        let ended = reader.read_all(input, &prompts);
        if reader.progress().key.is_some() {
            abandon();
        }
        if let Err(error) = ended {
            let _ = prompts.send(Err(error));
        }
    });
    for line in next {
        take(&mut brain, line?, &link)?;
    }
    Ok(())
}

/// A line from the node. What a prompt refers to is not yet in it.
fn read<T: DeserializeOwned>(text: &str) -> io::Result<T> {
    serde_json::from_str(text).map_err(not_readable)
}

fn not_readable(error: serde_json::Error) -> io::Error {
    io::Error::other(format!("standard input is no line of the brain protocol: {error}"))
}

/// Takes a turn, or answers a call for proposals.
fn take(brain: &mut impl Brain, line: Value, link: &Arc<ProcessLink>) -> io::Result<()> {
    let key = line["key"].as_str().unwrap_or_default().to_owned();
    let line = match content::whole(line) {
        Ok(line) => line,
        Err(reason) => {
            link.end(&key, &OutputLine::Failed { reason, lasting: false });
            return Ok(());
        }
    };
    let line = serde_json::from_value(line).map_err(not_readable)?;
    let answered = catch_unwind(AssertUnwindSafe(|| match line {
        InputLine::Turn(prompt) => Some(end_line(brain.turn(&Turn::new(*prompt, link.clone())))),
        InputLine::Cfp(call) => Some(bid_line(brain.bid(&call))),
        InputLine::Recorded { .. } | InputLine::Cancel { .. } => None,
    }));
    match answered {
        Ok(end) => end.iter().for_each(|end| link.end(&key, end)),
        Err(panic) => {
            let reason = format!("the brain panicked: {}", text_of(&*panic));
            link.end(&key, &OutputLine::Failed { reason, lasting: false });
            resume_unwind(panic);
        }
    }
    Ok(())
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Standard output, and what the node has said about the turn that runs.
struct ProcessLink {
    output: Mutex<Box<dyn Write + Send>>,
    progress: Mutex<TurnProgress>,
    changed: Condvar,
    /// Whether lines come while a turn runs.
    is_duplex: bool,
}

/// A line that names its turn.
#[derive(Serialize)]
struct KeyedLine<'a> {
    #[serde(flatten)]
    line: &'a OutputLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

#[derive(Default)]
struct TurnProgress {
    /// The key of the turn that runs, or of the call that is answered.
    key: Option<String>,
    /// How many of its checkpoints are durable.
    recorded: u64,
    is_cancelled: bool,
}

impl ProcessLink {
    fn new(output: impl Write + Send + 'static, is_duplex: bool) -> Self {
        let output: Box<dyn Write + Send> = Box::new(output);
        Self { output: Mutex::new(output), progress: Mutex::default(), changed: Condvar::new(), is_duplex }
    }

    fn progress(&self) -> MutexGuard<'_, TurnProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, key: &str) {
        *self.progress() = TurnProgress { key: Some(key.to_owned()), ..TurnProgress::default() };
    }

    /// Writes the last line of a turn. The node may send the next turn from then on, so the turn is over before.
    fn end(&self, key: &str, end: &OutputLine) {
        self.progress().key = None;
        self.emit(key, end);
    }

    /// Reads lines until the input ends, and hands on prompts.
    fn read_all(&self, input: impl BufRead, prompts: &mpsc::Sender<io::Result<Value>>) -> io::Result<()> {
        for text in input.lines() {
            let line: Value = read(&text?)?;
            if let (Some("turn" | "cfp"), Some(key)) = (line["type"].as_str(), line["key"].as_str()) {
                self.begin(key);
                let _ = prompts.send(Ok(line));
                continue;
            }
            match serde_json::from_value(line).map_err(not_readable)? {
                InputLine::Recorded { key, checkpoints } => {
                    self.change(&key, |turn| turn.recorded = checkpoints);
                }
                InputLine::Cancel { key } => self.change(&key, |turn| turn.is_cancelled = true),
                InputLine::Turn(_) | InputLine::Cfp(_) => {}
            }
        }
        Ok(())
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut TurnProgress)) {
        let mut progress = self.progress();
        if progress.key.as_deref() == Some(key) {
            change(&mut progress);
            self.changed.notify_all();
        }
    }
}

impl NodeLink for ProcessLink {
    fn emit(&self, key: &str, line: &OutputLine) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let line = KeyedLine { line, key: self.is_duplex.then_some(key) };
        let written = serde_json::to_string(&line).map_err(io::Error::from).and_then(|mut text| {
            text.push('\n');
            output.write_all(text.as_bytes())?;
            output.flush()
        });
        if let Err(error) = written {
            // Nobody reads on: the node is gone.
            eprintln!("mesh-agent: standard output: {error}");
            std::process::exit(1);
        }
    }

    fn settle(&self, checkpoints: u64) -> Result<(), End> {
        let is_open = |turn: &mut TurnProgress| turn.recorded < checkpoints && !turn.is_cancelled;
        if self.is_duplex {
            let waited = self.changed.wait_while(self.progress(), is_open);
            if waited.unwrap_or_else(PoisonError::into_inner).is_cancelled {
                return Err(End::Cancelled);
            }
        }
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        self.progress().is_cancelled
    }
}

#[cfg(test)]
mod tests;
