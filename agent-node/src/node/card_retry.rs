//! Retries the card of a foreign agent that was unavailable at the start. Until the card is read, the agent is shown as
//! waiting and takes no work. Pauses between attempts grow to a minute.

use crate::http::running_card::RunningCard;
use crate::outbox::random_fraction;
use engine::settings::AgentSettings;
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

/// Retries until the card is read or the agent stops. `file` is what is known without the card.
pub(super) fn spawn(pending: PendingCard, file: AgentSettings, card: RunningCard) {
    actix::spawn(async move {
        let agent = card.card.get().agent_id.clone();
        let mut failures = 0;
        while card.actor.connected() {
            tokio::time::sleep(pause(failures, random_fraction())).await;
            let (settings, why) = match (pending.fetch)().await {
                Ok(settings) => (settings, None),
                Err(why) => (file.clone(), Some(why)),
            };
            let is_read = why.is_none();
            if let Some(why) = &why {
                tracing::debug!(%agent, why, "the card is still unavailable");
                failures += 1;
            }
            if let Err(error) = card.show(&settings, why).await {
                tracing::warn!(%agent, %error, "the card could not be passed to the agent");
                return;
            }
            if is_read {
                tracing::info!(%agent, "its card was read; it accepts work");
                return;
            }
        }
    });
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
