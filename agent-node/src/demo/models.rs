//! The demo team with models: the same agents with the same skills. An `llm` brain with instructions takes the place of each
//! program. Without a provider's key a cassette answers, whose answers were written by people.

use crate::brain::llm::cassette::CassetteMode;

/// The name under which the included cassette answers. It is no model.
pub(crate) const WRITTEN_ANSWERS: &str = "written-answers";

/// The task that the included cassette can answer.
const TASK: &str = "A REST API for a greenhouse: plants (name, species) and sensors (kind, reading:float)";

/// The cassette that is included. `tests/providers/answers` has the answers.
pub(crate) const INCLUDED: CassetteMode = CassetteMode::Included {
    name: "of the demo (written answers, no model)",
    text: include_str!("models/cassette.jsonl"),
};

/// The model that is used if only this key is set.
const MODELS: [(&str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-5-mini"),
    ("GEMINI_API_KEY", "gemini/gemini-2.5-flash"),
];

pub(crate) const TOKENS: u64 = 200_000;

/// The model of the first provider whose key is set.
pub(crate) fn model_of_environment(lookup: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let is_set = |variable| lookup(variable).is_some_and(|key| !key.is_empty());
    MODELS.iter().find(|(variable, _)| is_set(variable)).map(|(_, model)| *model)
}

/// The instructions of the agent whose program is `brain`.
pub(crate) fn instructions(brain: &str) -> Option<&'static str> {
    Some(match brain {
        "planner" => include_str!("models/planner.md"),
        "rest-builder" => include_str!("models/rest-builder.md"),
        "reviewer" => include_str!("models/reviewer.md"),
        "orchestrator" => include_str!("models/orchestrator.md"),
        _ => return None,
    })
}

/// What a person reads when the team starts; `model` is `None` if the included cassette answers.
pub(crate) fn notice(model: Option<&str>) -> String {
    match model {
        Some(model) => format!("the demo team asks {model}, up to {TOKENS} tokens a task"),
        None => format!(
            "the demo team has no model: answers that people wrote are replayed, for one task: mesh ask \"{TASK}\"; \
             MESH_MODEL or {} makes it live",
            MODELS.map(|(variable, _)| variable).join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::BRAINS;

    #[test]
    fn every_brain_has_instructions_and_the_first_key_chooses_the_model() {
        assert!(BRAINS.iter().all(|brain| instructions(brain).is_some()));
        let of = |set: &'static str| model_of_environment(|name| set.contains(name).then(|| "k".to_owned()));
        assert_eq!(of("OPENAI_API_KEY GEMINI_API_KEY"), Some("openai/gpt-5-mini"));
        assert_eq!(of(""), None);
        assert_eq!(model_of_environment(|_| Some(String::new())), None);
    }

    #[test]
    fn the_included_cassette_is_readable() {
        assert!(crate::brain::llm::cassette::Cassette::open(&INCLUDED, Default::default()).is_ok());
    }
}
