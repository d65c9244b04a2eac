//! Rounds and turns of a stage: whose turn is next, what a turn has brought, and when the stage ends.

use super::{
    GRACE, INCOMPLETE, Session, SessionAction, SessionStep, SessionTimer, TOO_FEW,
    graph::{Seat, SeatOrder, Stage, StageNeeds},
    seat::{self, PASSES, TEAM},
    state::{Said, SeatRun, SeatState, StageState},
};
use crate::{
    artifact::Artifact,
    ids::{Address, Digest},
    patterns::{ChunkRange, turn::RequestResult},
};
use serde_json::json;

/// The most artifacts of one turn that other seats are given.
const MAX_SHOWN: usize = 16;

/// The most messages that were not delivered of which a seat is told.
const MAX_REFUSED: usize = 8;

impl Session {
    /// Begins a stage whose turn it is.
    pub(super) fn open_stage(&mut self, step: &mut SessionStep<'_>, place: usize, is_partial: bool) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        let now = step.cx.now;
        let Some(run) = self.stages.get_mut(place) else { return };
        run.state = StageState::Running;
        run.iteration += 1;
        run.opened = Some(now);
        run.partial = is_partial;
        run.seats = stage.seats.iter().map(|_| SeatRun::default()).collect();
        if let (Some(time), Ok(number)) = (stage.time(), u32::try_from(place)) {
            let timer = SessionTimer::Stage(number, run.iteration);
            step.actions.push(SessionAction::Timer { timer, at: now.plus(time) });
        }
        self.begin_round(step, place);
    }

    fn begin_round(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        run.round += 1;
        let idle = run.seats.iter().enumerate().filter(|(_, seat)| seat.state == SeatState::Idle);
        let idle: Vec<usize> = idle.map(|(seat, _)| seat).collect();
        let speakers = match stage.order {
            SeatOrder::Parallel => idle.as_slice(),
            SeatOrder::Turns => idle.get(..1).unwrap_or_default(),
        };
        let what = match stage.order {
            SeatOrder::Parallel => format!("stage {}: {} seats work", stage.id, speakers.len()),
            SeatOrder::Turns => format!("stage {}: round {} of {}", stage.id, run.round, stage.rounds),
        };
        step.actions.push(SessionAction::Show(what));
        for seat in speakers.iter().copied() {
            self.speak(step, place, seat);
        }
    }

    /// Gives a seat its turn.
    fn speak(&mut self, step: &mut SessionStep<'_>, place: usize, seat: usize) {
        let budget = step.cx.graph.budget.turns;
        if self.is_over {
            return;
        }
        if self.turns >= budget {
            return self.end_by_budget(step, &format!("budget.turns: {budget} used up"));
        }
        self.turns += 1;
        let next = self.next;
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        let Some(run) = self.stages.get_mut(place) else { return };
        let iteration = run.iteration;
        let (Some(planned), Some(taken)) = (stage.seats.get(seat), run.seats.get_mut(seat)) else { return };
        taken.turns += 1;
        let id = format!("{}.{iteration}.{}.{}", stage.id, planned.name, taken.turns);
        taken.state = SeatState::Speaking { turn: id.clone() };
        let to = taken.filled.clone().map_or_else(|| planned.who.clone(), Address::Agent);
        let turn = self.seat_turn(&step.cx, (place, seat), id, to);
        step.actions.push(SessionAction::Turn(Box::new(turn)));
        if let Some(taken) = self.stages.get_mut(place).and_then(|run| run.seats.get_mut(seat)) {
            taken.seen = next;
            taken.refused.clear();
        }
    }

    /// Takes the result of a turn.
    pub(super) fn take_turn(
        &mut self,
        step: &mut SessionStep<'_>,
        place: usize,
        seat: usize,
        result: RequestResult,
    ) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        let Some(planned) = stage.seats.get(seat) else { return };
        let end = result.seat.clone().unwrap_or_default();
        {
            let Some(run) = self.stages.get_mut(place) else { return };
            let Some(taken) = run.seats.get_mut(seat) else { return };
            if !result.ok {
                let why: String = result.text.chars().take(400).collect();
                taken.filled = None;
                if taken.failures < stage.retries && !run.closing {
                    taken.failures += 1;
                    let note = format!("stage {}: {} is asked again: {why}", stage.id, planned.name);
                    self.note(note);
                    return self.speak(step, place, seat);
                }
                taken.state = SeatState::Failed { why };
                return self.after_turn(step, place, seat);
            }
            taken.failures = 0;
            if matches!(planned.who, Address::Capability(_)) {
                taken.filled = end.doer.clone().or_else(|| taken.filled.clone());
            }
            taken.state = if end.passed { SeatState::Idle } else { SeatState::Done };
            run.label = end.label.clone().or_else(|| run.label.take());
        }
        self.take_words(step, (place, stage), (seat, planned), result, end.passed);
        self.after_turn(step, place, seat);
    }

    /// Records what a turn has said.
    fn take_words(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        (seat, planned): (usize, &Seat),
        result: RequestResult,
        passed: bool,
    ) {
        let RequestResult { text, artifacts, .. } = result;
        let mut seen = format!("{}\n", planned.name);
        let (messages, results): (Vec<_>, Vec<_>) =
            artifacts.into_iter().partition(|artifact| seat::addressees(artifact).is_some());
        for message in messages {
            let named = seat::addressees(&message).unwrap_or_default();
            let to = self.seats_named(step, (place, stage), (seat, planned), &named);
            let Some(to) = to else { continue };
            seen.push_str(&format!("{to:?} {}\n", message.as_text()));
            self.say(step, (place, stage), (seat, planned), to, (message.as_text(), Vec::new()), false);
        }
        let is_silent = text.trim().is_empty() || passed && text.trim() == PASSES;
        if !is_silent || !results.is_empty() {
            seen.push_str(&text);
            results.iter().for_each(|artifact| seen.push_str(&artifact.as_text()));
            let text = if is_silent { String::new() } else { text };
            self.say(step, (place, stage), (seat, planned), Vec::new(), (text, results), true);
        }
        let Some(run) = self.stages.get_mut(place) else { return };
        if seen.len() > planned.name.len() + 1 {
            let before = run.this_round.map(|digest| digest.to_string()).unwrap_or_default();
            run.this_round = Some(Digest::of(format!("{before}{seen}").as_bytes()));
        }
    }

    /// The places of the seats that a message names, none for all; `None` if it may not be sent, of which its sender is told.
    /// A seat that is done is opened again, once.
    fn seats_named(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        (from, sender): (usize, &Seat),
        named: &[String],
    ) -> Option<Vec<usize>> {
        if named.iter().any(|name| name == TEAM) {
            return Some(Vec::new());
        }
        let mut to = Vec::new();
        let mut refused = None;
        for name in named {
            let found = stage.seats.iter().position(|seat| seat.name == *name);
            match found.and_then(|found| Some((found, stage.seats.get(found)?))) {
                Some((found, _)) if found == from => {
                    refused = Some(format!("a message to {name} was not delivered: that is you"));
                }
                Some((_, seat)) if !seat.approachable => {
                    let why = format!("a message to {name} was not delivered: it can't be addressed alone");
                    refused = Some(why);
                }
                Some((found, _)) => to.push(found),
                None => refused = Some(format!("a message to {name} was not delivered: no such seat here")),
            }
        }
        let run = self.stages.get_mut(place)?;
        if let Some(why) = refused {
            step.actions.push(SessionAction::Show(format!("stage {}: {}: {why}", stage.id, sender.name)));
            let told = run.seats.get_mut(from)?;
            told.refused.push(why);
            told.refused.truncate(MAX_REFUSED);
            return None;
        }
        for addressed in &to {
            if let Some(seat) = run.seats.get_mut(*addressed)
                && seat.state == SeatState::Done
                && !std::mem::replace(&mut seat.reopened, true)
            {
                seat.state = SeatState::Idle;
            }
        }
        Some(to)
    }

    /// Records words of a seat, and keeps where they are.
    fn say(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        (seat, planned): (usize, &Seat),
        to: Vec<usize>,
        (text, results): (String, Vec<Artifact>),
        is_last_word: bool,
    ) {
        let number = self.next;
        self.next += 1;
        let Some(run) = self.stages.get_mut(place) else { return };
        let names = to.iter().filter_map(|to| stage.seats.get(*to)).map(|seat| seat.name.as_str());
        let about = json!({
            "stage": stage.id, "iteration": run.iteration, "round": run.round, "from": planned.name,
            "to": if to.is_empty() { vec![TEAM] } else { names.collect::<Vec<_>>() },
        });
        let (mut artifacts, mut bytes, mut chunks) = (Vec::new(), 0, None);
        let mut record = |step: &mut SessionStep<'_>, mut artifact: Artifact| {
            artifact.metadata.insert(seat::SESSION.to_owned(), about.clone());
            let is_shown = artifacts.len() < MAX_SHOWN;
            if is_shown {
                bytes += artifact.size();
                artifacts.push(artifact.artifact_id.clone());
            }
            let chunk = step.record(artifact);
            if is_shown {
                chunks = Some(ChunkRange { to: chunk.to, ..*chunks.get_or_insert(chunk) });
            }
        };
        let name = format!("{}.{}", stage.id, number + 1);
        if !text.is_empty() {
            let mut spoken = Artifact::text(&name, "text/plain", text);
            spoken.description = Some(format!("{}, round {}", planned.name, run.round));
            record(step, spoken);
        }
        for mut result in results {
            result.artifact_id = format!("{name}.{}", result.artifact_id);
            record(step, result);
        }
        let chunks = chunks.unwrap_or_default();
        if to.is_empty() {
            run.findings += 1;
        }
        let seat = Some(seat);
        self.said.push_back(Said { number, stage: place, seat, to, artifacts, chunks, bytes, is_last_word });
        self.forget_old();
    }

    /// What follows a turn: the next one, a new round, or the end of the stage.
    fn after_turn(&mut self, step: &mut SessionStep<'_>, place: usize, seat: usize) {
        if let Some(why) = self.why_budget_ends_it(&step.cx) {
            return self.end_by_budget(step, &why);
        }
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get(place)) else {
            return;
        };
        let is_speaking = run.seats.iter().any(SeatRun::is_speaking);
        if run.closing {
            if !is_speaking {
                self.end_stage(step, place, "done", None);
            }
            return;
        }
        if let Some(wanted) = stage.until.findings.filter(|wanted| run.findings >= *wanted) {
            return self.close_stage(step, place, &format!("it has {} findings", wanted));
        }
        if is_speaking {
            return;
        }
        let next = match stage.order {
            SeatOrder::Parallel => None,
            SeatOrder::Turns => {
                let later = run.seats.iter().enumerate().skip(seat + 1);
                let mut idle = later.filter(|(_, seat)| seat.state == SeatState::Idle);
                idle.next().map(|(place, _)| place)
            }
        };
        match next {
            Some(next) => self.speak(step, place, next),
            None => self.end_round(step, place),
        }
    }

    fn end_round(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        let is_open = run.seats.iter().any(|seat| seat.state == SeatState::Idle);
        let (this, last) = (run.this_round.take(), run.last_round);
        run.last_round = this;
        let incomplete = match this {
            _ if !is_open => return self.end_stage(step, place, "done", None),
            None => Some(format!("nobody said anything in round {}", run.round)),
            Some(this) if Some(this) == last => {
                Some(format!("rounds {} and {} are the same", run.round.saturating_sub(1), run.round))
            }
            Some(_) if run.round >= stage.rounds => Some(format!("its {} rounds are used up", stage.rounds)),
            Some(_) => None,
        };
        match incomplete {
            Some(why) => self.end_stage(step, place, INCOMPLETE, Some(why)),
            None => self.begin_round(step, place),
        }
    }

    /// The stage ends when its running turns have, or after a while without them.
    pub(super) fn close_stage(&mut self, step: &mut SessionStep<'_>, place: usize, why: &str) {
        let Some(run) = self.stages.get_mut(place) else { return };
        run.reason = Some(why.to_owned());
        run.closing = true;
        if !run.seats.iter().any(SeatRun::is_speaking) {
            return self.end_stage(step, place, "done", None);
        }
        if let Ok(number) = u32::try_from(place) {
            let timer = SessionTimer::Grace(number, run.iteration);
            step.actions.push(SessionAction::Timer { timer, at: step.cx.now.plus(GRACE) });
        }
    }

    /// Withdraws the running turns of a stage, and the question at its gate.
    pub(super) fn stop_turns(&mut self, step: &mut SessionStep<'_>, place: usize, why: &str) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        if let Some(asked) = run.gated.take() {
            self.waited += step.cx.now.0.saturating_sub(asked.0);
            let turn = super::gate::gate_id(stage, run.iteration);
            step.actions.push(SessionAction::Withdraw { turn, why: why.to_owned() });
        }
        for seat in &mut run.seats {
            if let SeatState::Speaking { turn } = &seat.state {
                step.actions.push(SessionAction::Withdraw { turn: turn.clone(), why: why.to_owned() });
                seat.state = SeatState::Idle;
            }
        }
    }

    /// Ends a stage, with the label that its seats gave it, or `label`.
    pub(super) fn end_stage(
        &mut self,
        step: &mut SessionStep<'_>,
        place: usize,
        label: &str,
        why: Option<String>,
    ) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        let failed: Vec<String> = run
            .seats
            .iter()
            .zip(&stage.seats)
            .filter_map(|(seat, planned)| match &seat.state {
                SeatState::Failed { why } => Some(format!("{}: {why}", planned.name)),
                SeatState::Idle | SeatState::Speaking { .. } | SeatState::Done => None,
            })
            .collect();
        run.closing = false;
        run.result = Self::last_words(&self.said, place, run.seats.len());
        self.said.retain(|said| said.stage != place);
        let has_failed = match stage.needs {
            StageNeeds::All => !failed.is_empty(),
            StageNeeds::Settled => failed.len() == run.seats.len(),
        };
        if has_failed {
            run.state = StageState::Failed;
            run.reason = Some(failed.join("; "));
            run.label = None;
            let shown = format!("stage {} failed: {}", stage.id, failed.join("; "));
            step.actions.push(SessionAction::Show(shown));
            return;
        }
        run.partial |= !failed.is_empty();
        run.state = StageState::Done;
        let given = run.label.take();
        let (label, why) = match label {
            "done" if run.findings < stage.at_least => {
                let why = format!("{} of {} findings", run.findings, stage.at_least);
                (TOO_FEW.to_owned(), Some(why))
            }
            "done" => (given.unwrap_or_else(|| label.to_owned()), why),
            other => (other.to_owned(), why),
        };
        run.label = Some(label.clone());
        if why.is_some() {
            run.reason = why;
        }
        step.actions.push(SessionAction::Show(format!("stage {} ended: {label}", stage.id)));
        let looped = run.looped;
        let begins_again = step.cx.graph.goes_back(place, &label).is_some() && looped < stage.loops;
        match stage.gate.is_empty() || begins_again {
            true => self.route(step, place, &label),
            false => self.open_gate(step, place),
        }
    }
}
