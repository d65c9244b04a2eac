//! One step decided: the rule runs over everything that waits, and what follows from it becomes one batch.

use super::{
    Conversation, Queued, Seen, Waiter,
    record::{Place, Sealed, keys},
    spill,
};
use crate::agent::Ack;
use blackboard::store::{Batch, Error, Write};
use protocol::{
    coordination::{
        AnyPattern, Effect, Event, Pattern, What, contract_net::track_record::TrackRecord, thought::Prompt,
    },
    ids::AgentId,
    time::{NodeTime, WallTime},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So many messages make a step that is sealed while the one before it is still being written: the writer then goes from
/// one to the other without waiting for anybody. Fewer wait for it: a commit costs as much for one as for many.
pub(crate) const ENOUGH_TO_FOLLOW: usize = 24;

/// So many turns may share the step that asks them; whatever is asked beyond is thought after it.
pub(super) const MOST_AT_ONCE: usize = 8;

/// A decided step on its way to the store.
#[derive(Default)]
pub struct Decided {
    /// Which step it is.
    pub step: u64,
    /// What is to be written.
    pub batch: Batch,
    /// What to perform once it is.
    pub effects: Vec<(Place, Effect)>,
    /// Whom to tell.
    pub waiters: Vec<(Waiter, Ack)>,
    /// Where the claims stand in the batch, with the effects that wrote them.
    pub claims: Vec<(usize, Place, AgentId)>,
    /// Receipts the batch holds, with the task each is about.
    pub receipts: Vec<(blackboard::store::Key, Option<protocol::ids::TaskId>)>,
    /// Events to hand in again if the commit fails: nobody outside will repeat them.
    pub inside: Vec<(What, Option<Place>)>,
    /// The track records that changed.
    pub track_records: Vec<(AgentId, TrackRecord)>,
    /// Effects that were dropped by the step: their timers and thoughts end.
    pub dropped: Vec<Place>,
}

/// What came of looking at the queue.
pub enum Advance {
    /// Nothing to record.
    Nothing,
    /// Something that may wait for the next commit.
    Deferred(Vec<(Waiter, Ack)>),
    /// A step to commit.
    Commit(Box<Decided>),
    /// The rule panicked, or a record can't be written. What is in memory is not true any more.
    Poisoned(Poisoned),
}

/// What is left of a step whose rule panicked, or that can't be written.
pub struct Poisoned {
    /// What the rule said when it panicked, or why it can't be written.
    pub why: String,
    /// Whoever waits for the step.
    pub waiters: Vec<(Waiter, Ack)>,
    /// Receipts that were not written.
    pub receipts: Vec<blackboard::store::Key>,
    /// What happened inside, without the event that the rule could not take.
    pub inside: Vec<(What, Option<Place>)>,
}

/// What has been taken into a step that is not sealed yet: the rule has seen it, nothing is recorded of it.
pub(super) struct Taken {
    decided: Decided,
    effects: Vec<Effect>,
    /// Turns whose thought shares the step.
    at_once: usize,
    may_wait: bool,
    fault: Option<Fault>,
}

impl Taken {
    /// Whether it holds the conversation's end.
    pub(super) fn ends(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Finish(_)))
    }

    /// Of a step that will never be: whom to refuse, and what to hand in again.
    pub(super) fn given_up(self) -> Poisoned {
        let why = self.fault.map(|(Fault::Panicked(why) | Fault::Unwritten(why))| why);
        poisoned(why.unwrap_or_default(), self.decided, std::iter::empty())
    }
}

/// When an event is taken in, what is known of the peers then, and who may answer at once.
#[derive(Clone, Copy)]
pub struct Now<'a> {
    /// Whose conversation it is.
    pub me: &'a AgentId,
    /// The node's clock.
    pub at: NodeTime,
    /// The wall clock.
    pub wall: WallTime,
    /// How peers kept their word.
    pub records: &'a BTreeMap<AgentId, TrackRecord>,
    /// The thought that follows from a question alone; `None` if it takes a brain's time.
    pub at_once: AtOnce<'a>,
}

/// Who answers a question at once, by its turn and its deadline.
pub(super) type AtOnce<'a> = &'a dyn Fn(u32, &Prompt, Option<WallTime>) -> Option<What>;

impl Conversation {
    /// Runs the rule over everything that waits, and makes a step of it. While the step before is being written, the rule
    /// runs all the same, so that the next one is only sealed once that stands, or upon it if it is large enough
    /// already; whatever it decides is performed, answered and shown after its own commit. `force` commits even what could
    /// be deferred.
    pub fn advance(&mut self, now: Now<'_>, force: bool) -> Advance {
        if !self.queue.is_empty() || !self.is_committing() && force && self.has_uncommitted() {
            self.take_in(now);
        }
        if self.is_committing() && !self.may_follow() {
            return Advance::Nothing;
        }
        let Some(taken) = self.ahead.take() else { return Advance::Nothing };
        let Taken { mut decided, effects, may_wait, fault, at_once: _ } = *taken;
        let sealed = match fault {
            Some(fault) => Err(fault),
            None if may_wait && !force && effects.is_empty() && self.uncommitted.len() < 1_024 => {
                self.deferred = decided.inside;
                return Advance::Deferred(decided.waiters);
            }
            None => self.seal(now.me, effects, &mut decided).map_err(Fault::from),
        };
        match sealed {
            Ok(()) => {
                self.may_be_followed = !force;
                Advance::Commit(Box::new(decided))
            }
            // Nothing goes back to what the store holds before it is known what that is.
            Err(fault) if self.is_committing() => {
                let taken = Taken { decided, effects: Vec::new(), at_once: 0, may_wait, fault: Some(fault) };
                self.ahead = Some(Box::new(taken));
                Advance::Nothing
            }
            Err(Fault::Panicked(why)) => Advance::Poisoned(poisoned(why, decided, self.queue.drain(..))),
            Err(Fault::Unwritten(why)) => {
                // Any of them may be what can't be written: it must not come back for ever.
                decided.inside.clear();
                Advance::Poisoned(poisoned(why, decided, self.queue.drain(..)))
            }
        }
    }

    /// Whether what has been taken in makes a step upon the one that is being written, of which nothing is known yet. It
    /// ends nothing, and there is something for it to stand upon.
    fn may_follow(&self) -> bool {
        let is_enough = |taken: &Taken| {
            taken.decided.receipts.len() >= ENOUGH_TO_FOLLOW && taken.fault.is_none() && !taken.may_wait
        };
        self.commits == 1
            && self.may_be_followed
            && self.head > 0
            && self.failed.is_none()
            && self.ended.is_none()
            && self.ahead.as_deref().is_some_and(is_enough)
    }

    /// Runs the rule over everything that waits, up to the first event that it can't take.
    fn take_in(&mut self, now: Now<'_>) {
        let mut taken = self.ahead.take().unwrap_or_else(|| {
            let inside = std::mem::take(&mut self.deferred);
            let decided = Decided { inside, ..Decided::default() };
            Box::new(Taken { decided, effects: Vec::new(), at_once: 0, may_wait: true, fault: None })
        });
        while taken.fault.is_none()
            && let Some(queued) = self.queue.pop_front()
        {
            taken.fault = self.take(now, queued, &mut taken).err();
        }
        self.ahead = Some(taken);
    }

    /// One event, and the thoughts that follow at once from what it asks. An error says why what is in memory is not true any more.
    fn take(&mut self, now: Now<'_>, queued: Queued, taken: &mut Taken) -> Result<(), Fault> {
        let Now { me, at, wall, .. } = now;
        let Taken { decided, may_wait, .. } = taken;
        *may_wait &= queued.may_be_forgotten();
        let is_inside = queued.receipt.is_none() && queued.waiters.is_empty();
        // Whatever goes wrong from here on: whoever waits is told.
        decided.waiters.extend(queued.waiters);
        if let Some(Sealed { key, task_id, bytes }) = queued.receipt {
            decided.receipts.push((key.clone(), task_id));
            decided.batch.writes.push(Write::Put(key, bytes));
        }
        if let Some(place) = queued.closes
            && let Some(closed) = self.open.remove(&place)
            && let What::Undelivered { reason, message, .. } = &queued.what
        {
            self.bury(me, &closed, place, (reason, message), wall, &mut decided.batch.writes)?;
        }
        if let Some(cursor) = queued.cursor {
            let bytes = spill::encode(me, &cursor, &mut Vec::new(), &mut BTreeSet::new())?;
            decided.batch.writes.push(Write::Put(keys::cursor(me), bytes));
        }
        if matches!(queued.what, What::Leaving { .. }) {
            self.excuse_attempts();
        }
        let event = Event { at, wall, what: queued.what };
        if let (Some(row), What::Answered { message: Some(said), .. }) = (&mut self.task, &event.what) {
            row.task.hear(said.as_ref().clone());
        }
        let effects = rule(&mut self.pattern, &event).map_err(Fault::Panicked)?;
        if is_inside {
            decided.inside.push((event.what.clone(), queued.closes));
        }
        self.uncommitted.push(Seen { event, closes: queued.closes, text: queued.text });
        self.follow(now, effects, taken)
    }

    /// What follows from an event. A thought that follows at once is an event like any other; only, it is nobody's to
    /// repeat: it comes again with what asked for it.
    fn follow(&mut self, now: Now<'_>, effects: Vec<Effect>, taken: &mut Taken) -> Result<(), Fault> {
        let mut thoughts = VecDeque::new();
        self.note_all(now, effects, taken, &mut thoughts)?;
        while let Some((place, what)) = thoughts.pop_front() {
            let event = Event { at: now.at, wall: now.wall, what };
            let before = self.pattern.clone();
            match rule(&mut self.pattern, &event) {
                Ok(effects) => {
                    self.uncommitted.push(Seen { event, closes: Some(place), text: None });
                    self.note_all(now, effects, taken, &mut thoughts)?;
                }
                // What asked is recorded all the same; the thought comes again by itself, and ends what it breaks.
                Err(_) => {
                    self.pattern = before;
                    let Some(asked) = taken.effects.get(place.1 as usize) else { continue };
                    self.note(now, asked, place, &mut taken.decided)?;
                }
            }
        }
        Ok(())
    }

    fn note_all(
        &mut self,
        now: Now<'_>,
        effects: Vec<Effect>,
        taken: &mut Taken,
        thoughts: &mut VecDeque<(Place, What)>,
    ) -> Result<(), Fault> {
        for effect in effects {
            let place = Place(self.step + 1, u32::try_from(taken.effects.len()).unwrap_or(u32::MAX));
            if let Effect::Think { turn, prompt, deadline } = &effect
                && taken.at_once < MOST_AT_ONCE
                && let Some(what) = (now.at_once)(*turn, prompt, *deadline)
            {
                taken.at_once += 1;
                thoughts.push_back((place, what));
            } else {
                self.note(now, &effect, place, &mut taken.decided)?;
            }
            taken.effects.push(effect);
        }
        Ok(())
    }

    /// Makes one batch of what has been taken in.
    fn seal(&mut self, me: &AgentId, effects: Vec<Effect>, decided: &mut Decided) -> Result<(), Error> {
        for place in std::mem::take(&mut self.again) {
            decided.effects.extend(self.open.get(&place).map(|open| (place, open.effect.clone())));
        }
        let step = self.step + 1;
        self.record(me, step, effects, decided)?;
        (self.step, decided.step) = (step, step);
        self.commits += 1;
        Ok(())
    }
}

/// Why a step came to nothing.
enum Fault {
    Panicked(String),
    Unwritten(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Unwritten(error.to_string())
    }
}

/// Runs the rule; a panic in it ends the step, not the agent.
fn rule(pattern: &mut AnyPattern, event: &Event) -> Result<Vec<Effect>, String> {
    let run = || {
        #[cfg(test)]
        super::tests::panic_if_asked(event);
        pattern.on(event)
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

fn poisoned(why: String, decided: Decided, rest: impl Iterator<Item = Queued>) -> Poisoned {
    let mut left = Poisoned {
        why,
        waiters: decided.waiters,
        receipts: decided.receipts.into_iter().map(|(key, _)| key).collect(),
        inside: decided.inside,
    };
    for queued in rest {
        left.receipts.extend(queued.receipt.as_ref().map(|receipt| receipt.key.clone()));
        if queued.receipt.is_none() && queued.waiters.is_empty() {
            left.inside.push((queued.what, queued.closes));
        }
        left.waiters.extend(queued.waiters);
    }
    left
}
