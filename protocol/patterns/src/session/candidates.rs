//! Candidates at a gate: what a stage has made, by number. A person drops some, and later stages are not given them.

use super::{
    graph::{GateChoice, Stage},
    state::{Said, StageRun},
};

/// The word that drops candidates.
pub(super) const KILL: &str = "kill";

/// The label of a stage of whose candidates none is left.
pub(super) const KILLED: &str = "killed";

/// The candidates of a stage for the question at its gate; empty if none can be dropped.
pub(super) fn listed(stage: &Stage, run: &StageRun) -> String {
    if !stage.gate.contains(&GateChoice::Kill) {
        return String::new();
    }
    let one = |(at, said): (usize, &Said)| {
        let what = if said.head.is_empty() { said.artifacts.join(", ") } else { said.head.clone() };
        format!("\n{}. {}: {what}", at + 1, said.speaker(stage))
    };
    let all: String = run.result.iter().enumerate().map(one).collect();
    format!("\n\nCandidates:{all}")
}

/// The numbers behind `kill`; none if they are no numbers.
pub(super) fn numbers(text: &str) -> Option<Vec<usize>> {
    let (word, rest) = text.trim().split_once(char::is_whitespace)?;
    let is_between = |letter: char| letter == ',' || letter.is_whitespace();
    let read = rest.split(is_between).filter(|word| !word.is_empty()).map(str::parse::<usize>);
    let read: Vec<usize> = read.collect::<Result<_, _>>().ok()?;
    (word.eq_ignore_ascii_case(KILL) && !read.is_empty()).then_some(read)
}

/// Whether the reason of a denial drops candidates. Without other uses for a reason every one does, so a slip ends nothing.
pub(super) fn is_kill(text: &str, stage: &Stage) -> bool {
    let takes_reasons = stage.gate.contains(&GateChoice::Revise) || stage.gate.contains(&GateChoice::Changes);
    let first = text.split_whitespace().next().unwrap_or_default();
    numbers(text).is_some() || !takes_reasons || first.eq_ignore_ascii_case(KILL)
}
