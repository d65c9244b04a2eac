//! Views of tasks, read from the store: nothing is shown before it is durable.

pub mod activity;
pub mod follower;
mod outcome;
pub mod search;

use activity::Activity;

pub use engine::tasks::find as row;
use engine::{
    chunks, content,
    records::{Step, TaskRow, keys},
};
pub use outcome::conversation_outcome;

use patterns::{Effect, Event, EventKind, Update};
use protocol::{
    a2a::event::{ArtifactUpdate, StatusUpdate, StreamResponse},
    artifact::ArtifactChunk,
    ids::{AgentId, ConversationId, TaskId},
    principal::Principal,
    task::Task,
    time::WallTime,
};
use serde_json::Value;
use store::{Error, ListedKey, Revision, Store};

/// The task with this id that `by` may see, with its artifacts.
pub fn find(
    store: &dyn Store,
    me: &AgentId,
    task: &TaskId,
    by: &Principal,
) -> Result<Option<TaskRow>, Error> {
    row(store, me, task, by)?.map(|row| with_artifacts(store, me, row, Revision::MAX)).transpose()
}

/// `row` with the artifacts as of revision `up_to`.
pub fn with_artifacts(
    store: &dyn Store,
    me: &AgentId,
    mut row: TaskRow,
    up_to: Revision,
) -> Result<TaskRow, Error> {
    let produced = chunks::artifacts_of(store, me, &row, up_to)?;
    row.task.artifacts.extend(produced);
    Ok(row)
}

/// The task `task`, if `by` may see it, and the revision of its journal that it reflects: it includes everything up to that
/// revision and nothing after it.
pub fn snapshot(
    store: &dyn Store,
    me: &AgentId,
    task: &TaskId,
    by: &Principal,
) -> Result<Option<(TaskRow, Revision)>, Error> {
    let Some(mut found) = row(store, me, task, by)? else { return Ok(None) };
    loop {
        let journal = keys::journal(me, &found.task.conversation);
        let head = || store.latest(&journal).map(|record| record.map_or(0, |record| record.revision));
        let before = head()?;
        // No later step of its conversation changes the row of an ended task.
        if found.ended_at.is_some() {
            return Ok(Some((with_artifacts(store, me, found, before)?, before)));
        }
        let Some(reread) = row(store, me, task, by)? else { return Ok(None) };
        let is_unchanged = reread.task.conversation == found.task.conversation && head()? == before;
        found = reread;
        if is_unchanged {
            // A chunk is written before the journal's record of its step, in the same batch.
            return Ok(Some((with_artifacts(store, me, found, before)?, before)));
        }
    }
}

/// The tasks at `keys`, on demand with their artifacts; one that was deleted meanwhile is left out.
pub fn listed(
    store: &dyn Store,
    me: &AgentId,
    keys: Vec<ListedKey>,
    includes_artifacts: bool,
) -> Result<Vec<Task>, Error> {
    let mut tasks = Vec::with_capacity(keys.len());
    for ListedKey { key, .. } in keys {
        if let Some(record) = store.latest(&key)? {
            let row: TaskRow = content::decode(me, store, &record.value)?;
            let row = match includes_artifacts {
                true => with_artifacts(store, me, row, Revision::MAX)?,
                false => row,
            };
            tasks.push(row.task);
        }
    }
    Ok(tasks)
}

/// The award record of a task, from the state of its open conversation or as saved at its end.
pub fn award(store: &dyn Store, me: &AgentId, conversation: &ConversationId) -> Result<Option<Value>, Error> {
    let state = engine::states::read(store, me, conversation)?;
    if let Some(award) = state.as_ref().and_then(|state| state.pattern.view().award) {
        return Ok(serde_json::to_value(award).ok());
    }
    match store.latest(&keys::award(me, conversation))? {
        Some(record) => content::decode(me, store, &record.value).map(Some),
        None => Ok(None),
    }
}

/// The session that a task is: from the state of its open conversation, or as recorded at its end; `None` for other tasks.
pub fn session(store: &dyn Store, me: &AgentId, row: &TaskRow) -> Result<Option<Value>, Error> {
    let state = engine::states::read(store, me, &row.task.conversation)?;
    if let Some(session) = state.as_ref().and_then(|state| state.pattern.view().session?.shown()) {
        return Ok(Some(session));
    }
    let wanted = patterns::session::CAPABILITY;
    if row.task.spec.capability.as_ref().is_none_or(|capability| capability.as_str() != wanted) {
        return Ok(None);
    }
    let artifacts = engine::chunks::artifacts_of(store, me, row, Revision::MAX)?;
    let record = artifacts.into_iter().rfind(|made| made.artifact_id == patterns::session::RECORD);
    Ok(record.and_then(|record| record.parts.into_iter().next()).and_then(|part| match part.content {
        protocol::artifact::PartContent::Data(view) => Some(view),
        protocol::artifact::PartContent::Text(_)
        | protocol::artifact::PartContent::Raw(_)
        | protocol::artifact::PartContent::Url(_) => None,
    }))
}

/// One event in the stream of a task.
pub struct TaskEvent<D = StreamResponse> {
    pub id: follower::TaskEventCursor,
    pub data: D,
    pub is_last: bool,
}

impl<D> TaskEvent<D> {
    /// The event with other data.
    pub fn map<T>(self, data: impl FnOnce(D) -> T) -> TaskEvent<T> {
        TaskEvent { id: self.id, data: data(self.data), is_last: self.is_last }
    }
}

/// What the person who has requested a task is shown of it.
pub enum ShownEvent {
    /// What a client of A2A is shown.
    Response(StreamResponse),
    /// What is done on the way.
    Activity(Activity),
}

impl From<StreamResponse> for ShownEvent {
    fn from(response: StreamResponse) -> Self {
        Self::Response(response)
    }
}

/// The events in one step of a task's journal, which is its record of this revision.
pub fn events_in(task: &Task, revision: Revision, step: Step) -> Vec<TaskEvent> {
    let at = wall_of(&step, task);
    let events = step.effects.into_iter().filter_map(|effect| effect_event(task, effect, at));
    numbered(revision, events)
}

/// The same, with what is done on the way.
pub fn shown_in(task: &Task, revision: Revision, step: Step) -> Vec<TaskEvent<ShownEvent>> {
    let at = wall_of(&step, task);
    let told = |event: &Event| -> Vec<_> {
        let done = activity::of_event(event).into_iter();
        done.map(|activity| (ShownEvent::Activity(activity), false)).collect()
    };
    // The status of a turn says what it begins with, before what of it is done.
    let (progress, others): (Vec<_>, Vec<_>) =
        step.events.iter().partition(|event| matches!(event.what, EventKind::TurnProgress { .. }));
    let mut events: Vec<_> = others.into_iter().flat_map(told).collect();
    for effect in step.effects {
        let done = activity::of_effect(&effect, at);
        events.extend(done.map(|activity| (ShownEvent::Activity(activity), false)));
        let response = effect_event(task, effect, at);
        events.extend(response.map(|(response, is_last)| (response.into(), is_last)));
    }
    events.extend(progress.into_iter().flat_map(told));
    numbered(revision, events)
}

fn wall_of(step: &Step, task: &Task) -> WallTime {
    step.events.last().map_or(task.created_at, |event| event.wall)
}

fn numbered<D>(revision: Revision, events: impl IntoIterator<Item = (D, bool)>) -> Vec<TaskEvent<D>> {
    let events = events.into_iter().enumerate();
    events.map(|(index, (data, is_last))| TaskEvent { id: (revision, index), data, is_last }).collect()
}

/// The event of an effect, and whether it is the last one.
fn effect_event(task: &Task, effect: Effect, at: WallTime) -> Option<(StreamResponse, bool)> {
    match effect {
        Effect::Update(update) => Some((update_event(task, update, at)?, false)),
        Effect::Finish(outcome) if outcome.is_message => {
            let task = Task { status: outcome.status, ..task.clone() };
            Some((StreamResponse::Message(Box::new(task.answer_a2a())), true))
        }
        Effect::Finish(outcome) => Some((status_update(task, &outcome.status, at), true)),
        _ => None,
    }
}

/// The final event of a task whose journal has been deleted.
pub fn final_event(task: &Task) -> StreamResponse {
    status_update(task, &task.status, task.changed_at)
}

/// The event of an update; a stream does not tell that earlier chunks no longer count.
fn update_event(task: &Task, update: Update, at: WallTime) -> Option<StreamResponse> {
    match update {
        Update::Status(status) => Some(status_update(task, &status, at)),
        Update::Artifact { chunk: ArtifactChunk { artifact, append, last_chunk }, .. } => {
            Some(StreamResponse::ArtifactUpdate(Box::new(ArtifactUpdate {
                task_id: task.spec.task_id.to_string(),
                context_id: task.context_id().to_owned(),
                artifact,
                append,
                last_chunk,
                metadata: Default::default(),
            })))
        }
        Update::Restart { .. }
        | Update::Usage(_)
        | Update::Reserved(_)
        | Update::OverBudget(_)
        | Update::Checked(_) => None,
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
