//! A session: a team works on something together, in a graph of stages with seats (SEEDS §2, §4.4, §5).
//!
//! The agent that accepts the task hosts it. A seat's turn is a task for another agent, so cancel, questions, recovery and
//! auctions are those of any task. Here are the decisions: which stage and whose turn is next, what a turn is given, and how
//! the session ends. They are rules without I/O; [`Hosting`](super::work::Hosting) does what they say.
//!
//! What was said is in the log of the session's task, as artifacts. The state holds numbers and names.

mod autopilot;
mod candidates;
mod directive;
pub mod discussion;
mod failed_stage;
mod files;
mod gate;
pub mod graph;
pub mod host_work;
mod material;
pub mod names;
mod observers;
mod outcome;
pub mod person;
mod plan;
mod routes;
pub mod routing;
pub mod seat;
mod side;
mod stall;
mod state;
pub mod summary;
pub mod team;
mod team_stages;
mod turns;
mod view;
pub mod workspace;

use super::{ChunkRange, SessionTimer};
use crate::turn::RequestResult;
use autopilot::AutopilotRun;
use failed_stage::FailedStageQuestion;
use files::FileQuestion;
use graph::Graph;
use host_work::HostWork;
use names::PASSES;
use outcome::{OutcomeSpec, OutcomeVerdict};
use plan::PlannedStage;
use protocol::{
    artifact::Artifact,
    budget::Budget,
    ids::{Address, AgentId, Digest, TaskId},
    principal::{Principal, SenderProof},
    question::{AskedBy, Decision, Question, QuestionKind},
    task::{PastTask, Task, TaskSpec, TaskState},
    time::WallTime,
    usage::{BudgetVerdict, TaskBounds, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use state::{Amendment, Said, SeatState, StageRun, StageState};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use summary::SessionEnding;
use workspace::WorkspaceRun;

/// The capability that asks any agent to host a session.
pub const CAPABILITY: &str = "session";

/// Whether a task holds what seats say to each other: a session, and the turns in it. Of the people only one with a proof may see
/// it, as every brain on a machine can ask without one.
pub fn is_confidential(task: &Task) -> bool {
    is_session(&task.spec) || seat::is_seat_turn(&task.spec)
}

/// Whether `by` may be shown a task that it may see otherwise: one that is confidential only with a proof.
pub fn is_shown_to(task: &Task, by: &Principal, proof: SenderProof) -> bool {
    shows_confidential_to(by, proof) || !is_confidential(task)
}

/// Whether `by` may be shown confidential tasks that it may see otherwise: persons only with a proof.
pub fn shows_confidential_to(by: &Principal, proof: SenderProof) -> bool {
    !matches!(by, Principal::User(_)) || proof != SenderProof::Address
}

/// Whether a task asks for a session.
pub fn is_session(spec: &TaskSpec) -> bool {
    spec.capability.as_ref().is_some_and(|wanted| wanted.as_str() == CAPABILITY)
}

/// The artifact that says how the session has gone.
pub const RECORD: &str = "session";

/// The most notes that are kept; the oldest go first.
const MAX_NOTES: usize = 32;

/// How long running turns may take when a stage's time is over.
const GRACE: Duration = Duration::from_secs(10);

/// The label of a stage that did not come to an end of its own.
pub const INCOMPLETE: &str = "incomplete";

/// The label of a stage with fewer findings than it needs.
pub const TOO_FEW: &str = "too-few";

/// What the rules are told with an event.
#[derive(Debug, Clone, Copy)]
pub struct SessionContext<'a> {
    pub graph: &'a Graph,
    pub id: &'a TaskId,
    /// The agent that hosts it.
    pub host: &'a AgentId,
    /// What it is for.
    pub goal: &'a str,
    /// The artifacts that it was given.
    pub given: &'a [Artifact],
    /// The earlier tasks of its A2A context.
    pub history: &'a [PastTask],
    /// What it has used, that of its seats included.
    pub used: &'a Usage,
    pub now: WallTime,
    /// The number of the next chunk of its log.
    pub next_chunk: u64,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionAction {
    /// Add an artifact to the log of the session's task; each takes one chunk.
    Record(Box<Artifact>),
    Turn(Box<SeatTurn>),
    /// Ask a person. The answer is the result of a turn with the question's id.
    Ask(Box<Question>),
    /// End a running turn, or take a question back.
    Withdraw {
        /// The name of the turn, or the id of the question.
        turn: String,
        why: String,
    },
    /// Answer a question of a turn for the person.
    Answer {
        question: String,
        text: String,
    },
    Timer {
        timer: SessionTimer,
        at: WallTime,
    },
    /// Release what a sealed stage has posted, before the turns that follow.
    Release {
        stage: String,
        iteration: u32,
    },
    /// Show how far it is.
    Show(String),
    End {
        state: TaskState,
        /// The last words, or why it failed.
        message: String,
    },
}

/// Who does a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TurnDoer {
    /// An agent, or whoever wins the contract net for a capability.
    Peer(Address),
    /// The host, without its brain.
    Host(HostWork),
}

/// The turn of a seat, as the task that it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeatTurn {
    pub id: String,
    pub to: TurnDoer,
    pub description: String,
    /// The seat, and what is new to it.
    pub input: Value,
    /// The artifacts that it is given.
    pub artifacts: Vec<String>,
    /// The chunks that hold them.
    pub chunks: ChunkRange,
}

/// The state of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Session {
    started: WallTime,
    /// The time of the last event.
    at: WallTime,
    /// The seat turns so far.
    turns: u32,
    /// How long people were waited for, milliseconds: that is not of its time.
    waited: i64,
    /// The number of the next message.
    next: u64,
    /// How many messages no seat has said.
    beside: u32,
    stages: Vec<StageRun>,
    /// What was said in running stages and may be new to a seat.
    said: VecDeque<Said>,
    /// What turns are given from now on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    amendments: Vec<Amendment>,
    notes: Vec<String>,
    /// What the autopilot is asked.
    #[serde(skip_serializing_if = "AutopilotRun::is_none")]
    autopilot: AutopilotRun,
    /// The stages that plans have made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    planned: Vec<PlannedStage>,
    /// The outcome spec, if a stage has made one with fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<OutcomeSpec>,
    /// The repository that it works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<WorkspaceRun>,
    /// What the review says of each expected outcome.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verdicts: Vec<OutcomeVerdict>,
    /// The answer so far that is being made while items ask a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    interim: Option<String>,
    /// What the last such answer was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<Digest>,
    /// How many there were.
    interims: u32,
    /// Whether seats were added that the graph of the event does not have.
    #[serde(skip)]
    has_grown: bool,
    /// Whether a person has approved at a gate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_approved: bool,
    /// Whether a person has declined it at a gate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_declined: bool,
    /// What is asked about a stage that has failed, and how often that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_stage: Option<FailedStageQuestion>,
    failed_stages: u32,
    /// What is asked about a file that two parts have made, and how often that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_question: Option<FileQuestion>,
    #[serde(skip_serializing_if = "state::is_zero")]
    file_questions: u32,
    /// The stages whose files a person has chosen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    chosen_files: BTreeMap<String, usize>,
    is_over: bool,
    /// How it ends when its summary is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<SessionEnding>,
}

/// One event of a session while it is handled.
struct SessionStep<'a> {
    cx: SessionContext<'a>,
    actions: Vec<SessionAction>,
    next_chunk: u64,
    /// The text of the turn that the event is about.
    text: String,
}

impl<'a> SessionStep<'a> {
    fn new(cx: SessionContext<'a>) -> Self {
        Self { next_chunk: cx.next_chunk, cx, actions: Vec::new(), text: String::new() }
    }

    /// The host asks people to choose, about a stage.
    fn ask_choice(&mut self, id: &str, stage: &str, text: String, options: Vec<String>) {
        let by = AskedBy { agent: Some(self.cx.host.clone()), stage: stage.to_owned(), seat: None };
        let question = Question {
            kind: QuestionKind::Choice,
            options,
            asked_by: Some(Box::new(by)),
            ..Question::new(id, text)
        };
        self.actions.push(SessionAction::Ask(Box::new(question)));
    }

    /// Records an artifact; returns its chunk.
    fn record(&mut self, mut artifact: Artifact) -> ChunkRange {
        if let Some(Value::Object(said)) = artifact.metadata.get_mut(names::SESSION) {
            said.insert("at".to_owned(), json!(self.cx.now));
        }
        let from = self.next_chunk;
        self.next_chunk += 1;
        self.actions.push(SessionAction::Record(Box::new(artifact)));
        ChunkRange { from, to: self.next_chunk }
    }
}

impl Session {
    /// Begins.
    pub fn start(&mut self, cx: SessionContext<'_>) -> Vec<SessionAction> {
        (self.started, self.at) = (cx.now, cx.now);
        self.stages = cx.graph.stages.iter().map(|_| StageRun::default()).collect();
        let mut step = SessionStep::new(cx);
        let at = self.end_of_time(&cx);
        step.actions.push(SessionAction::Timer { timer: SessionTimer::Budget, at });
        self.open_workspace(&mut step);
        self.go_on(&mut step);
        step.actions
    }

    /// A turn has ended. One that is not running changes nothing.
    pub fn turn_ended(&mut self, cx: SessionContext<'_>, mut result: RequestResult) -> Vec<SessionAction> {
        let mut step = SessionStep::new(cx);
        let asked = self.begin_event(&cx);
        if self.take_summary(&mut step, &mut result) {
            return step.actions;
        }
        if self.take_workspace(&mut step, &result) {
            self.settle(&mut step, asked);
            return step.actions;
        }
        if self.is_over {
            return Vec::new();
        }
        if self.interim.as_ref() == Some(&result.id) {
            self.interim = None;
            result.artifacts.into_iter().for_each(|artifact| {
                step.record(artifact);
            });
            return step.actions;
        }
        if self.take_discussion(&mut step, &mut result) {
            // A stage that waits for it may begin.
        } else if self.take_autopilot(&mut step, &result) {
            // It has answered, or leaves it to the person.
        } else if self.take_failed_stage_answer(&mut step, &result) {
            // A person has decided.
        } else if self.take_file_answer(&cx, &result) {
            // A person has chosen.
        } else if let Some(stage) = self.place_of_gate(&step, &result.id) {
            self.is_approved |= result.decision == Some(Decision::Approve);
            self.take_decision(&mut step, stage, result);
        } else if let Some((stage, seat)) = self.place_of_turn(&result.id) {
            if result.text != PASSES {
                step.text.clone_from(&result.text);
            }
            self.take_turn(&mut step, stage, seat, result);
        } else {
            return Vec::new();
        }
        self.settle(&mut step, asked);
        step.actions
    }

    /// Whether a person has approved at a gate; the autopilot is none.
    pub fn is_approved(&self) -> bool {
        self.is_approved
    }

    /// Whether a person has declined it at a gate.
    pub fn is_declined(&self) -> bool {
        self.is_declined
    }

    /// Whether the last event has planned stages. Then [`Self::grown`] follows, with the graph that has them.
    pub fn has_grown(&self) -> bool {
        self.has_grown
    }

    /// Begins the stages that the last event has planned.
    pub fn grown(&mut self, cx: SessionContext<'_>) -> Vec<SessionAction> {
        let mut step = SessionStep::new(cx);
        self.has_grown = false;
        let asked = self.begin_event(&cx);
        self.settle(&mut step, asked);
        step.actions
    }

    /// A timer has fired. One of an earlier iteration changes nothing.
    pub fn timer(&mut self, cx: SessionContext<'_>, timer: SessionTimer) -> Vec<SessionAction> {
        let mut step = SessionStep::new(cx);
        let asked = self.begin_event(&cx);
        if self.is_over {
            return Vec::new();
        }
        match timer {
            // The answer sets it again.
            SessionTimer::Budget if self.asks_person(cx.graph) => {}
            SessionTimer::Budget => {
                let why = format!("budget.time: {} used up", cx.graph.budget.time());
                self.end_by_budget(&mut step, &why);
            }
            SessionTimer::Stage(stage, iteration) => {
                if let Some(place) = self.running_stage(stage, iteration) {
                    self.close_stage(&mut step, place, "its time is over");
                }
            }
            SessionTimer::Stall(stage, seat, number) => {
                if let (Ok(stage), Ok(seat)) = (usize::try_from(stage), usize::try_from(seat)) {
                    self.check_stall(&mut step, (stage, seat), number);
                }
            }
            SessionTimer::Side(stage, first) => {
                if let Ok(place) = usize::try_from(stage) {
                    self.end_time_aside(&mut step, place, first);
                }
            }
            SessionTimer::Grace(stage, iteration) => {
                if let Some(place) = self.running_stage(stage, iteration) {
                    self.stop_turns(&mut step, place, "the time of the stage is over");
                    self.end_stage(&mut step, place, "done", None);
                }
            }
        }
        self.settle(&mut step, asked);
        step.actions
    }

    /// An event comes: the time since the last one is none of the session's if a person was asked. Returns whether one was.
    fn begin_event(&mut self, cx: &SessionContext<'_>) -> bool {
        let asked = !self.is_over && self.asks_person(cx.graph);
        if asked {
            self.waited += cx.now.0.saturating_sub(self.at.0);
        }
        self.at = cx.now;
        asked
    }

    /// Begins what is ready. If no person is asked any more, the time of the session goes on.
    fn settle(&mut self, step: &mut SessionStep<'_>, has_asked: bool) {
        self.go_on(step);
        if has_asked && !self.asks_person(step.cx.graph) && !self.is_over {
            let (timer, at) = (SessionTimer::Budget, self.end_of_time(&step.cx));
            step.actions.push(SessionAction::Timer { timer, at });
        }
    }

    /// When its time is used up; the time that people take does not count.
    fn end_of_time(&self, cx: &SessionContext<'_>) -> WallTime {
        let waited = Duration::from_millis(u64::try_from(self.waited).unwrap_or_default());
        self.started.plus(cx.graph.budget.time().duration()).plus(waited)
    }

    /// The place of a stage that runs in this iteration.
    fn running_stage(&self, stage: u32, iteration: u32) -> Option<usize> {
        let place = usize::try_from(stage).ok()?;
        let run = self.stages.get(place)?;
        (run.state == StageState::Running && run.iteration == iteration).then_some(place)
    }

    fn place_of_turn(&self, turn: &str) -> Option<(usize, usize)> {
        let is_it = |state: &SeatState| matches!(state, SeatState::Speaking { turn: named } if named == turn);
        self.stages.iter().enumerate().find_map(|(stage, run)| {
            let seat = run.seats.iter().position(|seat| is_it(&seat.state))?;
            Some((stage, seat))
        })
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
        let old = self.notes.len().saturating_sub(MAX_NOTES);
        self.notes.drain(..old);
    }

    /// Why the session ends, if its budget is used up or can't be kept.
    fn why_budget_ends_it(&self, cx: &SessionContext<'_>) -> Option<String> {
        let (budget, own, none) = (cx.graph.budget.of_models(), TaskBounds::default(), Budget::default());
        match own.judge(budget, &Usage::default(), cx.used, none) {
            BudgetVerdict::UsedUp(figures) => Some(figures),
            BudgetVerdict::Fine | BudgetVerdict::NearlyUsed(_) => {
                own.unknown_cost(budget, cx.used, "the work of its seats")
            }
        }
    }

    /// Ends the session as incomplete: running turns are withdrawn, and what there is is kept.
    fn end_by_budget(&mut self, step: &mut SessionStep<'_>, why: &str) {
        let is_open = |run: &StageRun| matches!(run.state, StageState::Running | StageState::Gated);
        let running = (0..self.stages.len()).filter(|place| self.stages.get(*place).is_some_and(is_open));
        for place in running.collect::<Vec<_>>() {
            self.stop_turns(step, place, why);
            if let Some(run) = self.stages.get_mut(place) {
                run.clear_table();
                run.state = StageState::Failed;
                (run.label, run.reason) = (Some(INCOMPLETE.to_owned()), Some(why.to_owned()));
            }
        }
        self.finish(step, TaskState::Failed, format!("{INCOMPLETE}: {why}"));
    }

    /// Ends the session, as soon as its summary is made.
    fn finish(&mut self, step: &mut SessionStep<'_>, state: TaskState, message: String) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.withdraw_failed_stage_question(step, &message);
        self.withdraw_file_question(step, &message);
        if !self.publishes_first(step, state, &message) {
            self.end_with_summary(step, state, message);
        }
    }

    /// Ends the session, as soon as its summary is made.
    fn end_with_summary(&mut self, step: &mut SessionStep<'_>, state: TaskState, message: String) {
        if !self.sum_up(step, state, &message) {
            step.actions.push(SessionAction::End { state, message });
        }
    }
}

#[cfg(test)]
mod tests;
