//! Commands from outside: cancel a task, answer its question, send a dead letter again.

use crate::{
    Ack, ReplyTo, TurnKey,
    agent::{
        Agent,
        begin::{ConversationTrigger, NewConversation},
        supersede::RETRY_AFTER,
    },
    content,
    context::Context,
    conversation::{Conversation, QueuedEvent},
    owner_answer::{OwnerAnswer, told_who_answered},
    problems::{internal, missing_task},
    records::{DeadLetter, TaskRow, keys},
    tasks,
};
use patterns::{EventKind, redelivery::Redelivery, speech::Directive, turn::Progress};
use protocol::{
    ids::{ConversationId, MessageId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    usage::ModelUsage,
};

impl Agent {
    /// Cancels a task for its owner. The same step charges what the calls of models that this cuts have used.
    pub(crate) fn cancel(
        &mut self,
        task: &TaskId,
        by: Principal,
        (reason, calls): (String, Vec<(TurnKey, ModelUsage)>),
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) {
        let result = match self.open_conversation_of(task, &by, Reason::TaskNotCancelable, cx) {
            Ok(id) => {
                let own = calls.into_iter().filter(|(key, _)| key.conversation == id);
                for (key, call) in own {
                    if let Some(turn) = self.turns.number(&key)
                        && let Some(conversation) = self.conversations.get_mut(&id)
                    {
                        let updates = vec![Progress::Usage(call)];
                        let used = EventKind::TurnProgress { turn, updates };
                        conversation.queue.push_back(QueuedEvent::from_inside(used, None));
                    }
                }
                self.submit_owner_event(id, task, EventKind::Cancelled { by, reason }, reply, cx)
            }
            Err(problem) => Err(problem),
        };
        if let Err(problem) = result {
            cx.reply(reply, Err(problem));
        }
    }

    /// Steers a session for its owner.
    pub(crate) fn direct(
        &mut self,
        task: &TaskId,
        by: Principal,
        directive: Box<Directive>,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) {
        let result = self.open_conversation_of(task, &by, Reason::TaskNotCancelable, cx).and_then(|id| {
            let conversation = self.conversations.get(&id).ok_or_else(|| missing_task(task))?;
            let refused = |why: String| Problem::new(Reason::DirectiveRefused, why);
            let session = conversation.pattern.view().session;
            let session = session.ok_or_else(|| refused("it is no session that runs".to_owned()))?;
            session.check_directive(&directive).map_err(refused)?;
            self.submit_owner_event(id, task, EventKind::Directed { by, directive }, reply, cx)
        });
        if let Err(problem) = result {
            cx.reply(reply, Err(problem));
        }
    }

    /// Answers a question of a task for its owner.
    pub(crate) fn answer(
        &mut self,
        task: &TaskId,
        by: Principal,
        said: OwnerAnswer,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) {
        let open = self.open_conversation_of(task, &by, Reason::NotAwaitingAnswer, cx);
        let open = open.map_err(|problem| match &said.question {
            Some(question) if problem.reason == Reason::NotAwaitingAnswer => {
                let row = tasks::find(cx.store, &self.me, task, &by).ok().flatten();
                row.map_or_else(|| problem.clone(), |row| told_who_answered(problem.clone(), &row, question))
            }
            Some(_) | None => problem,
        });
        let result = open.and_then(|id| {
            let conversation = self.conversations.get(&id).ok_or_else(|| missing_task(task))?;
            let what = said.event(task, by, conversation)?;
            self.submit_owner_event(id, task, what, reply, cx)
        });
        if let Err(problem) = result {
            cx.reply(reply, Err(problem));
        }
    }

    /// Queues an event of the owner for an open conversation. The caller is answered when it is durable.
    fn submit_owner_event(
        &mut self,
        id: ConversationId,
        task: &TaskId,
        what: EventKind,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let message_id = MessageId::parse(&format!("owner-{}", cx.world.uuid())).map_err(internal)?;
        let Some(conversation) = self.conversations.get_mut(&id) else { return Err(missing_task(task)) };
        let ack =
            Ack { task_id: Some(task.clone()), conversation_id: Some(id.clone()), ..Ack::of(message_id) };
        let queued = QueuedEvent { waiters: vec![(reply, ack)], ..QueuedEvent::from_inside(what, None) };
        conversation.queue.push_back(queued);
        self.advance(&id, false, cx);
        Ok(())
    }

    /// The open conversation of a task that `by` owns or is the root of; fails with `too_late` if the task has ended or its
    /// end is being reported.
    fn open_conversation_of(
        &self,
        task: &TaskId,
        by: &Principal,
        too_late: Reason,
        cx: &Context<'_>,
    ) -> Result<ConversationId, Problem> {
        let may_control = |row: &TaskRow| row.task.owner == *by || row.task.spec.root == *by;
        let is_of_task = |conversation: &Conversation| {
            let row = conversation.task.as_ref();
            row.is_some_and(|row| row.task.spec.task_id == *task && may_control(row))
        };
        let of_task = self.conversations.iter().filter(|conversation| is_of_task(conversation));
        let (ended, open): (Vec<_>, Vec<_>) = of_task.partition(|conversation| conversation.ended.is_some());
        let is_own =
            |conversation: &Conversation| conversation.task.as_ref().is_some_and(|row| row.task.owner == *by);
        let open = open.into_iter().min_by_key(|conversation| !is_own(conversation));
        if let Some(conversation) = open {
            check_not_closing(conversation, task, too_late)?;
            return Ok(conversation.id.clone());
        }
        if ended.iter().any(|conversation| conversation.is_end_uncommitted()) {
            return Err(end_uncommitted(task));
        }
        let row = tasks::find(cx.store, &self.me, task, by)?.ok_or_else(|| missing_task(task))?;
        self.conversations.check_not_parked(&row.task.conversation, &self.me)?;
        Err(Problem::new(too_late, format!("task {task} has ended: {}", row.task.status.state.word())))
    }

    /// Sends a dead letter again.
    pub(crate) fn redrive(&mut self, message: &MessageId, reply: ReplyTo, cx: &mut Context<'_>) {
        if let Err(problem) = self.try_redrive(message, reply, cx) {
            cx.reply(reply, Err(problem));
        }
    }

    fn try_redrive(
        &mut self,
        message: &MessageId,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        self.check_room(None)?;
        let record = cx.store.latest(&keys::dead_letter(&self.me, message))?;
        let record = record
            .ok_or_else(|| Problem::new(Reason::MessageNotFound, format!("no dead letter {message}")))?;
        let dead: DeadLetter = content::decode(&self.me, cx.store, &record.value)?;
        let trigger = ConversationTrigger {
            trace: dead.trace,
            thread: dead.letter.thread_id.clone(),
            task: dead.letter.payload.task_id().cloned(),
            ..Default::default()
        };
        let id = ConversationId::parse(&cx.world.uuid()).map_err(internal)?;
        let pattern = Redelivery::new(dead.letter).into();
        let waiter = (reply, Ack::of(message.clone()));
        self.begin(NewConversation { id, pattern, task: None, receipt: None, trigger, waiter }, cx)
    }
}

/// Refuses a command of an owner for a task whose end is being reported: its outcome is fixed.
pub(crate) fn check_not_closing(
    conversation: &Conversation,
    task: &TaskId,
    too_late: Reason,
) -> Result<(), Problem> {
    match conversation.pattern.view().is_closing {
        true if conversation.is_committing() => Err(end_uncommitted(task)),
        true => Err(Problem::new(too_late, format!("task {task} is being closed"))),
        false => Ok(()),
    }
}

/// The refusal of a command of an owner while the task's end is being committed; it takes effect if the commit fails.
fn end_uncommitted(task: &TaskId) -> Problem {
    let message = format!("the end of task {task} is being written");
    Problem { retry_after: Some(RETRY_AFTER), ..Problem::new(Reason::Overloaded, message) }
}
