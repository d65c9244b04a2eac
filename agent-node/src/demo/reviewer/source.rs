//! A file of code, taken apart as far as the checks need: what is code, what is text in quotes, what is comment.

/// The languages whose comments and strings are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    Script,
    CLike,
    Sql,
}

/// A file, its lines, and the same lines with only their code.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) language: Language,
    pub(super) lines: Vec<&'a str>,
    /// As `lines`, with what stands in strings and comments blanked. The quotes remain.
    pub(super) code: Vec<String>,
    /// As `lines`, with everything blanked but what stands in comments.
    pub(super) comments: Vec<String>,
    /// Where a test module of a Rust file begins, counted from 0.
    pub(super) tests_from: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        let language = language(name, text);
        let (code, comments) = separated(text, language);
        // `lines` drops a last empty line and carriage returns; so do the others.
        let lines: Vec<_> = text.lines().collect();
        let code: Vec<_> = code.lines().map(str::to_owned).collect();
        let tests_from = code.iter().position(|line| line.contains("#[cfg(test)]")).unwrap_or(lines.len());
        let comments = comments.lines().map(str::to_owned).collect();
        Self { name, language, lines, code, comments, tests_from }
    }
}

fn language(name: &str, text: &str) -> Language {
    match name.rsplit('.').next().unwrap_or_default() {
        "rs" => Language::Rust,
        "py" | "rb" | "sh" | "bash" | "yaml" | "yml" | "toml" => Language::Python,
        "js" | "ts" | "jsx" | "tsx" | "mjs" => Language::Script,
        "sql" => Language::Sql,
        "c" | "h" | "cpp" | "java" | "go" | "cs" | "kt" | "swift" | "php" => Language::CLike,
        _ => {
            let has = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
            if has(&["fn ", "let mut ", "impl ", "pub struct "]) {
                Language::Rust
            } else if has(&["def ", "import os", "elif ", "print("]) {
                Language::Python
            } else if has(&["function ", "const ", "=> ", "require("]) {
                Language::Script
            } else {
                Language::CLike
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum In {
    Code,
    LineComment,
    /// How deep; Rust's nest.
    BlockComment(usize),
    /// The quote that ends it, how many of it, and whether a backslash escapes.
    Text {
        quote: char,
        count: usize,
        hashes: usize,
        escapes: bool,
    },
}

fn separated(text: &str, language: Language) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::with_capacity(text.len()), String::with_capacity(text.len()));
    let mut state = In::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, taken, is_code) = step(&chars, at, state, language);
        for c in &chars[at..(at + taken).min(chars.len())] {
            let is_comment = matches!(state, In::LineComment | In::BlockComment(_))
                || matches!(next, In::LineComment | In::BlockComment(_));
            let keep = |kept: bool| if kept || c.is_whitespace() { *c } else { ' ' };
            code.push(keep(is_code));
            comments.push(keep(is_comment));
        }
        state = next;
        at += taken.max(1);
    }
    (code, comments)
}

/// The state after what stands at `at`, how many characters that is, and whether it is code.
fn step(chars: &[char], at: usize, state: In, language: Language) -> (In, usize, bool) {
    let c = chars[at];
    let follows = |text: &str| {
        text.chars().enumerate().all(|(offset, expected)| chars.get(at + offset) == Some(&expected))
    };
    match state {
        In::Code => {
            let hash_comments = language == Language::Python;
            if hash_comments && c == '#'
                || !hash_comments && language != Language::Sql && follows("//")
                || language == Language::Sql && follows("--")
            {
                return (In::LineComment, 1, false);
            }
            if !hash_comments && follows("/*") {
                return (In::BlockComment(1), 2, false);
            }
            text_start(chars, at, language).map_or((In::Code, 1, true), |(state, taken)| (state, taken, true))
        }
        In::LineComment if c == '\n' => (In::Code, 1, false),
        In::LineComment => (state, 1, false),
        In::BlockComment(depth) if follows("*/") => {
            (if depth == 1 { In::Code } else { In::BlockComment(depth - 1) }, 2, false)
        }
        In::BlockComment(depth) if language == Language::Rust && follows("/*") => {
            (In::BlockComment(depth + 1), 2, false)
        }
        In::BlockComment(_) => (state, 1, false),
        In::Text { escapes: true, .. } if c == '\\' => (state, 2, false),
        In::Text { quote, count, hashes, .. } => {
            let closes = (0..count).all(|offset| chars.get(at + offset) == Some(&quote))
                && (0..hashes).all(|offset| chars.get(at + count + offset) == Some(&'#'));
            let ends_with_line = c == '\n' && count == 1 && quote != '`' && language != Language::Rust;
            if closes {
                (In::Code, count + hashes, true)
            } else {
                (if ends_with_line { In::Code } else { state }, 1, false)
            }
        }
    }
}

fn text_start(chars: &[char], at: usize, language: Language) -> Option<(In, usize)> {
    let c = chars[at];
    let text = |count, hashes, escapes| In::Text { quote: c, count, hashes, escapes };
    match (c, language) {
        ('r', Language::Rust) if !at.checked_sub(1).is_some_and(|before| chars[before].is_alphanumeric()) => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            let quoted = chars.get(at + 1 + hashes) == Some(&'"');
            quoted.then_some((In::Text { quote: '"', count: 1, hashes, escapes: false }, hashes + 2))
        }
        ('"' | '\'', Language::Python) if chars.get(at + 1) == Some(&c) && chars.get(at + 2) == Some(&c) => {
            Some((text(3, 0, true), 3))
        }
        ('"', _) => Some((text(1, 0, true), 1)),
        // A quote in Rust begins a character, or a lifetime, which has no end.
        ('\'', Language::Rust) => {
            let is_char = chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'');
            is_char.then(|| (text(1, 0, true), 1))
        }
        ('\'', _) => Some((text(1, 0, true), 1)),
        ('`', Language::Script) => Some((text(1, 0, true), 1)),
        _ => None,
    }
}
