//! Who may speak to whom in a session (SEEDS §1.1 and §9, line 35). A turn is told who its siblings are; its own agent refuses
//! `help` and `delegate` to them, and keeps them out of auctions that the turn starts.

use super::{
    Session, SessionContext,
    graph::{Seat, SeatRole, SessionRouting, Stage},
    seat::SEALED,
    state::{Said, SeatRun, SeatState},
};
use protocol::{ids::AgentId, task::TaskSpec};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The agent that has a seat, if that is known.
fn agent_of(seat: &Seat, taken: Option<&SeatRun>) -> Option<AgentId> {
    let filled = taken.and_then(|taken| taken.filled.clone());
    filled.or_else(|| seat.who.agent().cloned())
}

impl Session {
    /// Whether the seat speaks to every seat, and is spoken to by every seat.
    fn is_seat_up(&self, cx: &SessionContext<'_>, (place, stage): (usize, &Stage), seat: usize) -> bool {
        let taken = self.stages.get(place).and_then(|run| run.seats.get(seat));
        stage.seats.get(seat).is_some_and(|planned| {
            planned.role == SeatRole::Supervisor
                || planned.person().is_some()
                || agent_of(planned, taken).is_some_and(|agent| cx.graph.is_up(cx.host, &agent))
        })
    }

    /// The seat of this name that a message of the seat `from` reaches alone, or why it reaches none.
    pub(super) fn seat_named(
        &self,
        cx: &SessionContext<'_>,
        (place, stage): (usize, &Stage),
        from: usize,
        name: &str,
    ) -> Result<usize, String> {
        if stage.sealed {
            return Err(SEALED.to_owned());
        }
        let found = stage.seats.iter().enumerate().find(|(_, seat)| seat.name == name);
        let Some((to, addressed)) = found else {
            let is_elsewhere =
                |other: &&Stage| other.id != stage.id && other.seats.iter().any(|seat| seat.name == name);
            return Err(match cx.graph.stages.iter().find(is_elsewhere) {
                Some(other) => format!("it has a seat in stage {}, not in this one", other.id),
                None => "no such seat here".to_owned(),
            });
        };
        let is_supervisor = stage.seats.get(from).is_some_and(|seat| seat.role == SeatRole::Supervisor);
        let taken = self.stages.get(place).and_then(|run| run.seats.get(to));
        let why = match taken.map(|taken| &taken.state) {
            _ if to == from => Some("that is you".to_owned()),
            _ if !addressed.approachable && !is_supervisor => Some("it can't be addressed alone".to_owned()),
            Some(SeatState::Failed { .. }) => Some("it has failed".to_owned()),
            Some(SeatState::Done) if taken.is_some_and(|taken| taken.reopened) => {
                Some("it is done, and a message has reopened it once".to_owned())
            }
            _ => self.why_not_routed(cx, (place, stage), from, to),
        };
        why.map_or(Ok(to), Err)
    }

    /// Why a message of one seat to another is not delivered.
    fn why_not_routed(
        &self,
        cx: &SessionContext<'_>,
        (place, stage): (usize, &Stage),
        from: usize,
        to: usize,
    ) -> Option<String> {
        let routing = cx.graph.routing();
        let is_up = |seat| self.is_seat_up(cx, (place, stage), seat);
        let is_refused = routing == SessionRouting::UpDown && !is_up(from) && !is_up(to);
        is_refused.then(|| {
            format!("with routing {} a seat speaks to the host, the lead and supervisors", routing.word())
        })
    }

    /// Whether seats of one stage that are siblings hear each other, where `seat` hears `said`.
    pub(super) fn is_routed(
        &self,
        cx: &SessionContext<'_>,
        (place, stage): (usize, &Stage),
        seat: usize,
        said: &Said,
    ) -> bool {
        let speaker = said.seat.filter(|speaker| said.stage == place && *speaker != seat);
        let is_up = |seat| self.is_seat_up(cx, (place, stage), seat);
        cx.graph.routing() != SessionRouting::UpDown
            || stage.watches(seat)
            || is_up(seat)
            || speaker.is_none_or(|speaker| is_up(speaker) || said.to.contains(&seat))
    }

    /// The agents to which a turn of the seat gives no work and puts no question.
    pub(super) fn siblings(
        &self,
        cx: &SessionContext<'_>,
        (place, stage): (usize, &Stage),
        seat: usize,
    ) -> BTreeSet<AgentId> {
        let graph = cx.graph;
        // Those of a sealed stage ask nobody, and are not told who else there is.
        if graph.routing() == SessionRouting::SameStage
            || stage.sealed
            || self.is_seat_up(cx, (place, stage), seat)
        {
            return BTreeSet::new();
        }
        let taken = |place: usize, seat: usize| self.stages.get(place).and_then(|run| run.seats.get(seat));
        let own = stage.seats.get(seat).and_then(|planned| agent_of(planned, taken(place, seat)));
        let all = graph.stages.iter().enumerate().flat_map(|(place, stage)| {
            let seats = stage.seats.iter().enumerate();
            let seats = seats.filter(|(_, planned)| {
                planned.role != SeatRole::Supervisor || graph.routing() == SessionRouting::Mediated
            });
            seats.filter_map(move |(seat, planned)| agent_of(planned, taken(place, seat)))
        });
        all.filter(|agent| Some(agent) != own.as_ref() && !graph.is_up(cx.host, agent)).collect()
    }

    /// The agents that signals of a turn of the seat are for, which keeps them from its siblings; all, if empty.
    pub(super) fn signals_to(
        &self,
        cx: &SessionContext<'_>,
        (place, stage): (usize, &Stage),
        seat: usize,
    ) -> BTreeSet<AgentId> {
        if cx.graph.routing() == SessionRouting::SameStage || self.is_seat_up(cx, (place, stage), seat) {
            return BTreeSet::new();
        }
        [Some(cx.host.clone()), cx.graph.lead()].into_iter().flatten().collect()
    }
}

/// The agents to which the turn of a seat gives no work and puts no question; none if the task is no such turn.
pub fn siblings(spec: &TaskSpec) -> Vec<AgentId> {
    let about = spec.input.as_ref().and_then(|input| input.get("seat")?.get("siblings"));
    about.and_then(|siblings| Vec::deserialize(siblings).ok()).unwrap_or_default()
}

/// The agents that signals of the turn of a seat are for; all, if empty.
pub fn signals_to(spec: &TaskSpec) -> Vec<AgentId> {
    let about = spec.input.as_ref().and_then(|input| input.get("seat")?.get("signalsTo"));
    about.and_then(|to| Vec::deserialize(to).ok()).unwrap_or_default()
}

/// Why a request of the turn of a seat to `to` is refused.
pub fn why_sibling_is_refused(to: &AgentId) -> String {
    format!(
        "sibling_refused: {to} has another seat of the session, and its `routing` lets seats ask the host only, with up-down the lead and supervisors, too"
    )
}
