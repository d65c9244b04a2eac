//! Reviews Rust code line by line. The rules match text and do not parse Rust.

use super::{artifact, artifacts, done, failed, name, request_text};
use crate::brain::TurnRequest;
use protocol::{
    artifact::{Artifact, Part, PartContent},
    ids::AgentId,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use wire::line::OutputLine;

const MAX_FINDINGS: usize = 200;

/// The content of `review.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReviewReport {
    pub(super) reviewer: AgentId,
    pub(super) findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) rule: String,
    pub(super) message: String,
}

/// Reviews the attached Rust files and the code between ``` fences in the text.
pub(super) fn answer(request: &TurnRequest) -> Vec<OutputLine> {
    let attached = artifacts(request).iter().filter(|artifact| name(artifact).ends_with(".rs"));
    let mut files: Vec<_> =
        attached.map(|artifact| (name(artifact).to_owned(), artifact.as_text())).collect();
    let text = request_text(request);
    let fenced = text.split("```").skip(1).step_by(2);
    files.extend(fenced.map(|block| ("code.rs".to_owned(), block.to_owned())));
    if files.is_empty() {
        return vec![failed("there is no code to review: attach .rs files, or send it between ``` fences")];
    }
    let findings = review(&files);
    let lines: usize = files.iter().map(|(_, text)| text.lines().count()).sum();
    let summary = format!("read {lines} lines, found {} issues", findings.len());
    let report = json!(ReviewReport { reviewer: request.agent.clone(), findings });
    let part = Part { media_type: Some("application/json".into()), ..Part::new(PartContent::Data(report)) };
    let report = Artifact { parts: vec![part], ..Artifact::text("review.json", "application/json", "") };
    vec![artifact(report), done(summary)]
}

/// The findings in `files` (name, text), ordered by file and line.
pub(super) fn review(files: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in files {
        let mut find = |line: usize, rule: &str, message: String| {
            findings.push(Finding { file: file.clone(), line, rule: rule.to_owned(), message });
        };
        review_lines(text, &mut find);
        unchecked_fields(text, &mut find);
    }
    let all: String = files.iter().map(|(_, text)| text.as_str()).collect();
    let mut missing = |rule: &str, message: &str| {
        let file = files.first().map(|(file, _)| file.clone()).unwrap_or_default();
        findings.push(Finding { file, line: 1, rule: rule.to_owned(), message: message.to_owned() });
    };
    if all.contains("fn ") && !all.contains("#[test]") {
        missing("missing-tests", "nothing is tested");
    }
    let has_routes = ["\"GET\"", "#[get(", ".route("].iter().any(|mark| all.contains(mark));
    if has_routes && !["404", "NotFound", "NOT_FOUND"].iter().any(|mark| all.contains(mark)) {
        missing("missing-not-found", "no route answers 404 for what does not exist");
    }
    findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    findings.truncate(MAX_FINDINGS);
    findings
}

/// The lines outside of tests and comments, numbered from 1.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
    code.map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn review_lines(text: &str, find: &mut impl FnMut(usize, &str, String)) {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    for (number, line) in code(text) {
        if let Some(call) =
            [".unwrap()", ".expect(", "panic!(", "todo!("].iter().find(|call| line.contains(**call))
        {
            find(number, "panic", format!("`{call}` ends the thread: return an error instead"));
        }
        let (assigned, value) = line.split_once('=').unwrap_or_default();
        let assigned = assigned.to_lowercase();
        if let Some(word) =
            ["password", "secret", "token", "api_key"].iter().find(|word| assigned.contains(**word))
            && value.trim_start().starts_with('"')
        {
            find(number, "secret", format!("a {word} is in the code: read it from the environment"));
        }
        let above = lines[..number - 1].iter().rev().find(|line| !line.starts_with("#["));
        let is_documented = above.is_some_and(|above| above.starts_with("///"));
        if let (Some(item), false) = (documentable(line), is_documented) {
            find(number, "missing-docs", format!("`{item}` has no doc comment"));
        }
    }
}

/// The name of the type or the public function that begins in `line`.
fn documentable(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let public = line.strip_prefix("pub ");
    let types = ["struct ", "enum ", "trait "];
    let item = types.iter().find_map(|kind| public.unwrap_or(line).strip_prefix(kind));
    let item = item.or_else(|| public?.strip_prefix("fn "))?;
    item.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Reports text fields of deserialised structs that no `impl` of the struct uses: serde accepts any text.
fn unchecked_fields(text: &str, find: &mut impl FnMut(usize, &str, String)) {
    let (mut is_input, mut record) = (false, None);
    for (number, line) in code(text) {
        if line.contains("#[derive(") {
            is_input = line.contains("Deserialize");
        } else if line == "}" {
            (is_input, record) = (false, None);
        } else if is_input && line.contains("struct ") {
            record = documentable(line);
        } else if let (Some(record), Some((field, "String,"))) = (record, line.split_once(": ")) {
            let field = field.trim().trim_start_matches("pub ");
            if !uses_field(text, record, field) {
                let message = format!("`{field}` of `{record}` accepts any text: check it");
                find(number, "unchecked-field", message);
            }
        }
    }
}

fn uses_field(text: &str, record: &str, field: &str) -> bool {
    let is_path = |c: char| c.is_alphanumeric() || "_.#".contains(c);
    let implementations =
        text.split("\nimpl").skip(1).map(|block| block.split("\n}").next().unwrap_or_default());
    let (mine, inside) = (format!(" {record} {{"), format!("self.{field}."));
    let mut mine =
        implementations.filter(|block| block.lines().next().is_some_and(|head| head.contains(&mine)));
    mine.any(|block| block.split(|c| !is_path(c)).any(|path| format!("{path}.").starts_with(&inside)))
}
