//! The log of a task's artifacts and turns: one record for each chunk, written once, in the step that shows the chunk, and one
//! for each answer, message and checkpoint that turns are given. All other records refer to it: journals by the record's key,
//! effects and the task's row by the numbers of records.
//!
//! Chunks are numbered from 0 without gaps. An award that goes on behind what was done under an earlier one goes on in its log;
//! any other has a log of its own, under its epoch. The records are deleted before the row of the task ([`crate::retention`]).

use crate::{
    content,
    records::{TaskRow, keys},
};
use patterns::{
    ChunkRange, RecordedTurnProgress,
    turn::Prompt,
    turn_record::{TurnInput, TurnRecord},
};
use protocol::{
    artifact::{self, Artifact, ArtifactChunk},
    ids::{AgentId, ConversationId},
};
use serde_json::Value;
use std::collections::BTreeMap;
use store_types::{Error, Key, Revision, Snapshot, Write};

/// Where the chunks of one conversation are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkLog {
    me: AgentId,
    prefix: Key,
}

impl ChunkLog {
    /// The log of the conversation that does the task in `row`.
    pub fn of_task(me: &AgentId, row: &TaskRow) -> Self {
        let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
        let prefix = keys::chunks_under(me, task, owner, row.log_epoch());
        Self { me: me.clone(), prefix }
    }

    /// The log of a conversation without a task.
    pub(crate) fn of_conversation(me: &AgentId, id: &ConversationId) -> Self {
        Self { me: me.clone(), prefix: keys::chunks_without_task(me, id) }
    }

    /// The key of a chunk.
    pub(crate) fn key(&self, number: u64) -> Key {
        Key::stored(format!("{}.{number}", self.prefix))
    }

    /// The artifacts that the chunks in `range` make. Chunks from the first one on that is missing, or newer than `up_to`, are
    /// left out.
    pub fn artifacts(
        &self,
        store: &dyn Snapshot,
        range: ChunkRange,
        up_to: Revision,
    ) -> Result<Vec<Artifact>, Error> {
        Ok(artifact::assemble(self.read(store, range, up_to)?))
    }

    fn read(
        &self,
        store: &dyn Snapshot,
        range: ChunkRange,
        up_to: Revision,
    ) -> Result<Vec<ArtifactChunk>, Error> {
        let mut chunks = Vec::new();
        for number in range.from..range.to {
            let Some(chunk) = self.chunk(store, number, up_to)? else { break };
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    /// The chunk with this number; `None` if it is missing, or newer than `up_to`.
    pub(crate) fn chunk(
        &self,
        store: &dyn Snapshot,
        number: u64,
        up_to: Revision,
    ) -> Result<Option<ArtifactChunk>, Error> {
        let record = store.latest(&self.key(number))?.filter(|record| record.revision <= up_to);
        record.map(|record| content::decode(&self.me, store, &record.value)).transpose()
    }

    /// The chunks in `range`, which an effect names. They are recorded in or before the step of the effect, so a missing one
    /// is an error: they have been deleted, or the row of the task belongs to a later award or claim.
    pub(crate) fn read_all(
        &self,
        store: &dyn Snapshot,
        range: ChunkRange,
    ) -> Result<Vec<ArtifactChunk>, Error> {
        let chunks = self.read(store, range, Revision::MAX)?;
        let (found, named) = (chunks.len() as u64, range.to.saturating_sub(range.from));
        if found < named {
            let missing = self.key(range.from + found);
            return Err(Error::Refused(format!("the chunk {missing} of an artifact is missing")));
        }
        Ok(chunks)
    }
}

/// The kinds of records of turns, as they stand in keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnRecordKind {
    Answer,
    Message,
    Checkpoint,
}

impl TurnRecordKind {
    /// The kind of a record.
    pub(crate) fn of(record: &TurnRecord) -> Self {
        match record {
            TurnRecord::Answer(_) => Self::Answer,
            TurnRecord::Message(_) => Self::Message,
            TurnRecord::Checkpoint(_) => Self::Checkpoint,
        }
    }

    fn token(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Message => "message",
            Self::Checkpoint => keys::CHECKPOINT,
        }
    }
}

impl ChunkLog {
    /// The key of a record of the turns.
    fn record_key(&self, kind: TurnRecordKind, number: u64) -> Key {
        Key::stored(format!("{}.{}.{number}", self.prefix, kind.token()))
    }

    /// Completes a prompt from the records of the log and the progress so far.
    pub(crate) fn complete(
        &self,
        store: &dyn Snapshot,
        prompt: &Prompt,
        input: TurnInput,
        progress: RecordedTurnProgress<'_>,
    ) -> Result<Prompt, Error> {
        let mut prompt = Prompt { used: progress.used, remaining: progress.remaining, ..prompt.clone() };
        prompt.produced = artifact::assemble(self.read_all(store, progress.produced)?);
        prompt.produced.extend_from_slice(progress.artifacts);
        if let Some(revision) = prompt.revision.as_mut().filter(|_| !input.refused.is_empty()) {
            revision.artifacts = artifact::assemble(self.read_all(store, input.refused)?);
        }
        let answers = ChunkRange { from: 0, to: input.answers };
        for (kind, range) in [
            (TurnRecordKind::Answer, answers),
            (TurnRecordKind::Message, input.messages),
            (TurnRecordKind::Checkpoint, progress.checkpoints),
        ] {
            for number in range.from..range.to {
                let key = self.record_key(kind, number);
                let record = store.latest(&key)?;
                let record = record.ok_or_else(|| Error::Refused(format!("the record {key} is missing")))?;
                match content::decode(&self.me, store, &record.value)? {
                    TurnRecord::Answer(answer) => prompt.answers.push(answer),
                    TurnRecord::Message(message) => prompt.messages.push(*message),
                    TurnRecord::Checkpoint(checkpoint) => prompt.checkpoints.push(checkpoint.data),
                }
            }
        }
        Ok(prompt)
    }

    /// The data of the checkpoints in `range` that are still there.
    pub(crate) fn checkpoints(&self, store: &dyn Snapshot, range: ChunkRange) -> Result<Vec<Value>, Error> {
        let mut found = Vec::new();
        for number in range.from..range.to {
            let record = store.latest(&self.record_key(TurnRecordKind::Checkpoint, number))?;
            let record = record.map(|record| content::decode(&self.me, store, &record.value)).transpose()?;
            found.extend(match record {
                Some(TurnRecord::Checkpoint(checkpoint)) => Some(checkpoint.data),
                Some(TurnRecord::Answer(_) | TurnRecord::Message(_)) | None => None,
            });
        }
        Ok(found)
    }
}

/// The artifacts of the task in `row`, as of the chunks up to the revision `up_to`.
pub fn artifacts_of(
    store: &dyn Snapshot,
    me: &AgentId,
    row: &TaskRow,
    up_to: Revision,
) -> Result<Vec<Artifact>, Error> {
    let all = ChunkRange { from: 0, to: u64::MAX };
    ChunkLog::of_task(me, row).artifacts(store, row.chunks.unwrap_or(all), up_to)
}

/// An artifact of at most this size is repeated in the journal: a reference to it would be hardly shorter.
const REFERENCE_BYTES: usize = 256;

/// The large artifacts and checkpoints of one step: the JSON of each, and the key of its record.
#[derive(Debug, Default)]
pub(crate) struct StepChunks(pub(crate) BTreeMap<String, Key>);

impl StepChunks {
    /// Adds the record of a chunk to `writes`.
    pub(crate) fn record(
        &mut self,
        log: &ChunkLog,
        number: u64,
        chunk: &ArtifactChunk,
        writes: &mut Vec<Write>,
    ) -> Result<(), Error> {
        let key = log.key(number);
        let bytes = content::encode_chunk(&log.me, chunk, writes)?;
        writes.push(Write::Put(key.clone(), bytes));
        let refused =
            |error: serde_json::Error| Error::Refused(format!("an artifact can't be written: {error}"));
        let json = serde_json::to_value(&chunk.artifact).map_err(refused)?.to_string();
        self.refer(json, key);
        Ok(())
    }

    /// Adds a record of the turns to `writes`.
    pub(crate) fn record_of_turn(
        &mut self,
        log: &ChunkLog,
        number: u64,
        record: &TurnRecord,
        writes: &mut Vec<Write>,
    ) -> Result<(), Error> {
        let key = log.record_key(TurnRecordKind::of(record), number);
        let bytes = content::encode_chunk(&log.me, record, writes)?;
        writes.push(Write::Put(key.clone(), bytes));
        if let TurnRecord::Checkpoint(checkpoint) = record {
            self.refer(checkpoint.data.to_string(), key);
        }
        Ok(())
    }

    fn refer(&mut self, json: String, key: Key) {
        if json.len() > REFERENCE_BYTES {
            self.0.insert(json, key);
        }
    }
}

#[cfg(test)]
mod tests;
