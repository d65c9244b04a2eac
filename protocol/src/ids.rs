//! Identities. Each is parsed once, at the edge; inside, no plain `String` means an identity.

use serde::{Deserialize, Deserializer, Serialize, de::Visitor};
use std::{fmt, str::FromStr};

/// Why a text is no identity: names the field's rule, never echoes more than the first 80 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must match {grammar}, got {got:?}")]
pub struct BadId {
    what: &'static str,
    grammar: &'static str,
    got: String,
}

const TOKEN: &str = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}";
const MESSAGE: &str = "[A-Za-z0-9][A-Za-z0-9._:-]{0,191}";

/// Which bytes an id may consist of, by what it may hold beside letters and digits. Every message has half a dozen ids,
/// and each is read byte by byte.
const fn allowed(extra: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < extra.len() {
        table[extra[at] as usize] = true;
        at += 1;
    }
    table
}

static IN_TOKENS: [bool; 256] = allowed(b"._-");
static IN_MESSAGES: [bool; 256] = allowed(b"._:-");

fn matches(text: &str, max: usize, allowed: &[bool; 256]) -> bool {
    let bytes = text.as_bytes();
    let head = bytes.first().is_some_and(u8::is_ascii_alphanumeric);
    head && bytes.len() <= max && bytes.iter().all(|byte| allowed[usize::from(*byte)])
}

/// A visitor that parses a borrowed string.
struct TextVisitor<T>(fn(&str) -> Result<T, BadId>);

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $grammar:expr, $max:literal, $allowed:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(TextVisitor(Self::parse))
            }
        }

        impl $name {
            /// The identity in `text`, or what is wrong with it.
            pub fn parse(text: &str) -> Result<Self, BadId> {
                if matches(text, $max, &$allowed) {
                    return Ok(Self(text.into()));
                }
                let got = text.chars().take(80).collect();
                Err(BadId { what: $what, grammar: $grammar, got })
            }

            /// The text it was parsed from.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                Self::parse(&text)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

id!(/** An agent of the mesh (DESIGN §4: id grammar). */ AgentId, "an agent id", TOKEN, 64, IN_TOKENS);
id!(/** One task, from its request to its end, whoever does it. */ TaskId, "a task id", TOKEN, 64, IN_TOKENS);
id!(/** The whole of one collaboration across agents: the root task's. */ ThreadId, "a thread id", TOKEN, 64, IN_TOKENS);
id!(/** A question to the owner of a task. */ QuestionId, "a question id", MESSAGE, 192, IN_MESSAGES);
id!(/** One agent's side of one run of a coordination pattern. */ ConversationId, "a conversation id", TOKEN, 64, IN_TOKENS);
id!(/** A named ability: what a skill id or one of its tags says. */ Capability, "a capability", TOKEN, 64, IN_TOKENS);
id!(/** A space of the board. */ SpaceId, "a space id", TOKEN, 64, IN_TOKENS);
id!(/** An entry of a space. */ EntryId, "an entry id", MESSAGE, 192, IN_MESSAGES);
id!(/** A stage of a session. */ StageId, "a stage id", TOKEN, 64, IN_TOKENS);
id!(/** The sender's name for one message; an agent's is the id of the effect that sent it. */ MessageId, "a message id", MESSAGE, 192, IN_MESSAGES);

/// Names that services sign with, or keep their records under: no agent may have one.
pub const RESERVED: [&str; 4] = ["registry", "board", "blackboard", "mesh"];

impl AgentId {
    /// Whether it is a service's name, compared without case, and no agent's.
    pub fn is_reserved(&self) -> bool {
        RESERVED.iter().any(|name| name.eq_ignore_ascii_case(self.as_str()))
    }
}

/// SHA-256 of some content, as 64 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest([u8; 32]);

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
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
        let bad =
            || BadId { what: "a digest", grammar: "[0-9a-f]{64}", got: text.chars().take(80).collect() };
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

/// The name of one effect: which agent's, in which conversation, of which step, at which place in it.
/// It is the `messageId` of the message the effect sends, so a repeat after a crash is recognised.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId {
    pub agent: AgentId,
    /// Whose effect it is.
    pub conversation: ConversationId,
    /// The step that decided it, from 1.
    pub step: u64,
    /// Its place among the step's effects, from 0.
    pub index: u32,
}

impl EffectId {
    /// `agent:conversation:step:index`.
    pub fn message_id(&self) -> MessageId {
        MessageId(self.to_string().into())
    }

    /// The effect a message id names, if it names one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let id = Self {
            agent: AgentId::parse(parts.next()?).ok()?,
            conversation: ConversationId::parse(parts.next()?).ok()?,
            step: parts.next()?.parse().ok()?,
            index: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(id)
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.agent, self.conversation, self.step, self.index)
    }
}

/// The recipient of a message: an agent, or any agent with a capability (`capability:<name>`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    Agent(AgentId),
    /// An agent with this capability.
    Capability(Capability),
}

impl TryFrom<String> for Address {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        match text.strip_prefix("capability:") {
            Some(name) => Capability::parse(name).map(Self::Capability),
            None => AgentId::parse(&text).map(Self::Agent),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(id) => id.fmt(f),
            Self::Capability(name) => write!(f, "capability:{name}"),
        }
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
