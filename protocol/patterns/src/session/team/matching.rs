//! Which skills a text speaks of: those that share a telling word with it. A word that all skills have tells nothing.

use super::{AdvertisedSkill, SkillCandidate};
use std::{cmp::Reverse, collections::BTreeSet};

/// The fewest letters of a word that counts.
const MIN_LETTERS: usize = 4;
/// The most letters by which the forms of a word differ.
const MAX_ENDING: usize = 3;

fn words<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let words = texts.into_iter().flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric()));
    words.filter(|word| word.chars().count() >= MIN_LETTERS).map(str::to_lowercase).collect()
}

fn words_of(skill: &AdvertisedSkill) -> BTreeSet<String> {
    let texts = [&skill.skill, &skill.name, &skill.description].into_iter();
    words(texts.chain(&skill.tags).chain(&skill.examples).map(String::as_str))
}

/// Whether `word` is among `words`, or another form of it: `forecasts`, `booking`.
fn has(words: &BTreeSet<String>, word: &str) -> bool {
    let is_form = |long: &str, short: &str| {
        let ending = long.strip_prefix(short).map_or(usize::MAX, |ending| ending.chars().count());
        ending == 0 || short.chars().count() > MIN_LETTERS && ending <= MAX_ENDING
    };
    words.iter().any(|own| is_form(own, word) || is_form(word, own))
}

/// The skills for which `may` holds and that share a telling word with `text`; those with the most such words first, equal
/// ones in the order of `skills`. If several agents offer the same skill, in the same words, the first one is taken.
pub(super) fn find(
    text: &str,
    skills: &[AdvertisedSkill],
    may: impl Fn(&AdvertisedSkill) -> bool,
) -> Vec<SkillCandidate> {
    let all: Vec<_> = skills.iter().map(words_of).collect();
    let kinds: BTreeSet<_> = all.iter().collect();
    let mut telling = words([text]);
    telling.retain(|word| kinds.len() == 1 || kinds.iter().any(|kind| !has(kind, word)));
    let mut found = Vec::new();
    let mut taken = BTreeSet::new();
    for (skill, own) in skills.iter().zip(&all).filter(|(skill, _)| may(skill)) {
        let shared: Vec<_> = telling.iter().filter(|word| has(own, word)).map(String::as_str).collect();
        if !shared.is_empty() && taken.insert(own) {
            let reason = format!("it shares {}", shared.join(", "));
            found.push((Reverse(shared.len()), SkillCandidate::new(text, skill, reason)));
        }
    }
    found.sort_by_key(|(count, _)| *count);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}
