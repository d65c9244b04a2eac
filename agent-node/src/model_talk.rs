//! What was said between the agent of a task and its model, for the person of the mesh alone: a prompt may hold what only the agent
//! may read.

use crate::{brain::llm::model_lines, journal::steps, telemetry::capture::Capture};
use engine::records::Step;
use patterns::{EventKind, session, turn::Progress};
use protocol::{
    ids::AgentId,
    model_line::ModelLine,
    principal::{Principal, SenderProof},
    task::Task,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use store::{Error, Store};

/// The most lines that are shown, the newest.
const MAX_LINES: usize = 500;

/// What was said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelTalk {
    /// How many older lines are left out.
    #[serde(default)]
    pub omitted: usize,
    pub lines: Vec<ModelLine>,
}

/// Whether `by`, proven so, may read what went into the turns of the agent of `task` and what came out. Of a sealed stage nobody may.
pub fn is_shown(task: &Task, by: &Principal, proof: SenderProof) -> bool {
    *by == Principal::local_user()
        && proof == SenderProof::Credential
        && !session::seat::is_sealed(&task.spec)
}

/// The reports of turns about their model in one step of a journal, each with its turn and its time.
pub fn reports_in(step: &Step) -> impl Iterator<Item = (u32, WallTime, &Progress)> {
    step.events.iter().flat_map(|event| {
        let (turn, updates) = match &event.what {
            EventKind::TurnProgress { turn, updates } | EventKind::TurnEnded { turn, updates, .. } => {
                (*turn, updates.as_slice())
            }
            _ => (0, [].as_slice()),
        };
        let of_model = |update: &&Progress| matches!(update, Progress::Usage(_) | Progress::Checkpoint(_));
        updates.iter().filter(of_model).map(move |update| (turn, event.wall, update))
    })
}

impl ModelTalk {
    /// What `reports`, oldest first, say, masked as `capture` masks.
    pub fn of<'a>(
        reports: impl IntoIterator<Item = (u32, WallTime, &'a Progress)>,
        capture: &Capture,
    ) -> Self {
        let mut lines = model_lines(reports);
        let omitted = lines.len().saturating_sub(MAX_LINES);
        lines.drain(..omitted);
        let masked = |line: ModelLine| {
            let value = serde_json::to_value(&line).map(|value| capture.masked(&value));
            value.and_then(serde_json::from_value).unwrap_or(line)
        };
        Self { omitted, lines: lines.into_iter().map(masked).collect() }
    }
}

/// What the journal of `task` still holds of it.
pub fn read(store: &dyn Store, me: &AgentId, task: &Task, capture: &Capture) -> Result<ModelTalk, Error> {
    let steps = steps(store, me, &task.conversation)?;
    Ok(ModelTalk::of(steps.iter().flat_map(reports_in), capture))
}
