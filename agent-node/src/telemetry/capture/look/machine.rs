//! Words that no one would make up: letters and digits mixed as only a machine mixes them.

use std::ops::Range;

/// A word shorter than this is not judged.
const SHORTEST: usize = 16;

/// A part of a word that is shorter says nothing.
const ODD: usize = 6;

/// Adds where such words stand in `text`.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    // Where the line after one that was nothing but such a word begins: what is wrapped goes on there, however short.
    let mut goes_on = None;
    while at < text.len() {
        if !is_of(text[at]) {
            at += 1;
            continue;
        }
        let end = at + text[at..].iter().take_while(|byte| is_of(**byte)).count();
        let word = trimmed(text, at..end);
        let is_alone = matches!(text.get(end), None | Some(b'\n' | b'\r' | b'"' | b'\''));
        if word.len() >= SHORTEST && is_made(&text[word.clone()]) || goes_on == Some(at) && is_alone {
            found.push(word);
            let blank = text[end..]
                .iter()
                .take(128)
                .take_while(|byte| !is_of(**byte) && !b":,;".contains(byte))
                .count();
            goes_on = (is_alone && end < text.len()).then_some(end + blank);
        }
        at = end;
    }
}

fn is_of(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_+/=.~-".contains(&byte)
}

fn trimmed(text: &[u8], place: Range<usize>) -> Range<usize> {
    let marks = text[place.clone()].iter().rev().take_while(|byte| b".=-".contains(byte)).count();
    place.start..place.end - marks
}

/// Whether `word` is made by a machine: a part of it is odd, or several parts mix letters and digits.
fn is_made(word: &[u8]) -> bool {
    let parts = word.split(|byte| !byte.is_ascii_alphanumeric());
    let (mut changes, mut mixed) = (0, 0);
    for part in parts.filter(|part| !part.is_empty()) {
        let seen = changes_in(part);
        if part.len() >= ODD && is_odd(part, seen) {
            return true;
        }
        changes += seen;
        mixed += usize::from(seen > 0 && part.iter().any(u8::is_ascii_digit));
    }
    mixed >= 3 || changes * 4 >= word.len()
}

/// Whether a part of a word mixes what ordinary words don't.
fn is_odd(part: &[u8], changes: usize) -> bool {
    let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == part.len() {
        return false;
    }
    if digits > 0 {
        // `sha256`, `utf8mb4`, `20240501T1030Z`, `i18n`
        let is_stamp = part.iter().all(|byte| byte.is_ascii_digit() || b"TZ".contains(byte));
        let is_short = part.len() < SHORTEST && (changes <= 2 || changes == 3 && digits <= 2);
        let is_numbered = is_short || changes == 1 && digits <= 4;
        return !is_stamp && !is_numbered;
    }
    let vowels = part.iter().filter(|byte| b"aeiouyAEIOUY".contains(byte)).count();
    let is_rough = part.len() >= SHORTEST && vowels * 6 < part.len();
    changes * 5 > part.len() && part.len() >= 12 || is_rough
}

/// How often the class changes within a part: a hump is one change, and a capital that begins a word none.
fn changes_in(part: &[u8]) -> usize {
    let is_change = |two: &[u8]| match (two[0], two[1]) {
        (a, b) if a.is_ascii_digit() != b.is_ascii_digit() => true,
        (a, b) => a.is_ascii_lowercase() && b.is_ascii_uppercase(),
    };
    part.windows(2).filter(|two| is_change(two)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_seen(text: &str) -> bool {
        let mut found = Vec::new();
        find(text.as_bytes(), &mut found);
        !found.is_empty()
    }

    #[test]
    fn what_people_write_is_told() {
        for text in [
            "rest_handler_v2_items",
            "rest-handler/src/http/v1/users_2024.rs",
            "getCombinedBudgetForTeam",
            "internationalization",
            "2024-05-01T10:30:00.123Z and 20240501T103000Z",
            "x86_64-unknown-linux-gnu",
            "opentelemetry-0.31.0-beta.4",
            "123456789012345678901234",
            "----------------------------------------",
            "SERVICE_UNAVAILABLE_RETRY_LATER",
            "sha256/base64url",
            "utf8mb4_unicode_ci",
            "README.md/CHANGELOG.md",
            "Array.prototype.includes",
        ] {
            assert!(!is_seen(text), "{text}");
        }
    }

    #[test]
    fn what_machines_write_is_seen() {
        for text in [
            "0190b5a2-7b1e-7c3d-9e4f-5a6b7c8d9e0f",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "key-3ax6xnjp29jd6fds4gc373sgvjxteol0",
            "SK0123456789abcdef0123456789abcdef",
            "d41d8cd98f00b204e9800998ecf8427e",
            "dXNlcjpwYXNzd29yZA==",
            "AbCdEfGhIjKlMnOpQrSt",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "XK4P-9QR2-LM7T-5WZ8",
        ] {
            assert!(is_seen(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_chance_makes_is_seen(text in "[A-Za-z0-9]{32,64}", hex in "[0-9a-f]{32,64}") {
            prop_assert!(is_seen(&text), "{text}");
            prop_assert!(is_seen(&hex), "{hex}");
        }
    }
}
