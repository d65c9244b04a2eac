//! Reads code and says what is wrong with it, line by line.

mod checks;
mod given;
mod source;

use super::{artifact, data_artifact, done, failed, status, words};
use crate::brain::{Ask, lines::Said};
use serde::{Deserialize, Serialize};
use serde_json::json;
use source::Source;

pub(super) use checks::public_item;

/// The most findings of one review; a file with more needs another kind of help.
const MAX_FINDINGS: usize = 200;

/// Something wrong with a line of code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) file: String,
    /// From 1.
    pub(super) line: usize,
    pub(super) severity: Severity,
    pub(super) rule: String,
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Severity {
    High,
    Medium,
    Low,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// What is wrong with `text`, a file of that name: the worst first, then by line.
pub(super) fn review(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = checks::all(&Source::new(name, text));
    findings.sort_by(|a, b| (a.severity, a.line, &a.rule).cmp(&(b.severity, b.line, &b.rule)));
    findings.truncate(MAX_FINDINGS);
    findings
}

/// Reviews whatever code came with the question, in it or beside it.
pub(super) fn answer(ask: &Ask) -> Vec<Said> {
    let files = given::files(ask);
    if files.is_empty() {
        let reason =
            "there is no code to review: send it as an artifact, as input {\"code\": …}, or in ``` fences";
        return vec![failed(reason)];
    }
    let mut findings = Vec::new();
    let mut lines = 0;
    for (name, text) in &files {
        lines += text.lines().count();
        findings.extend(review(name, text));
    }
    findings.truncate(MAX_FINDINGS);
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let counts =
        [Severity::High, Severity::Medium, Severity::Low].map(|severity| (severity, count(severity)));
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    let report = json!({
        "reviewer": ask.agent,
        "files": names,
        "lines": lines,
        "counts": { "high": counts[0].1, "medium": counts[1].1, "low": counts[2].1 },
        "findings": findings,
    });
    let summary = summary(&names, lines, &counts, &findings);
    vec![
        status(format!("read {} of {}", words::counted(lines, "line"), words::listed(&names))),
        artifact(data_artifact("review.json", report)),
        done(summary),
    ]
}

fn summary(names: &[&str], lines: usize, counts: &[(Severity, usize)], findings: &[Finding]) -> String {
    let read = format!("I read {} ({})", words::listed(names), words::counted(lines, "line"));
    let Some(worst) = findings.first() else { return format!("{read} and found nothing wrong.") };
    let counted: Vec<_> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(severity, count)| format!("{count} {}", severity.word()))
        .collect();
    let mut rules: Vec<_> = findings.iter().map(|finding| finding.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    format!(
        "{read} and found {}: {} ({}). First of all, line {} of {}: {}.",
        words::counted(findings.len(), "thing"),
        words::listed(&counted),
        rules.join(", "),
        worst.line,
        worst.file,
        worst.message
    )
}

#[cfg(test)]
mod tests;
