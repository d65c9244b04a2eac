//! Autopilot: an agent of the session answers what other seats ask, and confirms the gates that the file names, for the person who
//! gave the task (SEEDS §1.8). Approvals of calls, credentials and forms stay with the person, and so does what it leaves open.

use super::{
    SeatTurn, Session, SessionAction, SessionContext, SessionStep, TurnDoer, gate,
    material::MAX_GIVEN,
    names::{PASSES, SESSION},
    state::{self, Said, StageState},
};
use crate::turn::RequestResult;
use protocol::{
    artifact::Artifact,
    ids::Address,
    question::{Decision, Question, QuestionKind},
    words::cut,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The name under which it answers, and the stage of its turns.
const AUTOPILOT: &str = "autopilot";

/// The word that confirms a gate.
const APPROVE: &str = "approve";

/// The most characters of a question or an answer that the record shows.
const MAX_SHOWN: usize = 400;

/// What the autopilot of a session is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AutopilotRun {
    /// How many turns it was given.
    asked: u32,
    turns: Vec<AutopilotTurn>,
    /// The open questions of all turns.
    known: BTreeSet<String>,
}

impl AutopilotRun {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A turn of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AutopilotTurn {
    id: String,
    about: AutopilotSubject,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum AutopilotSubject {
    /// A question of another seat.
    #[serde(rename_all = "camelCase")]
    Question { question: String, text: String, options: Vec<String>, stage: usize, seat: usize },
    /// The gate of a stage.
    Gate { stage: usize },
}

impl Session {
    /// Whether the questions of turns are others than when the rules were asked last.
    pub fn has_other_questions(&self, asked: &[(String, Question)]) -> bool {
        let is_known = |(_, question): &(String, Question)| self.autopilot.known.contains(&question.id);
        asked.len() != self.autopilot.known.len() || !asked.iter().all(is_known)
    }

    /// Turns ask other questions than before, or some were answered.
    pub fn questions(&mut self, cx: SessionContext<'_>, asked: &[(String, Question)]) -> Vec<SessionAction> {
        let mut step = SessionStep::new(cx);
        let has_asked = self.begin_event(&cx);
        let open: BTreeSet<String> = asked.iter().map(|(_, question)| question.id.clone()).collect();
        let is_over = |turn: &AutopilotTurn| match &turn.about {
            AutopilotSubject::Question { question, .. } => !open.contains(question),
            AutopilotSubject::Gate { .. } => false,
        };
        self.withdraw_autopilot(&mut step, is_over, "the question is not open any more");
        let known = std::mem::replace(&mut self.autopilot.known, open);
        for (turn, question) in asked.iter().filter(|(_, question)| !known.contains(&question.id)) {
            self.put_to_autopilot(&mut step, turn, question);
        }
        self.settle(&mut step, has_asked);
        step.actions
    }

    fn withdraw_autopilot(
        &mut self,
        step: &mut SessionStep<'_>,
        is_over: impl Fn(&AutopilotTurn) -> bool,
        why: &str,
    ) {
        let (over, kept) = std::mem::take(&mut self.autopilot.turns).into_iter().partition(is_over);
        self.autopilot.turns = kept;
        let over: Vec<AutopilotTurn> = over;
        let withdraw = |turn: AutopilotTurn| SessionAction::Withdraw { turn: turn.id, why: why.to_owned() };
        step.actions.extend(over.into_iter().map(withdraw));
    }

    /// The gate of a stage is not open any more.
    pub(super) fn withdraw_autopilot_at_gate(&mut self, step: &mut SessionStep<'_>, place: usize, why: &str) {
        self.withdraw_autopilot(step, |turn| turn.about == AutopilotSubject::Gate { stage: place }, why);
    }

    /// Has the autopilot answer a question, if it may.
    fn put_to_autopilot(&mut self, step: &mut SessionStep<'_>, turn: &str, question: &Question) {
        let Some((stage, seat)) = self.place_of_turn(turn) else { return };
        let Some(place) = step.cx.graph.stages.get(stage) else { return };
        let Some(planned) = place.seats.get(seat) else { return };
        let is_answerable = match question.kind {
            QuestionKind::Text | QuestionKind::Choice => planned.person().is_none(),
            QuestionKind::Form | QuestionKind::Approval | QuestionKind::Credential => false,
        };
        let agent = step.cx.graph.autopilot.as_ref().and_then(|autopilot| autopilot.agent.as_ref());
        let asks_itself = agent.is_some() && planned.who.agent() == agent;
        // What is asked in a sealed stage is told to nobody in the session.
        if !is_answerable || asks_itself || place.sealed {
            return;
        }
        let mut text = format!(
            "You answer a question of {} (stage {}) for the person who gave the task. Your last words are the answer, and nothing else.\n\n",
            planned.name, place.id
        );
        if let Some(task) = planned.task.as_ref().or(place.task.as_ref()) {
            text.push_str(&format!("What {} is to do:\n{task}\n\nThe question:\n", planned.name));
        }
        text.push_str(&question.text);
        if !question.options.is_empty() {
            text.push_str(&format!("\n\nAnswer one of: {}", question.options.join(", ")));
        }
        let shown = cut(&question.text, MAX_SHOWN);
        let (question, options) = (question.id.clone(), question.options.clone());
        let about = AutopilotSubject::Question { question, text: shown, options, stage, seat };
        self.ask_autopilot(step, about, &text);
    }

    /// Has the autopilot confirm the gate of a stage, if the file lets it. Returns whether it is asked.
    pub(super) fn gate_for_autopilot(
        &mut self,
        step: &mut SessionStep<'_>,
        place: usize,
        text: &str,
    ) -> bool {
        let Some(stage) = step.cx.graph.stages.get(place) else { return false };
        let autopilot = step.cx.graph.autopilot.as_ref();
        if !autopilot.is_some_and(|autopilot| autopilot.gates.contains(&stage.id)) {
            return false;
        }
        let text = format!(
            "You confirm the result of stage {} for the person who gave the task. If it is good, your last words are `{APPROVE}`; if not, say why, and the person decides.\n\n{text}",
            stage.id
        );
        self.ask_autopilot(step, AutopilotSubject::Gate { stage: place }, &text)
    }

    fn ask_autopilot(&mut self, step: &mut SessionStep<'_>, about: AutopilotSubject, text: &str) -> bool {
        let cx = step.cx;
        let agent = cx.graph.autopilot.as_ref().and_then(|autopilot| autopilot.agent.clone());
        let Some(agent) = agent.filter(|_| self.turns < cx.graph.budget.turns()) else { return false };
        self.turns += 1;
        self.autopilot.asked += 1;
        let id = format!("{AUTOPILOT}.{}", self.autopilot.asked);
        let (stage, asker) = match &about {
            AutopilotSubject::Question { stage, seat, .. } => (*stage, Some(*seat)),
            AutopilotSubject::Gate { stage } => (*stage, None),
        };
        let given = self.known_to_autopilot(&cx, stage, asker);
        let artifacts = cx.given.iter().map(|given| given.artifact_id.clone());
        let artifacts =
            artifacts.chain(given.iter().flat_map(|said| said.artifacts.iter().cloned())).collect();
        let chunks = state::chunks(given.iter().copied());
        let mut seat = json!({
            "session": cx.id, "stage": AUTOPILOT, "iteration": 1, "seat": AUTOPILOT, "round": 1, "rounds": 1,
            "order": "parallel", "others": [], "new": [],
        });
        if let Some(spec) = cx.graph.stages.get(stage).and_then(|stage| self.spec_for(stage)) {
            seat["spec"] = spec;
        }
        step.actions.push(SessionAction::Turn(Box::new(SeatTurn {
            id: id.clone(),
            to: TurnDoer::Peer(Address::Agent(agent)),
            description: format!("{}\n\n{text}", cx.goal),
            input: json!({ "seat": seat }),
            artifacts,
            chunks,
        })));
        self.autopilot.turns.push(AutopilotTurn { id, about });
        true
    }

    /// What it is given: the results of the stages before, as the confirmed spec and the plan; constraints; and what the seat
    /// has said that asks, or the whole result at a gate. The newest stays if it is too much.
    fn known_to_autopilot(&self, cx: &SessionContext<'_>, place: usize, asker: Option<usize>) -> Vec<&Said> {
        let of_stage =
            |before: usize| self.stages.get(before).map(|run| run.result.as_slice()).unwrap_or_default();
        let before = cx.graph.before(place).into_iter().flat_map(of_stage);
        let amended = self.amendments.iter().filter(|amendment| {
            asker.map_or(amendment.place.is_none_or(|only| only == place), |seat| {
                amendment.is_for((place, seat))
            })
        });
        let run = self.stages.get(place);
        let own = run.into_iter().flat_map(|run| run.feedback.iter().chain(&run.result));
        let own = own.chain(self.said.iter().filter(|said| said.stage == place));
        let own = own.filter(|said| match asker {
            Some(seat) => {
                said.seat == Some(seat)
                    || said.seat.is_none() && (said.to.is_empty() || said.to.contains(&seat))
            }
            None => true,
        });
        let mut known: Vec<&Said> =
            before.chain(amended.map(|amendment| &amendment.said)).chain(own).collect();
        known.sort_by_key(|said| said.number);
        known.dedup_by_key(|said| said.number);
        let mut bytes = 0;
        known.reverse();
        known.retain(|said| {
            let fits = bytes + said.bytes <= MAX_GIVEN;
            bytes += if fits { said.bytes } else { 0 };
            fits
        });
        known.sort_by_key(|said| said.position(cx.graph));
        known
    }

    /// Takes the result of a turn of the autopilot. Returns false if it is of no such turn.
    pub(super) fn take_autopilot(&mut self, step: &mut SessionStep<'_>, result: &RequestResult) -> bool {
        let Some(at) = self.autopilot.turns.iter().position(|turn| turn.id == result.id) else {
            return false;
        };
        let turn = self.autopilot.turns.remove(at);
        let said = result.text.trim();
        let said = if said == PASSES { "" } else { said };
        match turn.about {
            AutopilotSubject::Question { question, text, options, stage, seat } => {
                let answer = match options.iter().find(|option| option.eq_ignore_ascii_case(said)) {
                    Some(option) => option.clone(),
                    None if options.is_empty() => said.to_owned(),
                    None => String::new(),
                };
                match result.ok && !answer.is_empty() {
                    true => {
                        self.record_autopilot(step, (stage, Some(seat)), &format!("{text}\n→ {answer}"));
                        step.actions.push(SessionAction::Answer { question, text: answer });
                    }
                    false => {
                        self.note(format!("the autopilot leaves a question to a person ({text}): {said}"));
                    }
                }
            }
            AutopilotSubject::Gate { stage: place } => {
                let is_open = self.stages.get(place).is_some_and(|run| run.state == StageState::Gated);
                let first = said.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
                match result.ok && first.eq_ignore_ascii_case(APPROVE) {
                    _ if !is_open => {}
                    true => {
                        self.record_autopilot(step, (place, None), "the gate is confirmed");
                        let (decision, text) = (Some(Decision::Approve), "confirmed by the autopilot".into());
                        let confirmed =
                            RequestResult { ok: true, decision, text, ..RequestResult::default() };
                        self.take_decision(step, place, confirmed);
                    }
                    false => {
                        let why = format!("\n\nThe autopilot does not confirm it: {}", cut(said, MAX_SHOWN));
                        gate::ask_person(self, step, place, &why);
                    }
                }
            }
        }
        true
    }

    /// The record says what the autopilot has answered.
    fn record_autopilot(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, seat): (usize, Option<usize>),
        text: &str,
    ) {
        let Some(stage) = step.cx.graph.stages.get(place) else { return };
        let to = seat.and_then(|seat| stage.seats.get(seat)).map_or("person", |seat| seat.name.as_str());
        let number = self.next;
        self.next += 1;
        let mut artifact = Artifact::text(&format!("{AUTOPILOT}.{}", number + 1), "text/plain", text);
        artifact.description = Some("the autopilot answers for the person".to_owned());
        let about = json!({ "stage": stage.id, "from": AUTOPILOT, "to": [to] });
        artifact.metadata.insert(SESSION.to_owned(), about);
        step.record(artifact);
        self.note(format!(
            "stage {}: the autopilot has answered for the person ({to}): {}",
            stage.id,
            cut(text, MAX_SHOWN)
        ));
    }

    /// The autopilot as people see it.
    pub(super) fn autopilot_view(&self, cx: &SessionContext<'_>) -> Option<Value> {
        let autopilot = cx.graph.autopilot.as_ref()?;
        let turns: Vec<&str> = self.autopilot.turns.iter().map(|turn| turn.id.as_str()).collect();
        Some(json!({
            "agent": autopilot.agent, "gates": autopilot.gates, "asked": self.autopilot.asked, "working": turns,
        }))
    }
}
