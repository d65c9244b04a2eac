//! What the turns of one task are given beside the task: answers, messages and checkpoints. Their content is in records of the
//! task's log; a pattern's state holds their numbers.

use super::{
    chunk::ChunkRange,
    effect::Effect,
    turn::{Checkpoint, MAX_CHECKPOINT_BYTES, RequestResult},
    turn_record::{TurnInput, TurnRecord},
};
use protocol::a2a::message::Message;
use serde::{Deserialize, Serialize};

/// The numbers of a task's records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnLog {
    answers: u64,
    messages: u64,
    /// The messages that the last turn was given.
    shown: ChunkRange,
    /// The checkpoints that count.
    checkpoints: ChunkRange,
    checkpoint_bytes: usize,
    /// What is left of the earlier turns of the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
}

impl TurnLog {
    /// Whether nothing was recorded.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Records an answer.
    pub(super) fn answer(&mut self, answer: RequestResult) -> Effect {
        self.answers += 1;
        Effect::Record { number: self.answers - 1, record: TurnRecord::Answer(answer) }
    }

    /// Records a message.
    pub(super) fn message(&mut self, message: Message) -> Effect {
        self.messages += 1;
        Effect::Record { number: self.messages - 1, record: TurnRecord::Message(Box::new(message)) }
    }

    /// Records a checkpoint. Fails if those that count are too large.
    pub(super) fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<Effect, String> {
        let number = self.checkpoints.to;
        if checkpoint.replace {
            (self.checkpoints.from, self.checkpoint_bytes) = (number, 0);
        }
        self.summary = checkpoint.summary.clone().or_else(|| self.summary.take());
        self.checkpoints.to += 1;
        self.checkpoint_bytes += checkpoint.data.to_string().len();
        if self.checkpoint_bytes > MAX_CHECKPOINT_BYTES {
            return Err(format!(
                "the checkpoints of the task have {} bytes, more than {MAX_CHECKPOINT_BYTES}; one with `replace` makes \
                 earlier ones obsolete",
                self.checkpoint_bytes
            ));
        }
        Ok(Effect::Record { number, record: TurnRecord::Checkpoint(checkpoint.clone()) })
    }

    /// What a new turn is given. The messages go to one turn only.
    pub(super) fn begin_turn(&mut self) -> TurnInput {
        self.shown = ChunkRange { from: self.shown.to, to: self.messages };
        self.input()
    }

    /// What the turn that goes on after a pause is given: the same, and what has come since.
    pub(super) fn resume_turn(&mut self) -> TurnInput {
        self.shown.to = self.messages;
        self.input()
    }

    fn input(&self) -> TurnInput {
        TurnInput { answers: self.answers, messages: self.shown, refused: ChunkRange::default() }
    }

    /// Whether no turn was given the newest message.
    pub(super) fn has_new_messages(&self) -> bool {
        self.messages > self.shown.to
    }

    /// The checkpoints that count.
    pub(super) fn checkpoints(&self) -> ChunkRange {
        self.checkpoints
    }

    /// What is left of the earlier turns of the context, if the brain has said it.
    pub(super) fn summary(&self) -> Option<&String> {
        self.summary.as_ref()
    }

    /// Their bytes, as JSON.
    pub(super) fn checkpoint_bytes(&self) -> usize {
        self.checkpoint_bytes
    }
}
