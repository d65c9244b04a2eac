//! What was said to all at a table, written down for the stages after it: a summary of every seat's work, and the whole. The host
//! makes both without a model, in a task that it gives itself ([`HostWork::Discussion`]), before the first of those stages begins.

use super::{
    SeatTurn, Session, SessionAction, SessionStep, TurnDoer,
    graph::{GateChoice, Graph},
    host_work::HostWork,
    names::{HOST, RESULT, SESSION, TEAM},
    state::{Discussion, Said, StageRun},
};
use crate::{ChunkRange, turn::RequestResult};
use protocol::{artifact::Artifact, words};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The end of the name of the turn that writes a discussion down, and of the artifact with the summary.
const SUMMARY: &str = "summary";

/// The end of the name of the artifact with all that was said.
const DISCUSSION: &str = "discussion";

/// The most characters of a line about a turn, and of the last words of a seat.
const MAX_LINE: usize = 160;
const MAX_WORDS: usize = 600;

/// The most bytes of a summary.
const MAX_SUMMARY: usize = 16 * 1024;

/// The stage whose discussion is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageDiscussion {
    stage: String,
    iteration: u32,
}

/// What one turn has said to all.
struct Contribution<'a> {
    round: u64,
    seat: &'a str,
    artifact: &'a Artifact,
    /// The name that the seat has given it, if it is not its words.
    result: Option<&'a str>,
}

impl StageDiscussion {
    fn name(&self, what: &str) -> String {
        format!("{}.{}.{what}", self.stage, self.iteration)
    }

    fn contributions<'a>(&self, artifacts: &'a [Artifact]) -> Vec<Contribution<'a>> {
        let said = artifacts.iter().filter_map(|artifact| {
            let about = artifact.metadata.get(SESSION)?;
            let is_for_all = about["to"] == json!([TEAM]);
            let is_of_stage = about["stage"] == self.stage && about["iteration"] == self.iteration;
            let (round, seat) = (about.get("round")?.as_u64()?, about.get("from")?.as_str()?);
            let result = about.get(RESULT).and_then(Value::as_str);
            (is_for_all && is_of_stage).then_some(Contribution { round, seat, artifact, result })
        });
        said.collect()
    }

    /// The summary and the discussion, made of the artifacts of the session.
    pub fn written(&self, artifacts: &[Artifact]) -> [Artifact; 2] {
        let said = self.contributions(artifacts);
        let mut whole = format!("What was said to all in stage {}.\n", self.stage);
        for Contribution { round, seat, artifact, result } in &said {
            match result {
                None => whole.push_str(&format!("\n[round {round}, {seat}]\n{}\n", artifact.as_text())),
                Some(name) => {
                    whole.push_str(&format!(
                        "\n[round {round}, {seat}, artifact {name}]\n{}\n",
                        content(artifact)
                    ));
                }
            }
        }
        let described = |name: &str, text: String, about: &str| {
            let mut artifact = Artifact::text(&self.name(name), "text/plain", text);
            artifact.description = Some(format!("stage {}: {about}", self.stage));
            let about = json!({
                "stage": self.stage, "iteration": self.iteration, "from": HOST, "to": [TEAM], "does": DISCUSSION,
            });
            artifact.metadata.insert(SESSION.to_owned(), about);
            artifact
        };
        [
            described(SUMMARY, self.summary(&said), "what each seat has done"),
            described(DISCUSSION, whole, "all that was said to all"),
        ]
    }

    fn summary(&self, said: &[Contribution<'_>]) -> String {
        let mut seats: Vec<&str> = Vec::new();
        for one in said {
            if !seats.contains(&one.seat) {
                seats.push(one.seat);
            }
        }
        let (most, mut text) = (
            MAX_SUMMARY / seats.len().max(1),
            format!(
                "Stage {}: what each seat has done. All that was said is the artifact {}.\n",
                self.stage,
                self.name(DISCUSSION)
            ),
        );
        for seat in seats {
            text.push_str(&format!("\n{seat}\n"));
            let of_seat = said.iter().filter(|one| one.seat == seat);
            let (words, results): (Vec<_>, Vec<_>) = of_seat.partition(|one| one.result.is_none());
            if let Some(last) = words.last() {
                text.push_str(&format!(
                    "- last words: {}\n",
                    on_one_line(&last.artifact.as_text(), MAX_WORDS)
                ));
            }
            for Contribution { artifact, result, round, .. } in results {
                let name = result.unwrap_or_default();
                text.push_str(&format!(
                    "- artifact {name}, round {round}: {} bytes\n",
                    content(artifact).len()
                ));
            }
            let earlier = words.len().saturating_sub(1);
            let lines: Vec<String> = words[..earlier]
                .iter()
                .map(|one| {
                    format!("- round {}: {}\n", one.round, on_one_line(&one.artifact.as_text(), MAX_LINE))
                })
                .collect();
            // The newest lines that fit.
            let mut bytes = 0;
            let fitting = lines.iter().rev().take_while(|line| {
                bytes += line.len();
                bytes <= most
            });
            let left_out = lines.len() - fitting.count();
            if left_out > 0 {
                text.push_str(&format!("- {left_out} turns before these\n"));
            }
            lines[left_out..].iter().for_each(|line| text.push_str(line));
        }
        text
    }
}

/// The content of an artifact, as far as it can be read.
fn content(artifact: &Artifact) -> String {
    artifact.parts.iter().map(super::summary::shown).collect::<Vec<_>>().join("\n")
}

fn on_one_line(text: &str, most: usize) -> String {
    words::cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

impl Graph {
    /// Whether the discussion of a stage that has ended is written down: another stage follows, and more was said to all than its
    /// result has.
    pub(super) fn discussion_of(&self, place: usize, run: &StageRun) -> Discussion {
        let Some(stage) = self.stages.get(place) else { return Discussion::None };
        let is_followed = self.stages.iter().any(|later| self.places_before(later).contains(&place));
        let has_more = run.findings as usize > run.result.len();
        // What a person drops there no later stage is given.
        let is_chosen_from = stage.gate.contains(&GateChoice::Kill);
        match is_followed && has_more && !stage.gathers() && !is_chosen_from && stage.does.is_none() {
            true => Discussion::Wanted,
            false => Discussion::None,
        }
    }
}

impl Session {
    /// Has the discussions written down that the stage `place` is given. Returns whether it has to wait for one.
    pub(super) fn write_discussions(&mut self, step: &mut SessionStep<'_>, place: usize) -> bool {
        let graph = step.cx.graph;
        let Some(stage) = graph.stages.get(place) else { return false };
        let mut waits = false;
        for before in graph.places_before(stage) {
            let (Some(stage), Some(run)) = (graph.stages.get(before), self.stages.get_mut(before)) else {
                continue;
            };
            waits |= run.discussion != Discussion::None;
            if run.discussion != Discussion::Wanted {
                continue;
            }
            run.discussion = Discussion::InWork;
            let about = StageDiscussion { stage: stage.id.clone(), iteration: run.iteration };
            let id = about.name(SUMMARY);
            let seat = json!({ "session": step.cx.id, "stage": stage.id, "round": 1, "seat": HOST });
            let turn = SeatTurn {
                id,
                to: TurnDoer::Host(HostWork::Discussion(about)),
                description: step.cx.goal.to_owned(),
                input: json!({ "seat": seat }),
                artifacts: Vec::new(),
                chunks: ChunkRange { from: run.discussed.0, to: step.next_chunk },
            };
            step.actions.push(SessionAction::Turn(Box::new(turn)));
        }
        waits
    }

    /// Takes a discussion that was written down; false if the turn is another one.
    pub(super) fn take_discussion(&mut self, step: &mut SessionStep<'_>, result: &mut RequestResult) -> bool {
        let graph = step.cx.graph;
        let is_it = |(stage, run): &(&super::graph::Stage, &mut StageRun)| {
            let about = StageDiscussion { stage: stage.id.clone(), iteration: run.iteration };
            run.discussion == Discussion::InWork && about.name(SUMMARY) == result.id
        };
        let mut runs = graph.stages.iter().zip(&mut self.stages).enumerate();
        let found = runs.find(|(_, of_stage)| is_it(of_stage));
        let Some((place, (stage, run))) = found else { return false };
        run.discussion = Discussion::None;
        if !result.ok {
            self.note(format!("stage {}: the discussion is not written down: {}", stage.id, result.text));
            return true;
        }
        for artifact in std::mem::take(&mut result.artifacts) {
            let number = self.next;
            self.next += 1;
            let (artifacts, bytes) = (vec![artifact.artifact_id.clone()], artifact.size());
            let (chunks, by) = (step.record(artifact), Some(HOST.to_owned()));
            let round = (run.iteration, run.round);
            let said = Said { number, stage: place, round, artifacts, chunks, bytes, by, ..Said::default() };
            run.result.push(said);
        }
        true
    }
}
