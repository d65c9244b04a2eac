//! Gates: a person decides about what a stage has made, before the session goes on (SEEDS §1.7).

use super::{
    Session, SessionAction, SessionStep, candidates,
    graph::{GateChoice, Stage},
    names::{PERSON, SESSION, TEAM},
    state::{Said, StageRun, StageState},
};
use crate::turn::RequestResult;
use protocol::{
    artifact::Artifact,
    question::{AskedBy, Decision, Question, QuestionKind},
    task::TaskState,
    words::cut,
};
use serde_json::json;

/// The most characters of the last words that a question shows.
const SHOWN: usize = 2_000;

impl Session {
    /// Asks a person about the result of a stage. Nothing that comes after the stage begins before the answer.
    pub(super) fn open_gate(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let Some(run) = self.stages.get_mut(place) else { return };
        run.state = StageState::Gated;
        run.gated = Some(step.cx.now);
        run.shown = cut(&step.text, SHOWN);
        let Some(question) = self.gate_question(step, place) else { return };
        if !self.gate_for_autopilot(step, place, &question.text) {
            ask_person(self, step, place, "");
        }
    }

    /// What a person is asked at the gate of a stage.
    fn gate_question(&self, step: &SessionStep<'_>, place: usize) -> Option<Question> {
        let (stage, run) = (step.cx.graph.stages.get(place)?, self.stages.get(place)?);
        let label = run.label.as_deref().unwrap_or_default();
        let why = run.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let artifacts: Vec<&str> =
            run.result.iter().flat_map(|said| &said.artifacts).map(String::as_str).collect();
        let candidates = candidates::listed(stage, run);
        let text = format!(
            "stage {} ended: {label}{why}. {}.{candidates}\n\n{}",
            stage.id,
            choices(stage),
            run.shown
        );
        let call = json!({
            "name": AskedBy::GATE,
            "args": { "stage": stage.id, "iteration": run.iteration, "artifacts": artifacts },
        });
        let kind = QuestionKind::Approval;
        let by = AskedBy { agent: Some(step.cx.host.clone()), stage: stage.id.clone(), seat: None };
        let question = Question::new(gate_id(stage, run), text.trim());
        Some(Question { kind, call: Some(call), asked_by: Some(Box::new(by)), ..question })
    }

    /// The place of the stage whose gate has this name.
    pub(super) fn place_of_gate(&self, step: &SessionStep<'_>, id: &str) -> Option<usize> {
        let mut runs = self.stages.iter().zip(&step.cx.graph.stages);
        runs.position(|(run, stage)| run.state == StageState::Gated && gate_id(stage, run) == id)
    }

    /// A person has decided, or nobody can.
    pub(super) fn take_decision(&mut self, step: &mut SessionStep<'_>, place: usize, result: RequestResult) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        let has_reason = !["", Decision::Approve.word(), Decision::Deny.word()].contains(&result.text.trim());
        let is_denied = result.decision == Some(Decision::Deny) && has_reason;
        if is_denied && stage.gate.contains(&GateChoice::Kill) && candidates::is_kill(&result.text, stage) {
            return self.kill(step, (place, stage), result.text);
        }
        run.gated = None;
        let choice = match result.decision {
            Some(Decision::Approve) => GateChoice::Approve,
            Some(Decision::Deny) if has_reason && stage.gate.contains(&GateChoice::Revise) => {
                GateChoice::Revise
            }
            Some(Decision::Deny) if has_reason && stage.gate.contains(&GateChoice::Changes) => {
                GateChoice::Changes
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
            GateChoice::Approve => {
                step.text = std::mem::take(&mut run.shown);
                self.expand(step, place);
                self.route(step, place, &label);
            }
            GateChoice::Changes => self.change_work(step, place, stage, result.text),
            // Done above.
            GateChoice::Kill => {}
            GateChoice::Revise => {
                let asked = self.words_beside_turns(
                    step,
                    (place, stage),
                    (PERSON, choice.word()),
                    Vec::new(),
                    result.text,
                );
                let target = stage.next.get(choice.word()).and_then(|id| step.cx.graph.place(id));
                let target = target.unwrap_or(place);
                self.begin_again(step, place, target);
                if let Some(run) = self.stages.get_mut(target) {
                    run.feedback.push(asked);
                }
            }
            GateChoice::Decline => {
                run.state = StageState::Failed;
                self.is_declined = true;
                let reason = if has_reason { format!(": {}", result.text) } else { String::new() };
                let message = format!("declined at stage {}{reason}", stage.id);
                for running in 0..self.stages.len() {
                    self.stop_turns(step, running, &message);
                }
                self.finish(step, TaskState::Failed, message);
            }
        }
    }

    /// Drops the candidates that a person names, and asks again. If none is left, the stage ends as `killed`.
    fn kill(&mut self, step: &mut SessionStep<'_>, (place, stage): (usize, &Stage), text: String) {
        let Some(run) = self.stages.get_mut(place) else { return };
        run.kills += 1;
        let most = run.result.len();
        let named = candidates::numbers(&text).filter(|named| named.iter().all(|at| (1..=most).contains(at)));
        let Some(named) = named else {
            let why = format!(
                "\n\nNothing was dropped: {text:?} names no candidates. Deny with `kill` and numbers from 1 to {most}, such as `kill 2, 3`."
            );
            return ask_person(self, step, place, &why);
        };
        let newest = |run: &StageRun| run.result.iter().map(|said| said.number).max();
        let shown = newest(run);
        let mut at = 0;
        run.result.retain(|_| {
            at += 1;
            !named.contains(&at)
        });
        if newest(run) != shown {
            // The words that the question shows are those of a candidate that is dropped.
            run.shown.clear();
        }
        let is_empty = run.result.is_empty();
        let dropped = most - run.result.len();
        let shown = format!("stage {}: {dropped} of {most} candidates are dropped", stage.id);
        step.actions.push(SessionAction::Show(shown));
        self.words_beside_turns(step, (place, stage), (PERSON, candidates::KILL), Vec::new(), text);
        if !is_empty {
            return ask_person(self, step, place, "");
        }
        let Some(run) = self.stages.get_mut(place) else { return };
        let why = "a person has dropped all its candidates".to_owned();
        (run.gated, run.reason) = (None, Some(why));
        match stage.next.contains_key(candidates::KILLED) {
            true => {
                (run.state, run.label) = (StageState::Done, Some(candidates::KILLED.to_owned()));
                self.route(step, place, candidates::KILLED);
            }
            false => (run.state, run.label) = (StageState::Failed, None),
        }
    }

    /// Does the planned work again that a person wants changed, and what depends on it. Without planned work the stage itself is
    /// done again.
    fn change_work(&mut self, step: &mut SessionStep<'_>, place: usize, stage: &Stage, text: String) {
        let graph = step.cx.graph;
        let before = graph.before(place);
        let named = self.mentioned_work(step, &text);
        let mut targets: Vec<usize> = named.into_iter().filter(|at| before.contains(at)).collect();
        if targets.is_empty() {
            targets.push(place);
        }
        let asked = self.words_beside_turns(
            step,
            (place, stage),
            (PERSON, GateChoice::Changes.word()),
            Vec::new(),
            text,
        );
        for target in &targets {
            self.begin_again(step, place, *target);
        }
        // Who judges next is told, too.
        targets.push(place);
        targets.dedup();
        for target in targets {
            if let Some(run) = self.stages.get_mut(target) {
                run.feedback.push(asked.clone());
            }
        }
    }

    /// Records what no seat says, but a person or the host, for some seats of a stage, or for all.
    pub(super) fn words_beside_turns(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        (from, what): (&str, &str),
        to: Vec<usize>,
        text: String,
    ) -> Said {
        let number = self.next;
        self.next += 1;
        self.beside += 1;
        let id = format!("{}.{from}.{}", stage.id, self.beside);
        let mut artifact = Artifact::text(&id, "text/plain", text);
        artifact.description = Some(format!("{from}, {what}"));
        let names = to.iter().filter_map(|seat| stage.seats.get(*seat)).map(|seat| seat.name.as_str());
        let names = if to.is_empty() { vec![TEAM] } else { names.collect() };
        let about = json!({ "stage": stage.id, "from": from, "to": names });
        artifact.metadata.insert(SESSION.to_owned(), about);
        let bytes = artifact.size();
        let chunks = step.record(artifact);
        Said {
            number,
            stage: place,
            round: self.stages.get(place).map(|run| (run.iteration, run.round)).unwrap_or_default(),
            seat: None,
            to,
            artifacts: vec![id],
            chunks,
            bytes,
            head: String::new(),
            is_last_word: false,
            by: (from != PERSON).then(|| from.to_owned()),
        }
    }

    /// Whether a person is asked at a gate.
    pub(super) fn is_at_gate(&self) -> bool {
        self.stages.iter().any(|run| run.state == StageState::Gated)
    }
}

/// The name of the question at the gate of a stage.
pub(super) fn gate_id(stage: &Stage, run: &StageRun) -> String {
    let again = if run.kills == 0 { String::new() } else { format!(".{}", run.kills) };
    format!("gate.{}.{}{again}", stage.id, run.iteration)
}

/// Asks the person about a stage that waits at its gate; the question ends with `why`.
pub(super) fn ask_person(session: &Session, step: &mut SessionStep<'_>, place: usize, why: &str) {
    if let Some(mut question) = session.gate_question(step, place) {
        question.text.push_str(why);
        step.actions.push(SessionAction::Ask(Box::new(question)));
    }
}

/// What a person may answer, and how.
fn choices(stage: &Stage) -> String {
    let has = |choice| stage.gate.contains(&choice);
    let kill =
        if has(GateChoice::Kill) { "; or deny with `kill 2`, and that candidate is dropped" } else { "" };
    let choices = match (has(GateChoice::Revise), has(GateChoice::Changes)) {
        (true, _) => {
            "Go on? Approve; or deny with a reason, and it is revised; or deny without one, and the session ends"
        }
        (false, true) => {
            "Go on? Approve; or deny with what is to be changed, naming files or items, and that work is done again; or deny without a reason, and the session ends"
        }
        (false, false) => "Go on? Approve; or deny, and the session ends",
    };
    format!("{choices}{kill}")
}
