//! Words that a rule or a remark about a credential is made of, and names of things in code.

use std::sync::LazyLock;

/// None of them is what people make passphrases of.
const WORDS: &str = include_str!("common.txt");

/// The longest of them, bytes.
const LONGEST: usize = 16;

/// In order.
static KNOWN: LazyLock<Vec<&[u8]>> = LazyLock::new(|| {
    let mut known: Vec<_> = WORDS.split_whitespace().map(str::as_bytes).collect();
    known.sort_unstable();
    known
});

/// Whether `word` is one of them, however it is capitalised.
pub(in super::super) fn is_common(word: &[u8]) -> bool {
    let mut lower = [0; LONGEST];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    KNOWN.binary_search(&&*lower).is_ok()
}

/// Whether every word of `sentence`, two at least, is one of them or a small number: `must have 8 characters`.
pub(in super::super) fn is_rule(sentence: &[u8]) -> bool {
    let mut words = sentence.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    sentence.trim_ascii().contains(&b' ') && words.all(is_of_rule)
}

/// Whether `sentence` is a rule, or so long and most of its words are so common that it is most likely a remark.
pub(in super::super) fn is_remark(sentence: &[u8]) -> bool {
    let is_plain = |word: &[u8]| {
        word.len() <= 20
            && word.iter().all(|byte| byte.is_ascii_alphabetic() || b"-'".contains(byte) || *byte >= 0x80)
    };
    let (mut count, mut common) = (0, 0);
    for word in sentence.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()) {
        count += 1;
        match is_of_rule(word) {
            true => common += 1,
            false if is_plain(trimmed(word)) => {}
            false => return false,
        }
    }
    count > 1 && common == count || count >= 6 && common * 3 >= count * 2
}

fn is_of_rule(word: &[u8]) -> bool {
    let inner = trimmed(word);
    let inner = inner.strip_suffix(b"'s").or_else(|| inner.strip_suffix(b"s'")).unwrap_or(inner);
    let is_number = |part: &[u8]| part.len() <= 3 && part.iter().all(u8::is_ascii_digit);
    let is_part = |part: &[u8]| is_common(part) || is_number(part);
    inner.len() < 40 && (is_part(inner) || inner.split(|byte| b"-/,".contains(byte)).all(is_part))
}

/// `word` without the punctuation around it.
pub(in super::super) fn trimmed(word: &[u8]) -> &[u8] {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
    let from = word.iter().position(is_inner).unwrap_or(word.len());
    let to = word.iter().rposition(is_inner).map_or(from, |last| last + 1);
    &word[from..to]
}

/// Whether `name` is one in code that is made of such words alone, two at least: `hashed_password`, `accessToken`.
pub(in super::super) fn is_known_name(name: &[u8]) -> bool {
    let (mut from, mut count) = (0, 0);
    for at in 1..=name.len() {
        let is_border = at == name.len()
            || b"_-".contains(&name[at])
            || name[at].is_ascii_uppercase() && name[at - 1].is_ascii_lowercase();
        if !is_border {
            continue;
        }
        let word = name[from..at].trim_ascii();
        let word = word.strip_prefix(b"_").or_else(|| word.strip_prefix(b"-")).unwrap_or(word);
        if !is_common(word) {
            return false;
        }
        (from, count) = (at, count + 1);
    }
    count > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_told_from_a_passphrase() {
        for rule in [
            "must be at least 8 characters",
            "is required",
            "too short (minimum is 8 characters)",
            "The user's password.",
            "letters/digits only",
        ] {
            assert!(is_rule(rule.as_bytes()), "{rule}");
        }
        for other in ["must", "must be swordfish", "correct horse battery", "at 1234567", "is hunter2"] {
            assert!(!is_rule(other.as_bytes()), "{other}");
        }
        for name in ["hashed_password", "accessToken", "USER_TOKEN", "new-password"] {
            assert!(is_known_name(name.as_bytes()), "{name}");
        }
        for name in ["password", "swordfish_password", "mypassword", "_", ""] {
            assert!(!is_known_name(name.as_bytes()), "{name}");
        }
        assert!(WORDS.split_whitespace().all(|word| word.len() <= LONGEST));
    }
}
