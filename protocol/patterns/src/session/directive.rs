//! Directives: a person, or a supervisor in its turn, steers a session while it runs (SEEDS §1.3, §1.8, §4.3).

use super::{
    Session, SessionAction, SessionContext, SessionStep,
    graph::{Seat, SeatRole, Stage},
    names::{PERSON, SESSION, TEAM},
    seat::SEALED,
    state::{Said, SeatState, StageState},
};
use crate::speech::{Directive, DirectiveOutcome, DirectiveVerb};
use protocol::{artifact::Artifact, task::TaskState};
use serde_json::json;

/// The longest text of a directive, bytes.
const MAX_TEXT: usize = 16 * 1024;

/// The most amendments of a session, and the longest one, bytes: every turn is given them all.
const MAX_AMENDMENTS: usize = 16;
const MAX_AMENDMENT: usize = 4 * 1024;

/// The label of a stage that a person has ended.
pub(super) const SKIPPED: &str = "skipped";

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
        if wanted.verb == DirectiveVerb::Amend && wanted.stage.is_some() {
            return Err("amend: is for the whole session; `say` is for one stage".to_owned());
        }
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
            (DirectiveVerb::Say | DirectiveVerb::Amend, _) if text.trim().is_empty() => Err(format!(
                "{}: needs its `text`",
                if wanted.verb == DirectiveVerb::Say { "say" } else { "amend" }
            )),
            (DirectiveVerb::Amend, _) if text.len() > MAX_AMENDMENT => {
                Err(format!("text: {} bytes, the limit of an amendment is {MAX_AMENDMENT}", text.len()))
            }
            (DirectiveVerb::Amend, _) if self.amendments.len() >= MAX_AMENDMENTS => {
                Err(format!("amend: a session has at most {MAX_AMENDMENTS} amendments"))
            }
            (DirectiveVerb::Amend, _) if self.running().next().is_none() => Ok(DirectiveOutcome::Queued),
            (DirectiveVerb::Say, None) if self.with_turns().next().is_none() => {
                Err("no stage has another turn; name one that has not begun".to_owned())
            }
            (DirectiveVerb::Say, Some(StageState::Running)) if !self.may_hear(cx, place, wanted) => {
                Err(format!("stage {name} is about to end: no seat of it that may hear you has another turn"))
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
            _ => Ok(DirectiveOutcome::Delivered),
        }
    }

    /// Does what a person wants. One that has come too late is noted.
    pub fn direct(&mut self, cx: SessionContext<'_>, wanted: &Directive) -> Vec<SessionAction> {
        let mut step = SessionStep::new(cx);
        let asked = self.begin_event(&cx);
        if let Err(why) = self.check_directive(&cx, wanted) {
            self.note(format!("a directive was not followed: {why}"));
            return Vec::new();
        }
        self.follow(&mut step, wanted, PERSON);
        self.settle(&mut step, asked);
        step.actions
    }

    /// Does what `who` wants.
    fn follow(&mut self, step: &mut SessionStep<'_>, wanted: &Directive, who: &str) {
        let text = wanted.text.clone().unwrap_or_default();
        let place = wanted.stage.as_ref().and_then(|id| step.cx.graph.place(id));
        match (wanted.verb, place) {
            (DirectiveVerb::Say, Some(place)) => self.tell(step, place, wanted.seat.as_deref(), (who, text)),
            (DirectiveVerb::Say, None) => {
                for place in self.with_turns().collect::<Vec<_>>() {
                    self.tell(step, place, None, (who, text.clone()));
                }
            }
            (DirectiveVerb::Amend, _) => self.amend(step, (who, text)),
            (DirectiveVerb::Skip, Some(place)) => self.skip(step, place, text),
            (DirectiveVerb::Redirect, Some(target)) => {
                self.show_directive(step, wanted, (who, &text));
                self.begin_again(step, target, target);
                if !text.trim().is_empty() {
                    self.tell(step, target, None, (who, text));
                }
            }
            (DirectiveVerb::Stop, _) => {
                let reason = if text.trim().is_empty() { String::new() } else { format!(": {text}") };
                let message = format!("stopped by a {who}{reason}");
                for running in 0..self.stages.len() {
                    self.stop_turns(step, running, &message);
                }
                self.finish(step, TaskState::Failed, message);
            }
            (DirectiveVerb::Skip | DirectiveVerb::Redirect, None) => {}
        }
    }

    /// Does what a supervisor wants that has ended its turn. What is refused its next turn is told.
    pub(super) fn follow_supervisor(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        (seat, planned): (usize, &Seat),
        wanted: &Directive,
    ) {
        let may = [DirectiveVerb::Say, DirectiveVerb::Redirect, DirectiveVerb::Amend].contains(&wanted.verb);
        let refused = match planned.role {
            SeatRole::Member | SeatRole::Observer => Err("only a supervisor gives one".to_owned()),
            SeatRole::Supervisor if stage.sealed => Err(SEALED.to_owned()),
            SeatRole::Supervisor if !may => Err("a supervisor may say, redirect and amend".to_owned()),
            SeatRole::Supervisor => self.check_directive(&step.cx, wanted).map(|_| ()),
        };
        match refused {
            Ok(()) => self.follow(step, wanted, &planned.name),
            Err(why) => {
                let why = format!("a directive was not followed: {why}");
                self.refuse(step, (place, stage), (seat, planned), why);
            }
        }
    }

    /// Keeps a constraint for all turns from now on.
    fn amend(&mut self, step: &mut SessionStep<'_>, (who, text): (&str, String)) {
        let number = self.next;
        self.next += 1;
        let id = format!("amendment.{}", self.amendments.len() + 1);
        step.actions.push(SessionAction::Show(format!("{who} amends the session: {text}")));
        let mut artifact = Artifact::text(&id, "text/plain", text);
        artifact.description = Some(format!("{who}, amend: it holds for all stages from now on"));
        let about = json!({ "stage": "session", "from": who, "to": [TEAM] });
        artifact.metadata.insert(SESSION.to_owned(), about);
        let bytes = artifact.size();
        let chunks = step.record(artifact);
        self.amendments.push(Said { number, artifacts: vec![id], chunks, bytes, ..Said::default() });
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        let runs = self.stages.iter().enumerate();
        runs.filter(|(_, run)| run.state == StageState::Running).map(|(place, _)| place)
    }

    /// The stages that run and have more turns.
    fn with_turns(&self) -> impl Iterator<Item = usize> {
        self.running().filter(|place| self.stages.get(*place).is_some_and(|run| !run.closing))
    }

    /// Whether words for a stage that runs, or for one of its seats, reach a turn. When a stage waits for its running turns to
    /// end, only a seat that watches has another one.
    fn may_hear(&self, cx: &SessionContext<'_>, place: Option<usize>, wanted: &Directive) -> bool {
        let Some((place, stage)) = place.and_then(|place| Some((place, cx.graph.stages.get(place)?))) else {
            return false;
        };
        let seat =
            wanted.seat.as_ref().and_then(|seat| stage.seats.iter().position(|known| known.name == *seat));
        self.with_turns().any(|open| open == place) || seat.is_some_and(|seat| stage.watches(seat))
    }

    fn show_directive(&mut self, step: &mut SessionStep<'_>, wanted: &Directive, (who, text): (&str, &str)) {
        let stage = wanted.stage.as_deref().unwrap_or_default();
        let reason = if text.trim().is_empty() { String::new() } else { format!(": {text}") };
        self.note(format!("stage {stage} begins again by a directive ({who}){reason}"));
        step.actions.push(SessionAction::Show(format!("stage {stage} begins again")));
    }

    /// Gives a stage the words of `who`: its next turns, or its first ones.
    fn tell(
        &mut self,
        step: &mut SessionStep<'_>,
        place: usize,
        seat: Option<&str>,
        (who, text): (&str, String),
    ) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        let seat = seat.and_then(|seat| stage.seats.iter().position(|known| known.name == seat));
        let to = seat.into_iter().collect();
        let said = self.words_beside_turns(step, (place, stage), (who, "say"), to, text);
        let Some(run) = self.stages.get_mut(place) else { return };
        if run.state == StageState::Waiting {
            run.feedback.push(said);
            return;
        }
        if let Some((seat, taken)) = seat.and_then(|seat| Some((seat, run.seats.get_mut(seat)?))) {
            taken.due |= stage.watches(seat);
            if taken.state == SeatState::Done {
                taken.state = SeatState::Idle;
            }
        }
        self.said.push_back(said);
    }

    /// Ends a stage with what it has.
    fn skip(&mut self, step: &mut SessionStep<'_>, place: usize, why: String) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        self.stop_turns(step, place, "its stage is skipped");
        let Some(run) = self.stages.get_mut(place) else { return };
        if run.state == StageState::Running {
            run.result = Self::result(&self.said, (place, stage), run.seats.len());
        }
        self.said.retain(|said| said.stage != place);
        let why = if why.trim().is_empty() { "a person has skipped it".to_owned() } else { why };
        (run.state, run.label, run.reason) = (StageState::Done, Some(SKIPPED.to_owned()), Some(why));
        run.clear_table();
        step.actions.push(SessionAction::Show(format!("stage {} ended: {SKIPPED}", stage.id)));
        // A plan that is there is what the stage has.
        self.expand(step, place);
        self.route(step, place, SKIPPED);
    }
}
