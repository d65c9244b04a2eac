//! Candidates at a gate: what a stage has made, by number. A person drops some, and later stages are not given them.

use super::{
    Session, SessionAction, SessionStep, gate,
    graph::{GateChoice, Stage},
    names::PERSON,
    state::{StageRun, StageState},
};

/// The word that drops candidates.
const KILL: &str = "kill";

/// The label of a stage of whose candidates none is left.
const KILLED: &str = "killed";

/// The candidates of a stage for the question at its gate; empty if none can be dropped.
pub(super) fn listed(stage: &Stage, run: &StageRun) -> String {
    if !stage.gate.contains(&GateChoice::Kill) {
        return String::new();
    }
    let one = |(at, said): (usize, &super::state::Said)| {
        let what = if said.head.is_empty() { said.artifacts.join(", ") } else { said.head.clone() };
        format!("\n{}. {}: {what}", at + 1, said.speaker(stage))
    };
    let all: String = run.result.iter().enumerate().map(one).collect();
    format!("\n\nCandidates:{all}")
}

/// The numbers behind `kill`; none if they are no numbers.
fn numbers(text: &str) -> Option<Vec<usize>> {
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

impl Session {
    /// Drops the candidates that a person names, and asks again. If none is left, the stage ends as `killed`.
    pub(super) fn kill(&mut self, step: &mut SessionStep<'_>, (place, stage): (usize, &Stage), text: String) {
        let Some(run) = self.stages.get_mut(place) else { return };
        run.kills += 1;
        let most = run.result.len();
        let named = numbers(&text).filter(|named| named.iter().all(|at| (1..=most).contains(at)));
        let Some(named) = named else {
            let why = format!(
                "\n\nNothing was dropped: {text:?} names no candidates. Deny with `kill` and numbers from 1 to {most}, such as `kill 2, 3`."
            );
            return gate::ask_person(self, step, place, &why);
        };
        let newest = |run: &StageRun| run.result.iter().map(|said| said.number).max();
        let shown = newest(run);
        let mut at = 0;
        run.result.retain(|_| {
            at += 1;
            !named.contains(&at)
        });
        if newest(run) != shown {
            // The words that the question shows are those of a candidate that is dropped.
            run.shown.clear();
        }
        let is_empty = run.result.is_empty();
        let dropped = most - run.result.len();
        let shown = format!("stage {}: {dropped} of {most} candidates are dropped", stage.id);
        step.actions.push(SessionAction::Show(shown));
        self.words_beside_turns(step, (place, stage), (PERSON, KILL), Vec::new(), text);
        if !is_empty {
            return gate::ask_person(self, step, place, "");
        }
        let Some(run) = self.stages.get_mut(place) else { return };
        let why = "a person has dropped all its candidates".to_owned();
        (run.gated, run.reason) = (None, Some(why));
        match stage.next.contains_key(KILLED) {
            true => {
                (run.state, run.label) = (StageState::Done, Some(KILLED.to_owned()));
                self.route(step, place, KILLED);
            }
            false => (run.state, run.label) = (StageState::Failed, None),
        }
    }
}
