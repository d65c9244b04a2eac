//! The type of an entry, and how it refers to another one.

use serde::{Deserialize, Serialize};
use std::fmt;
use wire::{
    entry::EntryKind,
    line::{MemoryType, ProposalType},
};

/// The type of a proposal, a decision or a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryType {
    /// A decision about structure; reaches every brief.
    Architectural,
    /// A decision about what belongs to the work; reaches every brief.
    Scope,
    /// A decision about how the team works.
    Process,
    /// A decision about a technical detail.
    Technical,
    /// A memory that every brief of its owner begins with.
    CoreContext,
    /// A memory of something learnt.
    Learning,
    /// A memory of what works repeatedly.
    Pattern,
    /// A memory of how things stand.
    Update,
}

/// How an entry refers to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EntryLink {
    /// From a merged proposal to what it became.
    Became,
    /// From a decision or a memory to the proposal it was.
    MergedFrom,
    /// From a superseded decision to the one in force.
    SupersededBy,
    /// From an entry of a repeated run to that of the earlier one.
    RetriedFrom,
}

impl EntryType {
    /// Every type.
    pub const ALL: [Self; 8] = [
        Self::Architectural,
        Self::Scope,
        Self::Process,
        Self::Technical,
        Self::CoreContext,
        Self::Learning,
        Self::Pattern,
        Self::Update,
    ];

    /// The kind that a merged proposal of this type becomes.
    pub fn merges_to(self) -> EntryKind {
        match self {
            Self::Architectural | Self::Scope | Self::Process | Self::Technical => EntryKind::Decision,
            Self::CoreContext | Self::Learning | Self::Pattern | Self::Update => EntryKind::Memory,
        }
    }

    /// Whether a curator may merge a proposal of this type without a person.
    pub fn is_low_risk(self) -> bool {
        matches!(self, Self::Learning | Self::Pattern | Self::Update)
    }

    /// Whether an entry of `kind` may have this type.
    pub fn belongs_to(self, kind: EntryKind) -> bool {
        match kind {
            EntryKind::Proposal => self != Self::CoreContext,
            EntryKind::Decision | EntryKind::Memory => self.merges_to() == kind,
            EntryKind::Message | EntryKind::Finding | EntryKind::Artifact => false,
        }
    }
}

impl From<ProposalType> for EntryType {
    fn from(kind: ProposalType) -> Self {
        match kind {
            ProposalType::Architectural => Self::Architectural,
            ProposalType::Scope => Self::Scope,
            ProposalType::Process => Self::Process,
            ProposalType::Technical => Self::Technical,
            ProposalType::Learning => Self::Learning,
            ProposalType::Pattern => Self::Pattern,
            ProposalType::Update => Self::Update,
        }
    }
}

impl From<MemoryType> for EntryType {
    fn from(kind: MemoryType) -> Self {
        match kind {
            MemoryType::CoreContext => Self::CoreContext,
            MemoryType::Learning => Self::Learning,
            MemoryType::Pattern => Self::Pattern,
            MemoryType::Update => Self::Update,
        }
    }
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

words!(EntryType: Architectural = "architectural", Scope = "scope", Process = "process", Technical = "technical",
    CoreContext = "core-context", Learning = "learning", Pattern = "pattern", Update = "update");
