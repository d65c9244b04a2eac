//! The summary of a session: how each stage has ended, and what each seat has said last. The host makes it without a model when the
//! session ends, also when its budget does.
//!
//! The state has only the names of what was said. So the words are cut in a task that the host gives itself
//! ([`HostWork::Summarize`]), and the session ends with the result of that.

use super::{
    SeatTurn, Session, SessionAction, SessionContext, SessionStep, TurnDoer,
    graph::{BuiltInStage, Stage},
    host_work::HostWork,
    state::{self, Said, StageRun, StageState},
};
use crate::turn::RequestResult;
use protocol::{
    artifact::{Artifact, Part, PartContent},
    task::TaskState,
    time::WallTime,
    words,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The artifact with the summary, and the name of the turn that makes it.
pub const SUMMARY: &str = "summary";

/// The most characters of the last words of a seat.
const MAX_WORDS: usize = 400;

/// The fewest characters that are left of them, however many seats there are.
const LEAST_WORDS: usize = 40;

/// About how many bytes a summary has at most; with many seats it shows fewer of their words.
const MAX_SUMMARY: usize = 16 * 1024;

/// The most bytes of one message that is read for it, and of all; those of the last stages go first.
const MAX_READ: (usize, usize) = (64 * 1024, 1024 * 1024);

/// How a session ends when its summary is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionEnding {
    state: TaskState,
    message: String,
}

/// What a summary is made of, beside the artifacts of the seats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SummaryOutline {
    /// How the session ended.
    end: String,
    /// Its stages, in order.
    stages: Vec<StageOutline>,
}

/// A stage in a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StageOutline {
    /// Its name, and how it went.
    head: String,
    /// The seats that have said something, and the artifact with their last words, unless that is too large.
    said: Vec<(String, Option<String>)>,
}

impl SummaryOutline {
    /// The summary, made of the artifacts that the outline names.
    pub fn text(&self, artifacts: &[Artifact]) -> String {
        let mut text = format!("The session {}.\n", self.end);
        let seats = self.stages.iter().map(|stage| stage.said.len()).sum::<usize>();
        // A character has up to four bytes.
        let most = (MAX_SUMMARY / 4 / seats.max(1)).clamp(LEAST_WORDS, MAX_WORDS);
        for stage in &self.stages {
            text.push_str(&format!("\n{}\n", stage.head));
            for (seat, name) in &stage.said {
                let said = artifacts.iter().find(|artifact| Some(&artifact.artifact_id) == name.as_ref());
                let words = said.map(|said| said.parts.iter().map(shown).collect::<Vec<_>>().join(" "));
                let words = words
                    .map_or_else(|| "(too large to show here)".to_owned(), |words| on_one_line(&words, most));
                text.push_str(&format!("- {seat}: {words}\n"));
            }
        }
        text
    }
}

/// A part of an artifact, as far as it can be read.
fn shown(part: &Part) -> String {
    match &part.content {
        PartContent::Text(text) => text.clone(),
        PartContent::Data(data) => data.to_string(),
        PartContent::Raw(_) | PartContent::Url(_) => {
            part.filename.as_ref().map_or("(a file)".to_owned(), |name| format!("({name})"))
        }
    }
}

/// The beginning of what a seat has said, on one line.
fn on_one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words::cut(&words.join(" "), most)
}

impl Session {
    /// Has the summary made with which the session ends in this way; false if there is nothing to sum up.
    pub(super) fn sum_up(&mut self, step: &mut SessionStep<'_>, state: TaskState, message: &str) -> bool {
        // A team that makes one answer has said all in it.
        let makes_answer =
            step.cx.graph.stages.iter().any(|stage| stage.does == Some(BuiltInStage::Aggregate));
        if makes_answer || self.next == 0 {
            return false;
        }
        let turn = self.summary_turn(&step.cx, state, message);
        step.actions.push(SessionAction::Turn(Box::new(turn)));
        self.ending = Some(SessionEnding { state, message: message.to_owned() });
        true
    }

    fn summary_turn(&self, cx: &SessionContext<'_>, state: TaskState, message: &str) -> SeatTurn {
        let end = match state {
            TaskState::Completed => "is completed".to_owned(),
            _ => format!("failed: {}", on_one_line(message, MAX_WORDS)),
        };
        let mut given: Vec<Said> = Vec::new();
        let mut bytes = 0;
        let runs = self.stages.iter().enumerate().zip(&cx.graph.stages).rev();
        let mut stages: Vec<(Option<WallTime>, StageOutline)> = runs
            .map(|((place, run), stage)| {
                let said = self.said.iter().filter(|said| said.stage == place).chain(&run.result);
                let said = Self::last_words(said, place, stage.seats.len());
                let words = said.into_iter().map(|said| {
                    let seat = said.speaker(stage).to_owned();
                    // Files come after the words.
                    let has_words = said.artifacts.len() > 1 || said.bytes <= MAX_READ.0;
                    let name = said.artifacts.first().filter(|_| has_words && bytes <= MAX_READ.1).cloned();
                    if let Some(name) = &name {
                        bytes += said.bytes.min(MAX_READ.0);
                        given.push(Said { artifacts: vec![name.clone()], ..said });
                    }
                    (seat, name)
                });
                (run.opened, StageOutline { said: words.collect(), head: head(stage, run) })
            })
            .collect();
        stages.reverse();
        // Planned work comes where it was done.
        stages.sort_by_key(|(opened, _)| (opened.is_none(), *opened));
        let stages = stages.into_iter().map(|(_, stage)| stage).collect();
        let artifacts = given.iter().flat_map(|said| said.artifacts.iter().cloned()).collect();
        SeatTurn {
            id: SUMMARY.to_owned(),
            to: TurnDoer::Host(HostWork::Summarize(SummaryOutline { end, stages })),
            description: cx.goal.to_owned(),
            input: json!({ "seat": { "session": cx.id, "stage": SUMMARY, "round": 1, "seat": super::names::HOST } }),
            artifacts,
            chunks: state::chunks(&given),
        }
    }

    /// Ends the session with its summary; false if the turn is another one.
    pub(super) fn take_summary(&mut self, step: &mut SessionStep<'_>, result: &mut RequestResult) -> bool {
        let Some(SessionEnding { state, message }) = self.ending.take_if(|_| result.id == SUMMARY) else {
            return false;
        };
        if !result.ok {
            self.note(format!("there is no summary: {}", result.text));
        }
        for artifact in std::mem::take(&mut result.artifacts) {
            step.record(artifact);
        }
        step.actions.push(SessionAction::End { state, message });
        true
    }
}

/// The name of a stage and how it went.
fn head(stage: &Stage, run: &StageRun) -> String {
    let how = match run.state {
        StageState::Waiting => "not begun",
        StageState::Running | StageState::Gated => "stopped",
        StageState::Done => run.label.as_deref().unwrap_or("done"),
        StageState::Failed => run.label.as_deref().unwrap_or("failed"),
        StageState::Blocked => "blocked",
        StageState::Skipped => "skipped",
    };
    let why =
        run.reason.as_ref().map(|why| format!(" ({})", on_one_line(why, MAX_WORDS))).unwrap_or_default();
    let rounds = if run.round > 1 { format!(", {} rounds", run.round) } else { String::new() };
    format!("{}: {how}{why}{rounds}", stage.id)
}
