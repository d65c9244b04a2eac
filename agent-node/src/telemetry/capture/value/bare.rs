//! Values without quotes: how far one goes, and whether it is one.

use super::{Fate, Joint, NEAR, Named, closing, code, line_end, of, quoted, skip, until};
use crate::telemetry::capture::{name::Says, word};
use std::ops::Range;

fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b",;\"'`<>()[]{}|&".contains(&byte)
}

/// A value without quotes.
pub(super) fn bare(text: &[u8], at: usize, named: &Named) -> Fate {
    if let Some(end) = placeholder(text, at) {
        return if code::goes_on(text, end) { Fate::Expression(end) } else { Fate::Kept };
    }
    let at = code::after_keywords(text, at);
    if let Some(opens) = code::literal(text, at) {
        return Fate::Opens(opens);
    }
    let end = until(text, at, ends_word);
    let first = &text[at..end];
    if matches!(text.get(end), Some(b'"' | b'\''))
        && first.len() <= 2
        && first.iter().all(|byte| byte.is_ascii_alphabetic() || b"#@$".contains(byte))
    {
        return quoted(text, end);
    }
    if is_call(text, at..end) {
        return Fate::Expression(end);
    }
    if is_harmless(text, at..end, named) {
        let is_more = word::is_reference(first) && code::goes_on(text, end);
        return match assigned(text, end, named) {
            Some(value) => of(text, value, &Named { joint: Joint::Equals, ..named.clone() }),
            None if is_more => Fate::Expression(end),
            None => Fate::Kept,
        };
    }
    if let Some(end) = code::end(text, &(at..end), named) {
        return match assigned(text, end, named) {
            Some(value) => of(text, value, &Named { joint: Joint::Equals, ..named.clone() }),
            None if code::goes_on(text, end) => Fate::Expression(end),
            None => Fate::Kept,
        };
    }
    let clause = clause(text, at, named);
    if [Joint::Colon, Joint::Cell].contains(&named.joint) && word::is_remark(&text[clause.clone()]) {
        return Fate::Kept;
    }
    let end = reach(text, at, end);
    if end == at {
        return Fate::Kept;
    }
    let before = named.name.start.checked_sub(1).map(|place| text[place]);
    match before {
        Some(quote @ (b'"' | b'\'' | b'`')) if !named.is_quoted => {
            let close = |from| until(text, from, |byte| byte == quote || b"\n\r".contains(&byte));
            let mut end = close(end);
            // What stands right behind a quote that closes is no letter.
            while text.get(end) == Some(&quote) && text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric) {
                end = close(end + 1);
            }
            Fate::Masked(at..end)
        }
        Some(b';') if named.joint == Joint::Equals => {
            Fate::Masked(at..until(text, end, |byte| b";\"'\n\r".contains(&byte)))
        }
        _ if named.joint == Joint::Colon
            && named.says != Says::Perhaps
            && begins_line(text, named.name.start)
            && !named.is_quoted =>
        {
            Fate::Masked(at..line_end(text, end))
        }
        _ if word::is_common(first) && named.joint == Joint::Colon && clause.end > end => {
            Fate::Masked(clause)
        }
        _ if word::is_scheme(first) => {
            let next = skip(text, end, |byte| byte == b' ');
            Fate::Masked(at..reach(text, next, until(text, next, ends_word)))
        }
        _ => {
            // A command whose argument it is: `ConvertTo-SecureString "x"`.
            let next = skip(text, end, |byte| byte == b' ');
            let is_command =
                named.joint == Joint::Equals && next > end && matches!(text.get(next), Some(b'"' | b'\''));
            Fate::Masked(at..if is_command { closing(text, next) } else { phrase(text, end, named) })
        }
    }
}

/// Where what stands for a value ends, if that is what stands there: `<token>`, `${TOKEN}`, `{{ token }}`, `$(pass show x)`.
fn placeholder(text: &[u8], at: usize) -> Option<usize> {
    let near = &text[at..text.len().min(at + NEAR)];
    let (open, close) = match near {
        [b'$', b'(', ..] => return Some(at + 1),
        [b'$', b'{', b'{', ..] => (3, &b"}}"[..]),
        [b'{', b'{', ..] => (2, &b"}}"[..]),
        [b'$', b'{', ..] => (2, &b"}"[..]),
        [b'<', ..] => (1, &b">"[..]),
        _ => return None,
    };
    let end = near.windows(close.len()).position(|part| part == close)?.max(open) + close.len();
    word::is_reference(&near[..end]).then_some(at + end)
}

/// What may be a remark in place of a value: up to the end of the line if the name began it, else of the sentence.
fn clause(text: &[u8], at: usize, named: &Named) -> Range<usize> {
    let is_line = begins_line(text, named.name.start) && !named.is_quoted;
    let near = &text[at..text.len().min(at + 2 * NEAR)];
    let is_end = |place: &usize| match near[*place] {
        b'\n' | b'\r' | b'"' | b'`' | b'{' | b'}' | b'[' | b'|' => true,
        b'.' | b',' | b';' | b')' | b':' => {
            !is_line && near.get(place + 1).is_none_or(|byte| byte.is_ascii_whitespace() || *byte == b')')
        }
        _ => false,
    };
    at..at + (0..near.len()).find(is_end).unwrap_or(near.len())
}

/// Whether the word at `place` is a function, of whose arguments one may be a credential.
fn is_call(text: &[u8], place: Range<usize>) -> bool {
    let word = &text[place.clone()];
    let is_name = word.first().is_some_and(u8::is_ascii_alphabetic)
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_:.!".contains(byte));
    let near = &text[place.end..text.len().min(place.end + NEAR)];
    let inner = &near[..near.iter().position(|byte| b")\n".contains(byte)).unwrap_or(near.len())];
    let is_path = word.windows(2).any(|two| two == b"::") || word.contains(&b'.');
    let has_text = near.len() > inner.len() && inner.contains(&b'"') || inner.contains(&b'\'');
    is_name && near.first() == Some(&b'(') && (is_path || has_text)
}

/// Whether the word at `place` is no credential, although it stands where one could.
fn is_harmless(text: &[u8], place: Range<usize>, named: &Named) -> bool {
    let (word, after) = (&text[place.clone()], text.get(place.end));
    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let is_something_else = match named.says {
        Says::Several => is_number,
        Says::Perhaps if named.is_quoted || [Joint::Equals, Joint::Flag].contains(&named.joint) => false,
        // `pass:x` is how commands are told, `pass: x` may be a sentence.
        Says::Perhaps
            if text[named.name.clone()].eq_ignore_ascii_case(b"pass")
                && named.name.end + 1 == place.start =>
        {
            false
        }
        Says::Perhaps if text[named.name.clone()].eq_ignore_ascii_case(b"pass") => {
            is_number && word.len() < 4 || word::is_common(word) || word::is_scheme(word)
        }
        Says::Perhaps => is_number && word.len() < 4 || is_spoken_of(text, place, named),
        Says::Credential | Says::Header => {
            let next = skip(text, place.end, |byte| b" |".contains(&byte));
            let is_last = text.get(next).is_none_or(|byte| b"\n\r\"".contains(byte));
            named.joint == Joint::Cell && word::is_plain(word) && (word::is_common(word) || !is_last)
        }
    };
    let is_name = word.ends_with(b":") && word::is_common(&word[..word.len() - 1]);
    is_name
        || word.is_empty() && after.is_none_or(|byte| !b"(|&".contains(byte) || *byte == b'&')
        || word::is_type(word::without(word, b'?'))
        || word.starts_with(b"--") && named.joint == Joint::Flag
        || word::is_reference(word)
        || is_something_else
}

/// Whether a word behind a name that means many things is an ordinary one: `session: keynote by Anna`, `auth: basic`. On a
/// line of their own the two are a setting.
fn is_spoken_of(text: &[u8], place: Range<usize>, named: &Named) -> bool {
    let word = word::without(&text[place.clone()], b'.');
    let is_setting = begins_line(text, named.name.start) && line_end(text, place.end) == place.end;
    word::is_scheme(word) || !is_setting && !word.contains(&b'-') && word::is_plain(word)
}

/// What is assigned to something whose type was told first: `TOKEN: &str = "…"`.
fn assigned(text: &[u8], from: usize, named: &Named) -> Option<usize> {
    if named.joint != Joint::Colon {
        return None;
    }
    let end = skip(text, from, |byte| byte.is_ascii_alphanumeric() || b" _<>&'[]?|".contains(&byte));
    let is_assigned =
        text.get(end) == Some(&b'=') && ![Some(&b'='), Some(&b'>')].contains(&text.get(end + 1));
    is_assigned.then_some(end + 1)
}

/// How far a credential goes on that has such characters in it as often end one.
fn reach(text: &[u8], at: usize, mut end: usize) -> usize {
    while let Some(byte) = text.get(end) {
        let is_special = b",;()[]{}|&>".contains(byte);
        let goes_on = text
            .get(end + 1)
            .is_some_and(|next| next.is_ascii_alphanumeric() || b"!#$%^*+-_/@~".contains(next));
        if !is_special || !goes_on || end == at && *byte == b'&' {
            break;
        }
        let next = until(text, end + 1, ends_word);
        let name = skip(text, end + 1, |byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if b",;&".contains(byte) && text.get(name).is_some_and(|byte| b"=:".contains(byte)) {
            break;
        }
        end = next;
    }
    end
}

/// Where a passphrase of plain words ends whose first one ends at `end`: `password: correct horse battery, then …`.
fn phrase(text: &[u8], mut end: usize, named: &Named) -> usize {
    while named.joint == Joint::Colon && text.get(end) == Some(&b' ') {
        let next = until(text, end + 1, ends_word);
        let said = &text[end + 1..next];
        let said = if [b'.', b'!', b'?'].contains(said.last().unwrap_or(&0)) {
            &said[..said.len() - 1]
        } else {
            said
        };
        let is_more = said.len() > 1 && said.iter().all(u8::is_ascii_lowercase) && !word::is_common(said);
        if !is_more
            || !matches!(text.get(next), None | Some(b' ' | b'\n' | b'\r' | b',' | b';' | b'"' | b'\''))
        {
            break;
        }
        end += 1 + said.len();
    }
    end
}

/// Whether `name` is all that its line has begun with, but for a list's dash, `export` and such.
fn begins_line(text: &[u8], name: usize) -> bool {
    let from = name.saturating_sub(NEAR);
    let before = &text[from..name];
    let line = before.iter().rposition(|byte| *byte == b'\n').map_or(before, |at| &before[at + 1..]);
    let line = line.trim_ascii();
    // What kind it is: `Temporary password: x`, `seed phrase: x`.
    let is_kind = line.len() < 16 && line.iter().all(u8::is_ascii_alphabetic);
    line.is_empty()
        || is_kind
        || [&b"-"[..], b"*", b"#", b"export", b"set", b"**", b"- **", b"* **"].contains(&line)
}
