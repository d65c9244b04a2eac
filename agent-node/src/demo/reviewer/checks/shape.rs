//! What only several lines together show: brackets, documentation, functions.

use super::{Finding, LONG_FUNCTION, Language, Severity, Source, found};

/// Brackets that do not match.
pub(super) fn brackets(source: &Source<'_>) -> Vec<Finding> {
    let mut open: Vec<(char, usize)> = Vec::new();
    for (at, line) in source.code.iter().enumerate() {
        for c in line.chars() {
            let closed = match c {
                '(' | '[' | '{' => {
                    open.push((c, at));
                    continue;
                }
                ')' => '(',
                ']' => '[',
                '}' => '{',
                _ => continue,
            };
            match open.pop() {
                Some((opening, _)) if opening == closed => {}
                Some((opening, from)) => {
                    let message = format!("{c} closes the {opening} of line {}", from + 1);
                    return vec![found(source, at, Severity::High, "unbalanced-brackets", message)];
                }
                None => {
                    let message = format!("{c} closes nothing");
                    return vec![found(source, at, Severity::High, "unbalanced-brackets", message)];
                }
            }
        }
    }
    let unclosed = open.last().map(|(opening, at)| {
        found(source, *at, Severity::High, "unbalanced-brackets", format!("{opening} is never closed"))
    });
    unclosed.into_iter().collect()
}

/// The kind and name of the item that a line of Rust declares.
pub(in crate::demo) fn public_item(code: &str) -> Option<(&str, &str)> {
    let mut words = code.trim_start().strip_prefix("pub ")?.split_whitespace().peekable();
    while words
        .next_if(|word| matches!(*word, "async" | "const" | "unsafe" | "extern") || word.starts_with('"'))
        .is_some()
    {
        if words.peek().is_some_and(|word| word.ends_with(':')) {
            break;
        }
    }
    let kind = words.next()?;
    let is_item = matches!(kind, "fn" | "struct" | "enum" | "trait" | "type" | "mod" | "static");
    let (kind, name) = if is_item { (kind, words.next()?) } else { ("const", kind.strip_suffix(':')?) };
    let is_field = kind == "const" && !code.contains("const ");
    let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '#')).unwrap_or(name.len());
    (!is_field && end > 0).then(|| (kind, &name[..end]))
}

/// Public items without a word about them.
pub(super) fn docs(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match source.language {
        Language::Rust => {
            for (at, code) in source.code.iter().enumerate().take(source.tests_from) {
                let Some((kind, name)) = public_item(code) else { continue };
                let mut above =
                    source.lines[..at.min(source.lines.len())].iter().rev().map(|line| line.trim());
                let documented = above.find(|line| !line.starts_with("#[")).is_some_and(|line| {
                    line.starts_with("///") || line.starts_with("#![doc") || line.ends_with("*/")
                });
                if !documented {
                    findings.push(found(
                        source,
                        at,
                        Severity::Low,
                        "missing-docs",
                        format!("{kind} {name} is public and says nothing about itself"),
                    ));
                }
            }
        }
        Language::Python => {
            for (at, line) in source.lines.iter().enumerate() {
                let public = ["def ", "class "]
                    .iter()
                    .find_map(|kind| line.strip_prefix(kind))
                    .filter(|name| !name.starts_with('_'));
                let Some(name) = public.filter(|_| source.name.ends_with(".py")) else { continue };
                let next =
                    source.lines[at..].iter().skip_while(|line| !line.trim_end().ends_with(':')).nth(1);
                let documented = next.is_some_and(|line| line.trim_start().starts_with(['"', '\'']));
                if !documented {
                    let end = name.find(['(', ':']).unwrap_or(name.len());
                    findings.push(found(
                        source,
                        at,
                        Severity::Low,
                        "missing-docs",
                        format!("{} has no docstring", &name[..end]),
                    ));
                }
            }
        }
        Language::Script | Language::CLike | Language::Sql => {}
    }
    findings
}

/// Functions that are too long, and handlers that trust what they are sent.
pub(super) fn functions(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (start, end) in bodies(source) {
        let length = end - start + 1;
        if length > LONG_FUNCTION {
            let message = format!("the function has {length} lines; {LONG_FUNCTION} are enough");
            findings.push(found(source, start, Severity::Low, "long-function", message));
        }
        let body: Vec<_> = source.code[start..=end].iter().map(|line| line.to_lowercase()).collect();
        let takes = ["web::json<", "json<", "req.body", "request.json", "request.get_json", "request.form"];
        let takes_input = body.iter().any(|line| takes.iter().any(|sign| line.contains(sign)));
        let checks = ["valid", "check", "problems", "verify", "schema", "parse", "ensure"];
        let is_checked = body.iter().any(|line| checks.iter().any(|sign| line.contains(sign)));
        if takes_input && !is_checked && start < source.tests_from {
            let message = "it takes what a caller sends and never checks it";
            findings.push(found(source, start, Severity::Medium, "missing-validation", message));
        }
    }
    findings
}

/// The first and last line of each function.
fn bodies(source: &Source<'_>) -> Vec<(usize, usize)> {
    let is_python = source.language == Language::Python;
    let starts = source.code.iter().enumerate().filter(|(_, line)| {
        let trimmed = line.trim_start();
        let rust = || trimmed.starts_with("fn ") || trimmed.contains(" fn ");
        let script = || {
            trimmed.starts_with("function ")
                || trimmed.contains("function(")
                || trimmed.contains("=> {")
                || trimmed.contains(" function ")
        };
        match source.language {
            Language::Rust => rust(),
            Language::Python => trimmed.starts_with("def ") || trimmed.starts_with("async def "),
            Language::Script => script(),
            Language::CLike => {
                trimmed.ends_with(") {")
                    && !["if", "for", "while", "switch", "}"].iter().any(|word| trimmed.starts_with(word))
            }
            Language::Sql => false,
        }
    });
    // One function within another is counted with it: `from` keeps the work linear for code that nests without end.
    let mut found = Vec::new();
    let mut from = 0;
    for (start, _) in starts {
        if start < from {
            continue;
        }
        let end = if is_python { indented_until(source, start) } else { braced_until(source, start) };
        if let Some(end) = end {
            from = end + 1;
            found.push((start, end));
        }
    }
    found
}

fn indented_until(source: &Source<'_>, start: usize) -> Option<usize> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let own = indent(&source.code[start]);
    let body = source.lines.iter().enumerate().skip(start + 1).take(FAR);
    let inside = body.take_while(|(_, line)| line.trim().is_empty() || indent(line) > own);
    inside.filter(|(_, line)| !line.trim().is_empty()).map(|(at, _)| at).last()
}

/// Whoever looks further for a function's end has lost it.
const FAR: usize = 4_000;

fn braced_until(source: &Source<'_>, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut opened = false;
    for (at, line) in source.code.iter().enumerate().skip(start).take(FAR) {
        for c in line.chars() {
            match c {
                '{' => {
                    depth += 1;
                    opened = true;
                }
                '}' => depth = depth.saturating_sub(1),
                ';' if !opened => return None,
                _ => {}
            }
        }
        if opened && depth == 0 {
            return Some(at);
        }
    }
    None
}
