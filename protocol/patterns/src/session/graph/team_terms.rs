//! Who is looked for in a session whose team is made for one request, and what for.

use protocol::a2a::{interaction::InteractionMode, limits::MAX_CARDS, remote_task::RemoteTaskLimits};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who is looked for, and what for. All of it may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TeamTerms {
    /// Cards themselves, or their URLs; without cards and hosts, agents of the mesh are looked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<Value>,
    /// Hosts whose well-known URI has a card.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What is wanted, part by part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<WantedPart>,
    /// How foreign agents' work is followed, unless an item says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<InteractionMode>,
    /// Media types the result may have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted_modes: Vec<String>,
    /// How long foreign agents' work is pursued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<RemoteTaskLimits>,
    /// Whether a part that fails fails the whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_or_nothing: bool,
}

/// One part that a request spells out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WantedPart {
    pub text: String,
    /// By which skill; matched by the text if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How its work is followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<InteractionMode>,
}

impl TeamTerms {
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        let named = [("cards", self.cards.len()), ("hosts", self.hosts.len())];
        match named.into_iter().find(|(_, count)| *count > MAX_CARDS) {
            Some((name, count)) => Err(format!("{count} {name} are named, the limit is {MAX_CARDS}")),
            None => Ok(()),
        }
    }

    /// Where agents are looked for, as the record has it.
    pub fn mode_word(&self) -> &'static str {
        match (self.cards.is_empty(), self.hosts.is_empty()) {
            (false, _) => "direct_config",
            (true, false) => "well_known_uri",
            (true, true) => "registry",
        }
    }
}
