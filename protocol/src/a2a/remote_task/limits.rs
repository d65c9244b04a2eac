//! The limits on following a remote task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The first pause before another try, ms; each is twice the one before.
const FIRST_PAUSE_MS: u64 = 250;
/// The longest pause before another try, ms.
const LONGEST_PAUSE_MS: u64 = 8_000;
/// The longest pause that an agent is granted when it asks for one.
const GRANTED: Duration = Duration::from_secs(60);

/// How long a foreign agent's work is pursued: tries without an answer, looks, and their times. The doc comments are descriptions in the
/// published JSON Schema of the YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RemoteTaskLimits {
    /// Failed calls or broken streams in a row before it is given up.
    pub attempts: u32,
    /// Times a task is looked at.
    pub polls: u32,
    /// The pause between two looks, ms.
    pub poll_ms: u64,
    /// How long one answer may take, ms.
    pub answer_ms: u64,
    /// How long the agent may be unreachable before awarded work that has not begun is handed back, ms.
    pub reach_ms: u64,
}

impl Default for RemoteTaskLimits {
    fn default() -> Self {
        Self { attempts: 12, polls: 600, poll_ms: 1_000, answer_ms: 120_000, reach_ms: 5_000 }
    }
}

impl RemoteTaskLimits {
    /// The longest it is pursued in all, however it is followed.
    pub fn whole(&self) -> Duration {
        let polls = Duration::from_millis(self.poll_ms).saturating_mul(self.polls);
        polls.saturating_add(Duration::from_millis(self.answer_ms))
    }

    /// The pause after `failures` failed calls in a row: growing, and no shorter than the agent asked for, within
    /// reason. `chance`, from 0 to 1, spreads those who wait for the same agent.
    pub fn pause(failures: u32, asked: Option<Duration>, chance: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let most = FIRST_PAUSE_MS.saturating_mul(1 << doublings).min(LONGEST_PAUSE_MS);
        let grown = Duration::from_millis(most).mul_f64(0.75 + 0.25 * chance.clamp(0.0, 1.0));
        asked.map_or(grown, |asked| asked.min(GRANTED) + grown.min(Duration::from_millis(FIRST_PAUSE_MS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_outlasts_an_absence_of_half_a_minute_and_is_bounded() {
        let span = |chance| -> Duration {
            (1..RemoteTaskLimits::default().attempts)
                .map(|failures| RemoteTaskLimits::pause(failures, None, chance))
                .sum()
        };
        assert!(span(0.0) >= Duration::from_secs(30), "{:?}", span(0.0));
        assert!(span(1.0) <= Duration::from_secs(60), "{:?}", span(1.0));
        assert_eq!(RemoteTaskLimits::pause(1, None, 1.0), Duration::from_millis(250));
        assert_eq!(RemoteTaskLimits::pause(u32::MAX, None, 1.0), Duration::from_secs(8));
        assert_eq!(RemoteTaskLimits::default().whole(), Duration::from_secs(720));
    }

    #[test]
    fn what_an_agent_asks_for_is_granted_within_reason() {
        let second = Duration::from_secs(1);
        assert!(RemoteTaskLimits::pause(1, Some(second), 0.0) >= second);
        assert!(RemoteTaskLimits::pause(9, Some(second), 1.0) < second * 2);
        assert!(RemoteTaskLimits::pause(1, Some(second * 86_400), 1.0) <= GRANTED + second);
    }
}
