//! The card with which an agent registers.

use crate::{
    bid::{Cost, Eta},
    ids::{AgentId, Capability},
    json::any_version::of_any_version,
    limits::Limits,
    signal::fits,
};
use serde::{Deserialize, Serialize, Serializer, ser::Error as _};
use std::time::Duration;

pub use wire::prompt::{PeerSummary, Skill};

/// An agent's card: its identity, its skills, where it listens, and on what terms it works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    /// Its id in the mesh.
    pub agent_id: AgentId,
    /// One sentence for people.
    #[serde(default)]
    pub description: String,
    /// Base URL: `{endpoint}/a2a/messages` takes its messages.
    pub endpoint: String,
    /// The version of the program that runs it.
    #[serde(default)]
    pub version: String,
    /// What it can do.
    #[serde(default)]
    pub skills: Vec<Skill>,
    /// Whether it does what is addressed to it without a capability.
    #[serde(default)]
    pub open: bool,
    /// Whether it is chosen if a person names no agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub entrance: bool,
    /// A word for people and prompts. It gives no rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The types of signals that it follows on the board, each exact or with a `*` as its last token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribe: Vec<String>,
    #[serde(default)]
    pub terms: BidTerms,
    /// How long it may be away before it counts as left; 2 minutes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comes_back_in: Option<Eta>,
    /// What it takes and how much.
    #[serde(default, deserialize_with = "of_any_version", serialize_with = "for_any_version")]
    pub limits: Limits,
    /// What it waits for before it takes work, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// The limits that no peer needs to know. A process of the first version refuses a card with a limit that it does not know.
const LATER_LIMITS: [&str; 2] = ["maxA2aBodyBytes", "keepContextsMs"];

fn for_any_version<S: Serializer>(limits: &Limits, serializer: S) -> Result<S::Ok, S::Error> {
    let mut written = serde_json::to_value(limits).map_err(S::Error::custom)?;
    for name in LATER_LIMITS {
        written.as_object_mut().and_then(|limits| limits.remove(name));
    }
    written.serialize(serializer)
}

/// A card's description or version, or a skill's text, bytes.
pub const MAX_TEXT: usize = 4_096;
/// A card's skills.
pub const MAX_SKILLS: usize = 256;
/// Tags of a skill, its examples, and its media types.
pub const MAX_PER_SKILL: usize = 64;
/// A media type, bytes.
pub const MAX_MODE: usize = 128;

impl From<&Card> for PeerSummary {
    fn from(card: &Card) -> Self {
        Self {
            agent_id: card.agent_id.clone(),
            description: card.description.clone(),
            role: card.role.clone(),
            skills: card.skills.clone(),
        }
    }
}

/// On what terms an agent works: what its bids are made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BidTerms {
    /// What a task costs.
    pub cost: Cost,
    /// How long a task takes.
    pub eta: Eta,
    /// The most tasks at a time; a bidder at its limit answers `no-bid`.
    pub max_parallel: u32,
}

impl Default for BidTerms {
    fn default() -> Self {
        Self { cost: Cost::default(), eta: Eta(60_000), max_parallel: 1 }
    }
}

impl Card {
    /// How well the card supports `capability`: 1 for a skill of that name, 0.8 for a tag, 0 for neither.
    pub fn support(&self, capability: &Capability) -> f64 {
        if self.skills.iter().any(|skill| skill.id == *capability) {
            1.0
        } else if self.skills.iter().any(|skill| skill.tags.contains(capability)) {
            0.8
        } else {
            0.0
        }
    }

    /// How long it may be away before it counts as left.
    pub fn may_be_away(&self) -> Duration {
        self.comes_back_in.unwrap_or(Eta(2 * 60_000)).duration()
    }

    /// Whether it follows signals of this type.
    pub fn follows(&self, kind: &str) -> bool {
        self.subscribe.iter().any(|pattern| fits(pattern, kind))
    }

    /// The media types in which it answers requests for this capability; empty if any.
    pub fn output_modes(&self, capability: &Capability) -> Vec<String> {
        let mut modes = Vec::new();
        let supports = |skill: &&Skill| skill.id == *capability || skill.tags.contains(capability);
        for skill in self.skills.iter().filter(supports) {
            if skill.output_modes.is_empty() {
                return Vec::new();
            }
            modes.extend(skill.output_modes.iter().cloned());
        }
        modes
    }

    /// Whether an answer in one of `modes` can come from it; no modes means any will do.
    pub fn answers_in(&self, capability: &Capability, modes: &[String]) -> bool {
        have_common(&self.output_modes(capability), modes)
    }
}

/// Whether two lists of media types have one in common. An empty list stands for all.
pub fn have_common(offered: &[String], accepted: &[String]) -> bool {
    offered.is_empty() || accepted.is_empty() || offered.iter().any(|mode| accepted.contains(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_card_has_no_limit_that_the_first_version_refuses() {
        let limits = Limits { max_hops: 3, ..Limits::default() };
        let card = json!({ "agentId": "a-01", "endpoint": "http://a", "limits": limits });
        let card: Card = serde_json::from_value(card).unwrap();
        let written = serde_json::to_value(&card).unwrap();
        assert_eq!(written["limits"]["maxHops"], 3);
        for name in LATER_LIMITS {
            assert!(serde_json::to_value(&limits).unwrap().get(name).is_some(), "{name}");
            assert!(written["limits"].get(name).is_none(), "{name}");
        }
        assert_eq!(serde_json::from_value::<Card>(written).unwrap(), card);
    }
}
