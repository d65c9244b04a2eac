//! From stage to stage: which ones are ready, where a label leads, and how the session ends.

use super::{
    INCOMPLETE, Session, SessionStep, TOO_FEW,
    graph::{BuiltInStage, Graph, Stage, StageNeeds},
    state::{Said, SeatState, StageRun, StageState},
};
use protocol::task::TaskState;
use std::collections::BTreeSet;

/// What becomes of a stage that waits.
enum StageReadiness {
    NotYet,
    Ready { is_partial: bool },
    Blocked(String),
    Skipped,
}

impl Session {
    /// Begins every stage that is ready, and ends the session when none is left.
    pub(super) fn go_on(&mut self, step: &mut SessionStep<'_>) {
        if !self.is_over && !self.has_grown {
            self.ask_about_files(step);
        }
        loop {
            let mut has_changed = false;
            for place in 0..self.stages.len() {
                if self.is_over || self.has_grown {
                    return;
                }
                let state = self.stages.get(place).map(|run| run.state);
                if state != Some(StageState::Waiting) {
                    continue;
                }
                let readiness = match self.readiness(step, place) {
                    StageReadiness::Ready { .. } if self.write_discussions(step, place) => {
                        StageReadiness::NotYet
                    }
                    readiness => readiness,
                };
                let Some(run) = self.stages.get_mut(place) else { continue };
                match readiness {
                    StageReadiness::NotYet => continue,
                    StageReadiness::Ready { is_partial } => self.open_stage(step, place, is_partial),
                    StageReadiness::Blocked(why) => {
                        (run.state, run.reason) = (StageState::Blocked, Some(why));
                    }
                    StageReadiness::Skipped => run.state = StageState::Skipped,
                }
                has_changed = true;
            }
            if !has_changed {
                break;
            }
        }
        if self.is_over || self.has_grown {
            return;
        }
        match self.stages.iter().all(|run| run.state.has_ended()) {
            true if self.failed_stage.is_none() && self.file_question.is_none() => self.end(step),
            true => {}
            false => self.withdraw_failed_stage_question(step, "the session goes on"),
        }
    }

    fn readiness(&self, step: &SessionStep<'_>, place: usize) -> StageReadiness {
        let graph = step.cx.graph;
        let Some(stage) = graph.stages.get(place) else { return StageReadiness::NotYet };
        if self.waits_for_file(graph, place) || self.waits_for_workspace(place) {
            return StageReadiness::NotYet;
        }
        let before = graph
            .places_before(stage)
            .into_iter()
            .filter_map(|at| Some((graph.stages.get(at)?.id.as_str(), self.stages.get(at)?)));
        let before: Vec<(&str, &StageRun)> = before.collect();
        if !before.is_empty() && before.iter().all(|(_, run)| run.state == StageState::Skipped) {
            return StageReadiness::Skipped;
        }
        let broken: Vec<String> = before
            .iter()
            .filter_map(|(id, run)| match run.state {
                StageState::Failed => Some(format!("{id}, which failed")),
                StageState::Blocked => Some(format!("{id}, which is blocked")),
                _ => None,
            })
            .collect();
        let has_open = before.iter().any(|(_, run)| !run.state.has_ended());
        let is_partial = !broken.is_empty() || before.iter().any(|(_, run)| run.partial);
        match stage.needs {
            // That all have failed is an answer, too.
            StageNeeds::All | StageNeeds::Settled if stage.does == Some(BuiltInStage::Aggregate) => {
                match has_open {
                    true => StageReadiness::NotYet,
                    false => StageReadiness::Ready { is_partial },
                }
            }
            StageNeeds::All if !broken.is_empty() => {
                StageReadiness::Blocked(format!("it needs {}", broken.join(", and ")))
            }
            StageNeeds::All | StageNeeds::Settled if has_open => StageReadiness::NotYet,
            StageNeeds::All => StageReadiness::Ready { is_partial },
            StageNeeds::Settled => {
                let has_result =
                    before.is_empty() || before.iter().any(|(_, run)| run.state == StageState::Done);
                match has_result {
                    true => StageReadiness::Ready { is_partial },
                    false => StageReadiness::Blocked(format!("it needs one of {}", broken.join(", "))),
                }
            }
        }
    }

    /// Goes where the label of a stage leads. Back, if it may: the target and everything after it begins again.
    pub(super) fn route(&mut self, step: &mut SessionStep<'_>, place: usize, label: &str) {
        let graph = step.cx.graph;
        let Some(stage) = graph.stages.get(place) else { return };
        if !stage.next.contains_key(label) {
            return;
        }
        let Some(target) = graph.goes_back(place, label) else {
            let target = stage.next.get(label).and_then(|id| graph.place(id));
            let others = stage.next.values().filter_map(|id| graph.place(id));
            let others: BTreeSet<usize> = others.filter(|other| Some(*other) != target).collect();
            for other in others {
                let is_later = other != place && !graph.before(place).contains(&other);
                if let Some(run) = self.stages.get_mut(other).filter(|_| is_later)
                    && run.state == StageState::Waiting
                {
                    run.state = StageState::Skipped;
                }
            }
            return;
        };
        let to = graph.stages.get(target).map(|stage| stage.id.clone()).unwrap_or_default();
        let Some(run) = self.stages.get_mut(place) else { return };
        if run.looped >= stage.loops {
            let note = format!(
                "stage {} ended {label} and goes on: it has gone back to {to} {} of {} times",
                stage.id, run.looped, stage.loops
            );
            return self.note(note);
        }
        run.looped += 1;
        self.note(format!("stage {} ended {label} and goes back to {to}", stage.id));
        self.begin_again(step, place, target);
    }

    /// Begins `target` and everything after it again, with the result of the stage `place`.
    pub(super) fn begin_again(&mut self, step: &mut SessionStep<'_>, place: usize, target: usize) {
        let graph = step.cx.graph;
        let feedback = self.stages.get(place).map(|run| run.result.clone()).unwrap_or_default();
        let reset: Vec<usize> = (0..graph.stages.len())
            .filter(|later| *later == target || graph.before(*later).contains(&target))
            .collect();
        for later in &reset {
            self.stop_turns(step, *later, "an earlier stage begins again");
            self.reset(graph, *later);
        }
        for plan in reset {
            self.drop_plan(step, plan);
        }
        if let Some(run) = self.stages.get_mut(target) {
            // A stage that goes back to itself has its own words once.
            run.feedback.extend(feedback.into_iter().filter(|said| said.stage != target));
        }
    }

    /// The stage waits again. What its seats said last stays with it.
    pub(super) fn reset(&mut self, graph: &Graph, place: usize) {
        let (Some(stage), Some(run)) = (graph.stages.get(place), self.stages.get_mut(place)) else { return };
        let StageRun { state, iteration, looped, result, feedback, seats, .. } = std::mem::take(run);
        let feedback = match state {
            StageState::Running => Self::result(&self.said, (place, stage), seats.len()),
            // It is begun again for another reason, too.
            StageState::Waiting => feedback,
            _ => result,
        };
        *run = StageRun { iteration, looped, feedback, ..StageRun::default() };
        self.said.retain(|said| said.stage != place);
    }

    /// What the stages after a stage are given: all that was said to all if the stage gathers findings, else the last words of
    /// every seat.
    pub(super) fn result<'a>(
        said: impl IntoIterator<Item = &'a Said>,
        (place, stage): (usize, &Stage),
        seats: usize,
    ) -> Vec<Said> {
        if !stage.gathers() {
            return Self::last_words(said, place, seats);
        }
        let of_seats = |said: &&Said| said.stage == place && said.to.is_empty() && said.seat.is_some();
        said.into_iter().filter(of_seats).cloned().collect()
    }

    /// The last words of every seat of a stage.
    pub(super) fn last_words<'a>(
        said: impl IntoIterator<Item = &'a Said>,
        place: usize,
        seats: usize,
    ) -> Vec<Said> {
        let mut last: Vec<Option<&Said>> = vec![None; seats];
        for said in said.into_iter().filter(|said| said.stage == place && said.to.is_empty()) {
            if let Some(kept) = said.seat.and_then(|seat| last.get_mut(seat))
                && kept.is_none_or(|kept| said.is_last_word || !kept.is_last_word)
            {
                *kept = Some(said);
            }
        }
        last.into_iter().flatten().cloned().collect()
    }

    fn end(&mut self, step: &mut SessionStep<'_>) {
        let stages = self.stages.iter().zip(&step.cx.graph.stages);
        let (mut failed, mut blocked, mut incomplete) = (Vec::new(), Vec::new(), Vec::new());
        for (run, stage) in stages {
            let own = run.seats.iter().find_map(|seat| match &seat.state {
                SeatState::Failed { why } => Some(why.clone()),
                SeatState::Idle | SeatState::Speaking { .. } | SeatState::Done => None,
            });
            if let (Some(BuiltInStage::Aggregate), Some(why)) = (stage.does, own) {
                return self.finish(step, TaskState::Failed, why);
            }
            let why = run.reason.as_deref().unwrap_or_default();
            let label = run.label.as_deref().unwrap_or_default();
            match run.state {
                StageState::Failed => failed.push(format!("stage {} failed: {why}", stage.id)),
                StageState::Blocked => blocked.push(format!("{} is blocked: {why}", stage.id)),
                StageState::Done if [INCOMPLETE, TOO_FEW].contains(&label) => {
                    incomplete.push(format!("stage {}: {why}", stage.id));
                }
                _ => {}
            }
        }
        let broken: Vec<String> = failed.into_iter().chain(blocked).collect();
        if !broken.is_empty() && !self.has_recovered(step) {
            let why = broken.join("; ");
            if !self.ask_about_failed_stage(step, &why) {
                self.finish(step, TaskState::Failed, why);
            }
            return;
        }
        if !incomplete.is_empty() {
            let message = format!("{INCOMPLETE}: {}", incomplete.join("; "));
            return self.finish(step, TaskState::Failed, message);
        }
        let said = std::mem::take(&mut step.text);
        let message = if said.trim().is_empty() { "the session is done".to_owned() } else { said };
        self.finish(step, TaskState::Completed, message);
    }

    /// Whether every stage that ended badly was made up for by a later one that needed only some, and succeeded.
    fn has_recovered(&self, step: &SessionStep<'_>) -> bool {
        let graph = step.cx.graph;
        let is_bad = |place: usize| {
            self.stages
                .get(place)
                .is_some_and(|run| matches!(run.state, StageState::Failed | StageState::Blocked))
        };
        (0..self.stages.len()).filter(|place| is_bad(*place)).all(|bad| {
            graph.stages.iter().enumerate().any(|(later, stage)| {
                (stage.needs == StageNeeds::Settled || stage.does == Some(BuiltInStage::Aggregate))
                    && graph.places_before(stage).contains(&bad)
                    && self.stages.get(later).is_some_and(|run| run.state == StageState::Done)
            })
        })
    }

    /// The states of the seats of a stage, for its turns.
    pub(super) fn has_done(&self, place: usize, seat: usize) -> bool {
        let seat = self.stages.get(place).and_then(|run| run.seats.get(seat));
        seat.is_some_and(|seat| matches!(seat.state, SeatState::Done | SeatState::Failed { .. }))
    }
}
