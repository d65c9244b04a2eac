//! What is known already of what comes: the task, its end, or that it was cancelled before it came.

use super::internal;
use crate::{
    agent::{
        AgentActor,
        admit::{Ack, Admit, store_problem},
        hear::not_found,
        reply::{Durable, now, promise},
    },
    conversation::{
        record::{Receipt, TaskRow, Tombstone, keys},
        spill,
    },
};
use actix::Context;
use blackboard::store::{Batch, Key, Lane, Write};
use protocol::{
    envelope::Envelope,
    ids::{ConversationId, Digest, TaskId},
    message::Payload,
    principal::Principal,
    problem::{Problem, Reason},
};

impl AgentActor {
    /// The answer to a request for a task that is known: the same again is a duplicate, anything else is refused.
    pub(super) fn known_task(
        &mut self,
        task: &TaskId,
        admit: &Admit,
        asked: Digest,
    ) -> Result<Option<Durable>, Problem> {
        let reused = || Problem::new(Reason::TaskIdReused, format!("taskId {task} is another task of yours"));
        let ack = |conversation: &ConversationId| Ack {
            message_id: admit.envelope.message_id.clone(),
            task_id: Some(task.clone()),
            conversation_id: Some(conversation.clone()),
            duplicate: true,
            ended: None,
        };
        if let Some(id) = self.tasks.get(&(task.clone(), admit.by.clone())).cloned() {
            let Some(conversation) = self.conversations.get(&id) else { return Ok(None) };
            if conversation.task.as_ref().is_some_and(|row| row.asked != asked) {
                return Err(reused());
            }
            if conversation.head() > 0 {
                return Ok(Some(now(Ok(ack(&id)))));
            }
            let (waiter, durable) = promise();
            self.joiners.entry(id.clone()).or_default().push((waiter, ack(&id)));
            return Ok(Some(durable));
        }
        match self.row(task, &admit.by)? {
            Some(row) if row.asked == asked => Ok(Some(now(Ok(ack(&row.task.conversation))))),
            Some(_) => Err(reused()),
            None => Ok(None),
        }
    }

    pub(in crate::agent) fn row(&self, task: &TaskId, owner: &Principal) -> Result<Option<TaskRow>, Problem> {
        let store = self.parts.store.as_ref();
        let record =
            store.latest(&keys::task(&self.me, task, owner)).map_err(|error| store_problem(&error))?;
        record
            .map(|record| spill::decode(&self.me, store, &record.value))
            .transpose()
            .map_err(|error| store_problem(&error))
    }

    pub(super) fn tombstone(&self, task: &TaskId, by: &Principal) -> Result<Option<u64>, Problem> {
        let record = self
            .parts
            .store
            .latest(&keys::tombstone(&self.me, task, by))
            .map_err(|error| store_problem(&error))?;
        let tombstone: Option<Tombstone> =
            record.map(|record| serde_json::from_slice(&record.value)).transpose().map_err(internal)?;
        Ok(tombstone.map(|tombstone| tombstone.epoch))
    }

    /// A message whose conversation is not open: known and over, or never heard of. A cancel that came before its
    /// award leaves a tombstone that refuses the award.
    pub(in crate::agent) fn hear_late(
        &mut self,
        envelope: &Envelope,
        by: &Principal,
        (key, mut receipt): (Key, Receipt),
        ctx: &mut Context<Self>,
    ) -> Result<Durable, Problem> {
        let me = self.me.clone();
        let mut writes = Vec::new();
        let store = self.parts.store.clone();
        let was_here = || match &envelope.conversation_id {
            Some(id) => store.latest(&keys::journal(&me, id)).map(|record| record.is_some()),
            None => Ok(false),
        };
        let known_task = envelope
            .payload
            .task_id()
            .map(|task| crate::tasks::find(store.as_ref(), &me, task, by))
            .transpose();
        let known_task = known_task.map_err(|error| store_problem(&error))?.flatten().is_some();
        let is_agent = by.agent().is_some();
        if let Payload::TaskCancel(cancel) = &envelope.payload
            && is_agent
        {
            // A cancel that names no award is for all of them, as it is for an open conversation.
            let epoch = cancel.epoch.unwrap_or(u64::MAX);
            let epoch = self.tombstone(&cancel.task_id, by)?.map_or(epoch, |known| known.max(epoch));
            let bytes = serde_json::to_vec(&Tombstone { epoch, at: receipt.at }).map_err(internal)?;
            writes.push(Write::Put(keys::tombstone(&self.me, &cancel.task_id, by), bytes.into()));
        } else if !(known_task || is_agent && was_here().map_err(|error| store_problem(&error))?) {
            return Err(not_found(envelope));
        }
        receipt.conversation_id.clone_from(&envelope.conversation_id);
        let ack = Ack {
            message_id: envelope.message_id.clone(),
            task_id: receipt.task_id.clone(),
            conversation_id: receipt.conversation_id.clone(),
            duplicate: false,
            ended: None,
        };
        writes.push(Write::Put(key.clone(), receipt.to_bytes().map_err(internal)?));
        self.in_flight.insert(key.clone(), (receipt.digest, Vec::new()));
        self.counts.admitted += 1;
        let (waiter, durable) = promise();
        let batch = Batch { writes, expectations: Vec::new() };
        self.commit_loose(Lane::Progress, batch, vec![key], vec![(waiter, ack)], ctx);
        Ok(durable)
    }
}
