//! Conversations that this process can't go on with: what is kept of them can't be read, or a rule panicked over them
//! twice. They stay in the store as they are, whoever looks is told of them, and the next start tries again.

use super::{AgentActor, recover::every_readable};
use crate::conversation::{
    record::{TaskRow, keys},
    spill,
};
use actix::Context;
use blackboard::store::{Batch, Error, Expectation, Filter, Lane, Revision, Write};
use protocol::{
    envelope::Envelope,
    ids::{ConversationId, EffectId},
    problem::{Problem, Reason},
};

impl AgentActor {
    /// Lets go of a conversation without touching its records, and says so: in the log, to whoever looks at the agent, and
    /// in its task.
    pub(super) fn park(&mut self, id: &ConversationId, why: &str, ctx: &mut Context<Self>) {
        tracing::error!(agent = %self.me, conversation = %id, why, "parked until the next start");
        self.conversations.remove(id);
        self.tasks.retain(|_, open| open != id);
        let places: Vec<_> = self.timers.keys().chain(self.thoughts.keys()).cloned().collect();
        let its_own: Vec<_> = places.into_iter().filter(|(of, _)| of == id).map(|(_, place)| place).collect();
        self.forget(id, &its_own, ctx);
        self.count_running(id);
        self.parked.insert(id.clone(), self.first_of(id));
        self.parts.pulse.park(id.clone(), why.to_owned());
        if let Err(error) = self.say_parked(id, why, ctx) {
            tracing::warn!(agent = %self.me, conversation = %id, %error, "its task does not show that it is parked");
        }
    }

    /// Where its journal begins, as far as that can be read: nothing from there on is trimmed.
    fn first_of(&self, id: &ConversationId) -> Revision {
        match self.parts.store.read(&Filter::Exactly(keys::journal(&self.me, id)), 0, 1) {
            Ok(first) => first.first().map(|record| record.revision).unwrap_or_default(),
            Err(Error::Corrupt { revision, .. }) => revision,
            Err(_) => 0,
        }
    }

    fn say_parked(&mut self, id: &ConversationId, why: &str, ctx: &mut Context<Self>) -> Result<(), Error> {
        let (me, store) = (self.me.clone(), self.parts.store.clone());
        let mut found = None;
        every_readable(
            store.as_ref(),
            &keys::all(&me, "task"),
            |record| {
                let row = spill::decode::<TaskRow>(&me, store.as_ref(), &record.value).ok();
                found = row
                    .filter(|row| row.task.conversation == *id && row.ended_at.is_none())
                    .map(|row| (record.key, record.revision, row))
                    .or_else(|| found.take());
            },
            |_, _| {},
        )?;
        let Some((key, stands, mut row)) = found else { return Ok(()) };
        let said = Some(format!("parked until {me} starts again: {why}"));
        if row.task.status.message == said {
            return Ok(());
        }
        row.task.status.message = said;
        let mut writes = Vec::new();
        let bytes = spill::encode(&me, &row, &mut writes, &mut Default::default())?;
        writes.push(Write::Put(key.clone(), bytes));
        let batch = Batch { writes, expectations: vec![Expectation::At(key, stands)] };
        self.commit_loose(Lane::Progress, batch, Vec::new(), Vec::new(), ctx);
        Ok(())
    }

    /// Refuses, for now, a message for a conversation that is parked: its sender tries again.
    pub(super) fn check_not_parked(&self, envelope: &Envelope) -> Result<(), Problem> {
        let answered = || EffectId::parse(envelope.in_reply_to.as_ref()?.as_str());
        let named = envelope.conversation_id.clone().or_else(|| Some(answered()?.conversation));
        named.map_or(Ok(()), |id| self.check_not_parked_id(&id))
    }

    pub(super) fn check_not_parked_id(&self, id: &ConversationId) -> Result<(), Problem> {
        match self.parts.pulse.parked().get(id) {
            Some(why) => {
                let message = format!("conversation {id} is parked until {} starts again: {why}", self.me);
                Err(Problem::new(Reason::StoreUnavailable, message))
            }
            None => Ok(()),
        }
    }
}
