//! Which turns of each context are under way: one at a time, beside those that wait for a person.

use crate::conversation::Conversation;
use patterns::WorkPhase;
use protocol::ids::ConversationId;
use std::collections::{BTreeMap, BTreeSet};

/// How a conversation uses its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContextUse {
    /// It waits until the context is free.
    Waiting,
    /// Its turn is under way.
    Active,
    /// It waits for a person: others of the context may go on.
    Idle,
    /// It has ended, in a step that is not durable yet.
    Ending,
}

/// The open conversations of contexts, each in the order in which they came.
#[derive(Default)]
pub(crate) struct Contexts {
    open: BTreeMap<String, Vec<(ConversationId, ContextUse)>>,
    names: BTreeMap<ConversationId, String>,
    /// Those that were told to go on and have not recorded it yet.
    called: BTreeSet<ConversationId>,
    /// Those that wait, or were told to go on and have no turn yet, and go before other work of their owner.
    addressed: BTreeSet<ConversationId>,
}

impl Contexts {
    /// Notes how a conversation uses its context.
    pub(crate) fn note(&mut self, id: &ConversationId, conversation: Option<&Conversation>) {
        let context = conversation.and_then(|open| Some((open, open.pattern.view().context?)));
        let Some((open, context)) = context.filter(|(open, _)| !open.has_ended_for_good()) else {
            return self.remove(id);
        };
        let waits = context.start.is_none();
        if !waits {
            self.called.remove(id);
        }
        let contact = open.task.as_ref().and_then(|row| row.task.spec.contact.as_ref());
        if waits && contact.is_some_and(|contact| contact.is_addressed) {
            self.addressed.insert(id.clone());
        }
        let used = match open.pattern.view().work {
            _ if open.ended.is_some() => ContextUse::Ending,
            _ if waits && !self.called.contains(id) => ContextUse::Waiting,
            Some(WorkPhase::AwaitsPerson | WorkPhase::Paused) => ContextUse::Idle,
            _ => ContextUse::Active,
        };
        if used == ContextUse::Ending {
            self.addressed.remove(id);
        }
        self.names.insert(id.clone(), context.name.clone());
        let of_context = self.open.entry(context.name.clone()).or_default();
        match of_context.iter_mut().find(|(other, _)| other == id) {
            Some((_, known)) => *known = used,
            None => of_context.push((id.clone(), used)),
        }
    }

    /// The turn of a conversation is queued.
    pub(crate) fn has_turn(&mut self, id: &ConversationId) {
        self.addressed.remove(id);
    }

    /// How many turns are about to be queued that go before other work: their context is free, or the turn before has just ended.
    /// `is_between` says whether the turn of a conversation has ended, in a step that is not decided yet.
    pub(crate) fn about_to_begin(&self, is_between: impl Fn(&ConversationId) -> bool) -> usize {
        let is_next = |id: &&ConversationId| {
            let of_context = self.names.get(*id).and_then(|name| self.open.get(name));
            let mut before = of_context.into_iter().flatten().take_while(|(other, _)| other != *id);
            let is_over = |used: ContextUse| matches!(used, ContextUse::Ending | ContextUse::Idle);
            self.called.contains(*id) || before.all(|(other, used)| is_over(*used) || is_between(other))
        };
        self.addressed.iter().filter(is_next).count()
    }

    fn remove(&mut self, id: &ConversationId) {
        self.called.remove(id);
        self.addressed.remove(id);
        let Some(name) = self.names.remove(id) else { return };
        if let Some(of_context) = self.open.get_mut(&name) {
            of_context.retain(|(other, _)| other != id);
            if of_context.is_empty() {
                self.open.remove(&name);
            }
        }
    }

    /// Whether a new task of this context may begin.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        let mut of_context = self.open.get(name).into_iter().flatten();
        of_context.all(|(_, used)| *used == ContextUse::Idle)
    }

    /// The next conversation that waits for a context that is free, with the context's name.
    pub(crate) fn call_next(&mut self) -> Option<(ConversationId, String)> {
        let (name, of_context) = self.open.iter_mut().find(|(_, of_context)| {
            let has = |wanted| of_context.iter().any(|(_, used)| *used == wanted);
            // What one that ends has said can be read only when its end is durable.
            has(ContextUse::Waiting) && !has(ContextUse::Active) && !has(ContextUse::Ending)
        })?;
        let (id, used) = of_context.iter_mut().find(|(_, used)| *used == ContextUse::Waiting)?;
        *used = ContextUse::Active;
        self.called.insert(id.clone());
        Some((id.clone(), name.clone()))
    }
}
