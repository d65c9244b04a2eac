//! The vault of an agent: what it remembers for itself in a space. The agent reads it by its briefs and searches; the person whose
//! mesh it is reads and mends it.

use super::{
    Entry, EntryDraft, EntryId, EntryKind, MemoryScope, Reader, Space, SpaceRole, SpaceVerb,
    brief::AgentKnowledge, may, may::role_in,
};
use crate::{
    ids::{AgentId, SpaceId},
    principal::{Principal, RootProof, SenderProof},
    problem::{Problem, Reason},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most files that are known of an agent in a space; the rest is not added.
pub const MAX_FILES: usize = 1_000;

/// A vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vault {
    pub agent: AgentId,
    pub space: SpaceId,
    #[serde(flatten)]
    pub knowledge: AgentKnowledge,
    /// Its memories of scope `own` in force, the newest first: insights, and those of its tasks.
    pub entries: Vec<Entry>,
}

/// What the person mends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "camelCase", deny_unknown_fields)]
pub enum VaultChange {
    /// Says otherwise what a memory says.
    Edit { id: EntryId, content: String },
    /// Takes a memory out of use.
    Archive {
        id: EntryId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Sets how much the agent knows in areas; with 0 an area is gone.
    Expertise { areas: BTreeMap<String, u64> },
    /// The agent has not analysed these files.
    Files { forget: BTreeSet<String> },
}

/// Refuses `verb` to all but the person who owns the space, with proof.
pub fn may_open_vault(reader: &Reader, space: &Space) -> Result<(), Problem> {
    may(reader, SpaceVerb::Read, None, space)?;
    let is_person = matches!(reader.principal, Principal::User(_));
    if is_person && role_in(space, &reader.principal) == Some(SpaceRole::Owner) {
        return Ok(());
    }
    let message = format!("{} opens no vault: only a person who owns the space does", reader.principal);
    Err(Problem::new(Reason::Forbidden, message))
}

/// Whether an entry is in the vault of `agent`.
pub fn is_in_vault(entry: &Entry, agent: &AgentId) -> bool {
    let is_authors =
        matches!(&entry.author, Principal::Agent(author) | Principal::Brain(author) if author == agent);
    is_authors && entry.kind == EntryKind::Memory && entry.scope == Some(MemoryScope::Own)
}

impl Entry {
    /// The memory with other words, which are `by`'s.
    pub fn edited(&self, by: &Principal, at: WallTime, content: String) -> Result<Self, Problem> {
        EntryDraft { entry_type: self.entry_type, ..EntryDraft::new(self.kind, content.clone()) }
            .check_content()?;
        let (version, changed_by) = (self.version + 1, Some(by.clone()));
        let (root, root_proof) = (Some(by.clone()), Some(RootProof::of(by, SenderProof::Credential)));
        Ok(Self { content, version, changed_at: at, changed_by, root, root_proof, ..self.clone() })
    }
}
