//! A session as a person or a console sees it.

use super::{
    Session, SessionContext,
    state::{SeatState, StageState},
};
use serde_json::{Value, json};

/// Adds the members that there are.
fn add<'a>(shown: &mut Value, more: impl IntoIterator<Item = (&'a str, Option<Value>)>) {
    for (name, value) in more.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        shown[name] = value;
    }
}

impl Session {
    /// Everything there is to see: the graph, the states, whose turn it is, why something waits, and what was used.
    /// `has_ended` says that its task has.
    pub fn view(&self, cx: &SessionContext<'_>, has_ended: bool) -> Value {
        let is_over = has_ended || self.is_over && self.ending.is_none();
        let stages = cx.graph.stages.iter().enumerate().map(|(place, _)| self.stage_view(cx, place, is_over));
        let said = self.said.iter().chain(self.stages.iter().flat_map(|run| &run.result));
        let mut said: Vec<_> = said.collect();
        said.sort_by_key(|said| said.number);
        said.dedup_by_key(|said| said.number);
        let said = said.into_iter().filter_map(|said| {
            let stage = cx.graph.stages.get(said.stage)?;
            let name = |place: &usize| stage.seats.get(*place).map(|seat| seat.name.as_str());
            let to: Vec<&str> = match said.to.is_empty() {
                true => vec![super::names::TEAM],
                false => said.to.iter().filter_map(name).collect(),
            };
            Some(
                json!({ "stage": stage.id, "from": said.speaker(stage), "to": to, "artifacts": said.artifacts }),
            )
        });
        let budget = &cx.graph.budget;
        let used_ms = self.at.0.saturating_sub(self.started.0);
        let mut view = json!({
            "session": cx.id,
            "goal": cx.goal,
            "routing": cx.graph.routing(),
            "over": is_over,
            "startedAt": self.started,
            "budget": {
                "turns": { "used": self.turns, "limit": budget.turns() },
                "tokens": { "used": cx.used.tokens(), "limit": budget.tokens() },
                "timeMs": { "used": used_ms, "limit": budget.time().0 },
            },
            "stages": stages.collect::<Vec<_>>(),
            "said": said.collect::<Vec<_>>(),
            "notes": self.notes,
            "amendments": self.amendments.iter().flat_map(|amendment| &amendment.said.artifacts).collect::<Vec<_>>(),
        });
        let more = [
            ("autopilot", self.autopilot_view(cx)),
            ("workspace", self.workspace_view(cx.graph)),
            ("spec", self.spec.as_ref().map(|spec| json!(spec))),
            ("verdicts", (!self.verdicts.is_empty()).then(|| json!(self.verdicts))),
            ("restartedFrom", cx.graph.restarted_from.as_ref().map(|task| json!(task))),
        ];
        add(&mut view, more);
        if let Some(cost) = budget.of_models().cost {
            view["budget"]["cost"] = json!({ "used": cx.used.cost, "limit": cost });
        }
        view
    }

    fn stage_view(&self, cx: &SessionContext<'_>, place: usize, is_over: bool) -> Value {
        let (Some(stage), Some(run)) = (cx.graph.stages.get(place), self.stages.get(place)) else {
            return Value::Null;
        };
        let seats = stage.seats.iter().enumerate().map(|(seat, planned)| {
            let taken = run.seats.get(seat).cloned().unwrap_or_default();
            let (state, why) = match &taken.state {
                SeatState::Idle => ("waiting", None),
                SeatState::Speaking { .. } if planned.person().is_some() => ("asked", None),
                SeatState::Speaking { .. } => ("working", None),
                SeatState::Done => ("done", None),
                SeatState::Failed { why } => ("failed", Some(why.clone())),
            };
            let mut shown = json!({
                "seat": planned.name, "who": planned.who, "state": state, "turns": taken.turns,
                "approachable": planned.approachable,
            });
            let more = [
                ("as", planned.role.watches().then(|| json!(planned.role))),
                ("reviews", planned.reviews.map(|reviews| json!(reviews))),
                ("agent", taken.filled.map(|agent| json!(agent))),
                ("why", why.map(|why| json!(why))),
                (
                    "turn",
                    if let SeatState::Speaking { turn } = &taken.state { Some(json!(turn)) } else { None },
                ),
            ];
            add(&mut shown, more);
            shown
        });
        let waits_for: Vec<&str> = match run.state {
            StageState::Waiting => {
                let is_open = |at: &usize| self.stages.get(*at).is_some_and(|run| !run.state.has_ended());
                let open = cx.graph.places_before(stage).into_iter().filter(is_open);
                open.filter_map(|at| Some(cx.graph.stages.get(at)?.id.as_str())).collect()
            }
            _ => Vec::new(),
        };
        // What was under way when the session was stopped or canceled.
        let state = match is_over && !run.state.has_ended() {
            true => json!("stopped"),
            false => json!(run.state),
        };
        let working = run.seats.iter().zip(&stage.seats).filter(|(seat, _)| seat.is_speaking());
        let mut shown = json!({
            "stage": stage.id, "state": state, "after": stage.after, "order": stage.order,
            "iteration": run.iteration, "round": run.round, "rounds": stage.rounds, "findings": run.findings,
            "working": working.map(|(_, seat)| seat.name.as_str()).collect::<Vec<_>>(),
            "seats": seats.collect::<Vec<_>>(),
        });
        let more = [
            ("plan", stage.plan().map(|plan| json!(plan))),
            ("makes", stage.makes.map(|makes| json!(makes))),
            ("task", stage.task.as_ref().map(|task| json!(task))),
            ("side", run.side.as_ref().map(|side| side.view(stage))),
            ("label", run.label.as_ref().map(|label| json!(label))),
            ("reason", run.reason.as_ref().map(|reason| json!(reason))),
            ("openedAt", run.opened.map(|at| json!(at))),
            ("sealed", stage.sealed.then_some(Value::Bool(true))),
            ("partial", run.partial.then_some(Value::Bool(true))),
            (
                "next",
                (!stage.next.is_empty())
                    .then(|| json!({ "routes": stage.next, "loops": stage.loops, "used": run.looped })),
            ),
            ("waitsFor", (!waits_for.is_empty()).then(|| json!(waits_for))),
            ("commits", (!run.commits.is_empty()).then(|| json!(run.commits.values().collect::<Vec<_>>()))),
            ("askedAt", run.gated.map(|at| json!(at))),
            ("gate", (!stage.gate.is_empty()).then(|| json!(stage.gate))),
        ];
        add(&mut shown, more);
        shown
    }
}
