//! A text, taken apart into what it asks for.

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

/// The parts of `text`: cut at full stops, and at commas and `and` where a question or a deed begins behind them.
pub fn parts(text: &str, vocabulary: &Vocabulary) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for sentence in text.split(['.', '?', '!', ';', '\n']) {
        let all: Vec<&str> = sentence.split_whitespace().collect();
        let mut words: Vec<&str> = Vec::new();
        let mut begins = parts.is_empty() || begins_one(&all, vocabulary);
        for (at, word) in all.iter().enumerate() {
            let joins = BEFORE.contains(&word.to_lowercase().as_str());
            if !joins {
                words.push(word.trim_end_matches(','));
            }
            let may_cut = joins || word.ends_with(',');
            if may_cut && !words.is_empty() && begins_one(&all[at + 1..], vocabulary) {
                keep(&mut parts, &words, begins);
                words.clear();
                begins = true;
            } else if joins && !words.is_empty() && at + 1 < all.len() {
                words.push(word);
            }
        }
        keep(&mut parts, &words, begins);
    }
    parts
}

/// A piece that asks for nothing belongs to the one before it.
fn keep(parts: &mut Vec<String>, words: &[&str], begins: bool) {
    if words.is_empty() {
        return;
    }
    let piece = words.join(" ");
    match parts.last_mut() {
        Some(last) if !begins => {
            last.push_str(", ");
            last.push_str(&piece);
        }
        _ => parts.push(piece),
    }
}

fn begins_one(words: &[&str], vocabulary: &Vocabulary) -> bool {
    let plain = |word: &&str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let mut words = words.iter().map(plain).skip_while(|word| BEFORE.contains(&word.as_str()));
    words.next().is_some_and(|word| STARTERS.contains(&word.as_str()) || vocabulary.is_deed(&stem(&word)))
}
