//! Turns a plan into a REST handler file in Rust, has it reviewed, and mends what was found.

mod draft;
mod mend;
mod names;
mod sample;
mod validation;

use super::{
    artifact, asked, done, failed,
    reviewer::Finding,
    spec::{self, Spec},
    status, words,
};
use crate::brain::{Ask, lines::Said};
use protocol::{
    artifact::Artifact,
    coordination::thought::{About, Progress, Reply},
    ids::{AgentId, Capability},
};
use serde_json::json;

const HANDLER: &str = "handler.rs";
const REVIEW: &str = "review";

/// How much care a builder takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Checks every field by its type and writes tests.
    Thorough,
    /// Checks that what is required is there.
    Quick,
}

impl Style {
    pub(super) fn named(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("thorough") => Some(Self::Thorough),
            Some("quick") => Some(Self::Quick),
            Some(_) => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Thorough => "thorough",
            Self::Quick => "quick",
        }
    }
}

/// First turn: a draft, and a question to a reviewer. Second turn: the draft mended, and what was made of the review.
pub(super) fn answer(ask: &Ask, style: Style) -> Vec<Said> {
    if let About::Help { .. } = ask.prompt.about {
        return vec![failed(
            "I build REST handlers from a plan; send me a task with the capability implement-api",
        )];
    }
    let Some(spec) = plan(ask) else {
        let reason = "there is nothing to implement: I found no resource in the input, the artifacts or the description. \
                      Say for example: books (title, isbn, year:int), members (name, email)";
        return vec![failed(reason)];
    };
    match asked::replies(ask, REVIEW).next() {
        None => first(ask, &spec, style),
        Some(reply) => second(ask, &spec, style, reply),
    }
}

fn plan(ask: &Ask) -> Option<Spec> {
    let given = asked::input(ask).and_then(spec::from_value);
    let attached =
        || asked::artifacts(ask).iter().filter_map(asked::data).find_map(|data| spec::from_value(&data));
    let said = || Some(spec::from_text(asked::text(ask))).filter(|spec| !spec.resources.is_empty());
    given.or_else(attached).or_else(said)
}

fn handler(ask: &Ask, spec: &Spec, style: Style, text: String, is_reviewed: bool) -> Artifact {
    let mut artifact = Artifact::text(HANDLER, "text/x-rust", text);
    let kind = if is_reviewed { "REST handlers" } else { "A first draft of the REST handlers" };
    artifact.description = Some(format!("{kind} for {}", spec.names()));
    artifact.metadata.insert("builtBy".into(), json!(ask.agent));
    artifact.metadata.insert("style".into(), json!(style.word()));
    artifact
}

fn first(ask: &Ask, spec: &Spec, style: Style) -> Vec<Said> {
    let draft = draft::file(spec, style, ask.agent.as_str());
    let lines = words::counted(draft.lines().count(), "line");
    let mut said = vec![
        status(format!("implementing {} ({})", spec.names(), style.word())),
        artifact(handler(ask, spec, style, draft, false)),
        status(format!("drafted {lines}; asking for a review")),
    ];
    if let Ok(capability) = Capability::parse("code-review") {
        let question = format!("What is wrong with this REST handler file for the {} API?", spec.title);
        let artifacts = vec![HANDLER.to_owned()];
        said.push(Said::Progress(Progress::Help { id: REVIEW.into(), capability, question, artifacts }));
    }
    said
}

fn second(ask: &Ask, spec: &Spec, style: Style, reply: &Reply) -> Vec<Said> {
    let produced = ask.prompt.produced.iter().rev().find(|artifact| asked::name(artifact) == HANDLER);
    let draft = produced.map(Artifact::as_text).filter(|text| !text.is_empty());
    let draft = draft.unwrap_or_else(|| draft::file(spec, style, ask.agent.as_str()));
    let reviewer = reviewer(reply, &ask.agent);
    let findings = if reply.ok { findings(reply) } else { None };
    let built = format!("{} built {} ({})", ask.agent, spec.names(), style.word());

    let Some(findings) = findings else {
        let why = if reply.ok { format!("{reviewer} sent no findings") } else { reply.text.clone() };
        let note = format!("# Review\n\nNobody reviewed this file: {why}\n");
        return vec![
            status("no review came; the draft stands"),
            artifact(handler(ask, spec, style, draft, false)),
            artifact(Artifact::text("review.md", "text/markdown", note)),
            done(format!("{built}; it was not reviewed: {}", words::shortened(&why, 200))),
        ];
    };
    let mended = mend::mend(&draft, &findings);
    let left = mended.left.len();
    let lines = words::counted(mended.text.lines().count(), "line");
    let outcome = match (findings.len(), left) {
        (0, _) => format!("{reviewer} found nothing wrong"),
        (found, 0) => format!("{reviewer} found {}, all mended", words::counted(found, "thing")),
        (found, left) => {
            format!(
                "{reviewer} found {}; {} mended, {left} left",
                words::counted(found, "thing"),
                found - left
            )
        }
    };
    let notes = mend::notes(&reviewer, reply, &findings, &mended);
    vec![
        status(outcome.clone()),
        artifact(handler(ask, spec, style, mended.text, true)),
        artifact(Artifact::text("review.md", "text/markdown", notes)),
        done(format!("{built} in {lines}; {outcome}")),
    ]
}

/// Who reviewed it. An answer to a question for whoever can comes through the asker's own hands; the report says whose it is.
fn reviewer(reply: &Reply, me: &AgentId) -> String {
    let from = reply.from.as_ref().filter(|from| *from != me).map(ToString::to_string);
    let noted = || {
        let reports = reply.artifacts.iter().filter_map(asked::data);
        reports
            .filter_map(|report| AgentId::parse(report.get("reviewer")?.as_str()?).ok())
            .next()
            .map(|id| id.to_string())
    };
    from.or_else(noted).unwrap_or_else(|| "a reviewer".to_owned())
}

fn findings(reply: &Reply) -> Option<Vec<Finding>> {
    let report =
        reply.artifacts.iter().filter_map(asked::data).find(|data| data.get("findings").is_some())?;
    serde_json::from_value(report.get("findings")?.clone()).ok()
}

#[cfg(test)]
mod tests;
