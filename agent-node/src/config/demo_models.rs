//! The demo team with models: its agents come from the team's file, their model from the command line or the environment.

use super::{BrainConfig, ConfigErrors, ProviderKeys, Team, TimingPreset, loader::TeamLoader, variables};
use crate::{
    brain::llm::{LlmConfig, cassette::CassetteMode},
    demo::models::{INCLUDED, TOKENS, WRITTEN_ANSWERS, instructions, model_of_environment},
};
use engine::settings::TokenCount;
use serde_json::json;

/// Replaces the URL of a model that is not asked.
const NO_URL: &str = "http://127.0.0.1:9";
const MEDIA_TYPE: &str = "text/markdown";

/// The demo team with models.
pub struct DemoOfModels {
    pub team: Team,
    /// The model that is asked; `None` if the included cassette answers.
    pub model: Option<String>,
    /// What becomes of its calls if the command line does not say.
    pub cassette: CassetteMode,
}

impl DemoOfModels {
    /// The team with `model`, at `url` if it is given. Without a model it is that of the provider whose key is set, or else the
    /// included cassette.
    pub fn new(
        model: Option<&str>,
        url: Option<&str>,
        preset: TimingPreset,
        keys: ProviderKeys,
    ) -> Result<Self, ConfigErrors> {
        let model = model.filter(|model| !model.is_empty());
        let model = model.or_else(|| model_of_environment(variables::from_process));
        let llm = match (model, url) {
            (Some(model), Some(url)) => json!({ "model": model, "url": url }),
            (Some(model), None) => json!({ "model": model }),
            (None, _) => json!({ "model": WRITTEN_ANSWERS, "url": NO_URL }),
        };
        // JSON is YAML.
        let agent = json!({ "agent": "demo", "brain": { "llm": llm } }).to_string();
        let mut loader = TeamLoader::with_preset(preset).with_keys(keys);
        loader.add("MESH_MODEL", &agent, None);
        let mut team = Team::demo(preset)?;
        for brain in loader.team()?.agents.into_iter().map(|agent| agent.brain) {
            if let BrainConfig::Llm(llm) = brain {
                use_model(&mut team, &llm);
            }
        }
        let cassette = if model.is_some() { CassetteMode::Off } else { INCLUDED };
        Ok(Self { team, model: model.map(str::to_owned), cassette })
    }
}

/// Gives every agent of the demo team the model of `llm`. They follow no signals, which would be calls of the model each.
fn use_model(team: &mut Team, llm: &LlmConfig) {
    for agent in &mut team.agents {
        let BrainConfig::Exec { command, .. } = &agent.brain else { continue };
        let settings = &mut agent.settings;
        let instructions = command.last().and_then(|brain| instructions(brain)).unwrap_or_default();
        let (description, instructions) = (settings.description.clone(), instructions.to_owned());
        agent.brain = BrainConfig::Llm(Box::new(LlmConfig { description, instructions, ..llm.clone() }));
        settings.bounds.tokens = Some(TokenCount(TOKENS));
        settings.subscribe.clear();
        settings.skills.iter_mut().for_each(|skill| skill.output_modes = vec![MEDIA_TYPE.to_owned()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_team_has_the_same_agents_and_the_model_that_is_named() {
        let named = |model| DemoOfModels::new(Some(model), None, TimingPreset::Fast, ProviderKeys::Required);
        let demo = named("ollama/qwen3").unwrap();
        let scripted = Team::demo(TimingPreset::Fast).unwrap();
        let ids = |team: &Team| team.agents.iter().map(|agent| agent.id.clone()).collect::<Vec<_>>();
        assert_eq!((ids(&demo.team), demo.cassette), (ids(&scripted), CassetteMode::Off));
        for agent in &demo.team.agents {
            let BrainConfig::Llm(llm) = &agent.brain else { panic!("{agent:?}") };
            assert!(llm.models[0].model == "ollama/qwen3" && !llm.instructions.is_empty());
        }
        let fault = named("qwen3").err().unwrap().to_string();
        assert!(fault.contains("MESH_MODEL") && fault.contains("names no known provider"), "{fault}");
    }
}
