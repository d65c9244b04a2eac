//! The checks, each a function from a file to what it finds.

mod lines;
mod shape;

pub(in crate::demo) use shape::public_item;

use super::{
    Finding, Severity,
    source::{Language, Source},
};

/// The longest line that reads well.
pub(super) const LONG_LINE: usize = 100;
/// The longest function that fits a screen or two.
pub(super) const LONG_FUNCTION: usize = 80;

/// All there is to find.
pub(super) fn all(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in [lines::each, shape::brackets, shape::docs, shape::functions] {
        findings.extend(check(source));
    }
    findings
}

/// A finding at a line counted from 0.
fn found(
    source: &Source<'_>,
    at: usize,
    severity: Severity,
    rule: &str,
    message: impl Into<String>,
) -> Finding {
    Finding {
        file: source.name.to_owned(),
        line: at + 1,
        severity,
        rule: rule.to_owned(),
        message: message.into(),
    }
}

/// Whether `text` has `word` with nothing before or after that would make it another.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let after = text[at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}
