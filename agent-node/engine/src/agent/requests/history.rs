//! Earlier tasks of the A2A context of a request.

use crate::{
    IncomingMessage,
    agent::Agent,
    chunks::ChunkLog,
    content,
    context::Context,
    records::{TaskRow, keys, lists::TaskFilter},
};
use patterns::session::{CAPABILITY, is_shown_to, shows_confidential_to};
use protocol::{
    artifact::{self, Artifact, ArtifactChunk, PartContent},
    task::{MAX_PAST_BYTES, PastTask, Task},
};
use store_types::{Error, ListedKey, Revision};

/// The most earlier tasks that a task is told of.
const MAX_TASKS: usize = 16;

/// The most characters of a description or message of an earlier task.
const MAX_CHARS: usize = 2_000;

/// The most pieces of a result that are read, from the last one back.
const MAX_PIECES: usize = 256;

impl Agent {
    /// The newest tasks of the context that an A2A client names, the oldest first, at most [`MAX_PAST_BYTES`].
    pub(super) fn past_tasks(
        &self,
        message: &IncomingMessage,
        cx: &Context<'_>,
    ) -> Result<Vec<PastTask>, Error> {
        // One that was named for the client has no earlier tasks.
        let Some(contact) = message.contact.as_ref().filter(|contact| contact.message.context_id.is_some())
        else {
            return Ok(Vec::new());
        };
        let filter = TaskFilter {
            context: contact.context_id.clone(),
            hides_confidential: !shows_confidential_to(&message.by, message.proof),
            ..TaskFilter::default()
        };
        let query = filter.of_tenant(&self.me, &message.by, contact.tenant.as_deref());
        let (mut past, mut bytes) = (Vec::new(), 0);
        for ListedKey { key, .. } in cx.store.list(&query, MAX_TASKS)? {
            let Some(record) = cx.store.latest(&key)? else { continue };
            let row: TaskRow = content::decode(&self.me, cx.store, &record.value)?;
            let is_same_context = Some(row.task.context_id()) == contact.context_id.as_deref();
            let is_shown = is_shown_to(&row.task, &message.by, message.proof);
            if !is_same_context || row.task.owner != message.by || !is_shown || self.is_forgotten(&row, cx)? {
                continue;
            }
            let mut one = past_task(&row.task);
            if one.message.is_none() {
                one.message = self.result_text(&row, cx)?.map(|text| clipped(&text));
            }
            bytes += serde_json::to_vec(&one).map_or(0, |json| json.len());
            if bytes > MAX_PAST_BYTES {
                break;
            }
            past.push(one);
        }
        past.reverse();
        Ok(past)
    }

    /// Whether an ended task was a turn of a context that its user has had forgotten. Awarded work is no such turn.
    fn is_forgotten(&self, row: &TaskRow, cx: &Context<'_>) -> Result<bool, Error> {
        // A session is no turn.
        let is_session =
            row.task.spec.capability.as_ref().is_some_and(|wanted| wanted.as_str() == CAPABILITY);
        let name = patterns::context::name(&row.task.spec, &row.task.owner)
            .filter(|_| row.ended_at.is_some() && !is_session);
        let Some(name) = name else { return Ok(false) };
        let conversation = &row.task.conversation;
        let is_there = |key| Ok::<_, Error>(cx.store.latest(&key)?.is_some());
        Ok(!is_there(keys::context_turn(&self.me, &name, conversation))?
            && !is_there(keys::award(&self.me, conversation))?)
    }

    /// The text of the artifact that an ended task has written last; of one in more than [`MAX_PIECES`] pieces, that of the last
    /// ones.
    fn result_text(&self, row: &TaskRow, cx: &Context<'_>) -> Result<Option<String>, Error> {
        let Some(range) = row.chunks.filter(|_| row.ended_at.is_some()) else { return Ok(None) };
        let (log, mut pieces) = (ChunkLog::of_task(&self.me, row), Vec::new());
        for number in (range.from..range.to).rev().take(MAX_PIECES) {
            let Some(piece) = log.chunk(cx.store, number, Revision::MAX)? else { break };
            if pieces.first().is_some_and(|last| !is_same_artifact(last, &piece)) {
                continue;
            }
            let is_first = !piece.append;
            pieces.push(piece);
            if is_first {
                break;
            }
        }
        let text = artifact::assemble(pieces.into_iter().rev()).pop().map(|artifact| text_of(&artifact));
        Ok(text.filter(|text| !text.is_empty()))
    }
}

fn is_same_artifact(one: &ArtifactChunk, other: &ArtifactChunk) -> bool {
    one.artifact.artifact_id == other.artifact.artifact_id
}

/// The texts of an artifact, and its data as JSON.
fn text_of(artifact: &Artifact) -> String {
    let texts = artifact.parts.iter().filter_map(|part| match &part.content {
        PartContent::Text(text) => Some(text.clone()),
        PartContent::Data(data) => Some(data.to_string()),
        PartContent::Raw(_) | PartContent::Url(_) => None,
    });
    texts.collect()
}

fn clipped(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}

fn past_task(task: &Task) -> PastTask {
    PastTask {
        task_id: task.spec.task_id.clone(),
        description: clipped(&task.spec.description),
        state: task.status.state,
        message: task.status.message.as_deref().map(clipped),
    }
}
