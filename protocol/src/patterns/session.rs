//! A session: a team works on something together, in a graph of stages with seats (SEEDS §2, §4.4, §5).
//!
//! The agent that accepts the task hosts it. A seat's turn is a task for another agent, so cancel, questions, recovery and
//! auctions are those of any task. Here are the decisions: which stage and whose turn is next, what a turn is given, and how
//! the session ends. They are rules without I/O; [`Delegation`](super::delegation::Delegation) does what they say.
//!
//! What was said is in the log of the session's task, as artifacts. The state holds numbers and names.

mod checks;
pub mod directive;
mod gate;
pub mod graph;
mod material;
mod routes;
pub mod seat;
mod state;
mod turns;
mod view;

use super::ChunkRange;
use crate::{
    artifact::Artifact,
    budget::Budget,
    ids::{Address, TaskId},
    patterns::turn::RequestResult,
    question::Question,
    task::TaskState,
    time::WallTime,
    usage::{BudgetVerdict, TaskBounds, Usage},
};
use graph::Graph;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::{Said, SeatState, StageRun, StageState};
use std::{collections::VecDeque, time::Duration};

/// The capability that asks any agent to host a session.
pub const CAPABILITY: &str = "session";

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
    /// The graph.
    pub graph: &'a Graph,
    /// The session.
    pub id: &'a TaskId,
    /// What it is for.
    pub goal: &'a str,
    /// The ids of the artifacts that it was given.
    pub given: &'a [String],
    /// What it has used, that of its seats included.
    pub used: &'a Usage,
    /// The time.
    pub now: WallTime,
    /// The number of the next chunk of its log.
    pub next_chunk: u64,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionAction {
    /// Add an artifact to the log of the session's task; each takes one chunk.
    Record(Box<Artifact>),
    /// Ask a seat.
    Turn(Box<SeatTurn>),
    /// Ask a person. The answer is the result of a turn with the question's id.
    Ask(Box<Question>),
    /// End a running turn, or take a question back.
    Withdraw {
        /// The name of the turn, or the id of the question.
        turn: String,
        /// Why.
        why: String,
    },
    /// Set a timer.
    Timer {
        /// Its name.
        timer: SessionTimer,
        /// When it fires.
        at: WallTime,
    },
    /// Show how far it is.
    Show(String),
    /// End the session.
    End {
        /// Completed or failed.
        state: TaskState,
        /// The last words, or why it failed.
        message: String,
    },
}

/// The timers of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionTimer {
    /// The end of its time.
    Budget,
    /// The end of a stage's time: stage and iteration.
    Stage(u32, u32),
    /// The end of the time that running turns have after that.
    Grace(u32, u32),
}

/// The turn of a seat, as the task that it is.
#[derive(Debug, Clone, PartialEq)]
pub struct SeatTurn {
    /// Its name.
    pub id: String,
    /// Who does it.
    pub to: Address,
    /// What to do.
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
    /// How long people were waited for at gates, milliseconds: that is not of its time.
    waited: i64,
    /// The number of the next message.
    next: u64,
    stages: Vec<StageRun>,
    /// What was said in running stages and may be new to a seat.
    said: VecDeque<Said>,
    notes: Vec<String>,
    is_over: bool,
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

    /// Records an artifact; returns its chunk.
    fn record(&mut self, artifact: Artifact) -> ChunkRange {
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
        self.go_on(&mut step);
        step.actions
    }

    /// A turn has ended. One that is not running changes nothing.
    pub fn turn_ended(&mut self, cx: SessionContext<'_>, result: RequestResult) -> Vec<SessionAction> {
        let mut step = SessionStep::new(cx);
        let was_at_gate = self.is_at_gate();
        self.at = cx.now;
        if self.is_over {
            return Vec::new();
        }
        if let Some(stage) = self.place_of_gate(&step, &result.id) {
            self.take_decision(&mut step, stage, result);
        } else if let Some((stage, seat)) = self.place_of_turn(&result.id) {
            step.text.clone_from(&result.text);
            self.take_turn(&mut step, stage, seat, result);
        } else {
            return Vec::new();
        }
        self.settle(&mut step, was_at_gate);
        step.actions
    }

    /// A timer has fired. One of an earlier iteration changes nothing.
    pub fn timer(&mut self, cx: SessionContext<'_>, timer: SessionTimer) -> Vec<SessionAction> {
        let mut step = SessionStep::new(cx);
        let was_at_gate = self.is_at_gate();
        self.at = cx.now;
        if self.is_over {
            return Vec::new();
        }
        match timer {
            // The answer sets it again.
            SessionTimer::Budget if self.is_at_gate() => {}
            SessionTimer::Budget => {
                let why = format!("budget.time: {} used up", cx.graph.budget.time);
                self.end_by_budget(&mut step, &why);
            }
            SessionTimer::Stage(stage, iteration) => {
                if let Some(place) = self.running_stage(stage, iteration) {
                    self.close_stage(&mut step, place, "its time is over");
                }
            }
            SessionTimer::Grace(stage, iteration) => {
                if let Some(place) = self.running_stage(stage, iteration) {
                    self.stop_turns(&mut step, place, "the time of the stage is over");
                    self.end_stage(&mut step, place, "done", None);
                }
            }
        }
        self.settle(&mut step, was_at_gate);
        step.actions
    }

    /// Begins what is ready. If no person is asked any more, the time of the session goes on.
    fn settle(&mut self, step: &mut SessionStep<'_>, was_at_gate: bool) {
        self.go_on(step);
        if was_at_gate && !self.is_at_gate() && !self.is_over {
            let (timer, at) = (SessionTimer::Budget, self.end_of_time(&step.cx));
            step.actions.push(SessionAction::Timer { timer, at });
        }
    }

    /// When its time is used up; a person's time at gates does not count.
    fn end_of_time(&self, cx: &SessionContext<'_>) -> WallTime {
        let waited = Duration::from_millis(u64::try_from(self.waited).unwrap_or_default());
        self.started.plus(cx.graph.budget.time.duration()).plus(waited)
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
                run.state = StageState::Failed;
                (run.label, run.reason) = (Some(INCOMPLETE.to_owned()), Some(why.to_owned()));
            }
        }
        self.finish(step, TaskState::Failed, format!("{INCOMPLETE}: {why}"));
    }

    fn finish(&mut self, step: &mut SessionStep<'_>, state: TaskState, message: String) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        step.actions.push(SessionAction::End { state, message });
    }
}

#[cfg(test)]
mod tests;
