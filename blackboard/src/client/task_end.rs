//! How a task stands, as its signals tell.

use super::Blackboard;
use protocol::{
    deputy::{Deputy, MeshOperation},
    ids::TaskId,
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Cursor, Selector, Signal, SignalType},
    spaces::request::SpaceAnswer,
    task::TaskState,
};
use serde::Deserialize as _;
use std::collections::BTreeSet;

/// The signals of one look.
const PAGE: usize = 1_000;
/// The most artifacts that are named.
const MAX_NAMED: usize = 32;

impl Blackboard {
    /// Whether `task` has ended, as the signals tell that `by` may see, and for whom it asks, those after `after` only if it is given. Refused if there is
    /// no signal about it.
    pub(super) async fn task_end(
        &self,
        (by, deputy): (&Principal, Option<&Deputy>),
        task: &TaskId,
        after: Option<Cursor>,
    ) -> Result<SpaceAnswer, Problem> {
        let types = vec!["task.*".to_owned(), SignalType::artifact_produced().as_str().to_owned()];
        let selector = Selector { types, task_id: Some(task.clone()), ..Selector::default() };
        let mut is_known = after.is_some();
        let (mut cursor, mut end, mut produced) = (after, None, BTreeSet::new());
        loop {
            let page = self.read(by, &selector, cursor, PAGE).await?;
            let is_last = page.signals.is_empty();
            for signal in page.signals.into_iter().map(|record| record.signal) {
                let read = MeshOperation::ReadSignal(&signal);
                if deputy.is_some_and(|deputy| deputy.may(read).is_err()) {
                    continue;
                }
                is_known = true;
                if signal.kind == SignalType::artifact_produced() {
                    produced.extend(signal.subject);
                } else {
                    // A task that is done again is open again.
                    end = state(&signal).map(|state| (state, signal.from));
                }
            }
            cursor = Some(page.next);
            if is_last {
                break;
            }
        }
        if let Some((state, by)) = end {
            let named: Vec<_> = produced.into_iter().take(MAX_NAMED).collect();
            let made = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
            return Ok(SpaceAnswer::TaskEnded { state, by, text: format!("{}{made}", state.word()) });
        }
        match cursor.filter(|_| is_known) {
            Some(after) => Ok(SpaceAnswer::TaskOpen { after }),
            None => {
                let message = format!("no task {task} is known: no signal about it is on the board");
                Ok(SpaceAnswer::refused(&Problem::new(Reason::TaskNotFound, message)))
            }
        }
    }
}

/// The state of the end that a signal tells of.
fn state(signal: &Signal) -> Option<TaskState> {
    let told = signal.refs.get("state").and_then(|state| TaskState::deserialize(state).ok());
    match signal.kind.as_str() {
        "task.complete" => Some(TaskState::Completed),
        "task.failed" => Some(told.unwrap_or(TaskState::Failed)),
        _ => None,
    }
}
