//! Turns without a mesh, for tests of brains.

use crate::{
    AgentId, Answer, BidCall, Brain, End, OutputLine, Subject, Task, TaskId, TaskTerms, TurnPrompt,
    brain::bid_line,
    end::end_line,
    turn::{NodeLink, Turn},
};
use std::sync::{Arc, Mutex, PoisonError};

/// A turn for a test.
///
/// ```
/// use mesh_agent::{OutputLine, Question, Turn, TurnResult, testing::TestTurn};
///
/// fn work(turn: &Turn) -> TurnResult {
///     Ok(turn.ask(Question::new("color", "Red or blue?"))?.text.clone())
/// }
///
/// let lines = TestTurn::new("paint it").play(&mut work);
/// assert!(matches!(&lines[..], [OutputLine::Question(_), OutputLine::Wait { .. }]));
/// let lines = TestTurn::new("paint it").answer("color", "red").play(&mut work);
/// assert_eq!(lines, [OutputLine::Done { message: Some("red".into()), label: None }]);
/// ```
#[derive(Debug, Clone)]
pub struct TestTurn {
    /// What the brain is given.
    pub prompt: TurnPrompt,
}

impl TestTurn {
    /// The first turn of a task.
    pub fn new(description: impl Into<String>) -> Self {
        let (task_id, terms) = (id(TaskId::parse("t-1")), TaskTerms::new(description));
        Self::about(Subject::Task(Task { task_id, terms, artifacts: Vec::new() }))
    }

    /// The first turn about something else.
    pub fn about(about: Subject) -> Self {
        Self { prompt: TurnPrompt::new(id(AgentId::parse("me")), "k", about) }
    }

    /// Adds the answer to a request.
    #[must_use]
    pub fn answer(self, id: &str, text: &str) -> Self {
        self.with_answer(Answer { id: id.into(), ok: true, text: text.into(), ..Answer::default() })
    }

    /// Adds any answer to a request, also a failure.
    #[must_use]
    pub fn with_answer(mut self, answer: Answer) -> Self {
        self.prompt.answers.push(answer);
        self
    }

    /// Runs the turn; returns the lines, the end as the last one.
    pub fn play(self, brain: &mut impl Brain) -> Vec<OutputLine> {
        let link = Arc::new(RecordingLink::default());
        let result = brain.turn(&Turn::new(self.prompt, link.clone()));
        let mut lines = std::mem::take(&mut *link.0.lock().unwrap_or_else(PoisonError::into_inner));
        lines.push(end_line(result));
        lines
    }
}

fn id<T>(parsed: Result<T, impl std::fmt::Display>) -> T {
    parsed.unwrap_or_else(|problem| panic!("{problem}"))
}

/// The answer of a brain to a call for proposals: `bid` or `no-bid`.
pub fn bid(brain: &mut impl Brain, call: &BidCall) -> OutputLine {
    bid_line(brain.bid(call))
}

/// Records lines. Every note is durable at once.
#[derive(Default)]
struct RecordingLink(Mutex<Vec<OutputLine>>);

impl NodeLink for RecordingLink {
    fn emit(&self, _key: &str, line: &OutputLine) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
    }

    fn settle(&self, _checkpoints: u64) -> Result<(), End> {
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        false
    }
}
