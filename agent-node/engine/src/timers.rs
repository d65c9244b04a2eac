//! The timers that are set, and their purposes. The shell knows only their ids.

use crate::{AttemptId, Output, TimerId, auction_queue::QueueKey, context::Context, records::EffectKey};
use protocol::{
    ids::ConversationId,
    patterns::{Timer, TimerAt},
};
use std::{collections::BTreeMap, time::Duration};

/// The purpose of a timer.
pub(crate) enum TimerPurpose {
    /// A pattern set it.
    Pattern {
        conversation: ConversationId,
        effect: EffectKey,
        timer: Timer,
        at: TimerAt,
    },
    Retry(AttemptId),
    Flush,
    /// End the pause of a conversation that was rolled back.
    Resume(ConversationId),
    /// End the wait of a search for the complete directory.
    Directory {
        conversation: ConversationId,
        effect: EffectKey,
    },
    /// The first auction of a queue calls for proposals again.
    CallQueue(QueueKey),
    /// Subscribe to the board again.
    Subscribe,
    /// Retry the waiting signal.
    Signal,
}

#[derive(Default)]
pub(crate) struct Timers {
    next: u64,
    purposes: BTreeMap<TimerId, TimerPurpose>,
    by_effect: BTreeMap<(ConversationId, EffectKey), TimerId>,
}

impl Timers {
    /// The number of timers set by patterns.
    pub(crate) fn len(&self) -> usize {
        self.by_effect.len()
    }

    pub(crate) fn set(&mut self, after: Duration, purpose: TimerPurpose, cx: &mut Context<'_>) {
        self.next += 1;
        let id = TimerId(self.next);
        if let TimerPurpose::Pattern { conversation, effect, .. } = &purpose {
            self.by_effect.insert((conversation.clone(), *effect), id);
        }
        self.purposes.insert(id, purpose);
        cx.out.push(Output::SetTimer(id, after));
    }

    pub(crate) fn take(&mut self, id: TimerId) -> Option<TimerPurpose> {
        let purpose = self.purposes.remove(&id)?;
        if let TimerPurpose::Pattern { conversation, effect, .. } = &purpose {
            self.by_effect.remove(&(conversation.clone(), *effect));
        }
        Some(purpose)
    }

    pub(crate) fn clear(&mut self, conversation: &ConversationId, effect: EffectKey, cx: &mut Context<'_>) {
        if let Some(id) = self.by_effect.remove(&(conversation.clone(), effect)) {
            self.purposes.remove(&id);
            cx.out.push(Output::ClearTimer(id));
        }
    }

    /// The effects of a conversation that have a timer.
    pub(crate) fn of(&self, conversation: &ConversationId) -> Vec<EffectKey> {
        let own = self.by_effect.keys().filter(|(of, _)| of == conversation);
        own.map(|(_, effect)| *effect).collect()
    }
}
