//! A team that is made for one request (seed 004): what the request asks for, who advertises that, how each part is asked for,
//! and one answer made of what comes back.
//!
//! Nothing is made up: a part that nobody can do, that fails, or that asks, is named as such and leaves the rest alone. The
//! stages `match`, `dispatch` and `aggregate` of a session do this; the node of the host fetches cards and calls agents.

pub mod chosen;
mod matching;
pub mod record;
pub mod report;
pub mod results;

use super::graph::TeamTerms;
use protocol::a2a::{
    interaction::InteractionMode,
    limits::{MAX_COORDINATED_CHARS, MAX_PARTS},
};
use serde::{Deserialize, Serialize};

/// The artifact that says everything: cards, plan, requests, events, results and the audit log.
pub const RECORD: &str = "delegation_record";
/// The artifact with the one answer.
pub const OUTPUT: &str = "final_output";

/// The most skills that are recorded for an item.
const MAX_CANDIDATES: usize = 5;

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
pub struct TeamItem {
    /// Its name within the plan.
    pub alias: String,
    pub agent: String,
    pub skill: String,
    pub text: String,
    /// How that is followed, if the request says.
    pub mode: Option<InteractionMode>,
    /// Why this one.
    pub reason: String,
}

/// Who does what, and what nobody does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TeamPlan {
    /// In the order of the request.
    pub items: Vec<TeamItem>,
    /// Parts that no advertised skill fits.
    pub unmatched: Vec<UnmatchedPart>,
    /// The skills that may do a part, the best first.
    pub candidates: Vec<SkillCandidate>,
}

/// A part that nobody does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnmatchedPart {
    pub text: String,
    /// Why nobody does it.
    pub reason: String,
}

/// A skill that may do a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillCandidate {
    pub need: String,
    pub agent: String,
    pub skill: String,
    #[serde(default)]
    pub reason: String,
}

/// Who does which item of `terms`; without items, each skill that `text` speaks of has the whole `text`.
pub fn plan(text: &str, terms: &TeamTerms, skills: &[AdvertisedSkill]) -> TeamPlan {
    let mut plan = TeamPlan::default();
    if terms.items.is_empty() {
        plan.candidates = matching::find(text, skills, |_| true);
        plan.candidates.truncate(MAX_PARTS);
        plan.candidates.clone().iter().for_each(|found| plan.add(found, None));
        if plan.items.is_empty() {
            plan.unmatched.push(UnmatchedPart::new(text));
        }
    }
    for wanted in &terms.items {
        let asked = if wanted.text.trim().is_empty() { text } else { &wanted.text };
        let may = |skill: &AdvertisedSkill| {
            wanted.agent.as_ref().is_none_or(|agent| *agent == skill.agent)
                && wanted.skill.as_ref().is_none_or(|id| *id == skill.skill)
        };
        let found = match &wanted.skill {
            Some(_) => {
                let named = skills.iter().filter(|skill| may(skill)).take(1);
                named
                    .map(|skill| SkillCandidate::new(asked, skill, "the request names it".to_owned()))
                    .collect()
            }
            None => matching::find(asked, skills, may),
        };
        match found.first() {
            Some(best) => plan.add(best, wanted.mode),
            None => plan.unmatched.push(UnmatchedPart::new(asked)),
        }
        plan.candidates.extend(found.into_iter().take(MAX_CANDIDATES));
    }
    for item in plan.items.split_off(plan.items.len().min(MAX_PARTS)) {
        let reason = format!("a request has at most {MAX_PARTS} parts");
        plan.unmatched.push(UnmatchedPart { text: item.text, reason });
    }
    plan
}

impl UnmatchedPart {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), reason: "no advertised skill shares a telling word with it".to_owned() }
    }
}

impl SkillCandidate {
    fn new(need: &str, skill: &AdvertisedSkill, reason: String) -> Self {
        let (agent, skill) = (skill.agent.clone(), skill.skill.clone());
        Self { need: need.to_owned(), agent, skill, reason }
    }
}

impl TeamPlan {
    /// Parts for the same skill of the same agent are one item.
    fn add(&mut self, best: &SkillCandidate, mode: Option<InteractionMode>) {
        let SkillCandidate { need, agent, skill, reason } = best.clone();
        if let Some(same) = self.items.iter_mut().find(|item| item.agent == agent && item.skill == skill) {
            same.text = format!("{}\n{need}", same.text);
            return;
        }
        let name = agent.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let alias = format!("task-{name}-{:03}", self.items.len() + 1);
        self.items.push(TeamItem { alias, agent, skill, text: need, mode, reason });
    }
}

#[cfg(test)]
mod tests;
