//! Identities. Each is parsed once, at the edge; inside, no plain `String` means an identity.

use serde::{Deserialize, Serialize};
use std::fmt;

pub use wire::ids::*;

/// SHA-256 of some content, as 64 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest([u8; 32]);

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// The digest of content that comes in pieces.
#[derive(Debug, Clone, Default)]
pub struct DigestOfPieces(sha2::Sha256);

impl DigestOfPieces {
    /// Adds a piece at the end.
    pub fn add(&mut self, piece: &[u8]) {
        sha2::Digest::update(&mut self.0, piece);
    }

    /// The digest of all pieces.
    pub fn finish(self) -> Digest {
        Digest(sha2::Digest::finalize(self.0).into())
    }
}

impl Digest {
    /// The digest of `content`.
    pub fn of(content: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(content).into())
    }

    /// The digest written as 64 hex digits in `text`.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        let bad = || BadId::new("a digest", "[0-9a-f]{64}", text);
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(bad());
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }

    /// Its 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Its first eight bytes as a number.
    pub fn prefix(&self) -> u64 {
        self.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Its 64 digits, as ASCII.
    pub fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        std::array::from_fn(|at| {
            let byte = self.0[at / 2];
            DIGITS[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 0x0f })]
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.hex()).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(std::str::from_utf8(&self.hex()).map_err(serde::ser::Error::custom)?)
    }
}

impl TryFrom<String> for Digest {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn in_a_column_an_id_is_as_wide_as_is_asked() {
        assert_eq!(
            format!("{:4}|{:>4}|", AgentId::parse("a").unwrap(), TaskId::parse("t-1").unwrap()),
            "a   | t-1|"
        );
    }

    #[test]
    fn traversal_and_foreign_characters_are_no_ids() {
        for bad in ["", ".", "..", "../a", "a/b", "a\0", "-a", "_a", "ä", "a b", &"x".repeat(65), "a:b"] {
            assert!(AgentId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(AgentId::parse(&"x".repeat(64)).is_ok());
    }

    proptest! {
        #[test]
        fn an_effect_id_survives_its_text(agent in "[A-Za-z0-9][A-Za-z0-9._-]{0,63}", conversation in "[a-z0-9-]{1,36}".prop_filter("head", |c| !c.starts_with('-')), step in 0u64.., index in 0u32..) {
            let id = EffectId { agent: AgentId::parse(&agent).unwrap(), conversation: ConversationId::parse(&conversation).unwrap(), step, index };
            prop_assert_eq!(EffectId::parse(id.message_id().as_str()), Some(id));
        }

        #[test]
        fn a_digest_survives_its_text(content in proptest::collection::vec(any::<u8>(), 0..64)) {
            let digest = Digest::of(&content);
            prop_assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
        }
    }
}
