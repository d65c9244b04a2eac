//! Timers: which one means what. The shell only knows their names.

use crate::{
    AttemptId, Output, TimerId,
    agent::{Agent, Context, InternalEvent},
    conversation::QueuedEvent,
    records::EffectKey,
};
use protocol::{
    ids::ConversationId,
    patterns::{AnyTimer, EventKind, TimerAt},
};
use std::{collections::BTreeMap, time::Duration};

/// The longest a timer sleeps before it looks at the wall clock again.
const WALL_CHECK: Duration = Duration::from_secs(60);

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

    fn take(&mut self, id: TimerId) -> Option<TimerPurpose> {
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

impl Agent {
    /// Sets a pattern's timer.
    pub(crate) fn set_timer(
        &mut self,
        conversation: ConversationId,
        effect: EffectKey,
        timer: AnyTimer,
        at: TimerAt,
        cx: &mut Context<'_>,
    ) {
        let after = match at {
            TimerAt::Node(at) => at.since(cx.world.now()),
            TimerAt::Wall(at) => cx.wall().until(at).min(WALL_CHECK),
        };
        self.timers.set(after, TimerPurpose::Pattern { conversation, effect, timer, at }, cx);
    }

    pub(crate) fn timer_fired(&mut self, id: TimerId, cx: &mut Context<'_>) {
        match self.timers.take(id) {
            None => {}
            Some(TimerPurpose::Pattern { conversation, effect, timer, at }) => {
                let is_due = match at {
                    TimerAt::Node(at) => cx.world.now() >= at,
                    TimerAt::Wall(at) => cx.wall() >= at,
                };
                if is_due {
                    let what = EventKind::TimerFired { timer };
                    self.events.push_back(InternalEvent { conversation, closes: Some(effect), what });
                } else {
                    self.set_timer(conversation, effect, timer, at, cx);
                }
            }
            Some(TimerPurpose::Retry(attempt)) => self.attempt_again(attempt, cx),
            Some(TimerPurpose::Flush) => self.flush(cx),
            Some(TimerPurpose::GoOn { conversation, queue }) => {
                if let Some(open) = self.conversations.get_mut(&conversation) {
                    open.queue.extend(queue);
                }
                self.advance(&conversation, true, cx);
            }
            Some(TimerPurpose::Directory { conversation, effect }) => {
                self.find_peers_now(&conversation, effect, cx);
            }
            Some(TimerPurpose::Subscribe) => self.subscribe(cx),
            Some(TimerPurpose::Signal) => self.signal_again(cx),
        }
    }
}
