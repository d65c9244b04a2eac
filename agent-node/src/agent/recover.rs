//! A restart: the states are loaded, and every open effect is performed again under its own id (DESIGN §2). Old events
//! are never run through newer rules.

use super::AgentActor;
use crate::conversation::{
    Conversation,
    record::{State, Step, TaskRow, keys},
    spill,
};
use actix::Context;
use blackboard::store::{Error, Filter, Key, Record, Revision, Store};
use protocol::{
    coordination::{Effect, What},
    ids::{AgentId, ConversationId},
    time::NodeTime,
};

/// How often a turn is begun before it is taken for the cause of the crashes.
const MAX_ATTEMPTS: u32 = 5;
const PAGE: usize = 256;

/// Everything under `filter`, page by page.
pub(crate) fn every(
    store: &dyn Store,
    filter: &Filter,
    each: impl FnMut(Record) -> Result<(), Error>,
) -> Result<(), Error> {
    every_after(store, filter, 0, each)
}

/// Everything under `filter` after that revision, page by page.
pub(crate) fn every_after(
    store: &dyn Store,
    filter: &Filter,
    mut after: Revision,
    mut each: impl FnMut(Record) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        let page = store.read(filter, after, PAGE)?;
        let Some(last) = page.last().map(|record| record.revision) else { return Ok(()) };
        page.into_iter().try_for_each(&mut each)?;
        after = last;
    }
}

/// Everything under `filter` that can be read; `damaged` gets the keys of what can't.
pub(super) fn every_readable(
    store: &dyn Store,
    filter: &Filter,
    mut each: impl FnMut(Record),
    mut damaged: impl FnMut(Key, Error),
) -> Result<(), Error> {
    let (mut after, mut limit) = (0, PAGE);
    loop {
        match store.read(filter, after, limit) {
            Ok(page) => {
                let Some(last) = page.last().map(|record| record.revision) else { return Ok(()) };
                page.into_iter().for_each(&mut each);
                after = last;
            }
            // One damaged record spoils its whole page: up to it, one at a time.
            Err(Error::Corrupt { .. }) if limit > 1 => limit = 1,
            Err(Error::Corrupt { revision, key }) if revision > after => {
                damaged(Key::stored(key.clone()), Error::Corrupt { revision, key });
                (after, limit) = (revision, PAGE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The newest moment on the node's clock that an agent's open conversations know of.
pub fn newest_time(store: &dyn Store, me: &AgentId) -> Result<NodeTime, Error> {
    let mut newest = NodeTime::default();
    let mut journals = Vec::new();
    let state = keys::all(me, "state");
    let id = |record: Record| journals.extend(conversation_id(&record.key));
    every_readable(store, &state, id, |_, _| {})?;
    for id in journals {
        // What can't be read is parked when the agent starts.
        let step = match store.latest(&keys::journal(me, &id)) {
            Ok(journal) => journal.and_then(|journal| spill::decode::<Step>(me, store, &journal.value).ok()),
            Err(Error::Corrupt { .. }) => None,
            Err(error) => return Err(error),
        };
        let at = step.and_then(|step| step.events.iter().map(|event| event.at).max());
        newest = at.unwrap_or_default().max(newest);
    }
    Ok(newest)
}

pub(super) fn conversation_id(key: &Key) -> Option<ConversationId> {
    ConversationId::parse(key.tokens().get(2)?).ok()
}

impl AgentActor {
    pub(super) fn recover(&mut self, ctx: &mut Context<Self>) -> Result<(), Error> {
        let store = self.parts.store.clone();
        every(store.as_ref(), &keys::all(&self.me, "record"), |record| {
            let peer = record.key.tokens().get(2).and_then(|id| AgentId::parse(id).ok());
            if let (Some(peer), Ok(kept)) = (peer, serde_json::from_slice(&record.value)) {
                self.track_records.insert(peer, kept);
            }
            Ok(())
        })?;
        self.tell_again()?;
        let (mut open, mut damaged) = (Vec::new(), Vec::new());
        let id = |record: Record| open.extend(conversation_id(&record.key));
        every_readable(store.as_ref(), &keys::all(&self.me, "state"), id, |key, error| {
            damaged.extend(conversation_id(&key).map(|id| (id, error)));
        })?;
        for id in open {
            match self.restore(&id) {
                Ok(Some(conversation)) => {
                    self.keep(id.clone(), conversation);
                    self.resume(&id, ctx);
                }
                Ok(None) => {}
                Err(error @ (Error::Corrupt { .. } | Error::Refused(_))) => damaged.push((id, error)),
                Err(error) => return Err(error),
            }
        }
        for (id, error) in damaged {
            self.park(&id, &error.to_string(), ctx);
        }
        self.over_again()
    }

    /// The conversation as the store holds it.
    pub(super) fn restore(&self, id: &ConversationId) -> Result<Option<Conversation>, Error> {
        let store = self.parts.store.as_ref();
        let Some(record) = store.latest(&keys::state(&self.me, id))? else { return Ok(None) };
        let Some(journal) = store.latest(&keys::journal(&self.me, id))? else { return Ok(None) };
        let oldest = store.read(&Filter::Exactly(keys::journal(&self.me, id)), 0, 1)?;
        let first = oldest.first().map_or(journal.revision, |record| record.revision);
        let state: State = spill::decode(&self.me, store, &record.value)?;
        let step: Step = spill::decode(&self.me, store, &journal.value)?;
        let task = match &state.task {
            Some((task, owner)) => match store.latest(&keys::task(&self.me, task, owner))? {
                // A later award of the task has a conversation of its own, and the row is that one's.
                Some(row) => Some(spill::decode::<TaskRow>(&self.me, store, &row.value)?)
                    .filter(|row| row.task.conversation == *id),
                None => None,
            },
            None => None,
        };
        Ok(Some(Conversation::restore(id.clone(), state, task, (first, journal.revision), step.step)))
    }

    pub(super) fn keep(&mut self, id: ConversationId, conversation: Conversation) {
        if let Some(row) = conversation.task.as_ref().filter(|row| row.ended_at.is_none()) {
            self.tasks.insert((row.task.spec.task_id.clone(), row.task.owner.clone()), id.clone());
        }
        self.conversations.insert(id.clone(), Box::new(conversation));
        self.count_running(&id);
    }

    fn resume(&mut self, id: &ConversationId, ctx: &mut Context<Self>) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let open: Vec<_> = conversation.open.iter().map(|(place, open)| (*place, open.clone())).collect();
        for (place, open) in open {
            let Effect::Think { turn, .. } = &open.effect else {
                self.perform_again(id, place, &open, ctx);
                continue;
            };
            if open.attempts >= MAX_ATTEMPTS {
                let reason = format!(
                    "given up: the node stopped {MAX_ATTEMPTS} times while this turn was being thought"
                );
                let what = What::ThoughtFailed { turn: *turn, reason };
                self.happened(super::Happened { conversation: id.clone(), closes: Some(place), what }, ctx);
            } else if let Some(conversation) = self.conversations.get_mut(id) {
                conversation.begin_again(place);
            }
        }
        self.advance(id, true, ctx);
    }
}
