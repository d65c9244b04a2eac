//! Dotted keys that begin with their owner, and filters over them.

use std::{fmt, sync::Arc};

/// `owner.topic.token…`: at least two tokens. An id is one token with its dots escaped (`%2E`), so that no id can name another key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// The bytes that are escaped in a token.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        escaped[byte] = byte <= b' ' as usize || matches!(byte as u8, b'.' | b'%' | b'*' | b'>');
        byte += 1;
    }
    escaped
};

/// Appends `token` with dots, percent signs and filter characters escaped.
fn escape(token: &str, into: &mut String) {
    if !token.bytes().any(|byte| ESCAPED[usize::from(byte)]) {
        return into.push_str(token);
    }
    for c in token.chars() {
        match c {
            '.' => into.push_str("%2E"),
            '%' => into.push_str("%25"),
            '*' => into.push_str("%2A"),
            '>' => into.push_str("%3E"),
            '\0'..=' ' => into.push_str(&format!("%{:02X}", c as u32)),
            c => into.push(c),
        }
    }
}

/// Reverses [`escape`].
fn unescape(token: &str) -> String {
    let mut text = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(byte) => text.push(char::from(byte)),
            None => text.push('%'),
        }
        rest = rest.get(at + 3..).unwrap_or_default();
    }
    text + rest
}

impl Key {
    /// The key of these tokens; each is escaped.
    pub fn new<T: AsRef<str>>(tokens: &[T]) -> Self {
        let mut text = String::with_capacity(tokens.iter().map(|t| t.as_ref().len() + 1).sum());
        for (at, token) in tokens.iter().enumerate() {
            if at > 0 {
                text.push('.');
            }
            escape(token.as_ref(), &mut text);
        }
        Self(text.into())
    }

    /// A key from its stored text.
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The dotted text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its tokens, unescaped.
    pub fn tokens(&self) -> Vec<String> {
        self.0.split('.').map(unescape).collect()
    }

    /// The first token: the owner of the key.
    pub fn owner(&self) -> &str {
        let end = self.0.bytes().position(|byte| byte == b'.').unwrap_or(self.0.len());
        &self.0[..end]
    }

    /// The first two tokens, dotted: the owner and the kind of record.
    pub fn topic(&self) -> &str {
        let dots = self.0.bytes().enumerate().filter(|(_, byte)| *byte == b'.');
        let end = dots.map(|(at, _)| at).nth(1).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A set of keys: one key, those with one token more (`…*`), or all below a prefix (`…>`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Filter {
    Exactly(Key),
    /// This prefix with exactly one more token.
    One(Key),
    /// This prefix with at least one more token.
    Below(Key),
}

impl Filter {
    /// The prefix, or the whole key.
    pub fn key(&self) -> &Key {
        match self {
            Self::Exactly(key) | Self::One(key) | Self::Below(key) => key,
        }
    }

    /// Whether the filter admits `key`.
    pub fn admits(&self, key: &Key) -> bool {
        self.admits_text(key.as_str())
    }

    /// Whether the filter admits the key with this text.
    pub fn admits_text(&self, key: &str) -> bool {
        let below = |prefix: &Key| key.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_prefix('.'));
        match self {
            Self::Exactly(exact) => exact.as_str() == key,
            Self::One(prefix) => below(prefix).is_some_and(|rest| !rest.contains('.')),
            Self::Below(prefix) => below(prefix).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_filter_admits_exactly_its_keys() {
        let key = Key::new(&["board", "signal", "task.claimed"]);
        assert_eq!(key.as_str(), "board.signal.task%2Eclaimed");
        let prefix = Key::new(&["board", "signal"]);
        assert!(Filter::One(prefix.clone()).admits(&key) && Filter::Below(Key::new(&["board"])).admits(&key));
        assert!(!Filter::One(Key::new(&["board"])).admits(&key) && !Filter::Below(key.clone()).admits(&key));
        assert!(!Filter::Below(prefix).admits(&Key::new(&["board", "signalling", "x"])));
    }

    proptest! {
        #[test]
        fn tokens_round_trip_and_cannot_add_tokens(tokens in proptest::collection::vec("[ -~]{1,12}", 2..5)) {
            let key = Key::new(&tokens);
            prop_assert_eq!(key.tokens(), tokens.clone());
            prop_assert_eq!(key.as_str().matches('.').count(), tokens.len() - 1);
        }
    }
}
