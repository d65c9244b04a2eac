//! A stage has failed, and nothing else can run: a person says whether it is tried again, whether the session goes on without it,
//! or whether the session fails (SEEDS §1.7). A session without people in it fails at once.

use super::{
    Session, SessionAction, SessionStep,
    directive::{SKIPPED, STOPPED},
    graph::Graph,
    state::{SeatState, StageState},
};
use crate::turn::RequestResult;
use protocol::task::TaskState;
use serde::{Deserialize, Serialize};

/// The stage begins again.
const RETRY: &str = "retry";

/// The stages after it are begun without it.
const SKIP: &str = "skip";

/// The session fails.
const STOP: &str = "stop";

/// A question about a stage that has failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FailedStageQuestion {
    place: usize,
    id: String,
    /// Why the session fails if nobody wants it to go on.
    why: String,
}

impl Graph {
    /// Whether people take part in it: in a seat, or at a gate that is not the autopilot's.
    fn has_people(&self) -> bool {
        let is_confirmed =
            |id: &String| self.autopilot.as_ref().is_some_and(|pilot| pilot.gates.contains(id));
        self.stages.iter().any(|stage| {
            let has_gate = !stage.gate.is_empty() && !is_confirmed(&stage.id);
            has_gate || stage.seats.iter().any(|seat| seat.person().is_some())
        })
    }
}

impl Session {
    /// Asks a person about the first stage of which a seat has failed, or that a person has stopped; false if the session just fails, because of `why`.
    pub(super) fn ask_about_failed_stage(&mut self, step: &mut SessionStep<'_>, why: &str) -> bool {
        let has_failed = |seat: &super::state::SeatRun| matches!(seat.state, SeatState::Failed { .. });
        let mut runs = self.stages.iter();
        let failed = runs.position(|run| {
            let was_stopped = run.label.as_deref() == Some(STOPPED);
            run.state == StageState::Failed && (was_stopped || run.seats.iter().any(has_failed))
        });
        let Some(place) = failed.filter(|_| step.cx.graph.has_people()) else { return false };
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get(place)) else {
            return false;
        };
        self.failed_stages += 1;
        let id = format!("failed.{}.{}", stage.id.replace('/', "."), self.failed_stages);
        let why_failed = run.reason.as_deref().unwrap_or_default();
        let mut options = vec![RETRY, STOP];
        let mut text = format!(
            "stage {} failed: {why_failed}. `{RETRY}`: it begins again. `{STOP}`: the session fails.",
            stage.id
        );
        // What a gate lets through a person has seen.
        if stage.gate.is_empty() {
            options.insert(1, SKIP);
            text.push_str(&format!(" `{SKIP}`: the session goes on without it."));
        }
        let options = options.into_iter().map(str::to_owned).collect();
        step.ask_choice(&id, &stage.id, text, options);
        self.failed_stage = Some(FailedStageQuestion { place, id, why: why.to_owned() });
        true
    }

    /// A person has decided about the stage that failed, or nobody has; false if the result is another one's.
    pub(super) fn take_failed_stage_answer(
        &mut self,
        step: &mut SessionStep<'_>,
        result: &RequestResult,
    ) -> bool {
        let Some(FailedStageQuestion { place, why, .. }) =
            self.failed_stage.take_if(|asked| asked.id == result.id)
        else {
            return false;
        };
        let is_skippable = step.cx.graph.stages.get(place).is_some_and(|stage| stage.gate.is_empty());
        match result.text.trim() {
            RETRY if result.ok => {
                self.note_failed_stage(step, place, "begins again");
                self.begin_again(step, place, place);
            }
            SKIP if result.ok && is_skippable => {
                self.note_failed_stage(step, place, "is skipped");
                self.begin_without(step, place);
            }
            _ => self.finish(step, TaskState::Failed, why),
        }
        true
    }

    /// The question is taken back if something runs again, because a person has steered the session.
    pub(super) fn withdraw_failed_stage_question(&mut self, step: &mut SessionStep<'_>, why: &str) {
        if let Some(FailedStageQuestion { id: turn, .. }) = self.failed_stage.take() {
            step.actions.push(SessionAction::Withdraw { turn, why: why.to_owned() });
        }
    }

    fn note_failed_stage(&mut self, step: &mut SessionStep<'_>, place: usize, what: &str) {
        let stage = step.cx.graph.stages.get(place).map(|stage| stage.id.as_str()).unwrap_or_default();
        let reason = self.stages.get(place).and_then(|run| run.reason.clone()).unwrap_or_default();
        let note = format!("stage {stage} failed and {what}: {reason}");
        step.actions.push(SessionAction::Show(note.clone()));
        self.note(note);
    }

    /// The stages that need a failed one wait no longer for it. What they make of it is partial.
    fn begin_without(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let graph = step.cx.graph;
        let Some(run) = self.stages.get_mut(place) else { return };
        (run.state, run.label, run.partial) = (StageState::Done, Some(SKIPPED.to_owned()), true);
        for later in 0..graph.stages.len() {
            let is_blocked = self.stages.get(later).is_some_and(|run| run.state == StageState::Blocked);
            if is_blocked && graph.before(later).contains(&place) {
                self.reset(graph, later);
            }
        }
        self.route(step, place, SKIPPED);
    }
}
