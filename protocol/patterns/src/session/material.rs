//! What a turn is given: the goal, what is new to its seat, what was said shortly before, and what earlier stages made.

use super::{
    SeatTurn, Session, SessionContext, TurnDoer,
    graph::{
        BuiltInStage, Graph, SeatHolder, SeatOrder, SessionFindings, SessionRouting, Stage, StageProduct,
    },
    seat::UNREACHABLE,
    state::{self, Said, SeatState, StageRun},
};
use crate::ChunkRange;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How many messages a turn is given beside those that are new to it.
const WINDOW: usize = 12;

/// The most bytes of what is given to a turn. What came later goes first; what is left out is named.
pub(super) const MAX_GIVEN: usize = 128 * 1024;

impl Session {
    /// The turn `id` of a seat, for `to`.
    pub(super) fn seat_turn(
        &self,
        cx: &SessionContext<'_>,
        (place, seat): (usize, usize),
        id: String,
        to: TurnDoer,
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
        let Some(planned) = stage.seats.get(seat) else { return empty };
        // The answer so far is made before its stage begins.
        let taken = run.seats.get(seat).cloned().unwrap_or_default();
        let form = stage.makes.map(StageProduct::instructions);
        let tasks = match (&planned.who, planned.task.as_deref()) {
            // It is told no more than it needs.
            (SeatHolder::Foreign(_), Some(own)) => vec![own.to_owned()],
            (SeatHolder::BuiltIn(_) | SeatHolder::Matched(_), _) => vec![cx.goal.to_owned()],
            (SeatHolder::Foreign(_) | SeatHolder::Peer(_) | SeatHolder::Person(_), own) => {
                let goal = place_and_goal(cx.graph, (place, stage));
                let problem = Some(cx.goal.to_owned());
                [problem, goal, own.map(str::to_owned), form.map(str::to_owned)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        };
        let description = tasks.join("\n\n");
        // In a sealed stage a seat sees itself, people, and what was there when the stage was begun first.
        let is_open = |said: &&Said| {
            let is_unsealed = !stage.sealed
                || planned.role.watches()
                || said.seat.is_none()
                || said.stage == place && said.seat == Some(seat);
            is_unsealed && self.is_routed(cx, (place, stage), seat, said)
        };
        let visible = self.said.iter().filter(|said| said.stage == place && said.is_for(seat, stage));
        let mut visible: Vec<&Said> = visible.filter(is_open).collect();
        visible.sort_by_key(|said| said.position(cx.graph));
        let is_new = |said: &&Said| said.number >= taken.seen && said.seat != Some(seat);
        let amended = self
            .amendments
            .iter()
            .filter(|amendment| stage.does.is_none() && amendment.is_for((place, seat)));
        let amended = amended.map(|amendment| &amendment.said);
        let (amended, known): (Vec<&Said>, Vec<&Said>) = amended.partition(is_new);
        let (new, old): (Vec<&Said>, Vec<&Said>) = visible.into_iter().partition(is_new);
        let mut new: Vec<&Said> = amended.into_iter().chain(new).collect();
        new.sort_by_key(|said| said.position(cx.graph));
        let old = old.iter().rev().take(WINDOW.saturating_sub(new.len())).copied();
        let before: Vec<usize> = match stage.does {
            // All that was matched and done.
            Some(BuiltInStage::Aggregate) => cx.graph.before(place).into_iter().collect(),
            Some(BuiltInStage::Match | BuiltInStage::Dispatch) => cx.graph.places_before(stage),
            // An item of a plan is given what it depends on.
            None if stage.plan().is_some() => cx.graph.places_before(stage),
            // Those that it follows directly come first: of too much the rest is left out.
            None => {
                let direct = cx.graph.places_before(stage);
                let others = cx.graph.before(place).into_iter().filter(|other| !direct.contains(other));
                direct.iter().copied().chain(others.collect::<Vec<_>>()).collect()
            }
        };
        let so_far = self.said.iter().filter(|said| {
            stage.does == Some(BuiltInStage::Aggregate) && said.is_last_word && before.contains(&said.stage)
        });
        let so_far: Vec<&Said> = so_far.collect();
        let before = before.iter().filter_map(|place| self.stages.get(*place));
        let before = before.flat_map(|run: &StageRun| &run.result);
        let feedback = run.feedback.iter().filter(is_open);
        let feedback: Vec<&Said> =
            feedback.filter(|said| said.stage != place || said.is_for(seat, stage)).collect();
        let wanted = new
            .iter()
            .copied()
            .rev()
            .chain(known)
            .chain(feedback.iter().copied())
            .chain(before)
            .chain(so_far)
            .chain(old);
        let (mut given, mut left_out, mut bytes): (Vec<&Said>, Vec<&str>, usize) =
            (Vec::new(), Vec::new(), 0);
        for said in wanted {
            if given.iter().any(|given| given.number == said.number) {
                continue;
            }
            // What a team makes has limits of its own, and so has what the host writes down.
            let has_own_limit = stage.does.is_some() || said.is_discussion();
            if bytes + said.bytes > MAX_GIVEN && !has_own_limit {
                left_out.extend(said.artifacts.iter().map(String::as_str));
                continue;
            }
            bytes += said.bytes;
            given.push(said);
        }
        given.sort_by_key(|said| said.position(cx.graph));
        let artifacts = given.iter().flat_map(|said| said.artifacts.iter().cloned());
        let chunks = state::chunks(given.iter().copied());
        let others = stage
            .seats
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != seat && (!stage.sealed || planned.role.watches()));
        let others = others.map(|(other, planned)| {
            let mut shown = json!({
                "seat": planned.name, "approachable": planned.approachable, "done": self.has_done(place, other),
            });
            if planned.role.watches() {
                shown["as"] = json!(planned.role);
            }
            if planned.person().is_some() {
                shown["person"] = json!(true);
            }
            if let Err(why) = self.seat_named(cx, (place, stage), seat, &planned.name) {
                shown[UNREACHABLE] = json!(why);
            }
            shown
        });
        // What people have said before the stage was begun.
        let from_people = feedback.into_iter().filter(|said| is_new(said) && said.seat.is_none());
        let mut about = json!({
            "session": cx.id,
            "stage": stage.id,
            "number": place + 1,
            "stages": cx.graph.stages.len(),
            "iteration": run.iteration,
            "seat": planned.name,
            "round": run.round,
            "rounds": stage.rounds,
            "order": stage.order,
            "others": others.collect::<Vec<_>>(),
            "new": from_people.chain(new).flat_map(|said| &said.artifacts).collect::<Vec<_>>(),
        });
        let mut add = |name: &str, value: Value, is_there: bool| {
            if is_there {
                about[name] = value;
            }
        };
        let siblings = self.siblings(cx, (place, stage), seat);
        add("routing", json!(cx.graph.routing()), cx.graph.routing() != SessionRouting::SameStage);
        add("siblings", json!(siblings), !siblings.is_empty());
        let spec = self.spec_for(stage);
        add("spec", json!(spec), spec.is_some());
        let so_far = self.so_far(cx, place).filter(|_| !stage.sealed);
        add("soFar", json!(so_far), so_far.is_some() && matches!(planned.who, SeatHolder::Peer(_)));
        let files = self.files_before(cx.graph, place);
        add("files", json!(files), !files.is_empty() && !matches!(planned.who, SeatHolder::BuiltIn(_)));
        let workspace = self.workspace_of(cx, (place, stage), seat);
        add("workspace", json!(workspace), workspace.is_some() && matches!(planned.who, SeatHolder::Peer(_)));
        let signals_to = self.signals_to(cx, (place, stage), seat);
        add("signalsTo", json!(signals_to), !signals_to.is_empty());
        add("as", json!(planned.role), planned.role.watches());
        let earlier: Vec<_> = cx.history.iter().map(|past| &past.task_id).collect();
        let is_foreign = matches!(planned.who, SeatHolder::Foreign(_) | SeatHolder::Matched(_));
        add("earlier", json!(earlier), is_foreign && !earlier.is_empty());
        add("leftOut", json!(left_out), !left_out.is_empty());
        add("refused", json!(taken.refused), !taken.refused.is_empty());
        add("sealed", json!(true), stage.sealed);
        let findings = cx.graph.findings;
        add("findings", json!(findings), findings == SessionFindings::Shared);
        add("compaction", json!(planned.compaction), !planned.compaction.is_default());
        let is_taken_over = taken.filled.is_none() && !taken.gist.is_empty();
        add("takenOver", json!(taken.gist), is_taken_over);
        add("lastFailure", json!(taken.last_failure), taken.last_failure.is_some());
        add("brief", json!(stage.brief), !stage.brief.is_empty());
        let side =
            run.side.as_ref().filter(|_| self.is_aside(place, seat)).and_then(|side| side.about(stage, seat));
        let is_aside = side.is_some();
        add("side", json!(side), is_aside);
        add("labels", json!(stage.next.keys().collect::<Vec<_>>()), !stage.next.is_empty() && !is_aside);
        add("partial", json!(true), run.partial);
        add("isLastRound", json!(true), stage.order == SeatOrder::Turns && run.round >= stage.rounds);
        let artifacts = cx.given.iter().map(|given| given.artifact_id.clone()).chain(artifacts);
        let artifacts = match &planned.who {
            // Only its own order.
            SeatHolder::Matched(_) => {
                artifacts.filter(|id| id.ends_with(&format!(".{}", planned.name))).collect()
            }
            SeatHolder::Peer(_) | SeatHolder::Foreign(_) | SeatHolder::Person(_) | SeatHolder::BuiltIn(_) => {
                artifacts.collect()
            }
        };
        SeatTurn { description, input: json!({ "seat": about }), artifacts, chunks, ..empty }
    }

    /// Forgets what every seat of its stage was given and that lies far enough back. Of what is for a seat, its last words
    /// are kept, and all that is new to it, unless it is done or watches without reviews: it may never have a turn again.
    pub(super) fn forget_old(&mut self, graph: &Graph) {
        let mut kept = BTreeSet::new();
        for (place, (stage, run)) in graph.stages.iter().zip(&self.stages).enumerate() {
            let mut of_stage: Vec<&Said> = self.said.iter().filter(|said| said.stage == place).collect();
            of_stage.sort_by_key(|said| said.position(graph));
            if stage.gathers() {
                kept.extend(of_stage.iter().map(|said| said.number));
                continue;
            }
            for (seat, (planned, taken)) in stage.seats.iter().zip(&run.seats).enumerate() {
                let is_at_table = matches!(taken.state, SeatState::Idle | SeatState::Speaking { .. });
                let has_turns = is_at_table && (!planned.role.watches() || planned.reviews.is_some());
                let addressed = of_stage.iter().rev().filter(|said| said.is_for(seat, stage)).enumerate();
                let addressed = addressed.filter(|(back, said)| {
                    *back < WINDOW + run.seats.len() || has_turns && said.number >= taken.seen
                });
                kept.extend(addressed.map(|(_, said)| said.number));
            }
            let last = Self::last_words(of_stage.iter().copied(), place, run.seats.len());
            kept.extend(last.iter().map(|said| said.number));
        }
        self.said.retain(|said| kept.contains(&said.number));
    }
}

/// Which of the stages it is, and what it is for; nothing of the only stage but its goal.
fn place_and_goal(graph: &Graph, (place, stage): (usize, &Stage)) -> Option<String> {
    let goal = stage.task.as_deref();
    match graph.stages.len() {
        0 | 1 => goal.map(str::to_owned),
        count => {
            let named = format!("Stage {} of {count}: {}.", place + 1, stage.id);
            Some(goal.map_or_else(|| named.clone(), |goal| format!("{named} {goal}")))
        }
    }
}
