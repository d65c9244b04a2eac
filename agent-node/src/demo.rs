//! The demo team: brains that plan, build and review REST APIs, without network access and without randomness.
//!
//! Requests are in the notation of [`notation`]. The planner delegates the plan to an agent with `implement-api`. The builder
//! writes a Rust crate, asks for a review, and writes the crate again with the fixes that the review asks for. Its drafts have
//! no checks of values, no doc comments and no tests; the reviewer finds that by reading the code.
//!
//! Each brain is a pure function from a request to output lines. [`run`] connects it to standard input and output for the
//! command `mesh brain <name>`. The team is data: [`TEAM`]. [`models`] is the same team with language models.

pub(crate) mod models;
mod notation;
mod orchestrator;
mod planner;
mod rest_builder;
mod reviewer;

use crate::brain::TurnRequest;
use notation::{ApiPlan, NotationError};
use patterns::turn::{PeerQuestion, RequestResult, TurnSubject, TurnTask};
use protocol::{
    artifact::Artifact,
    ids::{Address, Capability},
    json,
};
use std::{
    borrow::Cow,
    io::{BufRead, Write},
    process::ExitCode,
};
use wire::{
    line::{ArtifactLine, Delegate, OutputLine},
    question::Question,
};

/// The demo team, in the form of a team file.
pub const TEAM: &str = include_str!("demo/team.yaml");

/// The names of the brains.
pub const BRAINS: [&str; 4] = ["planner", "rest-builder", "reviewer", "orchestrator"];

const MAX_REQUEST_BYTES: u64 = 16 << 20;

/// The prefix of the ids of questions for a request in the notation.
const REQUEST: &str = "request-";

/// The artifact with the plan in its notation. A later turn reads it.
const PLAN: &str = "plan.txt";

/// The output of the brain `name` for `request`; `None` if there is no such brain.
///
/// Signals are ignored: an agent that offers work or needs help also sends a request.
fn answer(name: &str, request: &TurnRequest) -> Option<Vec<OutputLine>> {
    let brain = match name {
        "planner" => planner::answer,
        "rest-builder" => rest_builder::answer,
        "reviewer" => reviewer::answer,
        "orchestrator" => orchestrator::answer,
        _ => return None,
    };
    Some(match request.prompt.about {
        TurnSubject::Signal(_) => vec![OutputLine::Done { message: None, label: None }],
        TurnSubject::Task { .. } | TurnSubject::Help { .. } | TurnSubject::Check { .. } => brain(request),
    })
}

/// Runs the brain `name`: reads one request from standard input and writes lines to standard output.
pub fn run(name: &str) -> ExitCode {
    match turn(name, std::io::stdin().lock(), std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("mesh brain {name}: {problem}");
            ExitCode::from(2)
        }
    }
}

fn turn(name: &str, input: impl BufRead, mut output: impl Write) -> Result<(), String> {
    let mut text = String::new();
    let mut input = input.take(MAX_REQUEST_BYTES);
    input.read_line(&mut text).map_err(|error| format!("reading the question: {error}"))?;
    // Content from peers is nested deeper here than in their messages.
    let value = json::parse(text.as_bytes(), 2 * json::MAX_DEPTH).map_err(|problem| {
        format!("expected one line of JSON, the question, on standard input: {problem}")
    })?;
    let value = mesh_agent::with_content(value)?;
    let request: TurnRequest =
        serde_json::from_value(value).map_err(|error| format!("the question: {error}"))?;
    let lines = answer(name, &request)
        .ok_or_else(|| format!("there is no brain {name:?}; there are {}", BRAINS.join(", ")))?;
    for line in &lines {
        let line = serde_json::to_string(line).map_err(|error| format!("the answer: {error}"))?;
        writeln!(output, "{line}").map_err(|error| format!("writing the answer: {error}"))?;
    }
    output.flush().map_err(|error| format!("writing the answer: {error}"))
}

/// The text of the request: the newest answer to a question for it, the plan of an earlier turn, or the subject of the turn.
fn request_text(request: &TurnRequest) -> Cow<'_, str> {
    let plan = request.prompt.produced.iter().find(|artifact| name(artifact) == PLAN);
    match (replies(request, REQUEST).last(), plan, &request.prompt.about) {
        (Some(reply), _, _) => reply.text.as_str().into(),
        (None, Some(plan), _) => plan.as_text().into(),
        (None, None, TurnSubject::Task(task)) => task.description.as_str().into(),
        (None, None, TurnSubject::Help(asked)) => asked.question.as_str().into(),
        (None, None, TurnSubject::Signal(_) | TurnSubject::Check { .. }) => "".into(),
    }
}

/// The plan that the request describes. The error is the end of the turn: a question if nothing is named, else a failure.
fn plan(request: &TurnRequest) -> Result<ApiPlan, Vec<OutputLine>> {
    if let TurnSubject::Help { .. } = request.prompt.about {
        return Err(vec![failed("this takes a task, not a question")]);
    }
    notation::read(&request_text(request)).map_err(|error| match error {
        NotationError::NothingNamed => {
            vec![question(request, format!("What shall I build? {}", notation::usage()))]
        }
        NotationError::Invalid(problem) => vec![failed(format!("{problem}. {}", notation::usage()))],
    })
}

fn artifacts(request: &TurnRequest) -> &[Artifact] {
    match &request.prompt.about {
        TurnSubject::Task(TurnTask { artifacts, .. }) | TurnSubject::Help(PeerQuestion { artifacts, .. }) => {
            artifacts
        }
        TurnSubject::Signal(_) | TurnSubject::Check { .. } => &[],
    }
}

/// The replies to reports whose ids begin with `prefix`, in the order of the reports.
fn replies<'a>(
    request: &'a TurnRequest,
    prefix: &'a str,
) -> impl DoubleEndedIterator<Item = &'a RequestResult> {
    request.prompt.answers.iter().filter(move |reply| reply.id.starts_with(prefix))
}

fn plan_artifact(plan: &ApiPlan) -> OutputLine {
    artifact(Artifact::text(PLAN, "text/plain", format!("{plan}\n")))
}

fn name(artifact: &Artifact) -> &str {
    artifact.name.as_deref().unwrap_or(&artifact.artifact_id)
}

fn status(message: impl Into<String>) -> OutputLine {
    OutputLine::Status { message: message.into() }
}

fn artifact(artifact: Artifact) -> OutputLine {
    OutputLine::Artifact(Box::new(ArtifactLine { last_chunk: true, ..artifact.into() }))
}

fn question(request: &TurnRequest, text: String) -> OutputLine {
    let id = format!("{REQUEST}{}", request.prompt.turn);
    OutputLine::Question(Question::new(id, text))
}

/// A task for an agent with `capability`, with the artifacts of this request.
fn delegate(request: &TurnRequest, id: String, capability: Capability, description: String) -> OutputLine {
    let artifacts = artifacts(request).iter().map(|artifact| artifact.artifact_id.clone()).collect();
    let task = Delegate::new(id, Address::Capability(capability), description);
    OutputLine::Delegate(Delegate { artifacts, ..task })
}

/// Returns the result of a delegated task as the result of this task.
fn forward_result(reply: &RequestResult) -> Vec<OutputLine> {
    let mut lines: Vec<OutputLine> = reply.artifacts.iter().cloned().map(artifact).collect();
    lines.push(if reply.ok { done(reply.text.clone()) } else { failed(reply.text.clone()) });
    lines
}

fn done(message: impl Into<String>) -> OutputLine {
    OutputLine::Done { message: Some(message.into()), label: None }
}

fn failed(reason: impl Into<String>) -> OutputLine {
    OutputLine::Failed { reason: reason.into(), lasting: false }
}

#[cfg(test)]
mod tests;
