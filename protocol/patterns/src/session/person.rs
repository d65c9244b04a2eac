//! A person in a seat. Its turn is a question of the session's task that shows what is new to it; the answer is what it says.
//!
//! The host asks, in a task that it gives itself, so a turn of a person is withdrawn, shown and recovered like any other.

use super::{
    SessionStep,
    graph::{Graph, PersonSeat, Seat, SeatHolder, SeatOrder, Stage},
    names::{HOST, PASSES, SESSION},
};
use crate::turn::{RequestResult, TurnEnd};
use protocol::{
    answer::SeatEnd,
    artifact::Artifact,
    ids::AgentId,
    question::{AskedBy, Decision, OnTimeout, Question},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The most characters of one message, or of the task, that a question shows.
const MAX_SHOWN: usize = 2_000;

/// The most characters of a question.
const MAX_TEXT: usize = 12_000;

/// The answer of a person that has nothing to say.
const PASS: &str = "pass";

/// The answer that ends a person's part, alone or before the last words.
const DONE: &str = "done";

/// A turn of a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonTurn {
    pub asks: PersonSeat,
    /// When the question is no longer open.
    pub until: WallTime,
}

impl PersonTurn {
    /// The question of the turn, made of what the turn of any seat is given.
    pub fn question(&self, description: &str, input: Option<&Value>, artifacts: &[Artifact]) -> Question {
        let about = input.and_then(|input| input.get("seat")).unwrap_or(&Value::Null);
        let word = |name: &str| about.get(name).and_then(Value::as_str).unwrap_or_default();
        let (own, stage) = (word("seat"), word("stage"));
        let new: Vec<&str> = about
            .get("new")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let is_first = about.get("round") == Some(&json!(1));
        let mut shown: Vec<String> = artifacts
            .iter()
            .filter(|artifact| {
                let said = artifact.metadata.get(SESSION);
                let is_of_stage = said.is_some_and(|said| said.get("stage") == Some(&json!(stage)));
                new.contains(&artifact.artifact_id.as_str()) || is_first && !is_of_stage
            })
            .map(|artifact| line(artifact, own))
            .collect();
        let side = about.get("side").and_then(|side| side.get("with")).and_then(Value::as_str);
        let ends = match (side, word("order")) {
            (Some(with), _) => format!(
                "What you answer is for {with} alone. `{DONE}: …` ends the conversation, and is told to all; `{PASS}` ends it without words."
            ),
            (None, "turns") => format!(
                "What you answer is said to all. `{PASS}`: nothing this time. `{DONE}`, or `{DONE}: …` with your last words: you are asked no more."
            ),
            (None, _) => format!("What you answer is said to all. `{PASS}`: you say nothing."),
        };
        let head = format!(
            "{}, it is your turn in stage {stage}, round {}.\n\n{}",
            self.asks.person,
            about.get("round").unwrap_or(&json!(1)),
            cut(description, MAX_SHOWN)
        );
        let mut left_out = about.get("leftOut").and_then(Value::as_array).map_or(0, Vec::len);
        let mut length = head.chars().count() + ends.chars().count();
        let mut kept = Vec::new();
        // The newest are kept.
        while let Some(last) = shown.pop() {
            length += last.chars().count() + 2;
            if length > MAX_TEXT {
                left_out += shown.len() + 1;
                break;
            }
            kept.push(last);
        }
        if left_out > 0 {
            kept.push(format!(
                "[{left_out} earlier messages are not shown here; `mesh tasks show` has them]"
            ));
        }
        kept.push(head);
        kept.reverse();
        kept.push(ends);
        let text = kept.join("\n\n");
        Question {
            expires_at: Some(self.until),
            on_timeout: Some(OnTimeout::Continue),
            ..Question::new("turn", text)
        }
    }

    /// How the turn ends with what came of its question. Nothing of a person is no answer: the turn fails, and the session says
    /// so.
    pub fn end(&self, answer: &RequestResult) -> TurnEnd {
        if !answer.ok && answer.decision.is_none() {
            let PersonSeat { person, timeout } = &self.asks;
            return TurnEnd::Failed { reason: format!("{person} gave no answer within {timeout}") };
        }
        let text = answer.text.trim();
        let (first, rest) = text.split_once(':').unwrap_or((text, ""));
        let is_alone = |word: &str| text.eq_ignore_ascii_case(word);
        let passes = || TurnEnd::Seat { message: None, seat: SeatEnd { passed: true, ..SeatEnd::default() } };
        let says = |text: &str, passed: bool| TurnEnd::Seat {
            message: Some(text.to_owned()),
            seat: SeatEnd { passed, ..SeatEnd::default() },
        };
        match () {
            () if text.is_empty() || is_alone(PASS) || !answer.ok && is_alone(Decision::Deny.word()) => {
                passes()
            }
            () if is_alone(DONE) => says(PASSES, false),
            () if first.trim().eq_ignore_ascii_case(DONE) && !rest.trim().is_empty() => {
                says(rest.trim(), false)
            }
            () => says(text, true),
        }
    }
}

/// A message as a person is shown it.
fn line(artifact: &Artifact, own: &str) -> String {
    let about = artifact.metadata.get(SESSION).unwrap_or(&Value::Null);
    let from = about.get("from").and_then(Value::as_str);
    let from = from.or(artifact.name.as_deref()).unwrap_or(&artifact.artifact_id);
    let is_alone = about.get("to").and_then(Value::as_array).is_some_and(|to| to.contains(&json!(own)));
    let to = if is_alone { " to you" } else { "" };
    format!("{from}{to}: {}", cut(&artifact.as_text(), MAX_SHOWN))
}

fn cut(text: &str, most: usize) -> String {
    let mut shown: String = text.trim().chars().take(most).collect();
    if shown.len() < text.trim().len() {
        shown.push_str("… [cut]");
    }
    shown
}

impl Seat {
    /// The person that takes the seat, if one does.
    pub(super) fn person(&self) -> Option<&PersonSeat> {
        if let SeatHolder::Person(person) = &self.who { Some(person) } else { None }
    }

    /// Whether the seat is done with its stage when a turn of it ends that has not said so.
    pub(super) fn is_done_after_a_turn(&self, stage: &Stage) -> bool {
        self.person().is_some() && stage.order == SeatOrder::Parallel
    }
}

impl super::Session {
    /// Whether a person is asked, at a gate, in a seat, or about a stage that has failed. The time that takes is none of the session's.
    pub(super) fn asks_person(&self, graph: &Graph) -> bool {
        let in_seat = self.stages.iter().zip(&graph.stages).any(|(run, stage)| {
            let mut seats = run.seats.iter().zip(&stage.seats);
            seats.any(|(taken, planned)| taken.is_speaking() && planned.person().is_some())
        });
        in_seat
            || self.is_at_gate()
            || self.failed_stage.is_some()
            || self.file_question.is_some()
            || self.asks_about_conflict()
    }

    /// Who asks, if `agent` asks something in `turn`: the seat that has this turn. A person in a seat asks nobody.
    pub fn asker(&self, graph: &Graph, turn: &str, agent: &AgentId) -> Option<AskedBy> {
        let (place, seat) = self.place_of_turn(turn)?;
        let stage = graph.stages.get(place)?;
        let seat = stage.seats.get(seat).filter(|seat| seat.person().is_none())?;
        let is_peer = matches!(seat.who, SeatHolder::Peer(_));
        let (agent, seat) = (is_peer.then(|| agent.clone()), Some(seat.name.clone()));
        Some(AskedBy { agent, stage: stage.id.clone(), seat })
    }

    /// A person has given no answer: the turn is a pass, and the seats are told. Of a sealed stage nobody is told who is in it.
    pub(super) fn missed(
        &mut self,
        step: &mut SessionStep<'_>,
        (place, stage): (usize, &Stage),
        seat: usize,
        result: RequestResult,
    ) -> RequestResult {
        let text = format!("{}; the turn is a pass", result.text);
        self.note(format!("stage {}: {text}", stage.id));
        step.actions.push(super::SessionAction::Show(format!("stage {}: {text}", stage.id)));
        let to = if stage.sealed { vec![seat] } else { Vec::new() };
        let said = self.words_beside_turns(step, (place, stage), (HOST, "no answer"), to, text);
        self.said.push_back(said);
        step.text.clear();
        let seat = Some(SeatEnd { passed: true, ..SeatEnd::default() });
        RequestResult { ok: true, text: String::new(), seat, ..result }
    }
}
