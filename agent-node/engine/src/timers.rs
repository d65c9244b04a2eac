//! The timers that are set. The shell knows only their ids.

use crate::{Output, TimerId, context::Context, records::EffectKey, timer_purpose::TimerPurpose};
use patterns::{Timer, TimerAt};
use protocol::ids::ConversationId;
use std::{collections::BTreeMap, time::Duration};

/// The longest delay of a wall-clock timer before the wall clock is read again.
const WALL_CHECK: Duration = Duration::from_secs(60);

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

    /// Sets a pattern's timer.
    pub(crate) fn set_for_pattern(
        &mut self,
        conversation: ConversationId,
        effect: EffectKey,
        timer: Timer,
        at: TimerAt,
        cx: &mut Context<'_>,
    ) {
        let after = match at {
            TimerAt::Node(at) => at.since(cx.world.now()),
            TimerAt::Wall(at) => cx.wall().until(at).min(WALL_CHECK),
        };
        self.set(after, TimerPurpose::Pattern { conversation, effect, timer, at }, cx);
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
