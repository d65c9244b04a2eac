//! Applies a review to a file, as far as that takes no judgement.

use crate::demo::{
    reviewer::{Finding, Severity, public_item},
    words::{self, a},
};
use protocol::coordination::thought::Reply;
use std::{collections::BTreeMap, fmt::Write};

/// A file after a review.
pub(super) struct Mended {
    pub(super) text: String,
    /// What takes more than a rule to mend.
    pub(super) left: Vec<Finding>,
}

/// `text` with every finding mended that can be.
pub(super) fn mend(text: &str, findings: &[Finding]) -> Mended {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the bottom up, so that no line moves before its turn; what adds lines above an item comes last at its line.
    let mut order: Vec<&Finding> = findings.iter().collect();
    order.sort_by_key(|finding| (std::cmp::Reverse(finding.line), finding.rule == "missing-docs"));
    let mut left = Vec::new();
    for finding in order {
        let is_mended = finding.line.checked_sub(1).is_some_and(|at| apply(&mut lines, at, &finding.rule));
        if !is_mended {
            left.push(finding.clone());
        }
    }
    left.reverse();
    let mut text = lines.join("\n");
    text.push('\n');
    Mended { text, left }
}

fn apply(lines: &mut Vec<String>, at: usize, rule: &str) -> bool {
    let Some(line) = lines.get(at).cloned() else { return false };
    match rule {
        "panic" => {
            let mended = line
                .replace(".lock().unwrap()", ".lock().unwrap_or_else(std::sync::PoisonError::into_inner)");
            let is_mended = mended != line;
            lines[at] = mended;
            is_mended
        }
        "trailing-whitespace" => {
            lines[at] = line.trim_end().to_owned();
            true
        }
        "long-line" => match split_signature(&line) {
            Some(split) => {
                lines.splice(at..=at, split);
                true
            }
            None => false,
        },
        "missing-docs" => match documentation(&line) {
            Some(docs) => {
                let attributes =
                    lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("#[")).count();
                let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
                lines.insert(at - attributes, format!("{indent}/// {docs}"));
                true
            }
            None => false,
        },
        _ => false,
    }
}

/// A function's signature with a parameter on each line.
fn split_signature(line: &str) -> Option<Vec<String>> {
    let (head, rest) = line.split_once('(')?;
    let (parameters, tail) = rest.rsplit_once(") ->")?;
    if !head.contains("fn ") || parameters.contains(['(', '"']) {
        return None;
    }
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    let each = parameters.split(", ").map(|parameter| format!("{indent}    {parameter},"));
    let first = format!("{head}(");
    let last = format!("{indent}) ->{tail}");
    Some(std::iter::once(first).chain(each).chain([last]).collect())
}

fn documentation(line: &str) -> Option<String> {
    let (kind, name) = public_item(line)?;
    let spoken = words::spoken(&words::snake(name)?);
    Some(match kind {
        "fn" if name == "routes" => "Every route of the API.".to_owned(),
        "fn" => match spoken.split_once(' ') {
            Some(("list", things)) => format!("Lists all {things}."),
            Some(("get", thing)) => format!("Shows {}.", a(thing)),
            Some(("create", thing)) => format!("Adds {}, unless something is wrong with it.", a(thing)),
            Some(("update", thing)) => format!("Replaces what is known of {}.", a(thing)),
            Some(("delete", thing)) => format!("Forgets {}.", a(thing)),
            Some(_) | None => return None,
        },
        "struct" if name == "Store" => "Everything the API knows.".to_owned(),
        "struct" => match spoken.strip_suffix(" input") {
            Some(thing) => format!("What a caller says of {}.", a(thing)),
            None => format!("{}, as the API keeps it.", capital(&a(&spoken))),
        },
        "type" if name == "Shared" => "What all handlers share.".to_owned(),
        _ => return None,
    })
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// The review and what came of it, for people.
pub(super) fn notes(reviewer: &str, reply: &Reply, findings: &[Finding], mended: &Mended) -> String {
    let mut notes = format!("# Review\n\n{reviewer}: {}\n", reply.text.trim());
    if findings.is_empty() {
        return notes;
    }
    notes.push_str("\n| severity | finding | lines of the draft | outcome |\n|---|---|---|---|\n");
    let mut rows: BTreeMap<(Severity, &str, bool), Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        let is_left = mended.left.contains(finding);
        rows.entry((finding.severity, &finding.rule, is_left)).or_default().push(finding);
    }
    for ((severity, rule, is_left), alike) in rows {
        let lines: Vec<_> = alike.iter().map(|finding| finding.line.to_string()).collect();
        let message = alike.first().map(|finding| finding.message.replace('|', "\\|")).unwrap_or_default();
        let more = if alike.len() > 1 { ", and the like" } else { "" };
        let outcome = if is_left { "left" } else { "mended" };
        let _ = writeln!(
            notes,
            "| {} | {rule}: {message}{more} | {} | {outcome} |",
            severity.word(),
            lines.join(", ")
        );
    }
    notes
}
