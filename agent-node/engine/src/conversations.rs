//! The open conversations of an agent, which of them does which task, and how far the work of each is.
//!
//! A principal may have as many open as there are places left: half of them if nobody else has any, a third each if two do, and
//! so on. So there is always a place for another one (the dynamic thresholds of Choudhury and Hahne, 1998).

use crate::{
    conversation::{Conversation, QueuedEvent},
    records::{EffectKey, TaskRow},
};
use patterns::{EventKind, WorkPhase};
use protocol::{
    ids::{AgentId, ConversationId, Digest, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The task of a conversation and the task's owner, as far as its records tell.
pub(crate) type RecordedTask = Option<(TaskId, Principal)>;

fn equals(conversation: &Conversation) -> Option<Digest> {
    conversation.task.as_ref()?.equals
}

#[derive(Default)]
pub(crate) struct Conversations {
    open: BTreeMap<ConversationId, Box<Conversation>>,
    /// How many each principal has open. Those that signals have opened count together.
    shares: BTreeMap<Option<Principal>, usize>,
    /// Those of equal requests, by the digest that these have in common.
    equal: BTreeMap<Digest, BTreeSet<ConversationId>>,
    /// The conversation that writes the row of each task.
    tasks: BTreeMap<TaskId, BTreeMap<Principal, ConversationId>>,
    /// Those that are work of this agent, and how far each is.
    work: BTreeMap<ConversationId, WorkPhase>,
    /// The peer that holds the award of each that has one.
    awarded: BTreeMap<ConversationId, AgentId>,
    /// Those that a failed step has ended once; a second failure parks them.
    failed_before: BTreeSet<ConversationId>,
    /// Those that are parked until the next start, and why.
    parked: BTreeMap<ConversationId, String>,
}

impl Conversations {
    pub(crate) fn get(&self, id: &ConversationId) -> Option<&Conversation> {
        self.open.get(id).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: &ConversationId) -> Option<&mut Conversation> {
        self.open.get_mut(id).map(Box::as_mut)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Conversation> {
        self.open.values().map(Box::as_ref)
    }

    /// All but one.
    pub(crate) fn others(&self, id: &ConversationId) -> impl Iterator<Item = &Conversation> {
        self.iter().filter(move |other| other.id != *id)
    }

    pub(crate) fn others_mut(&mut self, id: &ConversationId) -> impl Iterator<Item = &mut Conversation> {
        self.open.values_mut().map(Box::as_mut).filter(move |other| other.id != *id)
    }

    /// Whether a conversation is open, or parked.
    pub(crate) fn has(&self, id: &ConversationId) -> bool {
        self.open.contains_key(id) || self.parked.contains_key(id)
    }

    pub(crate) fn insert(&mut self, conversation: Conversation) {
        *self.shares.entry(conversation.principal.clone()).or_default() += 1;
        if let Some(equals) = equals(&conversation) {
            self.equal.entry(equals).or_default().insert(conversation.id.clone());
        }
        self.open.insert(conversation.id.clone(), Box::new(conversation));
    }

    pub(crate) fn remove(&mut self, id: &ConversationId) -> Option<Conversation> {
        let conversation = *self.open.remove(id)?;
        if let Some(open) = self.shares.get_mut(&conversation.principal) {
            *open -= 1;
            if *open == 0 {
                self.shares.remove(&conversation.principal);
            }
        }
        if let Some(equals) = equals(&conversation)
            && let Some(open) = self.equal.get_mut(&equals)
        {
            open.remove(id);
            if open.is_empty() {
                self.equal.remove(&equals);
            }
        }
        Some(conversation)
    }

    /// The rows of the open tasks of requests that have this digest in common.
    pub(crate) fn of_equal_requests(&self, equals: &Digest) -> impl Iterator<Item = &TaskRow> {
        let open = self.equal.get(equals).into_iter().flatten();
        open.filter_map(|id| self.get(id)?.task.as_ref())
    }

    /// Removes one that is to be restored or parked. Returns its queue and its task.
    pub(crate) fn remove_failed(&mut self, id: &ConversationId) -> (VecDeque<QueuedEvent>, RecordedTask) {
        let removed = self.remove(id).map(|open| {
            let task = open.recorded_task();
            (open.queue, task)
        });
        self.tasks.retain(|_, owners| {
            owners.retain(|_, open| open != id);
            !owners.is_empty()
        });
        removed.unwrap_or_default()
    }

    /// Removes one that has ended and has nothing open.
    pub(crate) fn remove_if_finished(&mut self, id: &ConversationId) {
        if !self.get(id).is_some_and(Conversation::is_finished) {
            return;
        }
        self.failed_before.remove(id);
        let Some(row) = self.remove(id).and_then(|conversation| conversation.task) else { return };
        let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
        if self.of_task(task, owner) == Some(id)
            && let Some(owners) = self.tasks.get_mut(task)
        {
            owners.remove(owner);
            if owners.is_empty() {
                self.tasks.remove(task);
            }
        }
    }

    /// Fails if no conversation may be opened, or none for `principal`. `limit` is how many may be open.
    pub(crate) fn check_room(&self, limit: usize, principal: Option<&Principal>) -> Result<(), Problem> {
        let free = limit.saturating_sub(self.open.len());
        let refused = |message: String| Err(Problem::new(Reason::Overloaded, message).with("limit", limit));
        if free == 0 {
            return refused(format!(
                "{limit} conversations are open, which is the limit (maxOpenConversations)"
            ));
        }
        match principal.map(|principal| (principal, self.open_of(Some(principal)))) {
            Some((principal, open)) if open >= free => refused(format!(
                "{principal} has {open} conversations open, and {free} of {limit} (maxOpenConversations) are left: one caller may \
                 have as many as are left"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a signal may open a conversation.
    pub(crate) fn has_room_for_signal(&self, limit: usize) -> bool {
        self.open_of(None) < limit.saturating_sub(self.open.len())
    }

    fn open_of(&self, principal: Option<&Principal>) -> usize {
        self.shares.get(&principal.cloned()).copied().unwrap_or_default()
    }

    /// The conversation that writes the row of a task.
    pub(crate) fn of_task(&self, task: &TaskId, owner: &Principal) -> Option<&ConversationId> {
        self.tasks.get(task)?.get(owner)
    }

    /// Whether `is_owner` is true of an owner of an open task with this id.
    pub(crate) fn has_task_of(&self, task: &TaskId, is_owner: impl Fn(&Principal) -> bool) -> bool {
        self.tasks.get(task).is_some_and(|owners| owners.keys().any(is_owner))
    }

    /// From here on this conversation writes the row of a task.
    pub(crate) fn set_task(&mut self, task: TaskId, owner: Principal, id: ConversationId) {
        self.tasks.entry(task).or_default().insert(owner, id);
    }

    /// Notes how far the work of a conversation is.
    pub(crate) fn note_work(&mut self, id: &ConversationId) {
        match self.get(id).and_then(|open| open.pattern.view().work) {
            Some(phase) => drop(self.work.insert(id.clone(), phase)),
            None => drop(self.work.remove(id)),
        }
    }

    /// Notes which peer holds its award.
    pub(crate) fn note_award(&mut self, id: &ConversationId) {
        match self.get(id).and_then(|open| Some(open.pattern.view().awarded?.0.clone())) {
            Some(peer) => drop(self.awarded.insert(id.clone(), peer)),
            None => drop(self.awarded.remove(id)),
        }
    }

    /// How far the work of a conversation is, if it is work of this agent.
    pub(crate) fn phase(&self, id: &ConversationId) -> Option<WorkPhase> {
        self.work.get(id).copied()
    }

    /// How many are in a phase for which `is_counted` is true.
    pub(crate) fn count_work(&self, is_counted: impl Fn(WorkPhase) -> bool) -> u32 {
        u32::try_from(self.work.values().filter(|phase| is_counted(**phase)).count()).unwrap_or(u32::MAX)
    }

    /// Those that go on without a person.
    pub(crate) fn unfinished(&self) -> Vec<ConversationId> {
        let unfinished = self.work.iter().filter(|(_, phase)| **phase != WorkPhase::AwaitsPerson);
        unfinished.map(|(id, _)| id.clone()).collect()
    }

    /// The peers that hold awards.
    pub(crate) fn awarded_peers(&self) -> BTreeSet<AgentId> {
        self.awarded.values().cloned().collect()
    }

    /// The event for each conversation whose award `peer` holds, if that peer is gone.
    pub(crate) fn lost_awards(&self, peer: &AgentId, why: &str) -> Vec<(ConversationId, EventKind)> {
        let held = self.awarded.iter().filter(|(_, holder)| *holder == peer);
        let lost = held.filter_map(|(id, _)| {
            let (_, label) = self.get(id)?.pattern.view().awarded.filter(|(winner, _)| *winner == peer)?;
            let reason = Reason::RecipientUnreachable.code().to_owned();
            let (to, message) = (peer.clone(), why.to_owned());
            Some((id.clone(), EventKind::Undelivered { label, to, reason, message }))
        });
        lost.collect()
    }

    /// Notes that a step of a conversation has failed. Returns whether it is the first.
    pub(crate) fn note_failure(&mut self, id: &ConversationId) -> bool {
        self.failed_before.insert(id.clone())
    }

    /// Parks a conversation until the next start.
    pub(crate) fn park(&mut self, id: &ConversationId, why: &str) {
        self.remove_failed(id);
        self.parked.insert(id.clone(), why.to_owned());
    }

    pub(crate) fn parked(&self) -> impl Iterator<Item = (&ConversationId, &String)> + Clone {
        self.parked.iter()
    }

    /// Refuses a message for a parked conversation of `me` with a reason that makes the sender retry.
    pub(crate) fn check_not_parked(&self, id: &ConversationId, me: &AgentId) -> Result<(), Problem> {
        match self.parked.get(id) {
            Some(why) => {
                let message = format!("conversation {id} is parked until {me} starts again: {why}");
                Err(Problem::new(Reason::StoreUnavailable, message))
            }
            None => Ok(()),
        }
    }

    /// Whether a conversation has dropped one of its effects.
    pub(crate) fn has_dropped(&self, id: &ConversationId, effect: EffectKey) -> bool {
        match self.get(id) {
            // The step that drops it may still fail.
            Some(open) => !open.is_committing() && !open.open.contains_key(&effect),
            None => !self.parked.contains_key(id),
        }
    }
}
