//! How well an advertised skill fits what is asked. A shared word is not a match: what counts is how much of what is asked
//! the skill speaks of, and how prominently; and a deed that the skill does not name (*draft* a poem about the weather)
//! weighs against it. Whether it fits is a matter of the skill and of what is asked alone, so that nobody who joins takes a
//! match away; which of those that fit is the best, the words that others don't have decide.

use super::{AdvertisedSkill, SkillCandidate};
use std::collections::{BTreeMap, BTreeSet};

/// From here on a skill fits.
pub const ENOUGH: f64 = 0.4;
/// What remains of a fit when the deed that is asked is none of the skill's.
const OTHER_DEED: f64 = 0.3;

/// Words that say nothing of what is asked.
const EMPTY: &[&str] = &[
    "a", "an", "the", "and", "or", "but", "if", "whether", "of", "to", "in", "on", "at", "by", "for", "from",
    "with", "about", "into", "as", "is", "are", "am", "was", "were", "be", "been", "will", "would", "can",
    "could", "do", "does", "did", "has", "have", "had", "should", "may", "might", "must", "i", "me", "my",
    "we", "us", "our", "you", "your", "he", "she", "it", "its", "they", "them", "their", "this", "that",
    "these", "those", "there", "here", "what", "when", "where", "who", "which", "how", "why", "please",
    "also", "then", "so", "some", "any", "all", "no", "not", "good", "nice", "well", "very", "check", "tell",
    "give", "get", "find", "show", "look", "ask", "let", "know", "want", "need", "like", "help", "agent",
    "task", "return", "result", "up", "out", "both", "before", "after", "again", "new", "using", "use",
    "one", "two", "three",
];

/// Deeds that change what is asked, whatever it is about.
const DEEDS: &[&str] = &[
    "draft",
    "write",
    "translate",
    "summarise",
    "summarize",
    "book",
    "order",
    "buy",
    "send",
    "cancel",
    "delete",
    "build",
    "implement",
    "review",
    "test",
    "fix",
    "design",
    "plan",
    "paint",
    "draw",
    "sing",
    "compose",
    "schedule",
    "reserve",
    "convert",
    "calculate",
    "compute",
    "compare",
    "create",
    "make",
    "publish",
    "deploy",
    "install",
    "sell",
    "teach",
];

/// The words of all advertised skills, and how many skills have each. One that several agents offer counts once.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    spread: BTreeMap<String, usize>,
    deeds: BTreeSet<String>,
}

/// `word` without the endings that change with grammar.
pub fn stem(word: &str) -> String {
    let cut = |ending: &str, left: usize, put: &str| {
        word.strip_suffix(ending).filter(|rest| rest.len() >= left).map(|rest| format!("{rest}{put}"))
    };
    cut("ies", 3, "y")
        .or_else(|| cut("ing", 4, ""))
        .or_else(|| cut("ed", 4, ""))
        .or_else(|| {
            word.strip_suffix('s').filter(|rest| rest.len() >= 3 && !rest.ends_with('s')).map(str::to_owned)
        })
        .unwrap_or_else(|| word.to_owned())
}

/// The words of `text` that say something, in order, each once.
fn words(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        // WeatherBot is two words.
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase();
        spaced.push(c);
    }
    let mut seen = BTreeSet::new();
    spaced
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| word.chars().count() > 2 && !EMPTY.contains(&word.as_str()))
        .map(|word| stem(&word))
        .filter(|word| seen.insert(word.clone()))
        .collect()
}

/// Where a word of a skill stands, and what that is worth.
fn places(skill: &AdvertisedSkill) -> BTreeMap<String, (f64, &'static str)> {
    let mut places = BTreeMap::new();
    let mut put = |text: &str, worth: f64, place: &'static str| {
        for word in words(text) {
            let at = places.entry(word).or_insert((worth, place));
            if at.0 < worth {
                *at = (worth, place);
            }
        }
    };
    put(&skill.description, 0.5, "description");
    skill.examples.iter().for_each(|example| put(example, 0.8, "example"));
    put(&skill.agent, 0.7, "agent");
    put(&skill.name, 0.9, "name");
    skill.tags.iter().for_each(|tag| put(tag, 1.0, "tag"));
    put(&skill.skill, 1.0, "id");
    places
}

impl Vocabulary {
    /// The words of `skills`.
    pub fn of(skills: &[AdvertisedSkill]) -> Self {
        let mut this = Self::default();
        let mut counted = BTreeSet::new();
        for skill in skills {
            for word in places(skill).into_keys() {
                if counted.insert((word.clone(), skill.skill.as_str())) {
                    *this.spread.entry(word).or_default() += 1;
                }
            }
            let first = skill.skill.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            this.deeds.insert(stem(&first.to_lowercase()));
        }
        this
    }

    /// Whether some skill's id begins with this word, as `translate-text` does.
    pub fn is_deed(&self, word: &str) -> bool {
        self.deeds.contains(word)
    }

    /// `skills` that share a word with `text`: those that fit, then the others; each the best first, equal ones by name.
    pub fn rank<'a>(
        &self,
        text: &str,
        skills: impl Iterator<Item = &'a AdvertisedSkill>,
    ) -> Vec<SkillCandidate> {
        let asked = words(text);
        let mut ranked: Vec<_> = skills.filter_map(|skill| self.weigh(text, &asked, skill)).collect();
        ranked.sort_by(|a, b| {
            (b.is_match.cmp(&a.is_match))
                .then_with(|| b.distinct.total_cmp(&a.distinct))
                .then_with(|| (&a.agent, &a.skill).cmp(&(&b.agent, &b.skill)))
        });
        ranked
    }

    fn weigh(&self, text: &str, asked: &[String], skill: &AdvertisedSkill) -> Option<SkillCandidate> {
        let places = places(skill);
        let mut matched = BTreeMap::new();
        let (mut strength, mut distinct, mut covered) = (0.0, 0.0, 0.0);
        for word in asked {
            let Some((worth, place)) = places.get(word) else { continue };
            let spread = self.spread.get(word).copied().unwrap_or(1).max(1);
            let rarity = 1.0 / f64::from(u32::try_from(spread).unwrap_or(u32::MAX)).sqrt();
            strength += 0.5 * worth;
            distinct += 0.5 * worth * rarity;
            covered += worth;
            matched.insert(word.clone(), (*place).to_owned());
        }
        let count = f64::from(u32::try_from(asked.len().max(1)).unwrap_or(u32::MAX));
        let of = |strength: f64| 0.5 * strength.min(1.0) + 0.5 * covered / count;
        let mut remains = 1.0;
        match deed(text).map(|deed| stem(&deed)) {
            Some(deed) if !places.contains_key(&deed) => {
                remains = OTHER_DEED;
                matched.insert(deed, "asked, and none of its deeds".to_owned());
            }
            Some(deed) if asked.len() > 1 && matched.keys().all(|word| *word == deed) => {
                remains = OTHER_DEED;
                matched.insert(deed, "its deed, and nothing that it is asked to be about".to_owned());
            }
            Some(_) | None => {}
        }
        let rounded = |score: f64| (score * remains * 1_000.0).round() / 1_000.0;
        let score = rounded(of(strength));
        (covered > 0.0 || asked.is_empty()).then(|| SkillCandidate {
            need: text.to_owned(),
            agent: skill.agent.clone(),
            skill: skill.skill.clone(),
            score,
            distinct: rounded(of(distinct)),
            matched,
            is_match: score >= ENOUGH,
        })
    }
}

/// The deed that `text` asks for, if it begins with one, or has one after `to`.
fn deed(text: &str) -> Option<String> {
    let all: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let is_deed = |word: &String| DEEDS.contains(&word.as_str());
    let first = all.iter().find(|word| !["please", "also", "then"].contains(&word.as_str()));
    let after_to =
        all.windows(2).find(|pair| pair[0] == "to" && is_deed(&pair[1])).map(|pair| pair[1].clone());
    first.filter(|word| is_deed(word)).cloned().or(after_to)
}
