//! Identities. Each is parsed once, at the edge; inside, no plain `String` means an identity.

use serde::{Deserialize, Deserializer, Serialize, de::Visitor};
use std::{fmt, str::FromStr};

/// Why a text is no identity: names the field's rule, never echoes more than the first 80 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadId {
    what: &'static str,
    grammar: &'static str,
    got: String,
}

impl BadId {
    /// `text` is not `what`, which must match `grammar`.
    pub fn new(what: &'static str, grammar: &'static str, text: &str) -> Self {
        Self { what, grammar, got: text.chars().take(80).collect() }
    }
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must match {}, got {:?}", self.what, self.grammar, self.got)
    }
}

impl std::error::Error for BadId {}

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
                Err(BadId::new($what, $grammar, text))
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

        crate::schema_of_text!($name);
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

/// The name of one effect: which agent's, in which conversation, of which step, at which place in it.
/// It is the `messageId` of the message the effect sends, so a repeat after a crash is recognised.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId {
    /// Who performs it.
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
    /// This one agent.
    Agent(AgentId),
    /// An agent with this capability.
    Capability(Capability),
}

impl TryFrom<&str> for Address {
    type Error = BadId;
    fn try_from(text: &str) -> Result<Self, BadId> {
        match text.strip_prefix("capability:") {
            Some(name) => Capability::parse(name).map(Self::Capability),
            None => AgentId::parse(text).map(Self::Agent),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        Self::try_from(text.as_str())
    }
}

crate::schema_of_text!(Address);

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
