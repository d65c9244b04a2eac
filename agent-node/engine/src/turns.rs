//! Turns of the brain: at most `maxParallel` at a time. The others wait in order, the principals by turns.

mod ready_turns;

use crate::{
    Output, TurnKey, TurnStart,
    context::Context,
    records::EffectKey,
    turn_end::{TurnTerms, oversized_signal},
};
use patterns::{
    EventKind,
    turn::{Progress, TurnEnd},
};
use protocol::{ids::ConversationId, principal::Principal, time::NodeTime};
use ready_turns::ReadyTurns;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A turn that runs.
struct RunningTurn {
    /// Its number within the conversation.
    turn: u32,
    /// The requests that end it. They are recorded with its end, so that one that begins again after a crash begins without them.
    requests: Vec<Progress>,
    started: NodeTime,
    /// Whether it counts against the limit.
    takes_place: bool,
}

/// A turn that waits for more than a slot.
struct HeldReady {
    principal: Option<Principal>,
    is_addressed: bool,
    turn: Box<TurnStart>,
}

/// The running and the waiting turns.
pub(crate) struct Turns {
    limit: usize,
    terms: TurnTerms,
    running: BTreeMap<TurnKey, RunningTurn>,
    ready: ReadyTurns,
    /// Turns that a quota keeps waiting.
    held: Vec<HeldReady>,
    /// Turns that ran when the node was killed again and again. While one of them has not ended, turns run one at a time.
    isolated: BTreeSet<TurnKey>,
    /// How long a turn takes, from those that have ended.
    typical: Option<Duration>,
}

impl Turns {
    /// No turns; at most `limit` will run at a time.
    pub(crate) fn new(limit: usize, terms: TurnTerms) -> Self {
        let (running, ready, held, isolated) = Default::default();
        Self { limit, terms, running, ready, held, isolated, typical: None }
    }

    /// At most `limit` run at a time from here on; those that run go on.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Runs turns one at a time until this one, which is going to be added, and all others of its kind have ended.
    pub(crate) fn isolate(&mut self, key: TurnKey) {
        self.isolated.insert(key);
    }

    /// Forgets the isolated turns of conversations that are not there.
    pub(crate) fn keep_isolated(&mut self, is_open: impl Fn(&ConversationId) -> bool) {
        self.isolated.retain(|key| is_open(&key.conversation));
    }

    /// How many may run at a time.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn terms(&self) -> TurnTerms {
        self.terms
    }

    /// The number of running and waiting turns.
    pub(crate) fn len(&self) -> usize {
        self.running.len() + self.ready.len() + self.held.len()
    }

    pub(crate) fn of(&self, conversation: &ConversationId) -> Vec<EffectKey> {
        let keys = self.running.keys().chain(self.waiting()).filter(|key| key.conversation == *conversation);
        keys.map(|key| key.effect).collect()
    }

    /// The number of a running turn within its conversation.
    pub(crate) fn number(&self, key: &TurnKey) -> Option<u32> {
        self.running.get(key).map(|running| running.turn)
    }

    /// The conversation of each running turn.
    pub(crate) fn running(&self) -> impl Iterator<Item = &ConversationId> {
        self.running.keys().map(|key| &key.conversation)
    }

    /// The conversation of each running and waiting turn.
    pub(crate) fn conversations(&self) -> impl Iterator<Item = &ConversationId> {
        self.running.keys().chain(self.waiting()).map(|key| &key.conversation)
    }

    /// The keys of the turns that wait.
    fn waiting(&self) -> impl Iterator<Item = &TurnKey> {
        let held = self.held.iter().map(|held| &held.turn.key);
        self.ready.iter().map(|turn| &turn.key).chain(held)
    }

    /// Keeps the waiting turns back that `why` has a reason for. Returns their conversations, with the reasons.
    pub(crate) fn hold<T>(&mut self, why: impl FnMut(&TurnStart) -> Option<T>) -> Vec<(ConversationId, T)> {
        let taken = self.ready.take_held(why).into_iter();
        taken
            .map(|(principal, is_addressed, turn, why)| {
                let conversation = turn.key.conversation.clone();
                self.held.push(HeldReady { principal, is_addressed, turn });
                (conversation, why)
            })
            .collect()
    }

    /// The conversations of the turns that are kept back.
    pub(crate) fn held(&self) -> impl Iterator<Item = &ConversationId> {
        self.held.iter().map(|held| &held.turn.key.conversation)
    }

    /// The turns that were kept back wait for a slot again.
    pub(crate) fn release_held(&mut self) {
        for HeldReady { principal, is_addressed, turn } in self.held.drain(..) {
            self.ready.push(principal, is_addressed, turn);
        }
    }

    /// A turn waits for a free slot. `is_addressed` says whether its principal speaks to this very agent.
    pub(crate) fn add(&mut self, principal: Option<Principal>, is_addressed: bool, turn: TurnStart) {
        self.ready.push(principal, is_addressed, Box::new(turn));
    }

    /// Starts waiting turns while there are free slots, of which so many are reserved; returns their conversations and numbers.
    pub(crate) fn start_ready(
        &mut self,
        reserved: usize,
        cx: &mut Context<'_>,
    ) -> Vec<(ConversationId, u32)> {
        let mut begun = Vec::new();
        while self.has_free_slots(reserved + 1)
            && let Some(turn) = self.ready.pop()
        {
            begun.push((turn.key.conversation.clone(), turn.prompt.turn));
            self.begin(turn, true, cx);
        }
        begun
    }

    /// Starts a turn that waits for work elsewhere only, and takes no slot.
    pub(crate) fn start_beside(&mut self, turn: TurnStart, cx: &mut Context<'_>) {
        self.begin(Box::new(turn), false, cx);
    }

    fn begin(&mut self, turn: Box<TurnStart>, takes_place: bool, cx: &mut Context<'_>) {
        let (number, started) = (turn.prompt.turn, cx.world.now());
        let running = RunningTurn { turn: number, requests: Vec::new(), started, takes_place };
        self.running.insert(turn.key.clone(), running);
        cx.out.push(Output::StartTurn(turn));
    }

    fn has_free_slots(&self, wanted: usize) -> bool {
        let limit = if self.isolated.is_empty() { self.limit } else { self.limit.min(1) };
        self.running.values().filter(|turn| turn.takes_place).count() + wanted <= limit
    }

    /// Whether a new turn would start at once: a slot is free, and no turn waits.
    pub(crate) fn would_start(&self) -> bool {
        self.ready.is_empty() && self.has_free_slots(1)
    }

    /// Takes what a running turn reports. Returns the event for its conversation, and the effect that this closes. A signal that
    /// is too large stops and fails the turn.
    pub(crate) fn report(
        &mut self,
        key: &TurnKey,
        updates: Vec<Progress>,
        cx: &mut Context<'_>,
    ) -> Option<(Option<EffectKey>, EventKind)> {
        let running = self.running.get_mut(key)?;
        let turn = running.turn;
        let (requests, updates): (Vec<_>, Vec<_>) =
            updates.into_iter().partition(|update| update.waits() == Some(true));
        running.requests.extend(requests);
        if updates.is_empty() {
            return None;
        }
        Some(match oversized_signal(&updates, self.terms.max_signal_bytes) {
            Some(reason) => {
                self.stop(key, cx);
                (Some(key.effect), EventKind::TurnFailed { turn, reason })
            }
            None => (None, EventKind::TurnProgress { turn, updates }),
        })
    }

    /// Ends a running turn. Returns the event for its conversation.
    pub(crate) fn end(
        &mut self,
        key: &TurnKey,
        updates: Vec<Progress>,
        end: Result<TurnEnd, String>,
        now: NodeTime,
    ) -> Option<EventKind> {
        let RunningTurn { turn, mut requests, started, takes_place } = self.running.remove(key)?;
        self.isolated.remove(key);
        if takes_place {
            let took = now.since(started);
            self.typical = Some(self.typical.map_or(took, |typical| (typical * 3 + took) / 4));
        }
        requests.extend(updates);
        Some(self.terms.end(turn, requests, end))
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
        self.held.retain(|held| held.turn.key != *key);
        self.isolated.remove(key);
        if self.running.remove(key).is_some() {
            cx.out.push(Output::StopTurn(key.clone()));
        }
    }

    /// Tells the running turn of a conversation that the checkpoints in these events are durable.
    pub(crate) fn acknowledge_checkpoints(
        &self,
        id: &ConversationId,
        recorded: &[(EventKind, Option<EffectKey>)],
        cx: &mut Context<'_>,
    ) {
        for (what, _) in recorded {
            let EventKind::TurnProgress { turn, updates } = what else { continue };
            let count = updates.iter().filter(|update| matches!(update, Progress::Checkpoint(_))).count();
            let mut running = self.running.iter();
            let running = running.find(|(key, running)| key.conversation == *id && running.turn == *turn);
            if let Some((key, _)) = running.filter(|_| count > 0) {
                cx.out.push(Output::CheckpointsRecorded(key.clone(), count));
            }
        }
    }
}
