//! Writes a crate for a plan, asks for a review, and writes the crate again with the fixes.

mod render;

use super::{
    artifact, done, name,
    notation::ApiPlan,
    plan, plan_artifact, replies,
    reviewer::{Finding, ReviewReport},
    status,
};
use crate::brain::TurnRequest;
use patterns::turn::RequestResult;
use protocol::artifact::{Artifact, PartContent};
use render::ReviewFixes;
use serde_json::json;
use std::fmt::Write;
use wire::line::{Help, OutputLine};

const REVIEW: &str = "review";
const MAIN: &str = "src/main.rs";
const SERVER: &str = "src/server.rs";

/// First turn: a draft and a request for a review. Second turn: the result and the review.
pub(super) fn answer(request: &TurnRequest) -> Vec<OutputLine> {
    let plan = match plan(request) {
        Ok(plan) => plan,
        Err(end) => return end,
    };
    match replies(request, REVIEW).last() {
        None => draft(request, &plan),
        Some(reply) => result(request, &plan, reply),
    }
}

fn crate_files(request: &TurnRequest, plan: &ApiPlan, fixes: ReviewFixes) -> Vec<OutputLine> {
    let file = |name: &str, media_type: &str, text: String| {
        let mut file = Artifact::text(name, media_type, text);
        file.metadata.insert("builtBy".into(), json!(request.agent));
        artifact(file)
    };
    vec![
        file("Cargo.toml", "application/toml", render::CARGO.to_owned()),
        file(MAIN, "text/x-rust", render::main_rs(plan, fixes)),
        file(SERVER, "text/x-rust", render::SERVER.to_owned()),
    ]
}

fn draft(request: &TurnRequest, plan: &ApiPlan) -> Vec<OutputLine> {
    let mut lines = vec![status(format!("building {plan}")), plan_artifact(plan)];
    lines.extend(crate_files(request, plan, ReviewFixes::default()));
    lines.push(status("drafted; asking for a review"));
    let question = format!("What is wrong with this API ({plan})?");
    let artifacts = vec![MAIN.to_owned(), SERVER.to_owned()];
    lines.push(OutputLine::Help(Help { artifacts, ..Help::new(REVIEW, "capability:code-review", question) }));
    lines
}

fn result(request: &TurnRequest, plan: &ApiPlan, reply: &RequestResult) -> Vec<OutputLine> {
    let built = format!("{} built {plan}", request.agent);
    let Some(report) = report(reply) else {
        // The draft is the result.
        let note = format!("Nobody reviewed this: {}\n", reply.text);
        let mut lines = vec![artifact(Artifact::text("review.md", "text/markdown", note))];
        lines.push(done(format!("{built}; it was not reviewed")));
        return lines;
    };
    let found = |rule: &str| report.findings.iter().any(|finding| finding.rule == rule);
    let fixes = ReviewFixes {
        docs: found("missing-docs"),
        checks: found("unchecked-field"),
        tests: found("missing-tests"),
    };
    let open = report.findings.iter().filter(|finding| !is_fixed(finding)).count();
    let outcome = format!("{} found {} issues, {open} are open", report.reviewer, report.findings.len());
    let mut lines = vec![status(outcome.clone())];
    lines.extend(crate_files(request, plan, fixes));
    lines.push(artifact(Artifact::text("review.md", "text/markdown", table(&report))));
    lines.push(done(format!("{built}; {outcome}")));
    lines
}

fn is_fixed(finding: &Finding) -> bool {
    finding.file == MAIN
        && ["missing-docs", "unchecked-field", "missing-tests"].contains(&finding.rule.as_str())
}

fn report(reply: &RequestResult) -> Option<ReviewReport> {
    let report =
        reply.artifacts.iter().find(|artifact| name(artifact) == "review.json").filter(|_| reply.ok)?;
    report.parts.iter().find_map(|part| match &part.content {
        PartContent::Data(data) => serde_json::from_value(data.clone()).ok(),
        _ => None,
    })
}

fn table(report: &ReviewReport) -> String {
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
