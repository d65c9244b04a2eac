//! What a task's owner may do with it: end it, or answer what it waits for. And sending a dead letter again.

use super::{
    AgentActor,
    admit::{Ack, store_problem},
    open,
    reply::{Durable, now, promise},
};
use crate::conversation::{
    Conversation, Queued,
    record::{DeadLetter, TaskRow, keys},
    spill,
};
use actix::{Context, Handler, Message};
use protocol::{
    coordination::{AnyPattern, What, redelivery::Redelivery},
    ids::{ConversationId, MessageId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
};

/// Ends a task, for its owner.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct Cancel {
    /// Which task.
    pub task: TaskId,
    /// Who wants it.
    pub by: Principal,
    /// Why.
    pub reason: String,
}

/// Answers what a task waits for, for its owner.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct Answer {
    /// Which task.
    pub task: TaskId,
    /// Who answers.
    pub by: Principal,
    /// What.
    pub text: String,
    /// The same as an A2A client said it: also taken when nothing was asked.
    pub message: Option<Box<protocol::a2a::message::Message>>,
}

/// Sends a dead letter again.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct Redrive {
    /// Which message.
    pub message: MessageId,
}

impl Handler<Cancel> for AgentActor {
    type Result = Durable;

    fn handle(&mut self, cancel: Cancel, ctx: &mut Self::Context) -> Self::Result {
        let what = What::Cancelled { by: cancel.by.clone(), reason: cancel.reason };
        let id = match self.open_task(&cancel.task, &cancel.by, Reason::TaskNotCancelable) {
            Ok(id) => id,
            Err(problem) => return now(Err(problem)),
        };
        self.tell_owner_event(id, &cancel.task, what, ctx)
    }
}

impl Handler<Answer> for AgentActor {
    type Result = Durable;

    fn handle(&mut self, answer: Answer, ctx: &mut Self::Context) -> Self::Result {
        let awaits = |row: &TaskRow| answer.message.is_some() || row.task.status.state.is_interrupted();
        let id = match self.open_task(&answer.task, &answer.by, Reason::NotAwaitingAnswer) {
            Ok(id) => id,
            Err(problem) => return now(Err(problem)),
        };
        if !self
            .conversations
            .get(&id)
            .and_then(|conversation| conversation.task.as_ref())
            .is_some_and(awaits)
        {
            let problem =
                Problem::new(Reason::NotAwaitingAnswer, format!("task {} waits for no answer", answer.task));
            return now(Err(problem));
        }
        let what = What::Answered { by: answer.by, text: answer.text, message: answer.message };
        self.tell_owner_event(id, &answer.task, what, ctx)
    }
}

impl Handler<Redrive> for AgentActor {
    type Result = Durable;

    fn handle(&mut self, redrive: Redrive, ctx: &mut Self::Context) -> Self::Result {
        match self.redrive(&redrive.message, ctx) {
            Ok(durable) => durable,
            Err(problem) => now(Err(problem)),
        }
    }
}

impl AgentActor {
    /// Hands an owner's word to an open conversation; the answer comes when it is durable.
    fn tell_owner_event(
        &mut self,
        id: ConversationId,
        task: &TaskId,
        what: What,
        ctx: &mut Context<Self>,
    ) -> Durable {
        let (waiter, durable) = promise();
        let minted = MessageId::parse(&format!("owner-{}", uuid::Uuid::now_v7()));
        let (Ok(message_id), Some(conversation)) = (minted, self.conversations.get_mut(&id)) else {
            return now(Err(Problem::new(Reason::TaskNotFound, format!("no task {task} of yours"))));
        };
        let ack = Ack {
            message_id,
            task_id: Some(task.clone()),
            conversation_id: Some(id.clone()),
            duplicate: false,
            ended: None,
        };
        conversation.queue.push_back(Queued {
            what,
            closes: None,
            text: None,
            receipt: None,
            cursor: None,
            waiters: vec![(waiter, ack)],
        });
        self.advance(&id, false, ctx);
        durable
    }

    /// The open conversation of a task that `by` may steer; `too_late` if it has ended.
    fn open_task(&self, task: &TaskId, by: &Principal, too_late: Reason) -> Result<ConversationId, Problem> {
        let missing = || Problem::new(Reason::TaskNotFound, format!("no task {task} of yours"));
        let may_steer = |row: &TaskRow| row.task.owner == *by || row.task.spec.root == *by;
        let of_task = self.conversations.iter().filter(|(_, conversation)| {
            conversation.ended.is_none()
                && conversation
                    .task
                    .as_ref()
                    .is_some_and(|row| row.task.spec.task_id == *task && may_steer(row))
        });
        let own =
            |conversation: &Conversation| conversation.task.as_ref().is_some_and(|row| row.task.owner == *by);
        let mut found: Vec<_> = of_task.collect();
        found.sort_by_key(|(_, conversation)| !own(conversation));
        if let Some((id, _)) = found.first() {
            return Ok((*id).clone());
        }
        let rows = crate::tasks::find(self.parts.store.as_ref(), &self.me, task, by)
            .map_err(|error| store_problem(&error))?;
        match rows {
            Some(row) => {
                self.check_not_parked_id(&row.task.conversation)?;
                let message = format!("task {task} has ended: {}", row.task.status.state.word());
                Err(Problem::new(too_late, message))
            }
            None => Err(missing()),
        }
    }

    fn redrive(&mut self, message: &MessageId, ctx: &mut Context<Self>) -> Result<Durable, Problem> {
        let key = keys::dead_letter(&self.me, message);
        let store = self.parts.store.clone();
        let record = store.latest(&key).map_err(|error| store_problem(&error))?;
        let record = record
            .ok_or_else(|| Problem::new(Reason::MessageNotFound, format!("no dead letter {message}")))?;
        let dead: DeadLetter =
            spill::decode(&self.me, store.as_ref(), &record.value).map_err(|error| store_problem(&error))?;
        let came = open::Came {
            trace: dead.trace,
            task: dead.letter.payload.task_id().cloned(),
            ..Default::default()
        };
        let pattern = AnyPattern::Redelivery(Redelivery::new(dead.letter));
        let ack = Ack {
            message_id: message.clone(),
            task_id: None,
            conversation_id: None,
            duplicate: false,
            ended: None,
        };
        Ok(self.begin(pattern, None, None, came, ack, ctx))
    }
}
