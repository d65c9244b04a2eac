//! Parked conversations: their records can't be read, or their steps failed twice. They stay in the store unchanged, the
//! agent's state and their tasks show them, and the next start tries again.

use crate::{
    agent::Agent,
    commits::StandaloneRecords,
    content,
    context::Context,
    records::{TaskRow, keys, scan::every_readable},
};
use protocol::{
    envelope::Envelope,
    ids::{ConversationId, EffectId},
    problem::{Problem, Reason},
};
use store_types::{Batch, Error, Expectation, Filter, Lane, Revision, Write};

impl Agent {
    /// The parked conversations, and why each is parked.
    pub fn parked(&self) -> impl Iterator<Item = (&ConversationId, &String)> + Clone {
        self.parked.0.iter().map(|(id, (_, why))| (id, why))
    }

    /// Removes a conversation from memory without changing its records, logs it, and shows it in the task's status.
    pub(crate) fn park(&mut self, id: &ConversationId, why: &str, cx: &mut Context<'_>) {
        tracing::error!(agent = %self.me, conversation = %id, why, "parked until the next start");
        self.conversations.remove(id);
        self.tasks.retain(|_, open| open != id);
        let effects: Vec<_> = self.timers.of(id).into_iter().chain(self.turns.of(id)).collect();
        self.stop_effects(id, &effects, cx);
        self.count_running(id);
        self.parked.0.insert(id.clone(), (self.first_journal_revision(id, cx), why.to_owned()));
        if let Err(error) = self.write_parked_status(id, why, cx) {
            tracing::warn!(agent = %self.me, conversation = %id, %error, "its task does not show that it is parked");
        }
    }

    /// The revision of the journal's first record, or of a damaged one; records from there on are not trimmed.
    fn first_journal_revision(&self, id: &ConversationId, cx: &Context<'_>) -> Revision {
        match cx.store.read(&Filter::Exactly(keys::journal(&self.me, id)), 0, 1) {
            Ok(first) => first.first().map(|record| record.revision).unwrap_or_default(),
            Err(Error::Corrupt { revision, .. }) => revision,
            Err(_) => 0,
        }
    }

    fn write_parked_status(
        &mut self,
        id: &ConversationId,
        why: &str,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let (me, store) = (self.me.clone(), cx.store);
        let mut found = None;
        every_readable(
            store,
            &keys::all(&me, "task"),
            |record| {
                let row = content::decode::<TaskRow>(&me, store, &record.value).ok();
                found = row
                    .filter(|row| row.task.conversation == *id && row.ended_at.is_none())
                    .map(|row| (record.key, record.revision, row))
                    .or_else(|| found.take());
            },
            |_, _| {},
        )?;
        let Some((key, stands, mut row)) = found else { return Ok(()) };
        let message = Some(format!("parked until {me} starts again: {why}"));
        if row.task.status.message == message {
            return Ok(());
        }
        row.task.status.message = message;
        let mut writes = Vec::new();
        let bytes = content::encode(&me, &row, &mut writes, &mut Default::default())?;
        writes.push(Write::Put(key.clone(), bytes));
        let batch = Batch { writes, expectations: vec![Expectation::At(key, stands)] };
        self.commit_standalone(Lane::Progress, batch, StandaloneRecords::default(), cx);
        Ok(())
    }

    /// Refuses a message for a parked conversation with a reason that makes the sender retry.
    pub(crate) fn check_not_parked(&self, envelope: &Envelope) -> Result<(), Problem> {
        let answered = || EffectId::parse(envelope.in_reply_to.as_ref()?.as_str());
        let named = envelope.conversation_id.clone().or_else(|| Some(answered()?.conversation));
        named.map_or(Ok(()), |id| self.check_not_parked_id(&id))
    }

    pub(crate) fn check_not_parked_id(&self, id: &ConversationId) -> Result<(), Problem> {
        match self.parked.0.get(id) {
            Some((_, why)) => {
                let message = format!("conversation {id} is parked until {} starts again: {why}", self.me);
                Err(Problem::new(Reason::StoreUnavailable, message))
            }
            None => Ok(()),
        }
    }
}
