//! Tasks as anyone may look at them: straight from the store, so that nothing is shown before it is durable.

pub mod follow;
mod reply;

pub use engine::tasks::find;
use engine::{
    content,
    records::{Step, TaskRow, keys},
};
pub use reply::reply;

use blackboard::store::{Error, Record, Revision, Store};
use protocol::{
    a2a::event::{ArtifactUpdate, StatusUpdate, StreamResponse},
    ids::{AgentId, ConversationId, TaskId},
    patterns::{Effect, Update},
    principal::Principal,
    task::Task,
    time::WallTime,
};
use serde_json::Value;

/// The task of that id which `by` may see, and the revision of its journal it was seen at: whatever happens after that
/// revision is not in it, whatever happened before is.
pub fn snapshot(
    store: &dyn Store,
    me: &AgentId,
    task: &TaskId,
    by: &Principal,
) -> Result<Option<(TaskRow, Revision)>, Error> {
    let Some(mut row) = find(store, me, task, by)? else { return Ok(None) };
    loop {
        let journal = keys::journal(me, &row.task.conversation);
        let head = || store.latest(&journal).map(|record| record.map_or(0, |record| record.revision));
        let before = head()?;
        let Some(again) = find(store, me, task, by)? else { return Ok(None) };
        let is_still = again.task.conversation == row.task.conversation && head()? == before;
        row = again;
        if is_still {
            return Ok(Some((row, before)));
        }
    }
}

/// The newest `limit` tasks that `by` may see, newest change first.
pub fn list(store: &dyn Store, me: &AgentId, by: &Principal, limit: usize) -> Result<Vec<Task>, Error> {
    let mut seen = std::collections::VecDeque::new();
    crate::journal::every(store, &keys::all(me, "task"), |record| {
        let row: TaskRow = content::decode(me, store, &record.value)?;
        if row.task.is_visible_to(by) {
            seen.push_back(row.task);
            if seen.len() > limit {
                seen.pop_front();
            }
        }
        Ok(())
    })?;
    Ok(seen.into_iter().rev().collect())
}

/// The award record of a task: from its open conversation, or as it was when it ended.
pub fn award(store: &dyn Store, me: &AgentId, conversation: &ConversationId) -> Result<Option<Value>, Error> {
    if let Some(record) = store.latest(&keys::state(me, conversation))? {
        let state: engine::records::ConversationState = content::decode(me, store, &record.value)?;
        if let Some(award) = state.pattern.award() {
            return Ok(serde_json::to_value(award).ok());
        }
    }
    match store.latest(&keys::award(me, conversation))? {
        Some(record) => content::decode(me, store, &record.value).map(Some),
        None => Ok(None),
    }
}

/// One thing that a task's watchers see.
pub struct Seen {
    /// The journal's revision, and the event's place in that step.
    pub id: (Revision, usize),
    /// What they see.
    pub data: StreamResponse,
    /// Whether nothing follows.
    pub is_last: bool,
}

/// What a step of a task's journal shows.
pub fn seen_in(store: &dyn Store, me: &AgentId, task: &Task, record: &Record) -> Result<Vec<Seen>, Error> {
    let step: Step = content::decode(me, store, &record.value)?;
    let at = step.events.last().map_or(task.created_at, |event| event.wall);
    let shown = step.effects.into_iter().filter_map(|effect| match effect {
        Effect::Update(update) => Some((shown(task, update, at), false)),
        Effect::Finish(outcome) if outcome.is_message => {
            let answered = Task { status: outcome.status, ..task.clone() };
            Some((StreamResponse::Message(Box::new(answered.answer_a2a())), true))
        }
        Effect::Finish(outcome) => Some((status_update(task, &outcome.status, at), true)),
        Effect::Send(_)
        | Effect::Resend { .. }
        | Effect::RunTurn { .. }
        | Effect::StopTurn
        | Effect::Publish { .. }
        | Effect::Claim { .. }
        | Effect::Release { .. }
        | Effect::ClaimOpenTask { .. }
        | Effect::RenewOpenTask { .. }
        | Effect::CloseOpenTask { .. }
        | Effect::ReleaseOpenTask { .. }
        | Effect::TrackTask { .. }
        | Effect::FindPeers { .. }
        | Effect::SetTimer { .. }
        | Effect::ClearTimer { .. }
        | Effect::AskPerson { .. }
        | Effect::Assign { .. } => None,
    });
    Ok(shown
        .enumerate()
        .map(|(place, (data, is_last))| Seen { id: (record.revision, place), data, is_last })
        .collect())
}

/// How a task ended, for a watcher who comes when its journal is gone.
pub fn end_of(task: &Task) -> StreamResponse {
    status_update(task, &task.status, task.changed_at)
}

fn shown(task: &Task, update: Update, at: WallTime) -> StreamResponse {
    match update {
        Update::Status(status) => status_update(task, &status, at),
        Update::Artifact { artifact, append, last_chunk } => {
            StreamResponse::ArtifactUpdate(Box::new(ArtifactUpdate {
                task_id: task.spec.task_id.to_string(),
                context_id: task.context_id().to_owned(),
                artifact,
                append,
                last_chunk,
                metadata: Default::default(),
            }))
        }
    }
}

fn status_update(task: &Task, status: &protocol::task::Status, at: WallTime) -> StreamResponse {
    StreamResponse::StatusUpdate(Box::new(StatusUpdate {
        task_id: task.spec.task_id.to_string(),
        context_id: task.context_id().to_owned(),
        status: task.status_a2a(status, at),
        metadata: Default::default(),
    }))
}
