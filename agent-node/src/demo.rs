//! The demo team: brains that plan, build and review REST APIs, without a network and without chance.
//!
//! A request is read in the notation of [`notation`]. The planner gives the plan to whoever has `implement-api`; the
//! builder writes a Rust crate, asks for a review, and writes it again with what the review asks for. The builder's
//! drafts have no checks of values, no doc comments and no tests: those rules are the reviewer's, who finds what is
//! missing by reading the code.
//!
//! Each brain is a pure function from what it is asked to what it says; [`run`] is the shell around them, and `mesh brain
//! <name>` the command. The team itself is data: [`TEAM`].

mod notation;
mod orchestrator;
mod planner;
mod rest_builder;
mod reviewer;

use crate::brain::{Ask, lines::Said};
use notation::{Plan, Unreadable};
use protocol::{
    artifact::Artifact,
    ids::{Address, Capability},
    json,
    patterns::turn::{Progress, RequestResult, TurnEnd, TurnSubject},
};
use std::{
    borrow::Cow,
    io::{BufRead, Write},
    process::ExitCode,
};

/// The demo team, in the form of a team file.
pub const TEAM: &str = include_str!("demo/team.yaml");

/// The names of the brains.
pub const BRAINS: [&str; 4] = ["planner", "rest-builder", "reviewer", "orchestrator"];

const MAX_QUESTION_BYTES: u64 = 16 << 20;

/// The id of the question for a request in the notation.
const REQUEST: &str = "request-";

/// The plan in its notation. A turn sees the answers since the last turn only, so the plan is kept as an artifact.
const PLAN: &str = "plan.txt";

/// What the brain `name` says to `ask`; `None` if there is no such brain.
///
/// It leaves signals alone: an agent that offers work or needs help also asks for it.
fn answer(name: &str, ask: &Ask) -> Option<Vec<Said>> {
    let brain = match name {
        "planner" => planner::answer,
        "rest-builder" => rest_builder::answer,
        "reviewer" => reviewer::answer,
        "orchestrator" => orchestrator::answer,
        _ => return None,
    };
    Some(match ask.prompt.about {
        TurnSubject::Signal(_) => vec![Said::End(TurnEnd::Done { message: None })],
        TurnSubject::Task { .. } | TurnSubject::Help { .. } => brain(ask),
    })
}

/// Runs the brain `name`: one question from standard input, its answer to standard output.
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
    let mut question = String::new();
    let mut input = input.take(MAX_QUESTION_BYTES);
    input.read_line(&mut question).map_err(|error| format!("reading the question: {error}"))?;
    // What peers sent is nested deeper in the question than in their messages.
    let value = json::parse(question.as_bytes(), 2 * json::MAX_DEPTH).map_err(|problem| {
        format!("expected one line of JSON, the question, on standard input: {problem}")
    })?;
    let ask: Ask = serde_json::from_value(value).map_err(|error| format!("the question: {error}"))?;
    let said = answer(name, &ask)
        .ok_or_else(|| format!("there is no brain {name:?}; there are {}", BRAINS.join(", ")))?;
    for line in said.iter().filter_map(Said::line) {
        writeln!(output, "{line}").map_err(|error| format!("writing the answer: {error}"))?;
    }
    output.flush().map_err(|error| format!("writing the answer: {error}"))
}

/// The request: the newest answer to the question for one, the plan of an earlier turn, or what the task or the peer says.
fn request(ask: &Ask) -> Cow<'_, str> {
    let plan = ask.prompt.produced.iter().find(|artifact| name(artifact) == PLAN);
    match (replies(ask, REQUEST).last(), plan, &ask.prompt.about) {
        (Some(reply), _, _) => reply.text.as_str().into(),
        (None, Some(plan), _) => plan.as_text().into(),
        (None, None, TurnSubject::Task { description, .. }) => description.into(),
        (None, None, TurnSubject::Help { question, .. }) => question.into(),
        (None, None, TurnSubject::Signal(_)) => "".into(),
    }
}

/// The plan that the request describes. The error is the turn's end: a question if nothing is named, else a failure.
fn plan(ask: &Ask) -> Result<Plan, Vec<Said>> {
    if let TurnSubject::Help { .. } = ask.prompt.about {
        return Err(vec![failed("this takes a task, not a question")]);
    }
    notation::read(&request(ask)).map_err(|unreadable| match unreadable {
        Unreadable::NothingNamed => vec![question(ask, format!("What shall I build? {}", notation::usage()))],
        Unreadable::Invalid(problem) => vec![failed(format!("{problem}. {}", notation::usage()))],
    })
}

fn artifacts(ask: &Ask) -> &[Artifact] {
    match &ask.prompt.about {
        TurnSubject::Task { artifacts, .. } | TurnSubject::Help { artifacts, .. } => artifacts,
        TurnSubject::Signal(_) => &[],
    }
}

/// The replies to what was asked under ids that begin with `prefix`, in the order in which it was asked.
fn replies<'a>(ask: &'a Ask, prefix: &'a str) -> impl DoubleEndedIterator<Item = &'a RequestResult> {
    ask.prompt.answers.iter().filter(move |reply| reply.id.starts_with(prefix))
}

fn plan_file(plan: &Plan) -> Said {
    artifact(Artifact::text(PLAN, "text/plain", format!("{plan}\n")))
}

fn name(artifact: &Artifact) -> &str {
    artifact.name.as_deref().unwrap_or(&artifact.artifact_id)
}

fn status(message: impl Into<String>) -> Said {
    Said::Progress(Progress::Status { message: message.into() })
}

fn artifact(artifact: Artifact) -> Said {
    Said::Progress(Progress::Artifact { artifact, append: false, last_chunk: true })
}

fn question(ask: &Ask, text: String) -> Said {
    Said::Progress(Progress::Question { id: format!("{REQUEST}{}", ask.prompt.turn), text, auth: false })
}

/// A task for whoever has `capability`, with the artifacts that this one came with.
fn delegate(ask: &Ask, id: String, capability: Capability, description: String) -> Said {
    let artifacts = artifacts(ask).iter().map(|artifact| artifact.artifact_id.clone()).collect();
    let to = Address::Capability(capability);
    Said::Progress(Progress::Delegate { id, to, capability: None, description, input: None, artifacts })
}

/// The result of a delegated task as this task's own.
fn pass_on(reply: &RequestResult) -> Vec<Said> {
    let mut said: Vec<Said> = reply.artifacts.iter().cloned().map(artifact).collect();
    said.push(if reply.ok { done(reply.text.clone()) } else { failed(reply.text.clone()) });
    said
}

fn done(message: impl Into<String>) -> Said {
    Said::End(TurnEnd::Done { message: Some(message.into()) })
}

fn failed(reason: impl Into<String>) -> Said {
    Said::End(TurnEnd::Failed { reason: reason.into() })
}

#[cfg(test)]
mod tests;
