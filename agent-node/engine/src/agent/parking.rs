//! Parked conversations: their records can't be read, or their steps failed twice. They stay in the store unchanged, the
//! agent's state and their tasks show them, and the next start tries again.

use crate::{
    agent::Agent,
    commits::StandaloneRecords,
    content,
    context::Context,
    conversations::RecordedTask,
    records::{StateOutline, TaskRow, keys},
};
use protocol::{
    envelope::Envelope,
    ids::{ConversationId, EffectId},
    problem::Problem,
};
use store_types::{Batch, Error, Expectation, Key, Write};

impl Agent {
    /// The parked conversations, and why each is parked.
    pub fn parked(&self) -> impl Iterator<Item = (&ConversationId, &String)> + Clone {
        self.conversations.parked()
    }

    /// Removes a conversation from memory without changing its records, logs it, and shows it in the status of its task.
    pub(super) fn park(&mut self, id: &ConversationId, task: RecordedTask, why: &str, cx: &mut Context<'_>) {
        tracing::error!(agent = %self.me, conversation = %id, why, "parked until the next start");
        self.conversations.park(id, why);
        let effects: Vec<_> = self.timers.of(id).into_iter().chain(self.turns.of(id)).collect();
        self.stop_effects(id, &effects, cx);
        self.note_change(id);
        let Some((task, owner)) = task else { return };
        if let Err(error) = self.write_parked_status(id, &keys::task(&self.me, &task, &owner), why, cx) {
            tracing::warn!(agent = %self.me, conversation = %id, %error, "its task does not show that it is parked");
        }
    }

    /// The task of a conversation that may be damaged.
    pub(crate) fn recorded_task(&self, id: &ConversationId, cx: &Context<'_>) -> RecordedTask {
        let state = cx.store.latest(&keys::state(&self.me, id)).ok().flatten();
        let outline = state.and_then(|state| content::outline::<StateOutline>(&state.value).ok());
        outline.and_then(|outline| outline.task)
    }

    fn write_parked_status(
        &mut self,
        id: &ConversationId,
        key: &Key,
        why: &str,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let me = self.me.clone();
        let Some(record) = cx.store.latest(key)? else { return Ok(()) };
        let mut row: TaskRow = content::decode(&me, cx.store, &record.value)?;
        let message = Some(format!("parked until {me} starts again: {why}"));
        if row.task.conversation != *id || row.ended_at.is_some() || row.task.status.message == message {
            return Ok(());
        }
        row.task.status.message = message;
        let mut writes = Vec::new();
        let bytes = content::encode(&me, &row, &mut writes, &mut Default::default())?;
        writes.push(Write::Put(key.clone(), bytes));
        let batch = Batch { writes, expectations: vec![Expectation::At(key.clone(), record.revision)] };
        self.commit_standalone(batch, StandaloneRecords::default(), cx);
        Ok(())
    }

    /// Refuses a message for a parked conversation with a reason that makes the sender retry.
    pub(crate) fn check_not_parked(&self, envelope: &Envelope) -> Result<(), Problem> {
        let answered = || EffectId::parse(envelope.in_reply_to.as_ref()?.as_str());
        let named = envelope.conversation_id.clone().or_else(|| Some(answered()?.conversation));
        named.map_or(Ok(()), |id| self.conversations.check_not_parked(&id, &self.me))
    }
}
