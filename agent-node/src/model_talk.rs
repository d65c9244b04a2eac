//! What was said between the agent of a task and its model, for the person of the mesh alone: a prompt may hold what only the agent
//! may read.

use crate::{
    brain::llm::{TurnNote, model_lines},
    journal::steps,
    telemetry::capture::Capture,
};
use engine::records::Step;
use patterns::{Effect, EventKind, session, turn::Progress};
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

/// What one step of a journal says of turns and their model, each with its turn and its time.
pub fn notes_in(step: &Step) -> impl Iterator<Item = (u32, WallTime, TurnNote)> {
    let wall = step.events.last().map_or(WallTime(0), |event| event.wall);
    let begun = step.effects.iter().filter_map(move |effect| match effect {
        Effect::RunTurn { turn, prompt, .. } => Some((*turn, wall, TurnNote::Began(prompt.clone()))),
        _ => None,
    });
    let reports = step.events.iter().flat_map(|event| {
        let (turn, updates) = match &event.what {
            EventKind::TurnProgress { turn, updates } | EventKind::TurnEnded { turn, updates, .. } => {
                (*turn, updates.as_slice())
            }
            _ => (0, [].as_slice()),
        };
        let of_model = |update: &&Progress| matches!(update, Progress::Usage(_) | Progress::Checkpoint(_));
        let updates = updates.iter().filter(of_model);
        updates.map(move |update| (turn, event.wall, TurnNote::Reported(update.clone())))
    });
    reports.chain(begun)
}

impl ModelTalk {
    /// What `notes` on turns of `agent`, oldest first, say, masked as `capture` masks.
    pub fn of(agent: &AgentId, notes: &[(u32, WallTime, TurnNote)], capture: &Capture) -> Self {
        let mut lines = model_lines(agent, notes.iter().map(|(turn, at, note)| (*turn, *at, note)));
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
    let notes: Vec<_> = steps.iter().flat_map(notes_in).collect();
    Ok(ModelTalk::of(me, &notes, capture))
}
