//! The demo team: brains that do real work on the text they are sent, without a network and without chance.
//!
//! Each is a pure function from what it is asked to what it says; [`run`] is the shell around them, and `mesh brain
//! <name>` the command. The team itself is data: [`TEAM`].

mod orchestrator;
mod planner;
mod rest_builder;
mod reviewer;

mod asked;
mod spec;
mod words;

use crate::brain::{Ask, lines::Said};
use protocol::{
    artifact::{Artifact, Content, Part},
    coordination::thought::{About, Progress, TurnEnd},
    json,
};
use rest_builder::Style;
use serde_json::Value;
use std::{
    io::{BufRead, Write},
    process::ExitCode,
};

/// The demo team, in the form of a team file.
pub const TEAM: &str = include_str!("demo/team.yaml");

/// The brains there are.
pub const BRAINS: [&str; 4] = ["planner", "rest-builder", "reviewer", "orchestrator"];

/// The most a question may weigh, bytes.
const MAX_QUESTION: u64 = 16 << 20;

/// What one of the [`BRAINS`] says when it is asked; `None` if there is no such brain, or no such style of it.
///
/// Signals are left to whoever is asked: whoever needs help asks for it, too.
fn answer(name: &str, style: Option<&str>, ask: &Ask) -> Option<Vec<Said>> {
    if let (About::Signal(_), true) = (&ask.prompt.about, BRAINS.contains(&name)) {
        return Some(vec![Said::End(TurnEnd::Done { message: None })]);
    }
    match (name, style) {
        ("planner", None) => Some(planner::answer(ask)),
        ("rest-builder", style) => Some(rest_builder::answer(ask, Style::named(style)?)),
        ("reviewer", None) => Some(reviewer::answer(ask)),
        ("orchestrator", None) => Some(orchestrator::answer(ask)),
        _ => None,
    }
}

/// Runs the brain `name`: one question from standard input, its answer to standard output. `style` is
/// `thorough` (the default) or `quick`, and only the rest-builder has one.
pub fn run(name: &str, style: Option<&str>) -> ExitCode {
    match turn(name, style, std::io::stdin().lock(), std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("mesh brain {name}: {problem}");
            ExitCode::from(2)
        }
    }
}

fn turn(name: &str, style: Option<&str>, input: impl BufRead, mut output: impl Write) -> Result<(), String> {
    let mut question = String::new();
    let mut input = input.take(MAX_QUESTION);
    input.read_line(&mut question).map_err(|error| format!("reading the question: {error}"))?;
    // What peers sent stands deeper in the question than it stood in their messages.
    let value = json::parse(question.as_bytes(), 2 * json::MAX_DEPTH).map_err(|problem| {
        format!("expected one line of JSON, the question, on standard input: {problem}")
    })?;
    let ask: Ask = serde_json::from_value(value).map_err(|error| format!("the question: {error}"))?;
    let said = answer(name, style, &ask).ok_or_else(|| {
        let style = style.map(|style| format!(" in the style {style:?}")).unwrap_or_default();
        format!("there is no brain {name:?}{style}; there are {}, and rest-builder has the styles thorough and quick", BRAINS.join(", "))
    })?;
    for line in said.iter().filter_map(Said::line) {
        writeln!(output, "{line}").map_err(|error| format!("writing the answer: {error}"))?;
    }
    output.flush().map_err(|error| format!("writing the answer: {error}"))
}

fn status(message: impl Into<String>) -> Said {
    Said::Progress(Progress::Status { message: message.into() })
}

fn artifact(artifact: Artifact) -> Said {
    Said::Progress(Progress::Artifact { artifact, append: false, last_chunk: true })
}

fn data_artifact(name: &str, data: Value) -> Artifact {
    let part = Part { media_type: Some("application/json".into()), ..Part::new(Content::Data(data)) };
    Artifact { parts: vec![part], ..Artifact::text(name, "application/json", "") }
}

fn done(message: impl Into<String>) -> Said {
    Said::End(TurnEnd::Done { message: Some(message.into()) })
}

fn failed(reason: impl Into<String>) -> Said {
    Said::End(TurnEnd::Failed { reason: reason.into() })
}

#[cfg(test)]
mod tests;
