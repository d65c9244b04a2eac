//! Messages that are being recorded, and the callers that wait for the same answer.

use crate::{Ack, ReplyTo, commits::Receipts, context::Context, records::Receipt};
use protocol::{
    ids::{ConversationId, Digest},
    problem::{Problem, Reason},
};
use std::collections::BTreeMap;
use store_types::{Filter, Key};

/// A caller and its answer.
type Waiter = (ReplyTo, Ack);

#[derive(Default)]
pub(crate) struct Admission {
    /// The digest of each message that is being recorded, and the senders of its repeats.
    in_flight: BTreeMap<Key, (Digest, Vec<Waiter>)>,
    /// Repeated task requests that wait for the first step of the conversation that the first request opened.
    joiners: BTreeMap<ConversationId, Vec<Waiter>>,
}

impl Admission {
    /// The message with this receipt is being recorded from here on.
    pub(crate) fn begin(&mut self, receipt: Key, digest: Digest) {
        self.in_flight.insert(receipt, (digest, Vec::new()));
    }

    /// Answers a duplicate: with the recorded answer, or with the answer of the first copy once that is recorded. `ack` is the
    /// answer without task and conversation. Returns whether it was answered.
    pub(crate) fn answer_if_repeat(
        &mut self,
        receipt: &Key,
        digest: Digest,
        (reply, ack): Waiter,
        cx: &mut Context<'_>,
    ) -> Result<bool, Problem> {
        let reused = || {
            let message = format!("messageId {} was used for another message", ack.message_id);
            Problem::new(Reason::MessageIdReused, message)
        };
        if let Some((first, repeats)) = self.in_flight.get_mut(receipt) {
            if *first != digest {
                return Err(reused());
            }
            repeats.push((reply, ack));
            return Ok(true);
        }
        let Some(record) = cx.store.latest(receipt)? else { return Ok(false) };
        let receipt: Receipt = serde_json::from_slice(&record.value)
            .map_err(|error| Problem::new(Reason::Internal, format!("a receipt can't be read: {error}")))?;
        if receipt.digest != digest {
            return Err(reused());
        }
        let Receipt { task_id, conversation_id, .. } = receipt;
        cx.reply(reply, Ok(Ack { task_id, conversation_id, ..ack }));
        Ok(true)
    }

    /// Answers the duplicates that were received while the first copy was being recorded.
    pub(crate) fn answer_repeats(
        &mut self,
        receipts: Receipts<'_>,
        result: &Result<Option<ConversationId>, Problem>,
        cx: &mut Context<'_>,
    ) {
        for (key, task) in receipts {
            let Some((_, repeats)) = self.in_flight.remove(key) else { continue };
            for (reply, ack) in repeats {
                let answer = result.clone().map(|conversation_id| Ack {
                    task_id: task.clone(),
                    conversation_id,
                    ..ack
                });
                cx.reply(reply, answer);
            }
        }
    }

    /// A repeated task request waits for the first step of `conversation`.
    pub(crate) fn join(&mut self, conversation: ConversationId, joiner: Waiter) {
        self.joiners.entry(conversation).or_default().push(joiner);
    }

    /// The first step of `conversation` was recorded or refused: those that have waited for it.
    pub(crate) fn joined(&mut self, conversation: &ConversationId) -> Vec<Waiter> {
        self.joiners.remove(conversation).unwrap_or_default()
    }

    /// Whether a message with one of these receipts is being recorded.
    pub(crate) fn is_recording(&self, receipts: &Filter) -> bool {
        self.in_flight.keys().any(|key| receipts.admits(key))
    }
}
