//! Credentials that a sentence or a line names and nothing joins to their name.

use super::BESIDE;
use crate::telemetry::capture::{
    name::Says,
    value::{self, Fate, Joint, Named, skip},
    word,
};
use std::ops::Range;

/// `PASSWORD 'x'`, as SQL and commands have it; an ordinary word in quotes is only being spoken of.
pub(super) fn clause(text: &[u8], at: usize, name: &Range<usize>) -> Fate {
    let word = &text[name.clone()];
    let line = value::line_before(text, name.start);
    let is_closing = line.iter().filter(|byte| **byte == text[at]).count() % 2 == 1 && text[at] == b'"';
    let is_scheme = word::is_scheme(word) && !word.eq_ignore_ascii_case(b"token");
    if is_closing || is_scheme {
        return Fate::Kept;
    }
    let is_loud = word.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    let last = line.trim_ascii_end().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let is_sql = ["login", "with", "encrypted", "unencrypted", "set", "role", "identified"]
        .iter()
        .any(|word| last.eq_ignore_ascii_case(word.as_bytes()));
    // What compilers say of their own tokens.
    let is_wrong = ["unexpected", "invalid", "unknown", "expected", "illegal", "reserved", "bad", "a"];
    let is_of_language = word.eq_ignore_ascii_case(b"token")
        && is_wrong.iter().any(|wrong| last.eq_ignore_ascii_case(wrong.as_bytes()));
    let is_said = is_loud || is_sql || !is_of_language;
    let said = Named { name: name.clone(), says: Says::Credential, joint: Joint::Quoted, is_quoted: false };
    let fate = value::of(text, at, &said);
    let said = if let Fate::Masked(range) = &fate { &text[range.clone()] } else { b"" };
    let is_told = word::is_plain(said) && !is_said || word::is_common(said) && !is_loud && !is_sql;
    if is_told { Fate::Kept } else { fate }
}

/// Whether a setting begins a line whose one other word is a credential: `requirepass x`, `ENV TOKEN x`.
pub(super) fn begun(text: &[u8], name: &Range<usize>, at: usize) -> bool {
    let line = value::line_before(text, name.start).trim_ascii();
    let end = skip(text, at, |byte| !b"\n\r\"".contains(&byte));
    let said = text[at..end].trim_ascii();
    let is_one = !said.is_empty() && !said.contains(&b' ');
    let word = &text[name.clone()];
    let is_setting = [&b"requirepass"[..], b"masterauth", b"rootpw", b"bindpw"].contains(&word);
    let is_code = said.iter().any(|byte| b"(){}[];,:=.".contains(byte));
    let is_strange = line.is_empty() && !word::is_plain(said) && !is_code;
    let setters = [&b"setx"[..], b"setenv", b"set -x", b"set -gx", b"--arg"];
    let is_set = setters.iter().any(|setter| line.ends_with(setter))
        || [&b"config set "[..], b"configure set "].iter().any(|set| {
            line.windows(set.len()).any(|part| part == *set) || line.ends_with(set.trim_ascii_end())
        });
    is_set && !said.is_empty()
        || is_one && (line.eq_ignore_ascii_case(b"env") || line.is_empty() && is_setting || is_strange)
}

/// `password (x)`: what stands in brackets behind a name, if that is one word and no ordinary one.
pub(super) fn in_brackets(text: &[u8], at: usize, named: &Named) -> Fate {
    let says = named.says;
    let end = skip(text, at + 1, |byte| !b")]\n".contains(&byte));
    // Whose or which it is: `password (for bob): x`, `password [prod]: x`.
    let sign = skip(text, (end + 1).min(text.len()), |byte| byte == b' ');
    if matches!(text[end..], [b')' | b']', ..]) && matches!(text[sign..], [b':' | b'=', b' ', ..]) {
        return value::of(text, sign + 1, named);
    }
    let inner = &text[at + 1..end];
    let said = inner.trim_ascii();
    let is_word = !said.is_empty()
        && !said.iter().any(|byte| b" \"'`(,".contains(byte))
        && said.split(|byte| *byte == b'=').nth(1).is_none_or(<[u8]>::is_empty)
        && text.get(end) == Some(&b')');
    let is_told = word::is_common(said)
        || word::is_type(said)
        || word::is_known_name(said)
        || word::is_harmless(said)
        || word::is_scheme(said)
        || said.iter().all(u8::is_ascii_digit) && said.len() < 4
        || says == Says::Several && word::is_plain(said);
    let is_perhaps = says == Says::Perhaps && word::is_plain(said);
    if is_word && !is_told && !is_perhaps { Fate::Masked(at + 1..end) } else { Fate::Kept }
}

/// Whether the name is all there is on its line.
pub(super) fn stands_alone(text: &[u8], name: &Range<usize>) -> bool {
    let before = &text[..name.start];
    before
        .iter()
        .rev()
        .take(BESIDE)
        .take_while(|byte| !b"\n\"".contains(byte))
        .all(|byte| b" \t#*-".contains(byte))
}

/// A line with one word that no dictionary holds, below a line with the name.
pub(super) fn alone(text: &[u8], at: usize) -> Fate {
    let from = skip(text, at, |byte| byte.is_ascii_whitespace());
    let end = value::line_end(text, from);
    let line = text[from..end].trim_ascii();
    let is_word = !line.is_empty()
        && line.len() <= BESIDE
        && !line.iter().any(|byte| b" \t:=<>(){}[]|\"'`".contains(byte));
    if is_word && !word::is_plain(word::without(line, b'.')) { Fate::Masked(from..end) } else { Fate::Kept }
}

/// `the password is hunter2`, `password for bob: x`, `login bob password x`: the word that a sentence says it is, if that
/// looks like one.
pub(super) fn prose(text: &[u8], at: usize, named: &Named) -> Fate {
    let word_at = |from: usize| {
        from..skip(text, from, |byte| !byte.is_ascii_whitespace() && !b",;\"'`<>()".contains(&byte))
    };
    let first = word_at(at);
    let is_for = [&b"for"[..], b"of"].iter().any(|word| text[first.clone()].eq_ignore_ascii_case(word));
    let whose = word_at(skip(text, first.end, |byte| byte == b' '));
    let sign = skip(text, whose.end, |byte| byte == b' ');
    if is_for && matches!(text[sign..], [b'=', other, ..] if other != b'=') {
        return value::of(text, sign + 1, &Named { joint: Joint::Equals, ..named.clone() });
    }
    if is_for && text[whose.clone()].ends_with(b":") {
        return value::of(text, whose.end, named);
    }
    let before = &text[named.name.start.saturating_sub(BESIDE / 2)..named.name.start];
    let mut words = before.trim_ascii_end().rsplit(|byte| byte.is_ascii_whitespace());
    if words.by_ref().filter(|word| !word.is_empty()).skip(1).step_by(2).take(2).any(|word| word == b"login")
    {
        return Fate::Masked(first);
    }
    let is_saying = |word: &[u8]| SAYS_SO.iter().any(|says| word.eq_ignore_ascii_case(says));
    let mut first = first;
    // Whose it is, or where it is for: `the password for bob on the server is x`.
    for _ in 0..6 {
        let word = &text[first.clone()];
        let after = skip(text, first.end, |byte| byte == b' ');
        if is_saying(word)
            || word.is_empty()
            || after == first.end
            || !word.is_ascii()
            || first.end > at + BESIDE
        {
            break;
        }
        first = word_at(after);
    }
    // What was done to it comes between: `the password was changed to x`.
    for _ in 0..3 {
        let done = word_at(skip(text, first.end, |byte| byte == b' '));
        let then = word_at(skip(text, done.end, |byte| byte == b' '));
        let is_done = word::is_common(&text[done.clone()]) && is_saying(&text[then.clone()]);
        if !is_saying(&text[first.clone()]) || !is_done || then.start == done.end {
            break;
        }
        first = then;
    }
    let says_so = is_saying(&text[first.clone()]);
    let first = if says_so { first } else { word_at(at) };
    let next = if says_so { skip(text, first.end, |byte| byte == b' ') } else { at };
    if says_so && matches!(text.get(next), Some(b'"' | b'\'' | b'`')) {
        let said = Named { name: at..at, says: Says::Credential, joint: Joint::Quoted, is_quoted: false };
        return value::of(text, next, &said);
    }
    if text[first.clone()].ends_with(b":") && says_so && named.says != Says::Perhaps {
        return value::of(text, next, named);
    }
    let said = word_at(next);
    let word = said_of(&text[said.clone()]);
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let name = &text[named.name.clone()];
    let is_code =
        [&b"pin"[..], b"otp", b"passcode", b"totp"].iter().any(|code| name.eq_ignore_ascii_case(code));
    let is_short = [&b"pwd"[..], b"pw"].iter().any(|short| name.eq_ignore_ascii_case(short));
    let is_long = digits >= 6 && digits == word.len();
    let is_number = (is_code || says_so && (named.says == Says::Perhaps || is_long)) && digits >= 4;
    let is_last = [&b"is"[..], b"was"].iter().any(|is| text[first.clone()].eq_ignore_ascii_case(is))
        && first.start == at
        && named.says == Says::Credential
        && matches!(
            text[said.start + word.len()..],
            [] | [b'.' | b'!' | b',' | b';' | b'\n' | b'"' | b')', ..]
        )
        && is_unusual(word);
    let is_secret = is_number
        || is_last
        || word::is_mixed(word)
            && (says_so || word.len() >= 8 && (!word.contains(&b'-') || is_tangled(word)))
        || says_so && is_strange(word)
        || is_short
            && word.len() > 3
            && word[0].is_ascii_alphanumeric()
            && !word::is_common(word)
            && !word.contains(&b'=');
    // `from x to y`
    let end = said.start + word.len();
    let other = text[end..].strip_prefix(b" to ").map(|_| word_at(end + 4));
    let other = other.filter(|other| word::is_mixed(said_of(&text[other.clone()])));
    let end = other.map_or(end, |other| other.start + said_of(&text[other.clone()]).len());
    if is_secret { Fate::Masked(said.start..end) } else { Fate::Kept }
}

/// What a sentence says with that a credential comes next.
const SAYS_SO: &[&[u8]] = &[
    b"is",
    b"was",
    b"is:",
    b"are",
    b"of",
    b"to",
    b"are:",
    b"be",
    b"to:",
    b"from",
    b"-",
    "–".as_bytes(),
    "—".as_bytes(),
];

/// A word without the stop or mark that ends its sentence.
fn said_of(word: &[u8]) -> &[u8] {
    match word {
        [before @ .., b'.' | b'!' | b'?'] if !before.is_empty() => before,
        _ => word,
    }
}

/// Whether letters, digits and signs are mixed in `word` as people mix them where they are made to.
fn is_strange(word: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| word.iter().any(is);
    let is_of_text =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-./'_~*[]{}$%:+=&<>".contains(byte) || *byte >= 0x80;
    word.len() >= 6 && has(u8::is_ascii_alphabetic) && (!word.iter().all(is_of_text) || is_pair(word))
}

/// Whether letters of both sizes and digits are mixed in `word`.
fn is_tangled(word: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| word.iter().any(is);
    has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit)
}

/// `bob:x`, where both are words.
fn is_pair(word: &[u8]) -> bool {
    let mut parts = word.split(|byte| *byte == b':');
    let is_part =
        |part: Option<&[u8]>| part.is_some_and(|part| part.len() > 1 && part[0].is_ascii_alphabetic());
    is_part(parts.next()) && is_part(parts.next()) && parts.next().is_none()
}

/// Whether `word` is one that sentences about credentials don't end in: neither common nor what has been done to one.
fn is_unusual(word: &[u8]) -> bool {
    let ends = ["ed", "ing", "ly", "en", "able", "less", "ive", "ory", "al"];
    let is_done = ends.iter().any(|end| word.ends_with(end.as_bytes()));
    let is_plain = word.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-');
    word.len() >= 4 && is_plain && !is_done && !word.split(|byte| *byte == b'-').all(word::is_common)
}

/// Where what is assigned begins if a type stands between a name and that: `var password string = "x"`.
pub(super) fn typed(text: &[u8], at: usize) -> Option<usize> {
    let end = skip(text, at, |byte| byte.is_ascii_alphanumeric());
    let next = skip(text, end, |byte| byte == b' ' || byte == b'(' || byte == b')' || byte.is_ascii_digit());
    let is_assigned = matches!(text[next..], [b'=', other, ..] if other != b'=' && other != b'>');
    (word::is_type(&text[at..end]) && is_assigned).then_some(next + 1)
}
