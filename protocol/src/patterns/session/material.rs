//! What a turn is given: the goal, what is new to its seat, what was said shortly before, and what earlier stages made.

use super::{
    SeatTurn, Session, SessionContext,
    graph::SeatOrder,
    state::{Said, SeatState, StageRun},
};
use crate::{ids::Address, patterns::ChunkRange};
use serde_json::{Value, json};

/// How many messages a turn is given beside those that are new to it.
const WINDOW: usize = 12;

/// The most bytes of what is given to a turn. What came later goes first; what is left out is named.
const MAX_GIVEN: usize = 128 * 1024;

impl Session {
    /// The turn `id` of a seat, for `to`.
    pub(super) fn seat_turn(
        &self,
        cx: &SessionContext<'_>,
        (place, seat): (usize, usize),
        id: String,
        to: Address,
    ) -> SeatTurn {
        let empty = SeatTurn {
            id,
            to,
            description: cx.goal.to_owned(),
            input: Value::Null,
            artifacts: Vec::new(),
            chunks: ChunkRange::default(),
        };
        let (Some(stage), Some(run)) = (cx.graph.stages.get(place), self.stages.get(place)) else {
            return empty;
        };
        let (Some(planned), Some(taken)) = (stage.seats.get(seat), run.seats.get(seat)) else { return empty };
        let tasks = [stage.task.as_deref(), planned.task.as_deref()];
        let description =
            std::iter::once(cx.goal).chain(tasks.into_iter().flatten()).collect::<Vec<_>>().join("\n\n");
        let heard = self.said.iter().filter(|said| said.stage == place && said.is_for(seat));
        let (new, old): (Vec<&Said>, Vec<&Said>) = heard.partition(|said| said.number >= taken.seen);
        let new: Vec<&Said> = new.into_iter().filter(|said| said.seat != Some(seat)).collect();
        let old = old.iter().rev().take(WINDOW.saturating_sub(new.len())).copied();
        let before = stage.after.iter().filter_map(|id| self.stages.get(cx.graph.place(id)?));
        let before = before.flat_map(|run: &StageRun| &run.result);
        let wanted = new.iter().copied().rev().chain(run.feedback.iter()).chain(before).chain(old);
        let (mut given, mut left_out, mut bytes): (Vec<&Said>, Vec<&str>, usize) =
            (Vec::new(), Vec::new(), 0);
        for said in wanted {
            if given.iter().any(|given| given.number == said.number) {
                continue;
            }
            if bytes + said.bytes > MAX_GIVEN {
                left_out.extend(said.artifacts.iter().map(String::as_str));
                continue;
            }
            bytes += said.bytes;
            given.push(said);
        }
        given.sort_by_key(|said| said.number);
        let artifacts = given.iter().flat_map(|said| said.artifacts.iter().cloned());
        let chunks = ChunkRange {
            from: given.iter().map(|said| said.chunks.from).min().unwrap_or_default(),
            to: given.iter().map(|said| said.chunks.to).max().unwrap_or_default(),
        };
        let others = stage.seats.iter().enumerate().filter(|(other, _)| *other != seat);
        let others = others.map(|(other, planned)| {
            json!({
                "seat": planned.name, "approachable": planned.approachable, "done": self.has_done(place, other),
            })
        });
        let mut about = json!({
            "session": cx.id,
            "stage": stage.id,
            "iteration": run.iteration,
            "seat": planned.name,
            "round": run.round,
            "rounds": stage.rounds,
            "order": stage.order,
            "others": others.collect::<Vec<_>>(),
            "new": new.iter().flat_map(|said| &said.artifacts).collect::<Vec<_>>(),
        });
        let mut add = |name: &str, value: Value, is_there: bool| {
            if let Some(members) = about.as_object_mut().filter(|_| is_there) {
                members.insert(name.to_owned(), value);
            }
        };
        add("leftOut", json!(left_out), !left_out.is_empty());
        add("refused", json!(taken.refused), !taken.refused.is_empty());
        add("labels", json!(stage.next.keys().collect::<Vec<_>>()), !stage.next.is_empty());
        add("partial", json!(true), run.partial);
        add("isLastRound", json!(true), stage.order == SeatOrder::Turns && run.round >= stage.rounds);
        let artifacts = cx.given.iter().cloned().chain(artifacts).collect();
        SeatTurn { description, input: json!({ "seat": about }), artifacts, chunks, ..empty }
    }

    /// Forgets what every seat of its stage was given and that lies far enough back.
    pub(super) fn forget_old(&mut self) {
        let keep_from = |(place, run): (usize, &StageRun)| {
            let at_table = run
                .seats
                .iter()
                .filter(|seat| matches!(seat.state, SeatState::Idle | SeatState::Speaking { .. }));
            let seen = at_table.map(|seat| seat.seen).min().unwrap_or(u64::MAX);
            let of_stage = self.said.iter().filter(|said| said.stage == place);
            let window = of_stage.rev().nth(WINDOW + run.seats.len()).map_or(0, |said| said.number);
            seen.min(window)
        };
        let kept: Vec<u64> = self.stages.iter().enumerate().map(keep_from).collect();
        let last: Vec<u64> = (0..self.stages.len())
            .flat_map(|place| {
                let seats = self.stages.get(place).map(|run| run.seats.len()).unwrap_or_default();
                Self::last_words(&self.said, place, seats)
            })
            .map(|said| said.number)
            .collect();
        self.said.retain(|said| {
            kept.get(said.stage).is_none_or(|kept| said.number >= *kept) || last.contains(&said.number)
        });
    }
}
