//! How well a request fits a skill: by the words they share, those of the skill's name above those of its description.

use crate::{
    brain::PeerSkill,
    demo::words::{is_stop, listed, singular, words},
};
use protocol::{card::Skill, ids::Capability};
use std::collections::{BTreeMap, BTreeSet};

const NAME: u32 = 3;
const TAG: u32 = 2;
const DESCRIPTION: u32 = 1;
/// One word of a tag, or two of a description.
const CLEAR: u32 = 2;

/// A skill that somebody has, and how it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::demo) struct Match {
    pub(in crate::demo) capability: Capability,
    pub(in crate::demo) score: u32,
    shared: Vec<String>,
    agents: BTreeSet<String>,
}

impl Match {
    /// Whether it is more than an accident.
    pub(super) fn is_clear(&self) -> bool {
        self.score >= CLEAR
    }

    pub(super) fn because(&self) -> String {
        let agents: Vec<_> = self.agents.iter().collect();
        let agents: Vec<_> = agents.iter().take(5).map(|agent| agent.as_str()).collect();
        format!("{} of {}, score {}", listed(&self.shared), listed(&agents), self.score)
    }
}

/// Whether a skill is about handing work on, which is no work.
pub(super) fn is_ours(capability: &Capability) -> bool {
    matches!(capability.as_str(), "orchestrate" | "delegate" | "monitor")
}

/// The skill of `peers` that fits `text` best, if one fits.
pub(in crate::demo) fn best(text: &str, peers: &[PeerSkill]) -> Option<Match> {
    rank(text, peers).into_iter().next().filter(Match::is_clear)
}

/// Every skill of `peers` that shares a word with `text`, the best first; equal ones by name.
pub(super) fn rank(text: &str, peers: &[PeerSkill]) -> Vec<Match> {
    let said: BTreeMap<String, String> =
        meaningful(text).take(2_000).map(|word| (stem(&word), word)).collect();
    let mut found: BTreeMap<Capability, Match> = BTreeMap::new();
    for (peer, skill) in peers.iter().flat_map(|peer| peer.skills.iter().map(move |skill| (peer, skill))) {
        let weights = weights(skill);
        let shared: Vec<_> =
            said.iter().filter_map(|(stem, word)| Some((weights.get(stem)?, word))).collect();
        let score = shared.iter().map(|(weight, _)| **weight).sum();
        if score == 0 || is_ours(&skill.id) {
            continue;
        }
        let entry = found.entry(skill.id.clone()).or_insert_with(|| Match {
            capability: skill.id.clone(),
            score: 0,
            shared: Vec::new(),
            agents: BTreeSet::new(),
        });
        entry.agents.insert(peer.agent_id.to_string());
        if score > entry.score {
            entry.score = score;
            entry.shared = shared.into_iter().map(|(_, word)| format!("\"{word}\"")).collect();
        }
    }
    let mut matches: Vec<_> = found.into_values().collect();
    matches.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.capability.cmp(&b.capability)));
    matches
}

fn weights(skill: &Skill) -> BTreeMap<String, u32> {
    let mut weights = BTreeMap::new();
    let tags: Vec<_> = skill.tags.iter().map(Capability::as_str).collect();
    for (text, weight) in
        [(skill.description.as_str(), DESCRIPTION), (&tags.join(" "), TAG), (skill.id.as_str(), NAME)]
    {
        for word in meaningful(text) {
            weights.insert(stem(&word), weight);
        }
    }
    weights
}

fn meaningful(text: &str) -> impl Iterator<Item = String> {
    words(text).into_iter().filter(|word| !is_stop(word) && word.chars().count() > 1)
}

/// What "review", "reviews", "reviewer" and "reviewing" have in common.
fn stem(word: &str) -> String {
    let one = singular(word);
    let endings = ["ations", "ation", "ing", "ers", "er", "ed"];
    let cut = endings.iter().find_map(|end| one.strip_suffix(end)).filter(|rest| rest.chars().count() >= 4);
    let Some(cut) = cut else { return one };
    let mut chars = cut.chars().rev();
    let doubled = chars.next().is_some_and(|last| chars.next() == Some(last) && !"aeiousl".contains(last));
    if doubled { cut.chars().take(cut.chars().count() - 1).collect() } else { cut.to_owned() }
}
