//! The turns that wait: first come, first served for each principal, and the principals by turns, so that the turns of one do
//! not delay those of all others.

use crate::{TurnKey, TurnStart};
use protocol::principal::Principal;
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound::{Excluded, Unbounded},
};

/// Waiting turns. Those of signals are one principal's. What a principal says to this very agent goes before its other work.
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
    pub(crate) fn pop(&mut self) -> Option<Box<TurnStart>> {
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

    /// Takes out the turns that `held` has something about, with that.
    pub(crate) fn take_held<T>(
        &mut self,
        mut held: impl FnMut(&TurnStart) -> Option<T>,
    ) -> Vec<(Option<Principal>, bool, Box<TurnStart>, T)> {
        let mut taken = Vec::new();
        for (principal, turns) in &mut self.waiting {
            for ReadyTurn { is_addressed, turn } in std::mem::take(turns) {
                match held(&turn) {
                    Some(why) => taken.push((principal.clone(), is_addressed, turn, why)),
                    None => turns.push_back(ReadyTurn { is_addressed, turn }),
                }
            }
        }
        self.waiting.retain(|_, turns| !turns.is_empty());
        taken
    }

    pub(crate) fn remove(&mut self, key: &TurnKey) {
        self.waiting.retain(|_, turns| {
            turns.retain(|ready| ready.turn.key != *key);
            !turns.is_empty()
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TurnStart> {
        self.waiting.values().flatten().map(|ready| ready.turn.as_ref())
    }
}
