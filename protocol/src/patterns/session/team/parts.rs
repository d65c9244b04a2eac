//! A text, taken apart into what it asks for. Each part is a piece of the text as it stands there.

use super::matching::{Vocabulary, stem};

/// Words that begin a question or ask for a deed.
const STARTERS: &[&str] = &[
    "am",
    "are",
    "is",
    "was",
    "will",
    "would",
    "can",
    "could",
    "do",
    "does",
    "did",
    "has",
    "have",
    "should",
    "may",
    "what",
    "when",
    "where",
    "who",
    "which",
    "how",
    "why",
    "whether",
    "if",
    "check",
    "find",
    "get",
    "give",
    "tell",
    "show",
    "list",
    "look",
    "draft",
    "write",
    "make",
    "create",
    "build",
    "plan",
    "book",
    "order",
    "buy",
    "send",
    "translate",
    "summarise",
    "summarize",
    "compute",
    "calculate",
    "compare",
    "search",
    "review",
    "test",
    "fix",
    "implement",
    "describe",
    "explain",
    "schedule",
    "reserve",
    "cancel",
    "ask",
    "let",
    "prepare",
    "suggest",
    "recommend",
    "estimate",
    "convert",
    "design",
];
/// Words that may stand before those.
const BEFORE: &[&str] = &["please", "also", "then", "and", "plus", "finally", "next", "afterwards"];

/// One word of a text.
struct Word<'a> {
    text: &'a str,
    at: usize,
    /// Whether a part may end behind it: it is not inside brackets, quotes or code.
    is_outside: bool,
    /// Whether the line ends behind it, and the next one is not indented.
    ends_line: bool,
}

/// The parts of `text`, each as it stands there: cut at the end of a sentence or line, at commas and at `and`, where a question
/// or a deed begins behind them. What asks for nothing belongs to the part before it.
pub fn split<'a>(text: &'a str, vocabulary: &Vocabulary) -> Vec<&'a str> {
    let all = words(text);
    let (mut parts, mut first) = (Vec::new(), 0);
    for (at, word) in all.iter().enumerate() {
        let is_end = at + 1 == all.len();
        let may_cut = word.is_outside
            && (word.ends_line
                || is_joiner(word.text)
                || word.text.trim_end_matches(CLOSING).ends_with(['.', '?', '!', ';', ',']));
        if is_end || may_cut && begins_one(&all[at + 1..], vocabulary) {
            parts.extend(piece(text, &all[first..=at], first > 0));
            first = at + 1;
        }
    }
    parts
}

/// What may stand behind the end of a sentence.
const CLOSING: [char; 6] = ['"', '\'', ')', ']', '}', '\u{201d}'];

/// The words between two cuts, without those that join them to the other parts.
fn piece<'a>(text: &'a str, words: &[Word<'a>], is_later: bool) -> Option<&'a str> {
    let first = words.iter().position(|word| !is_later || !is_joiner(word.text))?;
    let last = words.iter().rposition(|word| !is_joiner(word.text)).filter(|last| *last >= first)?;
    let end = words[last].at + words[last].text.len();
    let piece = text[words[first].at..end].trim_end_matches([',', ';']);
    (!piece.is_empty()).then_some(piece)
}

fn words<'a>(text: &'a str) -> Vec<Word<'a>> {
    let depths = nesting(text);
    let is_balanced = depths.last().is_none_or(|depth| *depth == 0);
    let word = |word: &'a str| {
        let at = word.as_ptr().addr() - text.as_ptr().addr();
        let after = &text[at + word.len()..];
        let space = &after[..after.len() - after.trim_start().len()];
        let is_outside = !is_balanced || depths.get(at + word.len() - 1) == Some(&0);
        Word { text: word, at, is_outside, ends_line: space.ends_with('\n') }
    };
    text.split_whitespace().map(word).collect()
}

/// How deep each byte of `text` is in brackets, quotes and code, itself included.
fn nesting(text: &str) -> Vec<u32> {
    let (mut depth, mut is_quoted, mut is_code) = (0_u32, false, false);
    let mut depths = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'`' => is_code = !is_code,
            b'"' if !is_code => is_quoted = !is_quoted,
            b'(' | b'[' | b'{' if !is_code => depth += 1,
            b')' | b']' | b'}' if !is_code => depth = depth.saturating_sub(1),
            _ => {}
        }
        depths.push(depth + u32::from(is_quoted) + u32::from(is_code));
    }
    depths
}

fn is_joiner(word: &str) -> bool {
    BEFORE.contains(&word.trim_end_matches(',').to_lowercase().as_str())
}

fn begins_one(words: &[Word<'_>], vocabulary: &Vocabulary) -> bool {
    let plain = |word: &Word<'_>| word.text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let mut words = words.iter().map(plain).skip_while(|word| BEFORE.contains(&word.as_str()));
    words.next().is_some_and(|word| STARTERS.contains(&word.as_str()) || vocabulary.is_deed(&stem(&word)))
}
