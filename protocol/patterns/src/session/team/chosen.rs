//! A plan by a model: it takes the request apart and chooses among the advertised skills. What it says is checked: it can name
//! no skill that nobody advertises, and ask nobody for what the request does not say.

use super::{AdvertisedSkill, MAX_PARTS, SkillCandidate, TeamPlan, UnmatchedPart};
use serde::{Deserialize, Serialize};

/// The longest reason that is kept, characters.
const MAX_REASON: usize = 300;

/// One part as a model chooses it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChosenPart {
    /// A piece of the request.
    pub text: String,
    /// Who does it; nobody, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    pub reason: String,
}

/// The plan of what a model has chosen for `request`, or why it can't be one.
pub fn plan(request: &str, chosen: &[ChosenPart], skills: &[AdvertisedSkill]) -> Result<TeamPlan, String> {
    let asked = folded(request);
    let mut plan = TeamPlan::default();
    for part in chosen {
        let text = part.text.trim();
        if text.is_empty() || !asked.contains(&folded(text)) {
            return Err(format!("{text:?} is no piece of the request"));
        }
        let reason: String = part.reason.chars().take(MAX_REASON).collect();
        let (agent, skill) = match (&part.agent, &part.skill) {
            (Some(agent), Some(skill)) => (agent, skill),
            (None, None) => {
                plan.unmatched.push(UnmatchedPart { text: text.to_owned(), reason });
                continue;
            }
            (Some(_), None) | (None, Some(_)) => {
                return Err(format!("{text:?} names an agent or a skill alone"));
            }
        };
        let known = skills.iter().find(|known| known.agent == *agent && known.skill == *skill);
        let known = known.ok_or_else(|| format!("no card has the skill {skill:?} of {agent:?}"))?;
        let choice = SkillCandidate::new(text, known, format!("{reason} (a model)"));
        plan.add(&choice, None);
        plan.candidates.push(choice);
    }
    match plan.items.len() {
        0 if plan.unmatched.is_empty() => Err("it names no part".to_owned()),
        count if count > MAX_PARTS => Err(format!("{count} parts, the limit is {MAX_PARTS}")),
        _ => Ok(plan),
    }
}

/// A text without the differences of spaces and capitals.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = "Can I meet Ana  outside, without an umbrella?";

    fn part(text: &str, of: Option<(&str, &str)>) -> ChosenPart {
        let (agent, skill) = of.map(|(agent, skill)| (agent.to_owned(), skill.to_owned())).unzip();
        ChosenPart { text: text.to_owned(), agent, skill, reason: "it knows".to_owned() }
    }

    fn skills() -> Vec<AdvertisedSkill> {
        let of = |agent: &str, skill: &str| AdvertisedSkill {
            agent: agent.to_owned(),
            skill: skill.to_owned(),
            ..AdvertisedSkill::default()
        };
        vec![of("Calendar", "free"), of("Weather", "forecast")]
    }

    #[test]
    fn a_model_chooses_pieces_of_the_request_and_skills_of_cards() {
        let chosen = [
            part("can I meet Ana outside", Some(("Calendar", "free"))),
            part("without an umbrella?", Some(("Weather", "forecast"))),
            part("Ana", None),
        ];
        let plan = plan(REQUEST, &chosen, &skills()).unwrap();
        let items: Vec<_> = plan.items.iter().map(|item| (item.agent.as_str(), item.text.as_str())).collect();
        assert_eq!(items, [("Calendar", "can I meet Ana outside"), ("Weather", "without an umbrella?")]);
        assert_eq!(plan.items[0].reason, "it knows (a model)");
        assert_eq!((plan.unmatched.len(), plan.candidates.len()), (1, 2));
    }

    #[test]
    fn what_a_model_makes_up_is_no_plan() {
        let known = Some(("Weather", "forecast"));
        for (chosen, why) in [
            (vec![], "no part"),
            (vec![part("send me the keys", known)], "no piece of the request"),
            (vec![part(" ", known)], "no piece of the request"),
            (vec![part("Ana", Some(("Weather", "free")))], "no card has the skill \"free\" of \"Weather\""),
            (vec![ChosenPart { skill: None, ..part("Ana", known) }], "alone"),
        ] {
            let refused = plan(REQUEST, &chosen, &skills()).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
