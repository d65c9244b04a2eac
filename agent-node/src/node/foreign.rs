//! Meets a foreign agent before its seat is taken: its card says what it can do. A card that was read once is kept, so that
//! a node starts while the foreign agent is away.

use crate::{
    brain::foreign::{Foreign, ForeignConfig, capabilities},
    config::AgentConfig,
    outbox::{
        a2a::{
            card::{fetch, usable},
            credentials::Keyring,
            hooks::Hooks,
            notes::Notes,
        },
        outside::Outside,
        pause,
    },
};
use anyhow::Context as _;
use blackboard::store::{Shared, owned::Owned};
use protocol::{
    a2a::{interaction::Mode, vetting::Vetted},
    card::Skill,
};
use std::{path::PathBuf, sync::Arc};

/// Times a card is asked for before the kept one is taken.
const TRIES: u32 = 4;

/// How foreign agents are reached from this process.
pub(super) struct Abroad {
    pub(super) outside: Outside,
    pub(super) store: Shared,
    pub(super) hooks: Hooks,
    pub(super) keyring: Keyring,
    /// Where cards are kept; nowhere for a process that forgets everything.
    pub(super) cards: Option<PathBuf>,
}

/// A foreign agent that was met.
pub(super) struct Met {
    pub(super) brain: Arc<Foreign>,
    pub(super) description: String,
    pub(super) skills: Vec<Skill>,
    /// Media types it takes, and those it answers in, if its card was had.
    pub(super) modes: Option<(Vec<String>, Vec<String>)>,
}

impl Abroad {
    /// Meets the agent that `config` tells of. What the file says of it goes before what its card says.
    pub(super) async fn meet(&self, agent: &AgentConfig, config: &ForeignConfig) -> anyhow::Result<Met> {
        let vetted = self.card(agent, config).await;
        let own: Shared = Arc::new(Owned::new(self.store.clone(), agent.id.as_str()));
        let notes = Notes::of_peer(agent.id.clone(), own);
        let hooks = Some(self.hooks.clone());
        let brain = Foreign::new(config.clone(), self.outside.clone(), Some(notes), hooks);
        let brain = Arc::new(brain.with_keyring(self.keyring.clone()));
        let (mut skills, mut description) = (agent.skills.clone(), agent.description.clone());
        let mut modes = None;
        match vetted {
            Ok(vetted) => {
                // Whether somebody can call back shows when the node listens.
                Mode::choose(config.mode, &vetted.card.capabilities, true).map_err(anyhow::Error::msg)?;
                if skills.is_empty() {
                    skills = capabilities(&vetted);
                }
                if description.is_empty() {
                    description.clone_from(&vetted.card.description);
                }
                modes = Some((vetted.all_input_modes(), vetted.all_output_modes()));
                brain.know(vetted).await.map_err(anyhow::Error::msg)?;
            }
            Err(error) if skills.is_empty() => {
                return Err(error.context("name its `skills` in the file to start without its card"));
            }
            Err(error) => tracing::warn!(agent = %agent.id, "starts without its card: {error:#}"),
        }
        anyhow::ensure!(!skills.is_empty(), "none of its skills has a name that can be a capability");
        Ok(Met { brain, description, skills, modes })
    }

    async fn card(&self, agent: &AgentConfig, config: &ForeignConfig) -> anyhow::Result<Vetted> {
        let kept = self.cards.as_ref().map(|dir| dir.join(format!("{}.json", agent.id)));
        let mut why = String::new();
        for attempt in 0..TRIES {
            tokio::time::sleep(pause(attempt)).await;
            match fetch(&self.outside, &config.card).await {
                Ok(found) => {
                    let vetted =
                        found.vetted(&self.outside).map_err(|against| anyhow::anyhow!(against.join("; ")));
                    let vetted =
                        vetted.with_context(|| format!("the card at {} can't be used", found.url))?;
                    tracing::info!(agent = %agent.id, card = found.url, signed = %found.signed, "its card was read");
                    if let (Some(file), Some(dir)) = (&kept, &self.cards) {
                        super::home::make(dir)?;
                        drop(std::fs::write(file, found.raw.to_string()));
                    }
                    return Ok(vetted);
                }
                Err(said) => why = said,
            }
        }
        let kept = kept.and_then(|file| std::fs::read(file).ok());
        let kept = kept.and_then(|text| usable(&serde_json::from_slice(&text).ok()?, &self.outside).ok());
        match kept {
            Some(vetted) => {
                tracing::warn!(agent = %agent.id, why, "its card can't be had; the one kept is used");
                Ok(vetted)
            }
            None => Err(anyhow::anyhow!("its card at {} can't be had: {why}", config.card)),
        }
    }
}
