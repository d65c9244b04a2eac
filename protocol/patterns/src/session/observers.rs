//! Observers and supervisors: seats that see everything, and speak when they review or are addressed (SEEDS §2.5).
//!
//! They stand outside of the order of a stage: a turn of theirs is of no round, and nothing waits for them to be done.

use super::{
    Session, SessionStep,
    graph::{Seat, SeatOrder, Stage},
    state::{SeatRun, SeatState, StageRun},
};
impl Stage {
    /// Whether a seat is an observer or a supervisor.
    pub(super) fn watches(&self, seat: usize) -> bool {
        self.seats.get(seat).is_some_and(|seat| seat.role.watches())
    }

    /// The places of the members that wait for a turn, in order.
    pub(super) fn idle_members(&self, seats: &[SeatRun]) -> Vec<usize> {
        let idle = seats.iter().enumerate().filter(|(_, seat)| seat.state == SeatState::Idle);
        idle.map(|(seat, _)| seat).filter(|seat| !self.watches(*seat)).collect()
    }
}

impl Session {
    /// Gives observers and supervisors the turns that are due: at a table one after the other, else all at once.
    pub(super) fn give_reviews(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get(place)) else {
            return;
        };
        let is_due = |seat: &SeatRun| seat.due && seat.state == SeatState::Idle;
        let due = run.seats.iter().enumerate().filter(|(_, seat)| is_due(seat)).map(|(seat, _)| seat);
        let due: Vec<usize> = match stage.order {
            SeatOrder::Parallel => due.collect(),
            SeatOrder::Turns if run.seats.iter().any(SeatRun::is_speaking) => Vec::new(),
            SeatOrder::Turns => due.take(1).collect(),
        };
        for seat in due {
            self.speak(step, place, seat);
        }
    }
}

/// What a member did is to be reviewed.
pub(super) fn call_reviewers(stage: &Stage, run: &mut StageRun) {
    let seats = stage.seats.iter().zip(&mut run.seats);
    seats.filter(|(planned, _)| planned.reviews.is_some()).for_each(|(_, taken)| taken.due = true);
}

/// A message of `sender` has come to `seat`: one that watches has a turn for it, unless the sender watches, too.
pub(super) fn address(seat: &Seat, taken: &mut SeatRun, sender: &Seat) {
    taken.due |= seat.role.watches() && !sender.role.watches();
}
