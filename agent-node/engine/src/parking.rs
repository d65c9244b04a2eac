//! Conversations that this process can't go on with: what is kept of them can't be read, or a pattern panicked over them
//! twice. They stay in the store as they are, whoever looks is told of them, and the next start tries again.

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
use std::collections::BTreeMap;
use store_types::{Batch, Error, Expectation, Filter, Lane, Revision, Write};

impl Agent {
    /// The conversations it can't go on with before its next start, and why.
    pub fn parked(&self) -> BTreeMap<ConversationId, String> {
        self.parked.0.iter().map(|(id, (_, why))| (id.clone(), why.clone())).collect()
    }

    /// How many these are.
    pub fn count_parked(&self) -> usize {
        self.parked.0.len()
    }

    /// Takes a conversation out of memory without touching its records, and says so: in the log, to whoever looks at the
    /// agent, and in its task.
    pub(crate) fn park(&mut self, id: &ConversationId, why: &str, cx: &mut Context<'_>) {
        tracing::error!(agent = %self.me, conversation = %id, why, "parked until the next start");
        self.conversations.remove(id);
        self.tasks.retain(|_, open| open != id);
        let effects: Vec<_> = self.timers.of(id).into_iter().chain(self.turns.of(id)).collect();
        self.stop_effects(id, &effects, cx);
        self.count_running(id);
        self.parked.0.insert(id.clone(), (self.first_of(id, cx), why.to_owned()));
        if let Err(error) = self.show_parked(id, why, cx) {
            tracing::warn!(agent = %self.me, conversation = %id, %error, "its task does not show that it is parked");
        }
    }

    /// Where its journal begins, as far as that can be read: nothing from there on is trimmed.
    fn first_of(&self, id: &ConversationId, cx: &Context<'_>) -> Revision {
        match cx.store.read(&Filter::Exactly(keys::journal(&self.me, id)), 0, 1) {
            Ok(first) => first.first().map(|record| record.revision).unwrap_or_default(),
            Err(Error::Corrupt { revision, .. }) => revision,
            Err(_) => 0,
        }
    }

    fn show_parked(&mut self, id: &ConversationId, why: &str, cx: &mut Context<'_>) -> Result<(), Error> {
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

    /// Refuses, for now, a message for a conversation that is parked: its sender tries again.
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
