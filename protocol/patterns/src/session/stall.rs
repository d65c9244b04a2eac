//! Turns that report nothing for too long are ended.

use super::{Session, SessionAction, SessionStep, SessionTimer, state::SeatState};
use crate::turn::RequestResult;
use protocol::time::WallTime;

impl Session {
    /// Sets the time after which a turn that reports nothing is ended.
    pub(super) fn watch_for_stall(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, seat): (usize, usize),
        number: u32,
    ) {
        let Some(stall) = step.cx.graph.stages.get(place).and_then(|stage| stage.stall) else { return };
        let (Ok(stage), Ok(at)) = (u32::try_from(place), u32::try_from(seat)) else { return };
        let taken = self.stages.get(place).and_then(|run| run.seats.get(seat));
        let since = taken.and_then(|taken| taken.reported).unwrap_or(step.cx.now);
        let timer = SessionTimer::Stall(stage, at, number);
        step.actions.push(SessionAction::Timer { timer, at: since.plus(stall.duration()) });
    }

    /// The doer of a turn has reported. While it does not work, because it waits for a person or in a queue, it can't stall.
    pub fn reported(&mut self, turn: &str, works: bool, now: WallTime) {
        let taken = self
            .place_of_turn(turn)
            .and_then(|(stage, seat)| self.stages.get_mut(stage)?.seats.get_mut(seat));
        if let Some(taken) = taken {
            taken.reported = works.then_some(now);
        }
    }

    /// Ends a turn that has reported nothing for too long.
    pub(super) fn check_stall(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, seat): (usize, usize),
        number: u32,
    ) {
        let Some(stall) = step.cx.graph.stages.get(place).and_then(|stage| stage.stall) else { return };
        let Some(taken) = self.stages.get(place).and_then(|run| run.seats.get(seat)) else { return };
        let SeatState::Speaking { turn } = &taken.state else { return };
        if taken.turns != number {
            return;
        }
        let is_late = taken.reported.is_some_and(|at| at.plus(stall.duration()) <= step.cx.now);
        if !is_late {
            return self.watch_for_stall(step, (place, seat), number);
        }
        let (id, why) = (turn.clone(), format!("it has reported nothing for {stall}"));
        step.actions.push(SessionAction::Withdraw { turn: id.clone(), why: why.clone() });
        self.take_turn(step, place, seat, RequestResult { id, text: why, ..RequestResult::default() });
    }
}
