//! Reads the card of a foreign agent before its agent starts. A card that was read once is cached on disk, so that a node
//! starts while the foreign agent is unavailable; without a cached card the agent waits.

use crate::{
    brain::a2a::{A2aBrain, A2aBrainConfig, skills_from_card, truncate},
    config::AgentDefinition,
    outbox::{
        a2a::{
            callbacks::CallbackRegistry,
            card_fetch::{Freshness, fetch, validate_card},
            credentials::Keyring,
            remote_task_store::RemoteTaskStore,
        },
        outbound_client::OutboundClient,
        pause,
    },
};
use engine::settings::AgentSettings;
use protocol::a2a::{
    agent_policy::AgentPolicy, card_validation::ValidatedCard, interaction::InteractionMode,
};
use protocol::ids::Digest;
use std::{path::PathBuf, sync::Arc, time::Duration};
use store::{SharedStore, owned_store::OwnedStore};
use transport::http_client::redact_url;

/// Attempts to read a card before the cached one is used.
const MAX_ATTEMPTS: u32 = 4;

/// What is needed to set up foreign agents.
pub(super) struct ForeignAgents {
    pub(super) outside: OutboundClient,
    pub(super) store: SharedStore,
    pub(super) hooks: CallbackRegistry,
    pub(super) keyring: Keyring,
    /// The directory of cached cards; `None` with a memory store.
    pub(super) card_dir: Option<PathBuf>,
}

/// A validated card, and how long it stays fresh.
type FreshCard = (ValidatedCard, Freshness);

/// Why there is no card to work with.
enum CardFetchError {
    /// It can't be read now.
    Unavailable(String),
    /// It is invalid or unsupported.
    Unusable(String),
}

/// The foreign agent's part of an agent's specification.
pub(super) struct ForeignAgentSpec {
    pub(super) brain: Arc<A2aBrain>,
    /// The file's, with what the card says in place of what the file leaves open.
    pub(super) settings: AgentSettings,
    /// Why the card is missing, if it is and the file names no skills.
    pub(super) missing_card: Option<String>,
}

impl ForeignAgents {
    /// Sets up the agent of `config`. The file's values take precedence over the card's. Fails if the card is unusable,
    /// but not if it is unavailable.
    pub(super) async fn set_up(
        &self,
        agent: &AgentDefinition,
        config: &A2aBrainConfig,
    ) -> anyhow::Result<ForeignAgentSpec> {
        let refused =
            |error| anyhow::anyhow!("its card at {} can't be had: {error}", redact_url(&config.card));
        self.outside.check_resolved(&config.card).await.map_err(refused)?;
        let own: SharedStore = Arc::new(OwnedStore::new(self.store.clone(), agent.id.as_str()));
        let notes = RemoteTaskStore::of_peer(agent.id.clone(), own);
        let hooks = Some(self.hooks.clone());
        let brain = A2aBrain::new(config.clone(), self.outside.clone(), Some(notes), hooks);
        let eta = agent.settings.bid.eta.map(|eta| Duration::from_millis(eta.0));
        let brain = Arc::new(brain.with_keyring(self.keyring.clone()).with_eta(eta));
        match self.fetch_or_cached(agent, config).await {
            Ok(card) => self.describe(agent, config, brain, card).await.map_err(anyhow::Error::msg),
            Err(CardFetchError::Unusable(why)) => Err(anyhow::anyhow!(why)),
            Err(CardFetchError::Unavailable(why)) => {
                tracing::warn!(agent = %agent.id, why, "starts without its card");
                let settings = agent.settings.clone();
                let missing_card = settings.skills.is_empty().then_some(why);
                Ok(ForeignAgentSpec { brain, settings, missing_card })
            }
        }
    }

    /// Tries once more to read the card of an agent that waits for it.
    pub(super) async fn retry(
        &self,
        agent: &AgentDefinition,
        config: &A2aBrainConfig,
        brain: Arc<A2aBrain>,
    ) -> Result<ForeignAgentSpec, String> {
        match self.fetch(agent, config).await {
            Ok(card) => self.describe(agent, config, brain, card).await,
            Err(CardFetchError::Unavailable(why) | CardFetchError::Unusable(why)) => Err(why),
        }
    }

    async fn describe(
        &self,
        agent: &AgentDefinition,
        config: &A2aBrainConfig,
        brain: Arc<A2aBrain>,
        (validated, freshness): FreshCard,
    ) -> Result<ForeignAgentSpec, String> {
        // Webhooks count as available: the node does not listen yet.
        InteractionMode::choose(config.mode, &validated.card.capabilities, true, None)?;
        let mut settings = agent.settings.clone();
        if settings.skills.is_empty() {
            settings.skills = skills_from_card(&validated);
        }
        if settings.skills.is_empty() {
            return Err("none of its skills has a name that can be a capability".to_owned());
        }
        if settings.description.is_empty() {
            settings.description = truncate(&validated.card.description);
        }
        let defaults = AgentPolicy::default();
        if settings.a2a.input_modes == defaults.input_modes {
            settings.a2a.input_modes = validated.all_input_modes();
        }
        if settings.a2a.output_modes == defaults.output_modes {
            settings.a2a.output_modes = validated.all_output_modes();
        }
        brain.cache_card(validated, freshness).await?;
        Ok(ForeignAgentSpec { brain, settings, missing_card: None })
    }

    /// Where the card of the agent is kept: one for each URL that it may have, so that none stands for another.
    fn cache_file(&self, agent: &AgentDefinition, config: &A2aBrainConfig) -> Option<PathBuf> {
        let place = Digest::of(config.card.as_bytes()).to_string();
        let place: String = place.chars().rev().take(16).collect();
        self.card_dir.as_ref().map(|dir| dir.join(format!("{}.{place}.json", agent.id)))
    }

    async fn fetch(
        &self,
        agent: &AgentDefinition,
        config: &A2aBrainConfig,
    ) -> Result<FreshCard, CardFetchError> {
        let found = fetch(&self.outside, &config.card).await;
        let found = found.map_err(|why| {
            CardFetchError::Unavailable(format!(
                "its card at {} can't be had: {why}",
                redact_url(&config.card)
            ))
        })?;
        let validated = found.validate(&self.outside).map_err(|faults| {
            CardFetchError::Unusable(format!(
                "the card at {} can't be used: {}",
                redact_url(&found.url),
                faults.join("; ")
            ))
        })?;
        tracing::info!(agent = %agent.id, card = %redact_url(&found.url), signed = %found.signature, "its card was read");
        if let (Some(file), Some(dir)) = (self.cache_file(agent, config), &self.card_dir) {
            let written =
                crate::data_dir::create(dir).and_then(|()| Ok(std::fs::write(file, found.raw.to_string())?));
            if let Err(error) = written {
                tracing::warn!(agent = %agent.id, %error, "its card could not be cached");
            }
        }
        Ok((validated, found.freshness))
    }

    /// The card that was read last.
    fn cached(&self, agent: &AgentDefinition, config: &A2aBrainConfig) -> Option<ValidatedCard> {
        let text = std::fs::read(self.cache_file(agent, config)?).ok()?;
        validate_card(&serde_json::from_slice(&text).ok()?, &self.outside).ok()
    }

    async fn fetch_or_cached(
        &self,
        agent: &AgentDefinition,
        config: &A2aBrainConfig,
    ) -> Result<FreshCard, CardFetchError> {
        let mut why = String::new();
        for attempt in 0..MAX_ATTEMPTS {
            tokio::time::sleep(pause(attempt)).await;
            match self.fetch(agent, config).await {
                Err(CardFetchError::Unavailable(error)) => why = error,
                // What others have changed there does not keep this node from starting.
                Err(CardFetchError::Unusable(error)) if self.cached(agent, config).is_some() => {
                    why = error;
                    break;
                }
                other => return other,
            }
        }
        let cached = self.cached(agent, config);
        if cached.is_some() {
            tracing::warn!(agent = %agent.id, why, "the cached card is used");
        }
        cached.map(|validated| (validated, Freshness::default())).ok_or(CardFetchError::Unavailable(why))
    }
}
