//! What one call of an agent reads from and writes to.

use crate::{Ack, Observation, Output, ReplyTo, World};
use protocol::{problem::Problem, time::WallTime};
use store_types::Snapshot;

/// The store and the world that one call to `Agent::handle` reads, and the outputs it writes.
pub(crate) struct Context<'a> {
    pub(crate) store: &'a dyn Snapshot,
    pub(crate) world: &'a mut dyn World,
    pub(crate) out: Vec<Output>,
}

impl Context<'_> {
    pub(crate) fn reply(&mut self, to: ReplyTo, answer: Result<Ack, Problem>) {
        self.out.push(Output::Reply(to, answer));
    }

    pub(crate) fn observe(&mut self, what: Observation) {
        self.out.push(Output::Observed(what));
    }

    pub(crate) fn wall(&self) -> WallTime {
        self.world.wall()
    }
}
