//! The spaces that a team file makes.

use protocol::spaces::{EntryType, MemberId, Space, SpaceId, SpaceRole, SpaceRouting};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A space: its members and its policy. The process with the board applies it when it starts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct SpaceFile {
    /// Its members, agents by id and users as `user:NAME`, and their roles. In the space `default` every agent and every user with a credential is a member beside them.
    #[schemars(with = "BTreeMap<String, SpaceRole>")]
    members: BTreeMap<MemberId, SpaceRole>,
    /// Who may address whom in its sessions.
    routing: SpaceRouting,
    /// The types of proposals that the curator merges without a person.
    #[schemars(with = "Vec<String>", extend("items" = { "type": "string", "enum": ["learning", "pattern", "update"] }))]
    auto_merge: BTreeSet<EntryType>,
}

/// The spaces of a file; the error names the space.
pub(super) fn spaces(files: &BTreeMap<String, SpaceFile>) -> Result<Vec<Space>, String> {
    let space = |(name, file): (&String, &SpaceFile)| {
        let id = SpaceId::parse(name).map_err(|bad| bad.to_string())?;
        let SpaceFile { members, routing, auto_merge } = file;
        let (members, auto_merge) = (members.clone(), auto_merge.clone());
        let space = Space { members, routing: *routing, auto_merge, ..Space::new(id) };
        space.check().map_err(|problem| format!("{name}: {}", problem.message))?;
        Ok(space)
    };
    files.iter().map(space).collect()
}
