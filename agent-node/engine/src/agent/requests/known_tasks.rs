//! Messages about known tasks: repeated requests, tasks that have ended, cancels that precede their award.

use crate::{
    Ack, IncomingMessage, ReplyTo,
    agent::Agent,
    commits::StandaloneRecords,
    content,
    context::Context,
    problems::{internal, not_found},
    records::{Receipt, TaskRow, Tombstone, keys, lists},
    tasks,
};
use protocol::{
    envelope::Envelope,
    ids::{ConversationId, Digest, TaskId},
    message::Payload,
    principal::Principal,
    problem::{Problem, Reason},
};
use store_types::{Batch, Key, Write};

impl Agent {
    /// The id of a task of `owner` in messages to agents and on the board: its own, unless another user has a task of the same
    /// id here. Both are tasks of this agent there.
    pub(crate) fn id_among_agents(
        &self,
        task: &TaskId,
        owner: &Principal,
        cx: &Context<'_>,
    ) -> Result<TaskId, Problem> {
        let is_other_user = |other: &Principal| other != owner && !other.is_of_mesh();
        if owner.is_of_mesh() {
            return Ok(task.clone());
        }
        if !self.conversations.has_task_of(task, is_other_user)
            && !tasks::owners(cx.store, &self.me, task)?.iter().any(is_other_user)
        {
            return Ok(task.clone());
        }
        let digest = Digest::of(format!("{owner}|{task}").as_bytes()).to_string();
        TaskId::parse(&format!("task-{}", &digest[..20])).map_err(internal)
    }

    /// Answers a request whose task id is known: the same request is a duplicate, another one is refused. Returns whether it
    /// was answered.
    pub(crate) fn answer_if_known_task(
        &mut self,
        task: &TaskId,
        message: &IncomingMessage,
        asked: Digest,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<bool, Problem> {
        let reused = || Problem::new(Reason::TaskIdReused, format!("taskId {task} is another task of yours"));
        let ack = |conversation: &ConversationId| Ack {
            task_id: Some(task.clone()),
            conversation_id: Some(conversation.clone()),
            duplicate: true,
            ..Ack::of(message.envelope.message_id.clone())
        };
        if let Some(id) = self.conversations.of_task(task, &message.by) {
            let Some(conversation) = self.conversations.get(id) else { return Ok(false) };
            if conversation.task.as_ref().is_some_and(|row| row.asked != asked) {
                return Err(reused());
            }
            if conversation.head() > 0 {
                cx.reply(reply, Ok(ack(id)));
            } else {
                self.admission.join(id.clone(), (reply, ack(id)));
            }
            return Ok(true);
        }
        match self.row(task, &message.by, cx)? {
            Some(row) if row.asked == asked => {
                cx.reply(reply, Ok(ack(&row.task.conversation)));
                Ok(true)
            }
            Some(_) => Err(reused()),
            None => Ok(false),
        }
    }

    pub(crate) fn row(
        &self,
        task: &TaskId,
        owner: &Principal,
        cx: &Context<'_>,
    ) -> Result<Option<TaskRow>, Problem> {
        let record = cx.store.latest(&keys::task(&self.me, task, owner))?;
        Ok(record.map(|record| content::decode(&self.me, cx.store, &record.value)).transpose()?)
    }

    /// The row of a task. Fails with a reason that makes the sender retry if the task's conversation is parked.
    pub(crate) fn row_unless_parked(
        &self,
        task: &TaskId,
        owner: &Principal,
        cx: &Context<'_>,
    ) -> Result<Option<TaskRow>, Problem> {
        let row = self.row(task, owner, cx)?;
        if let Some(row) = row.as_ref().filter(|row| row.ended_at.is_none()) {
            self.conversations.check_not_parked(&row.task.conversation, &self.me)?;
        }
        Ok(row)
    }

    pub(crate) fn tombstone(
        &self,
        task: &TaskId,
        by: &Principal,
        cx: &Context<'_>,
    ) -> Result<Option<u64>, Problem> {
        let record = cx.store.latest(&keys::tombstone(&self.me, task, by))?;
        let tombstone: Option<Tombstone> =
            record.map(|record| serde_json::from_slice(&record.value)).transpose().map_err(internal)?;
        Ok(tombstone.map(|tombstone| tombstone.epoch).max(self.commits.tombstone(task, by)))
    }

    /// Records a message whose conversation has ended, and refuses one whose conversation is unknown. A cancel that precedes
    /// its award writes a tombstone that refuses the award.
    pub(crate) fn take_for_closed_conversation(
        &mut self,
        envelope: &Envelope,
        by: &Principal,
        (key, mut receipt): (Key, Receipt),
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let (mut writes, mut tombstone) = (Vec::new(), None);
        let task = envelope.payload.task_id();
        let known_task = task.map(|task| tasks::find(cx.store, &self.me, task, by)).transpose()?.flatten();
        let is_agent = by.agent().is_some();
        if let Payload::TaskCancel(cancel) = &envelope.payload
            && is_agent
        {
            // A cancel without an epoch is for all awards, as it is for an open conversation.
            let epoch = cancel.epoch.unwrap_or(u64::MAX);
            let epoch = self.tombstone(&cancel.task_id, by, cx)?.map_or(epoch, |known| known.max(epoch));
            let bytes = serde_json::to_vec(&Tombstone { epoch, at: receipt.at }).map_err(internal)?;
            tombstone = Some((cancel.task_id.clone(), by.clone(), epoch));
            let key = keys::tombstone(&self.me, &cancel.task_id, by);
            let entry = lists::aged(&key, receipt.at);
            writes.push(Write::PutListed(key, bytes.into(), vec![entry]));
        } else {
            let journal = envelope.conversation_id.as_ref().map(|id| keys::journal(&self.me, id));
            let was_here = journal.map(|key| cx.store.latest(&key)).transpose()?.flatten().is_some();
            if known_task.is_none() && !(is_agent && was_here) {
                return Err(not_found(envelope));
            }
            if let Some(epoch) = envelope.payload.reported_epoch().filter(|_| is_agent) {
                return Err(Problem::new(Reason::Fenced, format!("award {epoch}: the task has ended")));
            }
        }
        receipt.conversation_id.clone_from(&envelope.conversation_id);
        let ack = Ack {
            task_id: receipt.task_id.clone(),
            conversation_id: receipt.conversation_id.clone(),
            ..Ack::of(envelope.message_id.clone())
        };
        writes.push(receipt.sealed(key.clone()).map_err(internal)?.write);
        self.admission.begin(key.clone(), receipt.digest);
        self.counts.admitted += 1;
        let batch = Batch { writes, expectations: Vec::new() };
        let waits =
            StandaloneRecords { receipt: Some(key), reply: Some((reply, ack)), ends: None, tombstone };
        self.commit_standalone(batch, waits, cx);
        Ok(())
    }
}
