//! Messages that open no conversation: they belong to an open one or to one that has ended.

use crate::{
    Ack, IncomingMessage, Observation, ReplyTo,
    agent::{Agent, task_control::check_not_closing},
    bids::ReceivedCall,
    context::Context,
    conversation::QueuedEvent,
    owner_answer::{self, OwnerAnswer},
    problems::{internal, not_found},
    records::{Receipt, TaskRow},
};
use patterns::{EventKind, session::is_shown_to};
use protocol::{
    envelope::Envelope,
    ids::{ConversationId, Digest, EffectId},
    message::{Payload, TaskCancel},
    principal::Principal,
    problem::{Problem, Reason},
    question::Answer,
};
use serde_json::{Map, Value};
use store_types::Key;

impl Agent {
    /// Handles calls for proposals, bids and rejects: nothing is written, the answer only acknowledges receipt.
    pub(crate) fn take_best_effort(
        &mut self,
        message: IncomingMessage,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let IncomingMessage { envelope, by, trace, .. } = message;
        let ack = Ack {
            task_id: envelope.payload.task_id().cloned(),
            conversation_id: envelope.conversation_id.clone(),
            ..Ack::of(envelope.message_id.clone())
        };
        if let Payload::Cfp(cfp) = &envelope.payload {
            let (cfp, call) = (cfp.clone(), (*envelope).clone());
            let call = ReceivedCall { cfp, call, by, trace };
            let (bids, bidder) = self.bidding(cx);
            let bid = bids.answer(call, bidder, cx).map(Box::new);
            cx.reply(reply, Ok(Ack { bid, ..ack }));
            return Ok(());
        }
        if by.agent().is_none() {
            let kind = envelope.kind().wire();
            let message = format!("only agents take part in an auction: a {kind} needs a signature");
            return Err(Problem::new(Reason::Forbidden, message));
        }
        self.take_bid(envelope, by, cx);
        cx.reply(reply, Ok(ack));
        Ok(())
    }

    /// Passes a bid, a refusal to bid or a reject to its conversation, if that still takes it.
    pub(crate) fn take_bid(&mut self, envelope: Box<Envelope>, by: Principal, cx: &mut Context<'_>) {
        if let Payload::Bid(_) = &envelope.payload {
            cx.observe(Observation::BidReceived);
        }
        let takes = |id: &ConversationId| {
            let conversation = self.conversations.get(id);
            let kind = envelope.kind();
            kind.is_best_effort()
                && conversation.is_some_and(|conversation| conversation.pattern.receives(kind))
        };
        if let Some(id) = self.conversation_of(&envelope).filter(takes) {
            self.events.push(&id, None, EventKind::MessageReceived { by, answers: None, envelope });
        }
    }

    /// The open conversation a message names: by its id, or by the message it answers.
    fn conversation_of(&self, envelope: &Envelope) -> Option<ConversationId> {
        let answered = || {
            let effect = envelope.in_reply_to.as_ref().and_then(|id| EffectId::parse(id.as_str()))?;
            (effect.agent == self.me).then_some(effect.conversation)
        };
        let id = envelope.conversation_id.clone().or_else(answered)?;
        self.conversations.get(&id).is_some().then_some(id)
    }

    /// Whether `payload` cancels a later award than the one this conversation works under. That award has not been received
    /// yet.
    fn is_older_than(&self, id: &ConversationId, payload: &Payload) -> bool {
        let Payload::TaskCancel(TaskCancel { epoch, .. }) = payload else { return false };
        let row = self.conversations.get(id).and_then(|conversation| conversation.task.as_ref());
        row.and_then(|row| row.epoch).zip(*epoch).is_some_and(|(own, cancelled)| own < cancelled)
    }

    pub(crate) fn receipt(&self, envelope: &Envelope, digest: Digest, cx: &Context<'_>) -> Receipt {
        Receipt {
            digest,
            kind: envelope.kind(),
            task_id: envelope.payload.task_id().cloned(),
            conversation_id: None,
            at: cx.wall(),
            extra: unknown_members(envelope),
        }
    }

    /// Records a message with its open conversation. A message for an ended conversation is recorded, too, and changes
    /// nothing.
    pub(crate) fn take_for_conversation(
        &mut self,
        message: IncomingMessage,
        key: Key,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let IncomingMessage { envelope, by, proof, digest, approval, .. } = message;
        let mut receipt = self.receipt(&envelope, digest, cx);
        let by_task = || {
            let task = envelope.payload.task_id()?;
            self.conversations.of_task(task, &by).cloned()
        };
        let is_older = |id: &ConversationId| self.is_older_than(id, &envelope.payload);
        let id = self.conversation_of(&envelope).or_else(by_task).filter(|id| !is_older(id));
        let Some(id) = id else {
            self.check_not_parked(&envelope)?;
            // A cancel or an answer may name only its task.
            if let Some(task) = envelope.payload.task_id() {
                let row = self.row_unless_parked(task, &by, cx)?;
                if row.is_some_and(|row| !is_shown_to(&row.task, &by, proof)) {
                    return Err(not_found(&envelope));
                }
            }
            return self.take_for_closed_conversation(&envelope, &by, (key, receipt), reply, cx);
        };
        let Some(conversation) = self.conversations.get_mut(&id) else {
            return Err(Problem::new(Reason::Internal, "the conversation vanished"));
        };
        let row = conversation.task.as_ref();
        let is_shown = |row: &TaskRow| row.task.is_visible_to(&by) && is_shown_to(&row.task, &by, proof);
        if by.agent().is_none() && !row.is_some_and(is_shown) {
            return Err(not_found(&envelope));
        }
        let is_owner_user = by.agent().is_none() && row.is_some_and(|row| row.task.owner == by);
        if let Payload::TaskCancel(cancel) = &envelope.payload
            && is_owner_user
        {
            check_not_closing(conversation, &cancel.task_id, Reason::TaskNotCancelable)?;
        }
        let mut answered = None;
        if let Payload::TaskAnswer(answer) = &envelope.payload {
            if is_owner_user {
                check_not_closing(conversation, &answer.task_id, Reason::NotAwaitingAnswer)?;
                let invalid = |why| Problem::new(Reason::InvalidField, why).with("field", "payload.answer");
                let (question, message) = (answer.question_id.clone(), answer.message.clone());
                let said = OwnerAnswer {
                    question,
                    answer: Answer::from_json(&answer.answer).map_err(invalid)?,
                    message,
                    is_persons: false,
                };
                answered = Some(said.event(&answer.task_id, by.clone(), conversation)?);
            } else {
                owner_answer::check_relayed(answer, approval, conversation)?;
            }
        }
        receipt.conversation_id = Some(id.clone());
        let effect = envelope.in_reply_to.as_ref().and_then(|id| EffectId::parse(id.as_str()));
        let answers = effect
            .filter(|effect| effect.conversation == id)
            .and_then(|effect| conversation.label_of(&effect));
        let ack = Ack {
            task_id: receipt.task_id.clone(),
            conversation_id: Some(id.clone()),
            ..Ack::of(envelope.message_id.clone())
        };
        let receipt = receipt.sealed(key.clone()).map_err(internal)?;
        self.admission.begin(key, digest);
        self.counts.admitted += 1;
        // A task's owner may cancel or answer by a message as well as by the HTTP routes.
        let what = match &envelope.payload {
            Payload::TaskCancel(TaskCancel { reason, .. }) if is_owner_user => EventKind::Cancelled {
                by,
                reason: reason.clone().unwrap_or_else(|| "cancelled by its owner".to_owned()),
            },
            _ => answered.unwrap_or(EventKind::MessageReceived { by, answers, envelope }),
        };
        conversation.queue.push_back(QueuedEvent {
            receipt: Some(receipt),
            waiters: vec![(reply, ack)],
            ..QueuedEvent::from_inside(what, None)
        });
        self.schedule.add(id);
        Ok(())
    }
}

/// The unknown members of an envelope, and under `payload` those of its payload.
fn unknown_members(envelope: &Envelope) -> Map<String, Value> {
    let mut unknown = envelope.extra.clone();
    let inside = envelope.payload.extra();
    if !inside.is_empty() {
        unknown.insert("payload".to_owned(), Value::Object(inside.clone()));
    }
    unknown
}
