//! Timers: which one means what. The shell only knows their names.

use crate::{AttemptId, Output, TimerId, context::Context, conversation::QueuedEvent, records::EffectKey};
use protocol::{
    ids::ConversationId,
    patterns::{AnyTimer, TimerAt},
};
use std::{collections::BTreeMap, time::Duration};

/// What a timer is for.
pub(crate) enum TimerPurpose {
    /// A pattern set it.
    Pattern { conversation: ConversationId, effect: EffectKey, timer: AnyTimer, at: TimerAt },
    /// An attempt is due again.
    Retry(AttemptId),
    /// Deferred news is recorded.
    Flush,
    /// A conversation that went back to what the store holds goes on with these.
    GoOn { conversation: ConversationId, queue: Vec<QueuedEvent> },
    /// A search has waited long enough for the directory.
    Directory { conversation: ConversationId, effect: EffectKey },
    /// The board is to be followed again.
    Subscribe,
    /// The signal at hand is tried again.
    Signal,
}

#[derive(Default)]
pub(crate) struct Timers {
    next: u64,
    purposes: BTreeMap<TimerId, TimerPurpose>,
    by_effect: BTreeMap<(ConversationId, EffectKey), TimerId>,
}

impl Timers {
    /// How many are set by patterns.
    pub(crate) fn len(&self) -> usize {
        self.by_effect.len()
    }

    pub(crate) fn set(&mut self, after: Duration, purpose: TimerPurpose, cx: &mut Context<'_>) -> TimerId {
        self.next += 1;
        let id = TimerId(self.next);
        if let TimerPurpose::Pattern { conversation, effect, .. } = &purpose {
            self.by_effect.insert((conversation.clone(), *effect), id);
        }
        self.purposes.insert(id, purpose);
        cx.out.push(Output::SetTimer(id, after));
        id
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
