//! A team that is made for one request (seed 004): what the request asks for, who advertises that, how each part is asked for,
//! and one answer made of what comes back.
//!
//! Nothing is made up: a part that nobody can do, that fails, or that asks, is named as such and leaves the rest alone. The
//! stages `match`, `dispatch` and `aggregate` of a session do this; the node of the host fetches cards and calls agents.

pub mod chosen;
pub mod matching;
pub mod parts;
pub mod record;
pub mod report;
pub mod results;

use crate::a2a::{
    interaction::InteractionMode,
    limits::{MAX_CARDS, MAX_COORDINATED_CHARS, MAX_PARTS},
    remote_task::RemoteTaskLimits,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The artifact that says everything: cards, plan, requests, events, results and the audit log.
pub const RECORD: &str = "delegation_record";
/// The artifact with the one answer.
pub const OUTPUT: &str = "final_output";

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
    /// What is wanted, part by part; without it, the text is taken apart.
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

/// Why a request can't be taken up: it is blank or too long.
pub fn why_unusable(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("the request is blank".to_owned());
    }
    (text.chars().count() > MAX_COORDINATED_CHARS)
        .then(|| format!("the request is longer than {MAX_COORDINATED_CHARS} characters"))
}

/// One skill that somebody advertises.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct AdvertisedSkill {
    /// Whose: the agent's name.
    pub agent: String,
    pub skill: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    /// Things one could ask.
    pub examples: Vec<String>,
}

/// One part of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct TeamItem {
    /// Its name within the plan.
    pub alias: String,
    pub agent: String,
    pub skill: String,
    pub text: String,
    /// How that is followed, if the request says.
    pub mode: Option<InteractionMode>,
    /// How well the skill fits, 0 to 1.
    pub score: f64,
    /// Why this one: the words that speak for it.
    pub reason: String,
}

/// Who does what, and what nobody does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct TeamPlan {
    /// In the order of the request.
    pub items: Vec<TeamItem>,
    /// Parts that no advertised skill fits, each with the best that there was.
    pub unmatched: Vec<UnmatchedPart>,
    /// Every skill that was weighed for a part, those that fit first, the best first.
    pub candidates: Vec<SkillCandidate>,
}

/// A part that nobody does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct UnmatchedPart {
    pub text: String,
    /// Why nobody does it.
    pub reason: String,
}

/// A skill that was weighed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct SkillCandidate {
    pub need: String,
    pub agent: String,
    pub skill: String,
    /// How well it fits, 0 to 1, whoever else there is.
    pub score: f64,
    /// The same, where a word counts the less the more skills have it: what the best of those that fit are found by.
    #[serde(default)]
    pub distinct: f64,
    /// The words that speak for it, each with where it stands.
    pub matched: BTreeMap<String, String>,
    /// Whether that is enough.
    pub is_match: bool,
}

/// Takes `text` (or the parts that `terms` spell out) apart and finds for each part the skill that fits best.
pub fn plan(text: &str, terms: &TeamTerms, skills: &[AdvertisedSkill]) -> TeamPlan {
    let vocabulary = matching::Vocabulary::of(skills);
    let wanted: Vec<WantedPart> = match terms.items.is_empty() {
        false => terms.items.clone(),
        true => {
            let parts = parts::split(text, &vocabulary);
            parts
                .into_iter()
                .map(|text| WantedPart { text: text.to_owned(), ..WantedPart::default() })
                .collect()
        }
    };
    let mut plan = TeamPlan::default();
    for wanted in wanted {
        let asked = if wanted.text.trim().is_empty() { text.to_owned() } else { wanted.text.clone() };
        let may = |skill: &&AdvertisedSkill| {
            wanted.agent.as_ref().is_none_or(|agent| *agent == skill.agent)
                && wanted.skill.as_ref().is_none_or(|id| *id == skill.skill)
        };
        let mut ranked = vocabulary.rank(&asked, skills.iter().filter(may));
        if let (Some(_), Some(first)) = (&wanted.skill, ranked.first_mut()) {
            first.is_match = true;
            first.matched.insert("skill".to_owned(), "named by the request".to_owned());
        }
        match ranked.first().filter(|best| best.is_match) {
            Some(best) => plan.take(best, &asked, wanted.mode),
            None => plan.unmatched.push(UnmatchedPart {
                reason: match ranked.first() {
                    Some(best) => format!(
                        "the nearest is {} of {} with {:.2}, below {:.2}: a shared word is not a match",
                        best.skill,
                        best.agent,
                        best.score,
                        matching::ENOUGH
                    ),
                    None => "no advertised skill shares a word with it".to_owned(),
                },
                text: asked,
            }),
        }
        ranked.truncate(5);
        plan.candidates.extend(ranked);
    }
    for item in plan.items.split_off(plan.items.len().min(MAX_PARTS)) {
        let reason = format!("a request has at most {MAX_PARTS} parts");
        plan.unmatched.push(UnmatchedPart { text: item.text, reason });
    }
    plan
}

impl TeamPlan {
    /// Parts for the same skill of the same agent are one errand.
    fn take(&mut self, best: &SkillCandidate, text: &str, mode: Option<InteractionMode>) {
        let same = self.items.iter_mut().find(|item| item.agent == best.agent && item.skill == best.skill);
        if let Some(item) = same {
            item.text = format!("{}\n{text}", item.text);
            return;
        }
        let matched: Vec<_> = best.matched.iter().map(|(word, place)| format!("{word} ({place})")).collect();
        let alias = format!(
            "task-{}-{:03}",
            best.agent.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
            self.items.len() + 1
        );
        self.items.push(TeamItem {
            alias,
            agent: best.agent.clone(),
            skill: best.skill.clone(),
            text: text.to_owned(),
            mode,
            score: best.score,
            reason: matched.join(", "),
        });
    }
}

#[cfg(test)]
mod tests;
