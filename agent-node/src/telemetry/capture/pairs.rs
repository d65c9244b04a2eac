//! Credentials by their names: `password = x`, `"apiKey": "x"`, `?token=x`, `--token x`, `<secret>x</secret>`, and whatever
//! else joins a name and a value. One pass: whatever is masked is not looked at again, and whatever is kept was near.

mod beside;
mod call;
mod joint;
mod markup;
mod quoted;
mod sentence;

use super::{
    name::Says,
    value::{self, Fate, skip},
};
use joint::{fate, says};
use quoted::Within;
use std::ops::Range;

/// How far from a name in quotes the value may be that stands beside it: `{"name": "TOKEN", "value": "x"}`.
const BESIDE: usize = 120;

/// Adds where credentials stand in `text`.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    let (mut at, mut within) = (0, Within::default());
    let is_secret = is_secret(text);
    while at < text.len() {
        if !is_word(text[at]) {
            at = within.quoted(text, at, found).unwrap_or(at + 1);
            continue;
        }
        let end = text[at..].iter().position(|byte| !is_word(*byte)).map_or(text.len(), |more| at + more);
        let name = at..end;
        at = end;
        if let Some(loose) = within.loose(text, &name) {
            at = loose.end;
            found.push(loose);
            continue;
        }
        let is_data = || is_secret && [&b"data"[..], b"stringData"].contains(&&text[name.clone()]);
        let said = says(text, &name).or_else(|| is_data().then_some(Says::Credential));
        let fate = match said {
            Some(says) => {
                found.extend(call::held_against(text, &name));
                found.extend(call::piped(text, &name));
                fate(text, &name, says)
            }
            None => call::takes(text, &name),
        };
        match fate {
            Fate::Masked(range) => {
                // A quote that nothing closes on its line may have been closed by another's: what stands below is read.
                let line = text[range.clone()].iter().position(|byte| *byte == b'\n');
                let is_quoted = range.start.checked_sub(1).is_some_and(|before| {
                    b"\"'`".contains(&text[before]) && text.get(range.end) == Some(&text[before])
                });
                at = line.map_or(range.end + usize::from(is_quoted), |line| range.start + line).max(end);
                if goes_on(text, range.end) && !within.line.contains(&at) {
                    within.line = at + 1..value::line_end(text, at);
                }
                found.push(range);
            }
            Fate::Expression(from) => within.express(text, from),
            Fate::Opens(from) => within.open(text, from),
            Fate::Calls(open, others) if open >= within.call.end => {
                within.call = call::arguments(text, open, others);
            }
            Fate::Block(from) if from >= within.block.end => {
                within.block = value::leaves(text, from, &name, found)
            }
            Fate::Block(_) | Fate::Calls(..) | Fate::Kept => {}
        }
    }
}

/// Whether the text has a secret of Kubernetes, all of whose data are.
fn is_secret(text: &[u8]) -> bool {
    text.windows(6).enumerate().any(|(at, word)| {
        let before =
            || text[at.saturating_sub(12)..at].iter().rev().skip_while(|byte| b" \"':".contains(byte));
        word == b"Secret"
            && text.get(at + 6).is_none_or(|byte| !is_word(*byte))
            && before().take(4).eq(b"dnik".iter())
    })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || (0x80..0xe2).contains(&byte)
}

/// Whether an expression goes on behind a text in quotes: `"Bearer " + "x"`.
fn goes_on(text: &[u8], at: usize) -> bool {
    let next = skip(text, at, |byte| b"\"'` ".contains(&byte));
    next > at && matches!(text[next..], [b'+' | b'?', ..] | [b'|', b'|', ..])
}
