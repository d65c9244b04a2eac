//! The AI catalog: an `ai-catalog` document with the URL of each live agent's A2A card.

use crate::entry::AgentEntry;
use protocol::routes;
use serde_json::{Value, json};

/// The media type of the catalog itself.
pub(super) const MEDIA_TYPE: &str = "application/ai-catalog+json";
const CARD: &str = "application/a2a-agent-card+json";

/// The catalog of `agents`.
pub(super) fn document(agents: &[AgentEntry]) -> Value {
    let entries = agents.iter().map(|entry| {
        let card = &entry.card;
        let mut tags: Vec<_> =
            card.skills.iter().flat_map(|skill| std::iter::once(&skill.id).chain(&skill.tags)).collect();
        tags.sort();
        tags.dedup();
        json!({
            "identifier": format!("urn:agent-mesh:agent:{}", card.agent_id),
            "displayName": card.agent_id,
            "description": card.description,
            "version": card.version,
            // Drafts of the format use either name.
            "type": CARD,
            "mediaType": CARD,
            "url": format!("{}{}", card.endpoint, routes::AGENT_CARD),
            "tags": tags,
        })
    });
    json!({ "specVersion": "1.0", "host": { "displayName": "Agent Mesh" }, "entries": entries.collect::<Vec<_>>() })
}
