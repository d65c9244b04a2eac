//! Gates: a person decides about what a stage has made, before the session goes on (SEEDS §1.7).

use super::{
    Session, SessionAction, SessionStep,
    graph::{GateChoice, Stage},
    state::{Said, StageState},
};
use crate::{
    artifact::Artifact,
    patterns::turn::RequestResult,
    question::{Answer, Decision, Question, QuestionKind},
    task::TaskState,
};
use serde_json::json;

/// Who has said what a person says at a gate.
pub(super) const PERSON: &str = "person";

/// The most characters of the last words that a question shows.
const SHOWN: usize = 2_000;

impl Session {
    /// Asks a person about the result of a stage. Nothing that comes after the stage begins before the answer.
    pub(super) fn open_gate(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        run.state = StageState::Gated;
        run.gated = Some(step.cx.now);
        let label = run.label.as_deref().unwrap_or_default();
        let why = run.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let artifacts: Vec<&str> =
            run.result.iter().flat_map(|said| &said.artifacts).map(String::as_str).collect();
        let mut words: String = step.text.chars().take(SHOWN).collect();
        if words.len() < step.text.len() {
            words.push('…');
        }
        let text = format!("stage {} ended: {label}{why}. {}.\n\n{words}", stage.id, choices(stage));
        let call = json!({
            "name": "gate",
            "args": { "stage": stage.id, "iteration": run.iteration, "artifacts": artifacts },
        });
        let kind = QuestionKind::Approval;
        let question =
            Question { kind, call: Some(call), ..Question::text(gate_id(stage, run.iteration), text.trim()) };
        step.actions.push(SessionAction::Ask(Box::new(question)));
    }

    /// The place of the stage whose gate has this name.
    pub(super) fn place_of_gate(&self, step: &SessionStep<'_>, id: &str) -> Option<usize> {
        let mut runs = self.stages.iter().zip(&step.cx.graph.stages);
        runs.position(|(run, stage)| run.state == StageState::Gated && gate_id(stage, run.iteration) == id)
    }

    /// A person has decided, or nobody can.
    pub(super) fn take_decision(&mut self, step: &mut SessionStep<'_>, place: usize, result: RequestResult) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        self.waited += run.gated.take().map_or(0, |asked| step.cx.now.0.saturating_sub(asked.0));
        let denied = Answer::Decision { decision: Decision::Deny, reason: None, proof: None }.words();
        let has_reason = !result.text.trim().is_empty() && result.text != denied;
        let choice = match result.decision {
            Some(Decision::Approve) => GateChoice::Approve,
            Some(Decision::Deny) if has_reason && stage.gate.contains(&GateChoice::Revise) => {
                GateChoice::Revise
            }
            Some(Decision::Deny) => GateChoice::Decline,
            None => {
                let why = format!("nobody decided at its gate: {}", result.text);
                (run.state, run.label, run.reason) = (StageState::Failed, None, Some(why));
                return;
            }
        };
        run.state = StageState::Done;
        // A way on that the seats have chosen is still theirs; a person has only let it be gone.
        let chosen = run.label.take().filter(|label| {
            let is_named = |label| stage.next.contains_key(label);
            choice == GateChoice::Approve && is_named(label) && !is_named(&choice.word().to_owned())
        });
        let label = chosen.unwrap_or_else(|| choice.word().to_owned());
        run.label = Some(label.clone());
        run.reason = has_reason.then(|| result.text.clone());
        step.actions.push(SessionAction::Show(format!("stage {}: {}", stage.id, choice.word())));
        match choice {
            GateChoice::Approve => self.route(step, place, &label),
            GateChoice::Revise => {
                let asked = self.words_of_person(step, place, stage, choice.word(), result.text);
                let target = stage.next.get(choice.word()).and_then(|id| step.cx.graph.place(id));
                let target = target.unwrap_or(place);
                self.begin_again(step, place, target);
                if let Some(run) = self.stages.get_mut(target) {
                    run.feedback.push(asked);
                }
            }
            GateChoice::Decline => {
                run.state = StageState::Failed;
                let reason = if has_reason { format!(": {}", result.text) } else { String::new() };
                let message = format!("declined at stage {}{reason}", stage.id);
                for running in 0..self.stages.len() {
                    self.stop_turns(step, running, &message);
                }
                self.finish(step, TaskState::Failed, message);
            }
        }
    }

    /// Records what a person says to a stage, for all its seats.
    pub(super) fn words_of_person(
        &mut self,
        step: &mut SessionStep<'_>,
        place: usize,
        stage: &Stage,
        what: &str,
        text: String,
    ) -> Said {
        let number = self.next;
        self.next += 1;
        let id = format!("{}.{}", stage.id, number + 1);
        let mut artifact = Artifact::text(&id, "text/plain", text);
        artifact.description = Some(format!("{PERSON}, {what}"));
        let about = json!({ "stage": stage.id, "from": PERSON, "to": [super::seat::TEAM] });
        artifact.metadata.insert(super::seat::SESSION.to_owned(), about);
        let bytes = artifact.size();
        let chunks = step.record(artifact);
        let (to, artifacts) = (Vec::new(), vec![id]);
        Said { number, stage: place, seat: None, to, artifacts, chunks, bytes, is_last_word: false }
    }

    /// Whether a person is asked at a gate.
    pub(super) fn is_at_gate(&self) -> bool {
        self.stages.iter().any(|run| run.state == StageState::Gated)
    }
}

/// The name of the question at the gate of a stage.
pub(super) fn gate_id(stage: &Stage, iteration: u32) -> String {
    format!("gate.{}.{iteration}", stage.id)
}

/// What a person may answer, and how.
fn choices(stage: &Stage) -> &'static str {
    match stage.gate.contains(&GateChoice::Revise) {
        true => {
            "Go on? Approve; or deny with a reason, and it is revised; or deny without one, and the session ends"
        }
        false => "Go on? Approve; or deny, and the session ends",
    }
}
