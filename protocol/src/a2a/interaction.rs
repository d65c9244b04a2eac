//! How a foreign agent's work is followed: one answer, looking again and again, a stream, or a call back (A2A §3.1, §3.5).

use super::card::AgentCapabilities;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Work that is expected to take at most this long is awaited in the answer to the message.
const SHORT: Duration = Duration::from_secs(5);
/// Work that is expected to take at least this long is not held open by a stream if the agent can call back.
const LONG: Duration = Duration::from_secs(300);

/// A way to follow a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InteractionMode {
    /// The answer to the message is the result. If an agent has streams it answers by one, so that its progress is seen and it can
    /// be cancelled meanwhile, unless this mode was asked for.
    Sync,
    /// The task is looked at until it has ended.
    Polling,
    /// Events, as they happen.
    Streaming,
    /// The agent calls back.
    Webhook,
}

impl InteractionMode {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Polling => "polling",
            Self::Streaming => "streaming",
            Self::Webhook => "webhook",
        }
    }

    /// The mode for `wanted` with an agent of these capabilities, whose work is `expected` to take that long. If nothing was asked
    /// for: the answer itself for at most 5 s of work, a call back from 5 min on if that is possible, else a stream if it has
    /// them, else looking. What it can't do is refused with the capability that is missing.
    pub fn choose(
        wanted: Option<Self>,
        can: &AgentCapabilities,
        can_be_called: bool,
        expected: Option<Duration>,
    ) -> Result<Self, String> {
        match wanted {
            None if expected.is_some_and(|time| time <= SHORT) => Ok(Self::Sync),
            None if can.push_notifications == Some(true)
                && can_be_called
                && expected.is_some_and(|time| time >= LONG) =>
            {
                Ok(Self::Webhook)
            }
            None if can.streaming == Some(true) => Ok(Self::Streaming),
            None => Ok(Self::Polling),
            Some(mode @ (Self::Sync | Self::Polling)) => Ok(mode),
            Some(Self::Streaming) if can.streaming == Some(true) => Ok(Self::Streaming),
            Some(Self::Streaming) => {
                Err("mode streaming: its card does not say capabilities.streaming".to_owned())
            }
            Some(Self::Webhook) if can.push_notifications != Some(true) => {
                Err("mode webhook: its card does not say capabilities.pushNotifications".to_owned())
            }
            Some(Self::Webhook) if !can_be_called => {
                Err("mode webhook: nobody can call this node back".to_owned())
            }
            Some(Self::Webhook) => Ok(Self::Webhook),
        }
    }

    /// Whether a message sent in this mode, chosen for `wanted`, is answered by a stream.
    pub fn is_streamed(self, wanted: Option<Self>, can: &AgentCapabilities) -> bool {
        self == Self::Streaming || self == Self::Sync && wanted.is_none() && can.streaming == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_the_one_asked_for_or_the_best_there_is() {
        let can = |streaming, push| AgentCapabilities {
            streaming,
            push_notifications: push,
            extensions: Vec::new(),
            extended_agent_card: None,
        };
        for (wanted, streaming, push, callable, expected) in [
            (None, Some(true), None, true, Some(InteractionMode::Streaming)),
            (None, None, Some(true), true, Some(InteractionMode::Polling)),
            (Some(InteractionMode::Sync), None, None, false, Some(InteractionMode::Sync)),
            (Some(InteractionMode::Polling), Some(true), None, false, Some(InteractionMode::Polling)),
            (Some(InteractionMode::Streaming), Some(false), None, true, None),
            (Some(InteractionMode::Webhook), None, Some(true), true, Some(InteractionMode::Webhook)),
            (Some(InteractionMode::Webhook), None, Some(true), false, None),
            (Some(InteractionMode::Webhook), Some(true), None, true, None),
        ] {
            assert_eq!(
                InteractionMode::choose(wanted, &can(streaming, push), callable, None).ok(),
                expected,
                "{wanted:?}"
            );
        }
        let long = Duration::from_secs(600);
        for (expected, streaming, push, callable, mode) in [
            (SHORT, Some(true), Some(true), true, InteractionMode::Sync),
            (SHORT * 2, Some(true), Some(true), true, InteractionMode::Streaming),
            (SHORT * 2, None, Some(true), true, InteractionMode::Polling),
            (long, Some(true), Some(true), true, InteractionMode::Webhook),
            (long, Some(true), Some(true), false, InteractionMode::Streaming),
            (long, None, None, true, InteractionMode::Polling),
        ] {
            let can = can(streaming, push);
            assert_eq!(
                InteractionMode::choose(None, &can, callable, Some(expected)),
                Ok(mode),
                "{expected:?}"
            );
            assert_eq!(
                mode.is_streamed(None, &can),
                streaming == Some(true) && mode != InteractionMode::Webhook,
                "{expected:?}"
            );
            assert!(
                !mode.is_streamed(Some(InteractionMode::Sync), &can) || mode == InteractionMode::Streaming
            );
            let polling = Some(InteractionMode::Polling);
            assert_eq!(InteractionMode::choose(polling, &can, callable, Some(expected)).ok(), polling);
        }
    }
}
