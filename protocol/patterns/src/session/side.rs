//! Side conversations: two members of a table talk alone while it pauses (SEEDS §2.4).
//!
//! A turn in one is an ordinary turn of its seat. What is said there is for the other seat; the end is for all.

use super::{
    Session, SessionAction, SessionStep, SessionTimer,
    graph::{Seat, Stage},
    names::{HOST, PASSES},
    observers, seat,
    state::{SeatState, SideConversation, StageState},
};
use crate::{speech::SideMode, turn::RequestResult};
use protocol::{artifact::Artifact, ids::Digest};
use serde_json::{Value, json};

/// The most characters of a message that a summary shows.
const MAX_QUOTED: usize = 400;

impl SideConversation {
    /// One that is opened with the message `first`.
    pub(super) fn new(seats: [usize; 2], first: u64, text: &str, mode: SideMode) -> Self {
        let last = [beginning(text), String::new()];
        Self { seats, next: 1, first, messages: 1, has_begun: false, last, mode }
    }

    /// What a turn of `seat` is told of it; `None` if it takes no part.
    pub(super) fn about(&self, stage: &Stage, seat: usize) -> Option<Value> {
        let limits = stage.side?;
        let other = self.seats.iter().position(|one| *one == seat).and_then(|at| self.seats.get(1 - at))?;
        let with = &stage.seats.get(*other)?.name;
        Some(self.shown(json!({ "with": with, "messages": self.messages, "max": limits.max })))
    }

    /// How people see it.
    pub(super) fn view(&self, stage: &Stage) -> Value {
        let names =
            self.seats.iter().filter_map(|seat| stage.seats.get(*seat)).map(|seat| seat.name.as_str());
        let max = stage.side.map(|limits| limits.max);
        self.shown(json!({ "between": names.collect::<Vec<_>>(), "messages": self.messages, "max": max }))
    }

    fn shown(&self, mut about: Value) -> Value {
        if self.mode == SideMode::Delegation {
            about["mode"] = json!(self.mode);
        }
        about
    }
}

/// An artifact, in the words that the others are told: its name, and the beginning of its text.
fn shown_result(artifact: &Artifact) -> String {
    format!("[artifact {}] {}", artifact.artifact_id, beginning(artifact.as_text().trim()))
        .trim_end()
        .to_owned()
}

fn beginning(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

impl Session {
    /// Whether a message of `seat` opens a side conversation with `partner`: both are members, and wait for their next turns.
    pub(super) fn may_talk_aside(
        &self,
        (place, stage): (usize, &Stage),
        seat: usize,
        partner: usize,
    ) -> bool {
        let run = self.stages.get(place).filter(|run| stage.side.is_some() && !run.closing);
        let partner_waits =
            run.and_then(|run| run.seats.get(partner)).map(|seat| &seat.state) == Some(&SeatState::Idle);
        partner_waits && !stage.watches(seat) && !stage.watches(partner)
    }

    /// Whether a turn of `seat` that ends is one of a side conversation.
    pub(super) fn is_aside(&self, place: usize, seat: usize) -> bool {
        let side = self.stages.get(place).and_then(|run| run.side.as_ref());
        side.is_some_and(|side| side.has_begun && side.seats.contains(&seat))
    }

    /// Gives the turn back to a seat that has had another one work for it. Returns false if there is none.
    pub(super) fn speak_again(&mut self, step: &mut SessionStep<'_>, place: usize) -> bool {
        let Some(run) = self.stages.get_mut(place) else { return false };
        let Some(seat) = run.again.take() else { return false };
        let waits = run.seats.get(seat).is_some_and(|seat| seat.state == SeatState::Idle);
        if waits {
            self.speak(step, place, seat);
        }
        waits
    }

    /// The next turn of the side conversation of a stage. Returns false if there is none.
    pub(super) fn speak_aside(&mut self, step: &mut SessionStep<'_>, place: usize) -> bool {
        let Some(limits) = step.cx.graph.stages.get(place).and_then(|stage| stage.side) else { return false };
        let Some(side) = self.stages.get_mut(place).and_then(|run| run.side.as_mut()) else { return false };
        let Some(next) = side.seats.get(side.next).copied() else { return false };
        if !std::mem::replace(&mut side.has_begun, true)
            && let Ok(number) = u32::try_from(place)
        {
            let (timer, at) =
                (SessionTimer::Side(number, side.first), step.cx.now.plus(limits.time.duration()));
            step.actions.push(SessionAction::Timer { timer, at });
        }
        self.speak(step, place, next);
        true
    }

    /// Takes what a turn of a side conversation has brought. `pass` hands the turn over to the other seat, `done` ends the
    /// conversation, and so does a turn with nothing to say.
    pub(super) fn take_turn_aside(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        (seat, planned): (usize, &Seat),
        result: RequestResult,
        passed: bool,
    ) {
        let Some(side) = self.stages.get(place).and_then(|run| run.side.clone()) else { return };
        let Some(at) = side.seats.iter().position(|one| *one == seat) else { return };
        let Some(other) = side.seats.get(1 - at).copied() else { return };
        let Some(partner) = stage.seats.get(other) else { return };
        let RequestResult { text, artifacts, .. } = result;
        let (messages, results) = seat::messages_and_results(artifacts);
        let mut said = String::new();
        for (number, message) in (1..).zip(messages) {
            if seat::addressees(&message).unwrap_or_default() != [partner.name.clone()] {
                let why = format!("a message was not delivered: you talk with {} alone", partner.name);
                self.refuse(step, (place, stage), (seat, planned), why);
                continue;
            }
            said.push_str(&message.as_text());
            said.push('\n');
            let words = (Some(number), message.as_text(), Vec::new());
            self.say(step, (place, stage), (seat, planned), vec![other], words, false);
        }
        let is_silent = text.trim().is_empty() || text.trim() == PASSES;
        let text = if is_silent { String::new() } else { text };
        let is_summary = !passed && !is_silent && side.mode == SideMode::Dialogue;
        said.push_str(&text);
        let shown = said.trim().to_owned();
        let made: Vec<String> = results.iter().map(shown_result).collect();
        results.iter().for_each(|artifact: &Artifact| said.push_str(&artifact.as_text()));
        if !is_silent || !results.is_empty() {
            let to = if is_summary { Vec::new() } else { vec![other] };
            self.say(step, (place, stage), (seat, planned), to, (None, text, results), false);
        }
        let said = said.trim();
        let Some(run) = self.stages.get_mut(place) else { return };
        if !said.is_empty() {
            let before = run.this_round.map(|digest| digest.to_string()).unwrap_or_default();
            run.this_round = Some(Digest::of(format!("{before}{}\n{said}", planned.name).as_bytes()));
        }
        let Some(side) = &mut run.side else { return };
        side.next = 1 - at;
        side.messages += 1;
        if let Some(last) = side.last.get_mut(at).filter(|_| !said.is_empty()) {
            *last = [beginning(&shown)]
                .into_iter()
                .filter(|text| !text.is_empty())
                .chain(made)
                .collect::<Vec<_>>()
                .join("\n");
        }
        let max = stage.side.unwrap_or_default().max;
        let why = match passed {
            _ if side.mode == SideMode::Delegation => match said.is_empty() {
                true => Some(format!("{} has nothing to say", planned.name)),
                false => None,
            },
            false if is_summary => None,
            false => Some(format!("{} has ended it", planned.name)),
            true if said.is_empty() => Some(format!("{} has nothing more to say", planned.name)),
            true if side.messages >= max => Some(format!("{max} messages are the limit")),
            true => return,
        };
        self.close_aside(step, place, why);
    }

    /// Ends the side conversation of a stage. Without a summary of the seat that ends it, `why` and its last messages are
    /// told to the others.
    pub(super) fn close_aside(&mut self, step: &mut SessionStep<'_>, place: usize, why: Option<String>) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        let Some(side) = run.side.take() else { return };
        observers::call_reviewers(stage, run);
        let names = side.seats.map(|seat| stage.seats.get(seat).map_or("", |seat| seat.name.as_str()));
        let between = names.join(" and ");
        let ended = match side.mode {
            SideMode::Dialogue => format!("{between} have talked alone, messages: {}", side.messages),
            SideMode::Delegation => {
                let [first, second] = names;
                format!("{first} has had {second} work alone")
            }
        };
        let reason = why.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
        step.actions.push(SessionAction::Show(format!("stage {}: {ended}{reason}", stage.id)));
        let delegates = side.mode == SideMode::Delegation;
        run.given_back += u32::from(delegates);
        let limit = stage.side.unwrap_or_default().max;
        let may_go_on = run.given_back < limit;
        run.again = side.seats.first().copied().filter(|_| delegates && may_go_on);
        // Who has given work away is told if it is not done.
        let mut others: Vec<usize> =
            (0..stage.seats.len()).filter(|seat| !side.seats.contains(seat)).collect();
        others.extend(run.again.filter(|_| why.is_some()));
        if why.is_none() && !delegates || others.is_empty() {
            return;
        }
        let mut summary = format!("{ended}{reason}. Their last messages:");
        for (name, last) in names.into_iter().zip(&side.last).filter(|(_, last)| !last.is_empty()) {
            summary.push_str(&format!("\n{name}: {last}"));
        }
        let said = self.words_beside_turns(step, (place, stage), (HOST, "summary"), others, summary);
        self.said.push_back(said);
    }

    /// The time of a side conversation is over.
    pub(super) fn end_time_aside(&mut self, step: &mut SessionStep<'_>, place: usize, first: u64) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        let Some(side) = run.side.as_ref().filter(|side| side.first == first) else { return };
        if run.state != StageState::Running || run.closing {
            return;
        }
        let mut waits = String::new();
        for seat in side.seats {
            let (Some(taken), Some(planned)) = (run.seats.get_mut(seat), stage.seats.get(seat)) else {
                continue;
            };
            if let SeatState::Speaking { turn } = &taken.state {
                let why = "the time of the side conversation is over".to_owned();
                step.actions.push(SessionAction::Withdraw { turn: turn.clone(), why });
                taken.state = SeatState::Idle;
                waits = format!(", and {} has not answered", planned.name);
            }
        }
        let time = stage.side.unwrap_or_default().time;
        let why = format!("its time of {time} is over{waits}");
        self.note(format!("stage {}: a side conversation was ended: {why}", stage.id));
        self.close_aside(step, place, Some(why));
        self.go_on_in_stage(step, place);
    }
}
