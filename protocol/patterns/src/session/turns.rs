//! Rounds and turns of a stage: whose turn is next, what a turn has brought, and when the stage ends.

use super::{
    GRACE, INCOMPLETE, Session, SessionAction, SessionStep, SessionTimer, TOO_FEW, TurnDoer,
    graph::{BuiltInStage, GateChoice, MAX_FINDINGS, Seat, SeatHolder, SeatOrder, Stage, StageNeeds},
    host_work::HostWork,
    names::{PASSES, RESULT, SESSION, TEAM},
    observers,
    person::PersonTurn,
    seat,
    state::{MadeFile, Said, SeatRun, SeatState, SideConversation, StageState},
};
use crate::{ChunkRange, speech::SideMode, turn::RequestResult};
use protocol::{
    artifact::Artifact,
    ids::{Address, Digest},
    words::{counted, cut},
};
use serde_json::json;
use std::collections::BTreeSet;

/// The most artifacts of one turn that other seats are given.
const MAX_SHOWN: usize = 16;

/// The most characters of the words of a member that the state keeps.
const MAX_WORDS: usize = 2_000;

/// The most characters of a candidate that the question at a gate shows.
const MAX_HEAD: usize = 100;

/// The most bytes of what was said to all in a stage that is written down; what came first goes.
const MAX_DISCUSSION: usize = 4 << 20;

/// The most messages that were not delivered of which a seat is told.
const MAX_REFUSED: usize = 8;

/// The name of the turn that a seat has or had last.
fn turn_name(stage: &Stage, iteration: u32, seat: &Seat, taken: &SeatRun) -> String {
    format!("{}.{iteration}.{}.{}", stage.id, seat.name, taken.turns)
}

impl Session {
    /// Begins a stage whose turn it is.
    pub(super) fn open_stage(&mut self, step: &mut SessionStep<'_>, place: usize, is_partial: bool) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        if self.integrates_first(step, place) {
            return;
        }
        let now = step.cx.now;
        let Some(run) = self.stages.get_mut(place) else { return };
        run.state = StageState::Running;
        run.iteration += 1;
        run.opened = Some(now);
        run.partial = is_partial;
        run.discussed = (step.next_chunk, 0);
        run.seats = stage.seats.iter().map(|_| SeatRun::default()).collect();
        if let (Some(time), Ok(number)) = (stage.time(), u32::try_from(place)) {
            let timer = SessionTimer::Stage(number, run.iteration);
            step.actions.push(SessionAction::Timer { timer, at: now.plus(time) });
        }
        match stage.seats.is_empty() {
            true => self.end_stage(step, place, "done", None),
            false => self.begin_round(step, place),
        }
    }

    fn begin_round(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        run.round += 1;
        let idle = stage.idle_members(&run.seats);
        let speakers = match stage.order {
            SeatOrder::Parallel => idle.as_slice(),
            SeatOrder::Turns => idle.get(..1).unwrap_or_default(),
        };
        let what = match stage.order {
            SeatOrder::Parallel => {
                format!("stage {}: {}", stage.id, counted(speakers.len(), "seat works", "seats work"))
            }
            SeatOrder::Turns => format!("stage {}: round {} of {}", stage.id, run.round, stage.rounds),
        };
        step.actions.push(SessionAction::Show(what));
        for seat in speakers.iter().copied() {
            self.speak(step, place, seat);
        }
    }

    /// Gives a seat its turn.
    pub(super) fn speak(&mut self, step: &mut SessionStep<'_>, place: usize, seat: usize) {
        let budget = step.cx.graph.budget.turns();
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
        taken.due = false;
        let id = turn_name(stage, iteration, planned, taken);
        taken.reported = None;
        let number = taken.turns;
        let to = match (&taken.filled, &planned.who) {
            (Some(agent), _) => TurnDoer::Peer(Address::Agent(agent.clone())),
            (None, SeatHolder::Peer(peer)) => TurnDoer::Peer(peer.clone()),
            (None, SeatHolder::Foreign(seat)) => TurnDoer::Host(HostWork::Call(seat.as_ref().clone())),
            (None, SeatHolder::Person(asks)) => {
                let until = step.cx.now.plus(asks.timeout.duration());
                TurnDoer::Host(HostWork::Ask(PersonTurn { asks: asks.clone(), until }))
            }
            (None, SeatHolder::Matched(_)) => TurnDoer::Host(HostWork::Item(planned.name.clone())),
            (None, SeatHolder::BuiltIn(BuiltInStage::Match)) => {
                let terms = stage.discovery.clone().unwrap_or_default();
                TurnDoer::Host(HostWork::Match(Box::new(terms)))
            }
            (None, SeatHolder::BuiltIn(BuiltInStage::Aggregate | BuiltInStage::Dispatch)) => {
                self.interim = None;
                TurnDoer::Host(self.aggregation(&step.cx, place, &[]))
            }
        };
        let Some(taken) = self.stages.get_mut(place).and_then(|run| run.seats.get_mut(seat)) else { return };
        taken.state = SeatState::Speaking { turn: id.clone() };
        let turn = self.seat_turn(&step.cx, (place, seat), id, to);
        step.actions.push(SessionAction::Turn(Box::new(turn)));
        self.watch_for_stall(step, (place, seat), number);
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
        let result = match planned.person().is_some() && !result.ok {
            true => self.missed(step, (place, stage), seat, result),
            false => result,
        };
        let end = result.seat.clone().unwrap_or_default();
        let mut result = self.read_product(step, (place, stage), result);
        if stage.makes.is_some() && result.ok {
            step.text.clone_from(&result.text);
        }
        let directives = seat::take_directives(&mut result.artifacts);
        let commit =
            seat::take_commit(&mut result.artifacts).filter(|_| self.workspace.is_some() && result.ok);
        let is_aside = self.is_aside(place, seat);
        {
            let said = &self.said;
            let Some(run) = self.stages.get_mut(place) else { return };
            let Some(taken) = run.seats.get_mut(seat) else { return };
            if !result.ok {
                let why: String = result.text.chars().take(400).collect();
                taken.filled = None;
                // A foreign agent's calls are repeated under their own ids; a new one would be another task for it.
                let is_of_mesh = matches!(planned.who, SeatHolder::Peer(_));
                if taken.failures < stage.retries && !run.closing && is_of_mesh {
                    taken.failures += 1;
                    taken.last_failure = Some(why.clone());
                    let note = format!("stage {}: {} is asked again: {why}", stage.id, planned.name);
                    self.note(note);
                    return self.speak(step, place, seat);
                }
                if planned.role.watches() {
                    step.actions.push(SessionAction::Show(format!(
                        "stage {} goes on without {}: {why}",
                        stage.id, planned.name
                    )));
                }
                let failed = format!("{} has failed: {why}", planned.name);
                taken.state = SeatState::Failed { why };
                // A part of a team says how it has failed.
                if stage.does.is_some() {
                    let result = RequestResult { text: String::new(), ..result };
                    self.take_words(step, (place, stage), (seat, planned), result, false);
                }
                if is_aside {
                    self.close_aside(step, place, Some(failed));
                }
                return self.after_turn(step, place, seat, is_aside);
            }
            taken.failures = 0;
            taken.last_failure = None;
            if let Some((commit, files)) = commit {
                run.commits.insert(seat, commit);
                run.changed.extend(files);
            }
            if matches!(planned.who, SeatHolder::Peer(Address::Capability(_))) {
                taken.filled = result.from.clone().or_else(|| taken.filled.clone());
                taken.note_gist(&result.text);
            }
            let has_words = !run.closing
                && run.round < stage.rounds
                && said.iter().any(|said| said.is_unseen(place, seat, taken));
            let stays = is_aside || has_words || end.passed && !planned.is_done_after_a_turn(stage);
            taken.state = if stays { SeatState::Idle } else { SeatState::Done };
            run.label = end.label.clone().filter(|_| !is_aside).or_else(|| run.label.take());
            run.acted |= end.acted && !planned.role.watches();
        }
        if stage.does == Some(BuiltInStage::Match) {
            self.take_match(place, &result.artifacts);
        }
        let before = self.stages.get(place).map_or(0, |run| run.findings);
        match is_aside {
            true => self.take_turn_aside(step, (place, stage), (seat, planned), result, end.passed),
            false => self.take_words(step, (place, stage), (seat, planned), result, end.passed),
        }
        // What it says beside what it has posted is no finding of its own.
        if let Some(run) = self.stages.get_mut(place).filter(|_| !planned.role.watches()) {
            run.findings = run.findings.max(before.saturating_add(end.findings));
        }
        for wanted in directives {
            self.follow_supervisor(step, (place, stage), (seat, planned), &wanted);
        }
        // A directive may have begun the stage again.
        if self.stages.get(place).is_none_or(|run| run.state != StageState::Running) {
            return;
        }
        self.after_turn(step, place, seat, is_aside);
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
        let mut artifacts = artifacts;
        if stage.does == Some(BuiltInStage::Aggregate) {
            artifacts.drain(..).for_each(|artifact| {
                step.record(artifact);
            });
        }
        let mut seen = format!("{}\n", planned.name);
        let (messages, results) = seat::messages_and_results(artifacts);
        let mut side = None;
        for (number, message) in (1..).zip(messages) {
            let named = seat::addressees(&message).unwrap_or_default();
            let to = self.seats_named(step, (place, stage), (seat, planned), &named);
            let Some(to) = to else { continue };
            let mode = seat::mode(&message);
            if let ([partner], [_]) = (to.as_slice(), named.as_slice())
                && side.is_none()
                && passed
                && self.may_talk_aside((place, stage), seat, *partner)
            {
                side = Some(SideConversation::new([seat, *partner], self.next, &message.as_text(), mode));
            } else if mode == SideMode::Delegation {
                let why = format!(
                    "a message to {} was not delivered: only one seat that waits can be given work, in a stage with `side`, by a turn that passes",
                    named.join(", ")
                );
                self.refuse(step, (place, stage), (seat, planned), why);
                continue;
            }
            seen.push_str(&format!("{to:?} {}\n", message.as_text()));
            let words = (Some(number), message.as_text(), Vec::new());
            self.say(step, (place, stage), (seat, planned), to, words, false);
        }
        let may_pass = passed || planned.person().is_some();
        let is_silent = text.trim().is_empty() || may_pass && text.trim() == PASSES;
        if !is_silent || !results.is_empty() {
            seen.push_str(&text);
            results.iter().for_each(|artifact| seen.push_str(&artifact.as_text()));
            let text = if is_silent { String::new() } else { text };
            self.say(step, (place, stage), (seat, planned), Vec::new(), (None, text, results), true);
        }
        let Some(run) = self.stages.get_mut(place) else { return };
        run.side = side.or_else(|| run.side.take());
        if seen.len() > planned.name.len() + 1 && !planned.role.watches() {
            run.this_round = Some(with_turn(run.this_round, &seen));
        }
    }

    /// The places of the seats that a message reaches, none for all; `None` if it reaches none. For each name that it does not reach
    /// its sender is told why. A seat that is done is opened again, once.
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
        for name in named {
            match self.seat_named(&step.cx, (place, stage), from, name) {
                Ok(found) if to.contains(&found) => {}
                Ok(found) => to.push(found),
                Err(why) => {
                    let why = format!("a message to {name} was not delivered: {why}");
                    self.refuse(step, (place, stage), (from, sender), why);
                }
            }
        }
        let run = self.stages.get_mut(place)?;
        for addressed in &to {
            let (Some(seat), Some(taken)) = (stage.seats.get(*addressed), run.seats.get_mut(*addressed))
            else {
                continue;
            };
            if taken.state == SeatState::Done && !std::mem::replace(&mut taken.reopened, true) {
                taken.state = SeatState::Idle;
            }
            observers::address(seat, taken, sender);
        }
        (!to.is_empty()).then_some(to)
    }

    /// A message of a seat is not delivered; its next turn is told why.
    pub(super) fn refuse(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        (from, sender): (usize, &Seat),
        why: String,
    ) {
        step.actions.push(SessionAction::Show(format!("stage {}: {}: {why}", stage.id, sender.name)));
        self.note(format!("stage {}: {}: {why}", stage.id, sender.name));
        let sender = self.stages.get_mut(place).and_then(|run| run.seats.get_mut(from));
        if let Some(sender) = sender.filter(|sender| sender.refused.len() < MAX_REFUSED) {
            sender.refused.push(why);
        }
    }

    /// Records words of a seat, and keeps where they are. They are named after the turn; a message on the way has a number in it.
    pub(super) fn say(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        (seat, planned): (usize, &Seat),
        to: Vec<usize>,
        (message, text, results): (Option<u32>, String, Vec<Artifact>),
        is_last_word: bool,
    ) {
        let number = self.next;
        self.next += 1;
        let planned_files: BTreeSet<String> = self.planned_files().into_iter().map(str::to_owned).collect();
        let mut files = Vec::new();
        let Some(run) = self.stages.get_mut(place) else { return };
        let names = to.iter().filter_map(|to| stage.seats.get(*to)).map(|seat| seat.name.as_str());
        let about = json!({
            "stage": stage.id, "iteration": run.iteration, "round": run.round, "from": planned.name,
            "to": if to.is_empty() { vec![TEAM] } else { names.collect::<Vec<_>>() },
        });
        let (mut artifacts, mut bytes, mut chunks) = (Vec::new(), 0, None);
        let mut record = |step: &mut SessionStep<'_>, mut artifact: Artifact, does: Option<BuiltInStage>| {
            let mut about = about.clone();
            if let Some(own) = artifact.metadata.get(SESSION).and_then(|own| own.get(RESULT)) {
                about[RESULT] = own.clone();
            }
            if let Some(does) = does {
                about["does"] = json!(does);
            }
            artifact.metadata.insert(SESSION.to_owned(), about);
            let is_shown = artifacts.len() < MAX_SHOWN || stage.does.is_some();
            if is_shown {
                bytes += artifact.size();
                artifacts.push(artifact.artifact_id.clone());
            }
            let chunk = step.record(artifact);
            if is_shown {
                chunks = Some(ChunkRange { to: chunk.to, ..*chunks.get_or_insert(chunk) });
            }
            chunk
        };
        let round = (run.iteration, run.round);
        let Some(taken) = run.seats.get(seat) else { return };
        let mut name = turn_name(stage, run.iteration, planned, taken);
        if let Some(message) = message {
            name.push_str(&format!(".say.{message}"));
        }
        let shown = format!("{}, round {}", planned.name, run.round);
        let has_candidates = stage.gate.contains(&GateChoice::Kill);
        let head = if has_candidates { cut(text.trim(), MAX_HEAD) } else { String::new() };
        if !text.is_empty() {
            let mut spoken = Artifact::text(&name, "text/plain", text);
            spoken.description = Some(shown);
            record(step, spoken, None);
        }
        for mut result in results {
            // What is told of it later calls it by its own name.
            let own = json!({ RESULT: result.artifact_id });
            result.metadata.insert(SESSION.to_owned(), own);
            result.artifact_id = format!("{name}.{}", result.artifact_id);
            let file = MadeFile::of(stage, &planned_files, &result);
            let chunks = record(step, result, stage.does);
            files.extend(file.map(|file| MadeFile { chunks, ..file }));
        }
        for file in files {
            run.files.retain(|known| known.name != file.name);
            run.files.push(file);
        }
        let chunks = chunks.unwrap_or_default();
        if to.is_empty() && !planned.role.watches() {
            run.findings += 1;
        }
        if to.is_empty() {
            run.discussed.1 += bytes;
            if run.discussed.1 > MAX_DISCUSSION {
                run.discussed = (chunks.from, bytes);
            }
        }
        let seat = Some(seat);
        let (by, stage) = (None, place);
        let said = Said { number, stage, round, seat, to, artifacts, chunks, bytes, head, is_last_word, by };
        self.said.push_back(said);
        self.forget_old(step.cx.graph);
    }

    /// What follows a turn: the next one, a new round, or the end of the stage.
    fn after_turn(&mut self, step: &mut SessionStep<'_>, place: usize, seat: usize, is_aside: bool) {
        if let Some(why) = self.why_budget_ends_it(&step.cx) {
            return self.end_by_budget(step, &why);
        }
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        match is_aside || stage.watches(seat) {
            // What was said in the order of the table counts as its last words.
            true => step.text.clone_from(&run.words),
            false => {
                run.spoke = seat;
                if stage.side.is_some() || stage.seats.iter().any(|seat| seat.role.watches()) {
                    run.words = step.text.chars().take(MAX_WORDS).collect();
                }
                observers::call_reviewers(stage, run);
            }
        }
        self.go_on_in_stage(step, place);
    }

    /// Gives the next turns: reviews that are due, those of a side conversation, then those of the round.
    pub(super) fn go_on_in_stage(&mut self, step: &mut SessionStep<'_>, place: usize) {
        self.give_reviews(step, place);
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get(place)) else {
            return;
        };
        if self.is_over {
            return;
        }
        let has_failed = |(seat, planned): (&SeatRun, &Seat)| {
            matches!(seat.state, SeatState::Failed { .. }) && !planned.role.watches()
        };
        let needs_all = stage.needs == StageNeeds::All && stage.does.is_none();
        if needs_all && !run.closing && run.seats.iter().zip(&stage.seats).any(has_failed) {
            return self.close_stage(step, place, "a seat has failed");
        }
        let is_speaking = run.seats.iter().any(SeatRun::is_speaking);
        if run.closing {
            if !is_speaking {
                self.end_stage(step, place, "done", None);
            }
            return;
        }
        let most = stage.until.findings.or(stage.sealed.then_some(MAX_FINDINGS));
        if let Some(wanted) = most.filter(|wanted| run.findings >= *wanted) {
            return self.close_stage(step, place, &format!("it has {} findings", wanted));
        }
        if is_speaking || self.speak_aside(step, place) || self.speak_again(step, place) {
            return;
        }
        let Some(run) = self.stages.get(place) else { return };
        let next = match stage.order {
            SeatOrder::Parallel => None,
            SeatOrder::Turns => stage.idle_members(&run.seats).into_iter().find(|later| *later > run.spoke),
        };
        if let Some(run) = self.stages.get_mut(place) {
            run.given_back = 0;
        }
        match next {
            Some(next) => self.speak(step, place, next),
            None => self.end_round(step, place),
        }
    }

    fn end_round(&mut self, step: &mut SessionStep<'_>, place: usize) {
        let (Some(stage), Some(run)) = (step.cx.graph.stages.get(place), self.stages.get_mut(place)) else {
            return;
        };
        let idle = stage.idle_members(&run.seats);
        let is_open = !idle.is_empty();
        let has_only_people =
            idle.iter().all(|seat| stage.seats.get(*seat).is_some_and(|seat| seat.person().is_some()));
        let (this, last) = (run.this_round.take(), run.last_round);
        run.last_round = this;
        run.still = match (std::mem::take(&mut run.acted), this == last) {
            (true, _) => 0,
            (false, true) => run.still + 1,
            (false, false) => 1,
        };
        let still = match run.still {
            1 => format!("round {}", run.round),
            rounds => format!("{rounds} rounds in a row (`quiet`)"),
        };
        let incomplete = match this {
            _ if !is_open => return self.end_stage(step, place, "done", None),
            // Whoever else is there is done.
            None if has_only_people => return self.end_stage(step, place, "done", None),
            None if run.still >= stage.quiet => Some(format!("nobody said or did anything in {still}")),
            // One round is the same as no other.
            Some(_) if run.still >= stage.quiet.max(2) => Some(format!("the same was said in {still}")),
            _ if run.round >= stage.rounds => Some(format!("its {} rounds are used up", stage.rounds)),
            _ => None,
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
        if run.gated.take().is_some() {
            let turn = super::gate::gate_id(stage, run);
            step.actions.push(SessionAction::Withdraw { turn, why: why.to_owned() });
        }
        for seat in &mut run.seats {
            if let SeatState::Speaking { turn } = &seat.state {
                step.actions.push(SessionAction::Withdraw { turn: turn.clone(), why: why.to_owned() });
                seat.state = SeatState::Idle;
            }
        }
        self.withdraw_autopilot_at_gate(step, place, why);
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
            .filter(|(_, planned)| !planned.role.watches())
            .filter_map(|(seat, planned)| match &seat.state {
                SeatState::Failed { why } => Some(format!("{}: {why}", planned.name)),
                SeatState::Idle | SeatState::Speaking { .. } | SeatState::Done => None,
            })
            .collect();
        if stage.sealed {
            let (stage, iteration) = (stage.id.clone(), run.iteration);
            step.actions.push(SessionAction::Release { stage, iteration });
        }
        run.clear_table();
        run.result = Self::result(&self.said, (place, stage), run.seats.len());
        run.result.sort_by_key(|said| said.position(step.cx.graph));
        self.said.retain(|said| said.stage != place);
        let has_failed = match stage.needs {
            StageNeeds::All => !failed.is_empty(),
            StageNeeds::Settled => {
                let members = stage.seats.iter().filter(|seat| !seat.role.watches()).count();
                !failed.is_empty() && failed.len() == members
            }
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
        run.discussion = step.cx.graph.discussion_of(place, run);
        let given = run.label.take();
        let unknown =
            given.as_ref().filter(|given| !stage.next.is_empty() && !stage.next.contains_key(*given));
        let unknown = unknown
            .map(|given| format!("stage {} ended {given}, a label that its `next` does not name", stage.id));
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
        if let Some(note) = unknown {
            self.note(note);
        }
        let begins_again = step.cx.graph.goes_back(place, &label).is_some() && looped < stage.loops;
        match stage.gate.is_empty() || begins_again {
            true => {
                self.expand(step, place);
                self.route(step, place, &label);
            }
            false => self.open_gate(step, place),
        }
    }
}

/// The digest of a round that has one more turn. It is a sum, so the order in which the turns end changes nothing.
fn with_turn(round: Option<Digest>, turn: &str) -> Digest {
    let added = Digest::of(turn.as_bytes());
    let Some(round) = round else { return added };
    let (mut sum, mut carry) = (*round.bytes(), 0);
    for (byte, more) in sum.iter_mut().zip(added.bytes()).rev() {
        let [high, low] = (u16::from(*byte) + u16::from(*more) + carry).to_be_bytes();
        (carry, *byte) = (u16::from(high), low);
    }
    Digest::from(sum)
}
