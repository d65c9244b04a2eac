//! The summary of a session: how each stage has ended, and what each seat has said last. The host makes it without a model when the
//! session ends, also when its budget does.
//!
//! The state has only the names of what was said. So the words are cut in a task that the host gives itself
//! ([`HostWork::Summarize`]), and the session ends with the result of that.

use super::{
    SeatTurn, Session, SessionAction, SessionContext, SessionStep, TurnDoer,
    graph::{BuiltInStage, Graph, Stage},
    host_work::HostWork,
    names::SESSION,
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

/// The most characters of the words of a result in the last message.
const MAX_RESULT: usize = 8_000;

/// The most characters that a turn is told of how far its session is, and of one line of that.
const MAX_SO_FAR: usize = 2_000;
const MAX_LINE: usize = 200;

/// The member of an artifact's metadata that marks a file which the session has made.
pub const MADE: &str = "made";

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
    /// Whether the last message comes with the summary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tells_what_was_made: bool,
}

/// What a summary is made of, beside the artifacts of the seats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SummaryOutline {
    /// How the session ended.
    end: String,
    /// Its stages, in order.
    stages: Vec<StageOutline>,
    /// What it has made, if it does not end with its last words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<MadeOutline>,
}

/// What a session has made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MadeOutline {
    /// The artifacts with the words of those who have put it together.
    words: Vec<String>,
    /// The name of each file, and the artifact that holds it.
    files: Vec<(String, String)>,
    /// The files that were planned and not made.
    missing: Vec<String>,
    /// What the review says of each expected outcome.
    verdicts: String,
    /// The branch with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
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
    /// The files that were made, as artifacts under their own names.
    pub fn files(&self, artifacts: &[Artifact]) -> Vec<Artifact> {
        let files = self.made.iter().flat_map(|made| &made.files);
        let files = files.filter_map(|(name, id)| {
            let made = artifacts.iter().find(|artifact| artifact.artifact_id == *id)?;
            let is_ours = [SUMMARY, super::RECORD].contains(&name.as_str());
            let artifact_id = if is_ours { format!("files/{name}") } else { name.clone() };
            let mut file = Artifact { artifact_id, name: Some(name.clone()), ..made.clone() };
            file.metadata.insert(SESSION.to_owned(), json!({ MADE: true, "of": id }));
            Some(file)
        });
        files.collect()
    }

    /// What was made, in words: the last message of the session. `None` if that ends with its last words.
    pub fn message(&self, artifacts: &[Artifact]) -> Option<String> {
        let made = self.made.as_ref()?;
        let words = artifacts.iter().filter(|artifact| made.words.contains(&artifact.artifact_id));
        let words = words.map(|artifact| words::cut(artifact.as_text().trim(), MAX_RESULT));
        let list = |label: &str, names: Vec<&str>| {
            (!names.is_empty()).then(|| format!("{label}: {}", names.join(", ")))
        };
        let files = list("Files", made.files.iter().map(|(name, _)| name.as_str()).collect());
        let missing = list("Planned, but not made", made.missing.iter().map(String::as_str).collect());
        let verdicts = Some(made.verdicts.clone());
        let parts = words
            .chain([files, missing, verdicts, made.branch.clone()].into_iter().flatten())
            .filter(|part| !part.is_empty());
        let text = parts.collect::<Vec<_>>().join("\n\n");
        Some(if text.is_empty() { self.text(artifacts) } else { text })
    }

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
pub(super) fn shown(part: &Part) -> String {
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
        let tells_what_was_made =
            matches!(&turn.to, TurnDoer::Host(HostWork::Summarize(SummaryOutline { made: Some(_), .. })));
        step.actions.push(SessionAction::Turn(Box::new(turn)));
        self.ending = Some(SessionEnding { state, message: message.to_owned(), tells_what_was_made });
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
        let made = (state == TaskState::Completed).then(|| self.made_outline(cx.graph)).flatten();
        if made.is_some() {
            let result = self.result_stage(cx.graph).and_then(|place| self.stages.get(place));
            given.extend(result.into_iter().flat_map(|run| run.result.iter().cloned()));
            given.extend(self.files(cx.graph).into_iter().map(|(_, file)| Said {
                artifacts: vec![file.artifact.clone()],
                chunks: file.chunks,
                ..Said::default()
            }));
        }
        let artifacts = given.iter().flat_map(|said| said.artifacts.iter().cloned()).collect();
        SeatTurn {
            id: SUMMARY.to_owned(),
            to: TurnDoer::Host(HostWork::Summarize(SummaryOutline { end, stages, made })),
            description: cx.goal.to_owned(),
            input: json!({ "seat": { "session": cx.id, "stage": SUMMARY, "round": 1, "seat": super::names::HOST } }),
            artifacts,
            chunks: state::chunks(&given),
        }
    }

    /// How far the session is for a stage: what it is about, what is open, and how the stages before it went. `None` for the first
    /// stages.
    pub(super) fn so_far(&self, cx: &SessionContext<'_>, place: usize) -> Option<String> {
        let before = cx.graph.before(place);
        let runs = before.iter().filter_map(|at| Some((cx.graph.stages.get(*at)?, self.stages.get(*at)?)));
        let ended: Vec<String> =
            runs.filter(|(_, run)| run.state.has_ended()).map(|(stage, run)| head(stage, run)).collect();
        if ended.is_empty() {
            return None;
        }
        let goal = self.spec.as_ref().map_or(cx.goal, |spec| spec.goal.as_str());
        let open: Vec<String> =
            self.spec.as_ref().map(|spec| spec.open_questions().to_vec()).unwrap_or_default();
        let list = |lines: &[String]| -> String {
            lines.iter().map(|line| format!("\n- {}", on_one_line(line, MAX_LINE))).collect()
        };
        let open = if open.is_empty() { String::new() } else { format!("\nOpen questions:{}", list(&open)) };
        let text = format!("Focus: {}{open}\nSo far:{}", on_one_line(goal, MAX_LINE), list(&ended));
        Some(words::cut(&text, MAX_SO_FAR))
    }

    /// What the session has made; `None` if it ends with its last words: it has neither planned nor judged anything.
    fn made_outline(&self, graph: &Graph) -> Option<MadeOutline> {
        if self.planned.is_empty() && !graph.stages.iter().any(Stage::judges) {
            return None;
        }
        let result = self.result_stage(graph).and_then(|place| self.stages.get(place));
        let words = result.into_iter().flat_map(|run| &run.result);
        let words = words.filter_map(|said| said.artifacts.first().cloned()).collect();
        let files = self.files(graph).into_iter().map(|(_, file)| (file.name.clone(), file.artifact.clone()));
        let verdicts = self.spec.as_ref().map(|spec| spec.verdicts_text(&self.verdicts));
        Some(MadeOutline {
            words,
            files: files.collect(),
            missing: self.missing_files(graph),
            verdicts: verdicts.unwrap_or_default(),
            branch: self.workspace.as_ref().and_then(|workspace| workspace.published.clone()),
        })
    }

    /// The place of the stage that has put the result together: the last that neither judges nor plans.
    fn result_stage(&self, graph: &Graph) -> Option<usize> {
        let is_result = |(stage, run): &(&Stage, &StageRun)| {
            let makes_something = stage.makes.is_none() && stage.plan().is_none() && !stage.judges();
            makes_something && stage.does.is_none() && run.state == StageState::Done && !run.result.is_empty()
        };
        let stages = graph.stages.iter().zip(&self.stages).enumerate();
        let done = stages.filter(|(_, stage)| is_result(stage));
        done.max_by_key(|(place, (_, run))| (run.opened, *place)).map(|(place, _)| place)
    }

    /// Ends the session with its summary; false if the turn is another one.
    pub(super) fn take_summary(&mut self, step: &mut SessionStep<'_>, result: &mut RequestResult) -> bool {
        let Some(ending) = self.ending.take_if(|_| result.id == SUMMARY) else { return false };
        let SessionEnding { state, mut message, tells_what_was_made } = ending;
        if tells_what_was_made && result.ok {
            message.clone_from(&result.text);
        }
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
