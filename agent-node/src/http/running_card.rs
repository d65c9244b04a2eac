//! The card of a running agent: whoever shows it is told when it changes.

use super::a2a::facade::AgentFacade;
use crate::{
    agent::{AgentActor, AgentStatus, UpdateCard},
    brain::PeerSummary,
    shared_cell::SharedCell,
};
use actix::{Addr, MailboxError};
use engine::settings::AgentSettings;
use protocol::{
    a2a::{agent_policy::CallerSchemes, card::AgentInterface, card_signature::SigningKey},
    card::Card,
};
use std::sync::Arc;
use tokio::sync::Notify;

/// Triggers the next heartbeat of an agent at the registry, and registers a changed card.
#[derive(Clone)]
pub(crate) struct WakeSignal(pub(crate) Arc<Notify>);

impl WakeSignal {
    pub(crate) fn send(&self) {
        self.0.notify_one();
    }
}

/// The card of a running agent, and everything that shows it.
#[derive(Clone)]
pub(crate) struct RunningCard {
    pub(crate) actor: Addr<AgentActor>,
    pub(crate) card: SharedCell<Card>,
    pub(crate) status: Arc<AgentStatus>,
    pub(crate) key: SharedCell<SigningKey>,
    pub(crate) facade: SharedCell<AgentFacade>,
    pub(crate) me: SharedCell<PeerSummary>,
    pub(crate) schemes: CallerSchemes,
    pub(crate) interface: Option<AgentInterface>,
    pub(crate) wake: Option<WakeSignal>,
}

impl RunningCard {
    /// The card that [`Self::show`] would show.
    pub(crate) fn of(&self, settings: &AgentSettings, waits_for: Option<String>) -> Card {
        let Card { agent_id, endpoint, limits, .. } = self.card.get().as_ref().clone();
        Card { waits_for, ..settings.card(agent_id, endpoint, limits) }
    }

    /// Shows what `settings` say of the agent, and why it takes no work, if it takes none. Fails if the agent has stopped.
    pub(crate) async fn show(
        &self,
        settings: &AgentSettings,
        waits_for: Option<String>,
    ) -> Result<(), MailboxError> {
        let card = self.of(settings, waits_for.clone());
        if card == *self.card.get() {
            self.status.set_waits_for(waits_for);
            return Ok(());
        }
        let card = Arc::new(card);
        self.me.put(PeerSummary::from(card.as_ref()));
        let (schemes, interface) = (self.schemes, self.interface.clone());
        self.facade.put(AgentFacade::new(&card, settings.a2a.clone(), schemes, interface, &self.key.get()));
        self.actor.send(UpdateCard(card.clone())).await?;
        self.status.set_waits_for(waits_for);
        self.card.put(card);
        if let Some(wake) = &self.wake {
            wake.send();
        }
        Ok(())
    }
}
