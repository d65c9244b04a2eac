//! Writes a crate for a plan, asks for a review, and writes it again with what the review asks for.

mod render;

use super::{
    artifact, done, name,
    notation::Plan,
    plan, plan_file, replies,
    reviewer::{Finding, Report},
    status,
};
use crate::brain::{Ask, lines::Said};
use protocol::{
    artifact::{Artifact, PartContent},
    ids::Capability,
    patterns::turn::{Progress, RequestResult},
};
use render::Extras;
use serde_json::json;
use std::fmt::Write;

const REVIEW: &str = "review";
const MAIN: &str = "src/main.rs";
const SERVER: &str = "src/server.rs";

/// First turn: a draft, and a question to a reviewer. Second turn: the result, and the review.
pub(super) fn answer(ask: &Ask) -> Vec<Said> {
    let plan = match plan(ask) {
        Ok(plan) => plan,
        Err(end) => return end,
    };
    match replies(ask, REVIEW).last() {
        None => draft(ask, &plan),
        Some(reply) => result(ask, &plan, reply),
    }
}

fn crate_files(ask: &Ask, plan: &Plan, extras: Extras) -> Vec<Said> {
    let file = |name: &str, media_type: &str, text: String| {
        let mut file = Artifact::text(name, media_type, text);
        file.metadata.insert("builtBy".into(), json!(ask.agent));
        artifact(file)
    };
    vec![
        file("Cargo.toml", "application/toml", render::CARGO.to_owned()),
        file(MAIN, "text/x-rust", render::main_rs(plan, extras)),
        file(SERVER, "text/x-rust", render::SERVER.to_owned()),
    ]
}

fn draft(ask: &Ask, plan: &Plan) -> Vec<Said> {
    let mut said = vec![status(format!("building {plan}")), plan_file(plan)];
    said.extend(crate_files(ask, plan, Extras::default()));
    said.push(status("drafted; asking for a review"));
    if let Ok(capability) = Capability::parse("code-review") {
        let question = format!("What is wrong with this API ({plan})?");
        let artifacts = vec![MAIN.to_owned(), SERVER.to_owned()];
        said.push(Said::Progress(Progress::Help { id: REVIEW.into(), capability, question, artifacts }));
    }
    said
}

fn result(ask: &Ask, plan: &Plan, reply: &RequestResult) -> Vec<Said> {
    let built = format!("{} built {plan}", ask.agent);
    let Some(report) = report(reply) else {
        // The draft is the result.
        let note = format!("Nobody reviewed this: {}\n", reply.text);
        let mut said = vec![artifact(Artifact::text("review.md", "text/markdown", note))];
        said.push(done(format!("{built}; it was not reviewed")));
        return said;
    };
    let found = |rule: &str| report.findings.iter().any(|finding| finding.rule == rule);
    let extras = Extras {
        docs: found("missing-docs"),
        checks: found("unchecked-field"),
        tests: found("missing-tests"),
    };
    let open = report.findings.iter().filter(|finding| !is_fixed(finding)).count();
    let outcome = format!("{} found {} issues, {open} are open", report.reviewer, report.findings.len());
    let mut said = vec![status(outcome.clone())];
    said.extend(crate_files(ask, plan, extras));
    said.push(artifact(Artifact::text("review.md", "text/markdown", table(&report))));
    said.push(done(format!("{built}; {outcome}")));
    said
}

/// Whether the builder can write what the finding asks for.
fn is_fixed(finding: &Finding) -> bool {
    finding.file == MAIN
        && ["missing-docs", "unchecked-field", "missing-tests"].contains(&finding.rule.as_str())
}

fn report(reply: &RequestResult) -> Option<Report> {
    let report =
        reply.artifacts.iter().find(|artifact| name(artifact) == "review.json").filter(|_| reply.ok)?;
    report.parts.iter().find_map(|part| match &part.content {
        PartContent::Data(data) => serde_json::from_value(data.clone()).ok(),
        PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
    })
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "# Review by {}\n\n| line of the draft | finding | outcome |\n|---|---|---|\n",
        report.reviewer
    );
    for finding in &report.findings {
        let outcome = if is_fixed(finding) { "fixed" } else { "open" };
        let _ = writeln!(text, "| {}:{} | {} | {outcome} |", finding.file, finding.line, finding.message);
    }
    text
}
