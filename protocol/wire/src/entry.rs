//! Words of the entries of a space.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of entry in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// What was said in a session.
    Message,
    /// What was found out.
    Finding,
    /// What waits for a decision.
    Proposal,
    /// What was decided.
    Decision,
    /// What is remembered.
    Memory,
    /// A reference to content.
    Artifact,
}

impl EntryKind {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Message, Self::Finding, Self::Proposal, Self::Decision, Self::Memory, Self::Artifact];
}

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Little.
    Low,
    /// Neither.
    #[default]
    Medium,
    /// Much.
    High,
}

/// Who reads a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryScope {
    /// This agent only.
    Own,
    /// All members of the space.
    #[default]
    Team,
}

macro_rules! words {
    ($name:ident: $($variant:ident = $word:literal),*) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $word,)* })
            }
        }
    };
}

words!(EntryKind: Message = "message", Finding = "finding", Proposal = "proposal", Decision = "decision",
    Memory = "memory", Artifact = "artifact");
words!(Grade: Low = "low", Medium = "medium", High = "high");
words!(MemoryScope: Own = "own", Team = "team");
