//! The turns of the brain that run, and those that wait.

use crate::{Output, TurnKey, TurnStart, context::Context, records::EffectKey};
use protocol::{ids::ConversationId, patterns::turn::Progress, principal::Principal, time::NodeTime};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

/// A running turn.
pub(crate) struct RunningTurn {
    /// Its number within the conversation.
    pub(crate) turn: u32,
    /// The requests that end it. They are recorded with its end, so that one that begins again after a crash begins without them.
    pub(crate) requests: Vec<Progress>,
    started: NodeTime,
    /// Whether it counts against the limit.
    takes_place: bool,
}

/// The running and the waiting turns.
pub(crate) struct Turns {
    pub(crate) limit: usize,
    pub(crate) running: BTreeMap<TurnKey, RunningTurn>,
    pub(crate) ready: ReadyTurns,
    /// How long a turn takes, from those that have ended.
    typical: Option<Duration>,
}

impl Turns {
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { limit, running: BTreeMap::new(), ready: ReadyTurns::default(), typical: None }
    }

    /// The number of running and waiting turns.
    pub(crate) fn len(&self) -> usize {
        self.running.len() + self.ready.len()
    }

    pub(crate) fn of(&self, conversation: &ConversationId) -> Vec<EffectKey> {
        let ready = self.ready.iter().map(|turn| &turn.key);
        let keys = self.running.keys().chain(ready).filter(|key| key.conversation == *conversation);
        keys.map(|key| key.effect).collect()
    }

    /// The conversation of each running and waiting turn.
    pub(crate) fn conversations(&self) -> impl Iterator<Item = &ConversationId> {
        let ready = self.ready.iter().map(|turn| &turn.key);
        self.running.keys().chain(ready).map(|key| &key.conversation)
    }

    /// Starts waiting turns while there are free slots; returns their conversations and numbers.
    pub(crate) fn start_ready(&mut self, cx: &mut Context<'_>) -> Vec<(ConversationId, u32)> {
        let mut begun = Vec::new();
        while self.has_free_slot()
            && let Some(turn) = self.ready.pop()
        {
            begun.push((turn.key.conversation.clone(), turn.prompt.turn));
            self.begin(turn, true, cx);
        }
        begun
    }

    /// Starts a turn that waits for work elsewhere only, and takes no slot.
    pub(crate) fn start_beside(&mut self, turn: Box<TurnStart>, cx: &mut Context<'_>) {
        self.begin(turn, false, cx);
    }

    fn begin(&mut self, turn: Box<TurnStart>, takes_place: bool, cx: &mut Context<'_>) {
        let running = RunningTurn {
            turn: turn.prompt.turn,
            requests: Vec::new(),
            started: cx.world.now(),
            takes_place,
        };
        self.running.insert(turn.key.clone(), running);
        cx.out.push(Output::StartTurn(turn));
    }

    /// Whether fewer turns run than may.
    pub(crate) fn has_free_slot(&self) -> bool {
        self.running.values().filter(|turn| turn.takes_place).count() < self.limit
    }

    /// Ends a running turn, and returns it.
    pub(crate) fn end(&mut self, key: &TurnKey, now: NodeTime) -> Option<RunningTurn> {
        let ended = self.running.remove(key)?;
        if ended.takes_place {
            let took = now.since(ended.started);
            self.typical = Some(self.typical.map_or(took, |typical| (typical * 3 + took) / 4));
        }
        Some(ended)
    }

    /// When a slot is expected to be free. `eta` is how long a turn takes if none has ended. A turn that takes longer is
    /// expected to take a quarter more.
    pub(crate) fn free_in(&self, eta: Duration, now: NodeTime) -> Duration {
        let typical = self.typical.unwrap_or(eta);
        let left = self.running.values().filter(|turn| turn.takes_place).map(|turn| {
            let elapsed = now.since(turn.started);
            typical.saturating_sub(elapsed).max(elapsed / 4)
        });
        let turns_before = u32::try_from(self.ready.len() / self.limit.max(1)).unwrap_or(u32::MAX);
        left.min().unwrap_or(typical).saturating_add(typical.saturating_mul(turns_before))
    }

    /// Stops a running turn, or removes it from the queue.
    pub(crate) fn stop(&mut self, key: &TurnKey, cx: &mut Context<'_>) {
        self.ready.remove(key);
        if self.running.remove(key).is_some() {
            cx.out.push(Output::StopTurn(key.clone()));
        }
    }
}

/// The turns that wait: first come, first served for each principal, and the principals by turns, so that the turns of one do not
/// delay those of all others. Those of signals are one principal's. What a principal says to this very agent goes before its other
/// work.
#[derive(Default)]
pub(crate) struct ReadyTurns {
    waiting: BTreeMap<Option<Principal>, VecDeque<ReadyTurn>>,
    /// The principal whose turn was taken last.
    last: Option<Option<Principal>>,
}

struct ReadyTurn {
    is_addressed: bool,
    turn: Box<TurnStart>,
}

impl ReadyTurns {
    pub(crate) fn push(&mut self, principal: Option<Principal>, is_addressed: bool, turn: Box<TurnStart>) {
        let turns = self.waiting.entry(principal).or_default();
        let place = match is_addressed {
            true => turns.iter().take_while(|ready| ready.is_addressed).count(),
            false => turns.len(),
        };
        turns.insert(place, ReadyTurn { is_addressed, turn });
    }

    /// Takes the oldest turn of the next principal.
    fn pop(&mut self) -> Option<Box<TurnStart>> {
        let last = self.last.as_ref();
        let after = last.and_then(|last| self.waiting.range((Excluded(last), Unbounded)).next());
        let principal = after.or_else(|| self.waiting.first_key_value())?.0.clone();
        let turns = self.waiting.get_mut(&principal)?;
        let turn = turns.pop_front().map(|ready| ready.turn);
        if turns.is_empty() {
            self.waiting.remove(&principal);
        }
        self.last = Some(principal);
        turn
    }

    fn remove(&mut self, key: &TurnKey) {
        self.waiting.retain(|_, turns| {
            turns.retain(|ready| ready.turn.key != *key);
            !turns.is_empty()
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    fn iter(&self) -> impl Iterator<Item = &TurnStart> {
        self.waiting.values().flatten().map(|ready| ready.turn.as_ref())
    }
}
