//! Directives: a person, or a supervisor in its turn, steers a session while it runs (SEEDS §1.3, §1.8, §4.3).

use super::{
    Session, SessionAction, SessionContext, SessionStep,
    graph::{Seat, SeatOrder, SeatRole, Stage},
    names::{PERSON, SESSION, TEAM},
    seat::SEALED,
    state::{Amendment, Said, SeatState, StageState},
};
use crate::speech::{Directive, DirectiveOutcome, DirectiveVerb};
use protocol::{artifact::Artifact, task::TaskState};
use serde_json::json;

/// The longest text of a directive, bytes.
const MAX_TEXT: usize = 16 * 1024;

/// The most amendments of a session, and the longest one, bytes: every turn is given them all.
const MAX_AMENDMENTS: usize = 16;
const MAX_AMENDMENT: usize = 4 * 1024;

/// The label of a stage that a person has ended with what it has.
pub(super) const SKIPPED: &str = "skipped";

/// The label of a stage that a person has stopped.
pub(super) const STOPPED: &str = "stopped";

/// Refuses a scope that the verb does not take: it would be ignored.
fn check_scope(wanted: &Directive) -> Result<(), String> {
    let (stage, seat) = (wanted.stage.is_some(), wanted.seat.is_some());
    match wanted.verb {
        _ if seat && !stage => Err("seat: needs its `stage`".to_owned()),
        DirectiveVerb::Skip | DirectiveVerb::Redirect if !stage => Err("stage: is needed".to_owned()),
        DirectiveVerb::Skip | DirectiveVerb::Redirect if seat => {
            let why = "seat: `skip` and `redirect` are for a stage; `say`, `amend` and `stop` are for one seat, too";
            Err(why.to_owned())
        }
        _ => Ok(()),
    }
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
        check_scope(wanted)?;
        let place = match &wanted.stage {
            Some(id) => Some(cx.graph.place(id).ok_or_else(|| cx.graph.unknown_stage(id))?),
            None => None,
        };
        let state = place.and_then(|place| self.stages.get(place)).map(|run| run.state);
        let name = wanted.stage.as_deref().unwrap_or_default();
        if let (Some(seat), Some(stage)) = (&wanted.seat, place.and_then(|place| cx.graph.stages.get(place)))
            && !stage.seats.iter().any(|known| known.name == *seat)
        {
            let known: Vec<_> = stage.seats.iter().map(|seat| seat.name.as_str()).collect();
            return Err(format!("stage {name} has no seat {seat:?}; it has {}", known.join(", ")));
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
            (DirectiveVerb::Amend, None) if self.running().next().is_none() => Ok(DirectiveOutcome::Queued),
            (DirectiveVerb::Say, None) if self.with_turns().next().is_none() => {
                Err("no stage has another turn; name one that has not begun".to_owned())
            }
            (DirectiveVerb::Say, Some(StageState::Running)) if !self.may_hear(cx, place, wanted) => {
                Err(format!("stage {name} is about to end: no seat of it that may hear you has another turn"))
            }
            (DirectiveVerb::Say | DirectiveVerb::Amend, Some(StageState::Waiting)) => {
                Ok(DirectiveOutcome::Queued)
            }
            (DirectiveVerb::Say, Some(StageState::Gated)) => {
                Err(format!("stage {name} waits at its gate: answer its question"))
            }
            (DirectiveVerb::Redirect, Some(StageState::Waiting)) => {
                Err(format!("stage {name} has not begun: `say` gives it words for its first turns"))
            }
            (
                DirectiveVerb::Say | DirectiveVerb::Amend | DirectiveVerb::Skip | DirectiveVerb::Stop,
                Some(ended),
            ) if ended.has_ended() => Err(format!("stage {name} has ended; `redirect` begins it again")),
            (DirectiveVerb::Stop, Some(_)) => match self.has_seat_left(cx, place, wanted) {
                true => Ok(DirectiveOutcome::Delivered),
                false => Err(format!(
                    "seat {} of stage {name} has no turn to stop: without a seat `stop` is for the stage",
                    wanted.seat.as_deref().unwrap_or_default()
                )),
            },
            _ => Ok(DirectiveOutcome::Delivered),
        }
    }

    /// Whether the seat that a directive names takes part in its stage; true if it names none.
    fn has_seat_left(&self, cx: &SessionContext<'_>, place: Option<usize>, wanted: &Directive) -> bool {
        let Some(named) = &wanted.seat else { return true };
        let Some((place, stage)) = place.and_then(|place| Some((place, cx.graph.stages.get(place)?))) else {
            return false;
        };
        let seat = stage.seats.iter().position(|seat| seat.name == *named);
        let run = self.stages.get(place).filter(|run| run.state == StageState::Running);
        seat.is_some_and(|seat| run.is_some() && !self.has_done(place, seat))
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
            (DirectiveVerb::Amend, place) => self.amend(step, place, wanted.seat.as_deref(), (who, text)),
            (DirectiveVerb::Skip, Some(place)) => self.skip(step, place, text),
            (DirectiveVerb::Redirect, Some(target)) => {
                self.show_directive(step, wanted, (who, &text));
                self.begin_again(step, target, target);
                if !text.trim().is_empty() {
                    self.tell(step, target, None, (who, text));
                }
            }
            (DirectiveVerb::Stop, place) => {
                let reason = if text.trim().is_empty() { String::new() } else { format!(": {text}") };
                let message = format!("stopped by a {who}{reason}");
                if let Some(place) = place {
                    return self.stop_part(step, place, wanted.seat.as_deref(), message);
                }
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

    /// Keeps a constraint for all turns from now on, or for those of a stage or a seat.
    fn amend(
        &mut self,
        step: &mut SessionStep<'_>,
        place: Option<usize>,
        seat: Option<&str>,
        (who, text): (&str, String),
    ) {
        let number = self.next;
        self.next += 1;
        let id = format!("amendment.{}", self.amendments.len() + 1);
        let stage = place.and_then(|place| step.cx.graph.stages.get(place));
        let what = match (stage, seat) {
            (Some(stage), Some(seat)) => format!("seat {seat} of stage {}", stage.id),
            (Some(stage), None) => format!("stage {}", stage.id),
            (None, _) => "the session".to_owned(),
        };
        step.actions.push(SessionAction::Show(format!("{who} amends {what}: {text}")));
        let mut artifact = Artifact::text(&id, "text/plain", text);
        let holds = stage.map_or("all stages", |stage| stage.id.as_str());
        artifact.description = Some(format!("{who}, amend: it holds for {holds} from now on"));
        let about = json!({
            "stage": stage.map_or("session", |stage| stage.id.as_str()), "from": who, "to": [seat.unwrap_or(TEAM)],
        });
        artifact.metadata.insert(SESSION.to_owned(), about);
        let bytes = artifact.size();
        let chunks = step.record(artifact);
        let to =
            stage.and_then(|stage| stage.seats.iter().position(|known| Some(known.name.as_str()) == seat));
        let to = to.into_iter().collect();
        let said = Said { number, to, artifacts: vec![id], chunks, bytes, ..Said::default() };
        self.amendments.push(Amendment { said, place });
    }

    /// Stops a stage, or a seat of it.
    fn stop_part(&mut self, step: &mut SessionStep<'_>, place: usize, seat: Option<&str>, why: String) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        let seat = seat.and_then(|seat| stage.seats.iter().position(|known| known.name == seat));
        let is_another = |other: &usize| Some(*other) != seat && !stage.watches(*other);
        let has_others = (0..stage.seats.len()).any(|other| is_another(&other));
        match seat {
            Some(seat) if has_others || stage.watches(seat) => {
                self.stop_seat(step, (place, stage), seat, why)
            }
            Some(_) | None => self.stop_stage(step, (place, stage), why),
        }
    }

    /// The seat has no further turn; the others go on.
    fn stop_seat(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        seat: usize,
        why: String,
    ) {
        let name = stage.seats.get(seat).map(|seat| seat.name.as_str()).unwrap_or_default();
        let is_aside = self.is_aside(place, seat);
        let Some(run) = self.stages.get_mut(place) else { return };
        let Some(taken) = run.seats.get_mut(seat) else { return };
        let before = std::mem::replace(&mut taken.state, SeatState::Done);
        (taken.reopened, taken.due) = (true, false);
        if let SeatState::Speaking { turn } = before {
            step.actions.push(SessionAction::Withdraw { turn, why: why.clone() });
            if stage.order == SeatOrder::Turns && !is_aside && !stage.watches(seat) {
                run.spoke = seat;
            }
        }
        let what = format!("stage {}: {name} was {why}", stage.id);
        step.actions.push(SessionAction::Show(what.clone()));
        self.note(what);
        if is_aside {
            self.close_aside(step, place, Some(format!("{name} was {why}")));
        }
        self.go_on_in_stage(step, place);
    }

    /// The stage fails; what needs it is blocked. What its seats have said is kept.
    fn stop_stage(&mut self, step: &mut SessionStep<'_>, (place, stage): (usize, &Stage), why: String) {
        self.cut_stage(step, (place, stage), &why);
        let Some(run) = self.stages.get_mut(place) else { return };
        (run.state, run.label, run.reason) = (StageState::Failed, Some(STOPPED.to_owned()), Some(why));
        step.actions.push(SessionAction::Show(format!("stage {} ended: {STOPPED}", stage.id)));
    }

    /// Ends the turns of a stage, and keeps what was said.
    fn cut_stage(&mut self, step: &mut SessionStep<'_>, (place, stage): (usize, &Stage), why: &str) {
        self.stop_turns(step, place, why);
        let Some(run) = self.stages.get_mut(place) else { return };
        if run.state == StageState::Running {
            run.result = Self::result(&self.said, (place, stage), run.seats.len());
        }
        run.clear_table();
        self.said.retain(|said| said.stage != place);
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
        self.cut_stage(step, (place, stage), "its stage is skipped");
        let Some(run) = self.stages.get_mut(place) else { return };
        let why = if why.trim().is_empty() { "a person has skipped it".to_owned() } else { why };
        (run.state, run.label, run.reason) = (StageState::Done, Some(SKIPPED.to_owned()), Some(why));
        step.actions.push(SessionAction::Show(format!("stage {} ended: {SKIPPED}", stage.id)));
        // A plan that is there is what the stage has.
        self.expand(step, place);
        self.route(step, place, SKIPPED);
    }
}
