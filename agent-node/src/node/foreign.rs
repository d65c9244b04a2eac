//! Meets a foreign agent before its seat is taken: its card says what it can do. A card that was read once is kept, so that
//! a node starts while the foreign agent is away; without one its agent waits until it is back.

use crate::{
    brain::foreign::{Foreign, ForeignConfig, capabilities, clipped},
    config::AgentConfig,
    outbox::{
        a2a::{
            card::{Freshness, fetch, usable},
            credentials::Keyring,
            hooks::Hooks,
            notes::Notes,
        },
        outside::Outside,
        pause,
    },
};
use blackboard::{
    store::{Shared, owned::Owned},
    wire::shown,
};
use protocol::{
    a2a::{card_validation::ValidatedCard, interaction::InteractionMode},
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

/// A card that was read, and for how long it is good.
type Read = (ValidatedCard, Freshness);

/// Why there is no card to work with.
enum Unread {
    /// It can't be had now.
    Away(String),
    /// It can't be worked with.
    Unusable(String),
}

/// A foreign agent that was met.
pub(super) struct Met {
    pub(super) brain: Arc<Foreign>,
    pub(super) description: String,
    pub(super) skills: Vec<Skill>,
    /// Media types it takes, and those it answers in, if its card was had.
    pub(super) modes: Option<(Vec<String>, Vec<String>)>,
    /// Why nothing is known of it yet, if nothing is.
    pub(super) waits: Option<String>,
}

impl Abroad {
    /// Meets the agent that `config` tells of. What the file says of it goes before what its card says; without either it
    /// waits for its card.
    pub(super) async fn meet(&self, agent: &AgentConfig, config: &ForeignConfig) -> anyhow::Result<Met> {
        let refused = |error| anyhow::anyhow!("its card at {} can't be had: {error}", shown(&config.card));
        self.outside.look_up(&config.card).await.map_err(refused)?;
        let own: Shared = Arc::new(Owned::new(self.store.clone(), agent.id.as_str()));
        let notes = Notes::of_peer(agent.id.clone(), own);
        let hooks = Some(self.hooks.clone());
        let brain = Foreign::new(config.clone(), self.outside.clone(), Some(notes), hooks);
        let brain = Arc::new(brain.with_keyring(self.keyring.clone()));
        let (skills, description) = (agent.skills.clone(), agent.description.clone());
        match self.card(agent, config).await {
            Ok(read) => self.known(agent, config, brain, read).await.map_err(anyhow::Error::msg),
            Err(Unread::Unusable(why)) => Err(anyhow::anyhow!(why)),
            Err(Unread::Away(why)) => {
                tracing::warn!(agent = %agent.id, why, "starts without its card");
                let waits = skills.is_empty().then_some(why);
                Ok(Met { brain, description, skills, modes: None, waits })
            }
        }
    }

    /// Asks once more for the card of an agent that waits for it.
    pub(super) async fn meet_again(
        &self,
        agent: &AgentConfig,
        config: &ForeignConfig,
        brain: Arc<Foreign>,
    ) -> Result<Met, String> {
        match self.read(agent, config).await {
            Ok(read) => self.known(agent, config, brain, read).await,
            Err(Unread::Away(why) | Unread::Unusable(why)) => Err(why),
        }
    }

    async fn known(
        &self,
        agent: &AgentConfig,
        config: &ForeignConfig,
        brain: Arc<Foreign>,
        (vetted, freshness): Read,
    ) -> Result<Met, String> {
        // Whether somebody can call back shows when the node listens.
        InteractionMode::choose(config.mode, &vetted.card.capabilities, true)?;
        let (mut skills, mut description) = (agent.skills.clone(), agent.description.clone());
        if skills.is_empty() {
            skills = capabilities(&vetted);
        }
        if skills.is_empty() {
            return Err("none of its skills has a name that can be a capability".to_owned());
        }
        if description.is_empty() {
            description = clipped(&vetted.card.description);
        }
        let modes = Some((vetted.all_input_modes(), vetted.all_output_modes()));
        brain.know(vetted, freshness).await?;
        Ok(Met { brain, description, skills, modes, waits: None })
    }

    fn kept(&self, agent: &AgentConfig) -> Option<PathBuf> {
        self.cards.as_ref().map(|dir| dir.join(format!("{}.json", agent.id)))
    }

    async fn read(&self, agent: &AgentConfig, config: &ForeignConfig) -> Result<Read, Unread> {
        let found = fetch(&self.outside, &config.card).await;
        let found = found.map_err(|why| {
            Unread::Away(format!("its card at {} can't be had: {why}", shown(&config.card)))
        })?;
        let vetted = found.vetted(&self.outside).map_err(|against| {
            Unread::Unusable(format!(
                "the card at {} can't be used: {}",
                shown(&found.url),
                against.join("; ")
            ))
        })?;
        tracing::info!(agent = %agent.id, card = %shown(&found.url), signed = %found.signed, "its card was read");
        if let (Some(file), Some(dir)) = (self.kept(agent), &self.cards) {
            let written =
                super::home::make(dir).and_then(|()| Ok(std::fs::write(file, found.raw.to_string())?));
            if let Err(error) = written {
                tracing::warn!(agent = %agent.id, %error, "its card is not kept");
            }
        }
        Ok((vetted, found.freshness))
    }

    async fn card(&self, agent: &AgentConfig, config: &ForeignConfig) -> Result<Read, Unread> {
        let mut why = String::new();
        for attempt in 0..TRIES {
            tokio::time::sleep(pause(attempt)).await;
            match self.read(agent, config).await {
                Err(Unread::Away(said)) => why = said,
                other => return other,
            }
        }
        let kept = self.kept(agent).and_then(|file| std::fs::read(file).ok());
        let kept = kept.and_then(|text| usable(&serde_json::from_slice(&text).ok()?, &self.outside).ok());
        if kept.is_some() {
            tracing::warn!(agent = %agent.id, why, "the card that is kept is used");
        }
        kept.map(|vetted| (vetted, Freshness::default())).ok_or(Unread::Away(why))
    }
}
