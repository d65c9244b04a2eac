//! A request that needs several skills: what it needs, who advertises that, how each part is asked for, and one answer
//! made of what comes back (the *delegation coordinator*; seed 004).
//!
//! Nothing is made up: a part that nobody can do, that fails, or that asks, is named as such and leaves the rest alone.
//! Whoever runs it does the talking; here are the decisions.

pub mod matching;
pub mod needs;
pub mod record;
pub mod results;
pub mod so_far;

use crate::a2a::{interaction::InteractionMode, limits::MAX_CARDS, remote_task::RemoteTaskLimits};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The capability that asks any agent to coordinate: it plans, asks others, and puts together what they say.
pub const CAPABILITY: &str = "coordinate";
/// The artifact that goes from turn to turn, and says everything.
pub const RECORD: &str = "delegation_record";
/// The artifact with the one answer.
pub const OUTPUT: &str = "final_output";

/// What a task's input may say about how it is coordinated. All of it may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Terms {
    /// Where agents are looked for; the registry, unless cards or hosts are named.
    pub discovery: Option<Discovery>,
    /// Cards themselves, or their URLs.
    pub cards: Vec<Value>,
    /// Hosts whose well-known place has a card.
    pub hosts: Vec<String>,
    /// What is wanted, part by part; without it, the text is taken apart.
    pub items: Vec<JointWanted>,
    /// How foreign agents' work is followed, unless an item says otherwise.
    pub mode: Option<InteractionMode>,
    /// Media types the result may have.
    pub accepted_modes: Vec<String>,
    /// How long foreign agents' work is pursued.
    pub bounds: Option<RemoteTaskLimits>,
    /// Whether a part that fails fails the whole.
    pub all_or_nothing: bool,
}

/// Where agents are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discovery {
    /// The cards that the request names.
    DirectConfig,
    /// The mesh's own registry.
    Registry,
    /// The well-known place of the hosts that the request names.
    WellKnownUri,
}

impl Discovery {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::DirectConfig => "direct_config",
            Self::Registry => "registry",
            Self::WellKnownUri => "well_known_uri",
        }
    }
}

/// One part that a request spells out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct JointWanted {
    /// What is asked.
    pub text: String,
    /// By which skill; matched by the text if not said.
    pub skill: Option<String>,
    /// Of which agent.
    pub agent: Option<String>,
    /// How its work is followed.
    pub mode: Option<InteractionMode>,
}

impl Terms {
    /// What `input` says, or what is wrong with it.
    pub fn read(input: Option<&Value>) -> Result<Self, String> {
        match input {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(input) => serde_json::from_value(input.clone()).map_err(|error| format!("input: {error}")),
        }
    }

    /// What is wrong with it, if it names more cards or hosts than it may.
    pub fn names_too_much(&self) -> Option<String> {
        let named = [("cards", self.cards.len()), ("hosts", self.hosts.len())];
        let (name, count) = named.into_iter().find(|(_, count)| *count > MAX_CARDS)?;
        Some(format!("input: {count} {name} are named, the limit is {MAX_CARDS}"))
    }

    /// Where agents are looked for.
    pub fn discovery(&self) -> Discovery {
        self.discovery.unwrap_or(match (self.cards.is_empty(), self.hosts.is_empty()) {
            (false, _) => Discovery::DirectConfig,
            (true, false) => Discovery::WellKnownUri,
            (true, true) => Discovery::Registry,
        })
    }
}

/// One skill that somebody advertises.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Advertised {
    /// Whose: the agent's name.
    pub agent: String,
    /// The skill's id.
    pub skill: String,
    /// For people.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Words for it.
    pub tags: Vec<String>,
    /// Things one could ask.
    pub examples: Vec<String>,
}

/// One part of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Item {
    /// Its name within the plan.
    pub alias: String,
    /// Who does it.
    pub agent: String,
    /// By which skill.
    pub skill: String,
    /// What is asked.
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
pub struct JointPlan {
    /// In the order of the request.
    pub items: Vec<Item>,
    /// Parts that no advertised skill fits, each with the best that there was.
    pub unmatched: Vec<Unmatched>,
    /// Every skill that was weighed for a part, those that fit first, the best first.
    pub candidates: Vec<JointCandidate>,
}

/// A part that nobody does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Unmatched {
    /// What was asked.
    pub text: String,
    /// Why nobody does it.
    pub reason: String,
}

/// A skill that was weighed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct JointCandidate {
    /// For which part.
    pub need: String,
    /// Whose.
    pub agent: String,
    /// Which.
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
pub fn plan(text: &str, terms: &Terms, skills: &[Advertised]) -> JointPlan {
    let vocabulary = matching::Vocabulary::of(skills);
    let wanted: Vec<JointWanted> = match terms.items.is_empty() {
        false => terms.items.clone(),
        true => {
            let parts = needs::parts(text, &vocabulary);
            parts.into_iter().map(|text| JointWanted { text, ..JointWanted::default() }).collect()
        }
    };
    let mut plan = JointPlan::default();
    for wanted in wanted {
        let asked = if wanted.text.trim().is_empty() { text.to_owned() } else { wanted.text.clone() };
        let may = |skill: &&Advertised| {
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
            None => plan.unmatched.push(Unmatched {
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
    plan
}

impl JointPlan {
    /// Parts for the same skill of the same agent are one errand.
    fn take(&mut self, best: &JointCandidate, text: &str, mode: Option<InteractionMode>) {
        let same = self.items.iter_mut().find(|item| item.agent == best.agent && item.skill == best.skill);
        if let Some(item) = same {
            item.text = format!("{}; {text}", item.text);
            return;
        }
        let matched: Vec<_> = best.matched.iter().map(|(word, place)| format!("{word} ({place})")).collect();
        let alias = format!(
            "task-{}-{:03}",
            best.agent.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
            self.items.len() + 1
        );
        self.items.push(Item {
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
