//! Directives: a person steers a session while it runs (SEEDS §1.8, §4.3).

use super::{
    Session, SessionAction, SessionContext, SessionStep,
    state::{SeatState, StageState},
};
use crate::task::TaskState;
use serde::{Deserialize, Serialize};

/// The longest text of a directive, bytes.
const MAX_TEXT: usize = 16 * 1024;

/// The label of a stage that a person has ended.
const SKIPPED: &str = "skipped";

/// What a person wants of a session that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Directive {
    /// What to do.
    pub verb: DirectiveVerb,
    /// The stage; without one, all that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The seat of that stage that `say` is for; without one, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<String>,
    /// What is said, or why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The kinds of directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DirectiveVerb {
    /// Words for the next turns of a stage, or of a seat. A stage that has not begun keeps them for its first turns.
    Say,
    /// A stage ends with what it has, and those after it begin.
    Skip,
    /// A stage that has begun, and everything after it, begins again.
    Redirect,
    /// The session ends.
    Stop,
}

/// When a directive takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DirectiveOutcome {
    /// At once, or at the next turn.
    Delivered,
    /// When its stage begins.
    Queued,
}

impl Session {
    /// What would become of a directive, or why it is refused.
    pub fn check_directive(
        &self,
        cx: &SessionContext<'_>,
        wanted: &Directive,
    ) -> Result<DirectiveOutcome, String> {
        if self.is_over {
            return Err("the session has ended".to_owned());
        }
        let text = wanted.text.as_deref().unwrap_or_default();
        if text.len() > MAX_TEXT {
            return Err(format!("text: {} bytes, the limit is {MAX_TEXT}", text.len()));
        }
        let place = match &wanted.stage {
            Some(id) => Some(cx.graph.place(id).ok_or_else(|| cx.graph.unknown_stage(id))?),
            None => None,
        };
        let state = place.and_then(|place| self.stages.get(place)).map(|run| run.state);
        let name = wanted.stage.as_deref().unwrap_or_default();
        if let Some(seat) = &wanted.seat {
            let seats =
                place.and_then(|place| cx.graph.stages.get(place)).map(|stage| stage.seats.as_slice());
            let seats = seats.ok_or("seat: needs its `stage`")?;
            if wanted.verb != DirectiveVerb::Say {
                return Err("seat: only `say` is for one seat".to_owned());
            }
            if !seats.iter().any(|known| known.name == *seat) {
                let known: Vec<_> = seats.iter().map(|seat| seat.name.as_str()).collect();
                return Err(format!("stage {name} has no seat {seat:?}; it has {}", known.join(", ")));
            }
        }
        match (wanted.verb, state) {
            (DirectiveVerb::Say, _) if text.trim().is_empty() => Err("say: needs its `text`".to_owned()),
            (DirectiveVerb::Say, None) if self.running().next().is_none() => {
                Err("no stage runs; name one that has not begun".to_owned())
            }
            (DirectiveVerb::Skip | DirectiveVerb::Redirect, None) => Err("stage: is needed".to_owned()),
            (DirectiveVerb::Say, Some(StageState::Waiting)) => Ok(DirectiveOutcome::Queued),
            (DirectiveVerb::Say, Some(StageState::Gated)) => {
                Err(format!("stage {name} waits at its gate: answer its question"))
            }
            (DirectiveVerb::Redirect, Some(StageState::Waiting)) => {
                Err(format!("stage {name} has not begun: `say` gives it words for its first turns"))
            }
            (DirectiveVerb::Say | DirectiveVerb::Skip, Some(ended)) if ended.has_ended() => {
                Err(format!("stage {name} has ended; `redirect` begins it again"))
            }
            (
                DirectiveVerb::Say | DirectiveVerb::Skip | DirectiveVerb::Redirect | DirectiveVerb::Stop,
                None | Some(_),
            ) => Ok(DirectiveOutcome::Delivered),
        }
    }

    /// Does what a person wants. One that has come too late is noted.
    pub fn direct(&mut self, cx: SessionContext<'_>, wanted: &Directive) -> Vec<SessionAction> {
        let mut step = SessionStep::new(cx);
        let was_at_gate = self.is_at_gate();
        self.at = cx.now;
        if let Err(why) = self.check_directive(&cx, wanted) {
            self.note(format!("a directive was not followed: {why}"));
            return Vec::new();
        }
        let text = wanted.text.clone().unwrap_or_default();
        let place = wanted.stage.as_ref().and_then(|id| cx.graph.place(id));
        match (wanted.verb, place) {
            (DirectiveVerb::Say, Some(place)) => self.tell(&mut step, place, wanted.seat.as_deref(), text),
            (DirectiveVerb::Say, None) => {
                for place in self.running().collect::<Vec<_>>() {
                    self.tell(&mut step, place, None, text.clone());
                }
            }
            (DirectiveVerb::Skip, Some(place)) => self.skip(&mut step, place, text),
            (DirectiveVerb::Redirect, Some(target)) => {
                self.show_directive(&mut step, wanted, &text);
                self.begin_again(&mut step, target, target);
                if !text.trim().is_empty() {
                    self.tell(&mut step, target, None, text);
                }
            }
            (DirectiveVerb::Stop, _) => {
                let reason = if text.trim().is_empty() { String::new() } else { format!(": {text}") };
                let message = format!("stopped by a person{reason}");
                for running in 0..self.stages.len() {
                    self.stop_turns(&mut step, running, &message);
                }
                self.finish(&mut step, TaskState::Failed, message);
            }
            (DirectiveVerb::Skip | DirectiveVerb::Redirect, None) => {}
        }
        self.settle(&mut step, was_at_gate);
        step.actions
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        let runs = self.stages.iter().enumerate();
        runs.filter(|(_, run)| run.state == StageState::Running).map(|(place, _)| place)
    }

    fn show_directive(&mut self, step: &mut SessionStep<'_>, wanted: &Directive, text: &str) {
        let stage = wanted.stage.as_deref().unwrap_or_default();
        let reason = if text.trim().is_empty() { String::new() } else { format!(": {text}") };
        self.note(format!("stage {stage} begins again, as a person wants{reason}"));
        step.actions.push(SessionAction::Show(format!("stage {stage} begins again")));
    }

    /// Gives a stage the words of a person: its next turns, or its first ones.
    fn tell(&mut self, step: &mut SessionStep<'_>, place: usize, seat: Option<&str>, text: String) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        let mut said = self.words_of_person(step, place, stage, "say", text);
        let seat = seat.and_then(|seat| stage.seats.iter().position(|known| known.name == seat));
        said.to.extend(seat);
        let Some(run) = self.stages.get_mut(place) else { return };
        if run.state == StageState::Waiting {
            run.feedback.push(said);
            return;
        }
        if let Some(seat) = seat.and_then(|seat| run.seats.get_mut(seat))
            && seat.state == SeatState::Done
        {
            seat.state = SeatState::Idle;
        }
        self.said.push_back(said);
    }

    /// Ends a stage with what it has.
    fn skip(&mut self, step: &mut SessionStep<'_>, place: usize, why: String) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        self.stop_turns(step, place, "its stage is skipped");
        let Some(run) = self.stages.get_mut(place) else { return };
        if run.state == StageState::Running {
            run.result = Self::last_words(&self.said, place, run.seats.len());
        }
        self.said.retain(|said| said.stage != place);
        let why = if why.trim().is_empty() { "a person has skipped it".to_owned() } else { why };
        (run.state, run.label, run.reason) = (StageState::Done, Some(SKIPPED.to_owned()), Some(why));
        run.closing = false;
        step.actions.push(SessionAction::Show(format!("stage {} ended: {SKIPPED}", stage.id)));
        self.route(step, place, SKIPPED);
    }
}
