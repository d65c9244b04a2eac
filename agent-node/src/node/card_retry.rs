//! Retries the card of a foreign agent that was unavailable at the start. Until the card is read, the agent is shown as
//! waiting and takes no work. Pauses between attempts grow to a minute.

use super::registration::WakeSignal;
use crate::{
    agent::UpdateCard,
    brain::PeerSummary,
    http::{a2a::facade::AgentFacade, node_state::HostedAgent},
    outbox::random_fraction,
    shared_cell::SharedCell,
};
use engine::settings::AgentSettings;
use protocol::{
    a2a::{agent_policy::CallerSchemes, card::AgentInterface},
    card::Card,
};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Tries once to read the card, and returns the settings with what it says; the error says why it failed.
pub type CardFetcher =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<AgentSettings, String>> + Send>> + Send + Sync>;

/// A card that could not be read yet.
#[derive(Clone)]
pub struct PendingCard {
    /// Why the last attempt failed.
    pub why: String,
    pub fetch: CardFetcher,
}

/// An agent that waits for its card, with everything that shows the card.
pub(super) struct CardRetry {
    pub(super) agent: HostedAgent,
    pub(super) me: SharedCell<PeerSummary>,
    pub(super) schemes: CallerSchemes,
    pub(super) interface: Option<AgentInterface>,
    pub(super) wake: Option<WakeSignal>,
}

impl CardRetry {
    /// Retries until the card is read or the agent stops.
    pub(super) fn spawn(self, pending: PendingCard) {
        self.agent.status.set_waits_for(Some(pending.why));
        actix::spawn(async move {
            let mut failures = 0;
            while self.agent.actor.connected() {
                tokio::time::sleep(pause(failures, random_fraction())).await;
                match (pending.fetch)().await {
                    Ok(settings) => return self.apply(settings).await,
                    Err(why) => {
                        tracing::debug!(agent = %self.agent.id, why, "the card is still unavailable");
                        self.set_reason(why);
                        failures += 1;
                    }
                }
            }
        });
    }

    /// Updates the reason in the status and, if it has changed, in the registered card.
    fn set_reason(&self, why: String) {
        let card = self.agent.card.get();
        if card.waits_for.as_ref() != Some(&why) {
            self.agent.card.put(Arc::new(Card { waits_for: Some(why.clone()), ..card.as_ref().clone() }));
            if let Some(wake) = &self.wake {
                wake.send();
            }
        }
        self.agent.status.set_waits_for(Some(why));
    }

    async fn apply(self, settings: AgentSettings) {
        let Card { agent_id, endpoint, limits, .. } = self.agent.card.get().as_ref().clone();
        let card = settings.card(agent_id, endpoint, limits);
        self.me.put(PeerSummary::from(&card));
        let card = Arc::new(card);
        let key = self.agent.key.get();
        self.agent.facade.put(AgentFacade::new(&card, settings.a2a, self.schemes, self.interface, &key));
        if let Err(error) = self.agent.actor.send(UpdateCard(card.clone())).await {
            tracing::warn!(agent = %self.agent.id, %error, "the card could not be passed to the agent");
            return;
        }
        self.agent.status.set_waits_for(None);
        self.agent.card.put(card);
        if let Some(wake) = self.wake {
            wake.send();
        }
        tracing::info!(agent = %self.agent.id, "its card was read; it accepts work");
    }
}

/// The pause after `failures` failed attempts; `chance`, from 0 to 1, adds jitter.
fn pause(failures: u32, chance: f64) -> Duration {
    let grown = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures.min(16))).min(MAX_PAUSE);
    grown.mul_f64(0.75 + 0.25 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_stay_there() {
        assert_eq!(pause(0, 1.0), FIRST_PAUSE);
        assert!(pause(0, 0.0) >= FIRST_PAUSE / 2);
        assert_eq!(pause(3, 1.0), FIRST_PAUSE * 8);
        assert_eq!(pause(6, 1.0), MAX_PAUSE);
        assert_eq!(pause(u32::MAX, 1.0), MAX_PAUSE);
    }
}
