//! A message that opens nothing: for a conversation there is, or for nobody any more.

use super::{
    AgentActor,
    admit::{Ack, Admit},
    open::internal,
    reply::{Durable, now, promise},
};
use crate::{
    conversation::{Queued, record::Receipt},
    telemetry::meters::more,
};
use actix::Context;
use blackboard::store;
use protocol::{
    coordination::{AnyPattern, Tell, What, contract_net::bidding},
    envelope::Envelope,
    ids::{Address, ConversationId, Digest, EffectId},
    message::{Payload, TaskCancel},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde_json::{Map, Value};

impl AgentActor {
    /// Calls for proposals, bids and rejects: nothing is written, and the answer says only that it was heard.
    pub(super) fn hear_best_effort(
        &mut self,
        admit: Admit,
        ctx: &mut Context<Self>,
    ) -> Result<Durable, Problem> {
        let Admit { envelope, by, trace, .. } = admit;
        let ack = Ack {
            message_id: envelope.message_id.clone(),
            task_id: envelope.payload.task_id().cloned(),
            conversation_id: envelope.conversation_id.clone(),
            duplicate: false,
            ended: None,
        };
        if let Payload::Cfp(cfp) = &envelope.payload {
            let running = self.parts.pulse.running();
            let bid = bidding::bid(&self.parts.card, running, cfp, self.parts.clock.wall());
            let payload = match bid {
                Ok(bid) => {
                    self.counts.bids += 1;
                    more(&self.parts.telemetry.meters().offers);
                    Payload::Bid(bid)
                }
                Err(no_bid) => Payload::NoBid(no_bid),
            };
            if let Some(manager) = by.agent() {
                let answer = Tell {
                    label: "bid".to_owned(),
                    to: Address::Agent(manager.clone()),
                    conversation: envelope.reply_conversation_id.clone(),
                    in_reply_to: Some(envelope.message_id.clone()),
                    path: Vec::new(),
                    expires: Some(cfp.bid_by),
                    payload,
                };
                self.answer_at_once(answer, manager.clone(), (&envelope, &by), trace);
            }
            return Ok(now(Ok(ack)));
        }
        let id = self.conversation_of(&envelope);
        if by.agent().is_none() {
            let message = format!(
                "only agents take part in an auction: a {} needs a signature",
                envelope.kind().wire()
            );
            return Err(Problem::new(Reason::Forbidden, message));
        }
        if let Payload::Bid(_) = &envelope.payload {
            more(&self.parts.telemetry.meters().bids);
        }
        if let Some(id) = id.filter(|id| self.is_auction(id)) {
            let what = What::Heard { by, answers: None, envelope };
            if let Some(conversation) = self.conversations.get_mut(&id) {
                conversation.queue.push_back(Queued::from_inside(what, None));
            }
            self.advance(&id, false, ctx);
        }
        Ok(now(Ok(ack)))
    }

    fn is_auction(&self, id: &ConversationId) -> bool {
        let pattern = self.conversations.get(id).map(|conversation| &conversation.pattern);
        pattern.is_some_and(|pattern| matches!(pattern, AnyPattern::ContractNet(_)))
    }

    /// The open conversation a message names: by its id, by the message it answers, or by its task and sender.
    pub(super) fn conversation_of(&self, envelope: &Envelope) -> Option<ConversationId> {
        let named = envelope.conversation_id.clone();
        let answered = || {
            let effect = envelope.in_reply_to.as_ref().and_then(|id| EffectId::parse(id.as_str()))?;
            (effect.agent == self.me).then_some(effect.conversation)
        };
        let id = named.or_else(answered);
        if let Some(id) = id {
            return self.conversations.contains_key(&id).then_some(id);
        }
        None
    }

    pub(super) fn receipt(&self, envelope: &Envelope, digest: Digest) -> Receipt {
        Receipt {
            digest,
            kind: envelope.kind(),
            task_id: envelope.payload.task_id().cloned(),
            conversation_id: None,
            at: self.parts.clock.wall(),
            extra: unknown_members(envelope),
        }
    }

    /// A message for a conversation there is: recorded with it. One for a conversation that has ended is recorded too,
    /// and changes nothing.
    pub(super) fn hear(
        &mut self,
        admit: Admit,
        key: store::Key,
        ctx: &mut Context<Self>,
    ) -> Result<Durable, Problem> {
        let Admit { envelope, text, by, digest, .. } = admit;
        let mut receipt = self.receipt(&envelope, digest);
        let by_task = || {
            let task = envelope.payload.task_id()?;
            let of = |owner: &Principal| self.tasks.get(&(task.clone(), owner.clone())).cloned();
            of(&by)
        };
        let Some(id) = self.conversation_of(&envelope).or_else(by_task) else {
            self.check_not_parked(&envelope)?;
            return self.hear_late(&envelope, &by, (key, receipt), ctx);
        };
        let Some(conversation) = self.conversations.get_mut(&id) else {
            return Err(Problem::new(Reason::Internal, "the conversation vanished"));
        };
        let is_user_stranger =
            by.agent().is_none() && conversation.task.as_ref().is_none_or(|row| !row.task.is_visible_to(&by));
        if is_user_stranger {
            return Err(not_found(&envelope));
        }
        receipt.conversation_id = Some(id.clone());
        let effect = envelope.in_reply_to.as_ref().and_then(|id| EffectId::parse(id.as_str()));
        let answers = effect
            .filter(|effect| effect.conversation == id)
            .and_then(|effect| conversation.label_answered(&effect));
        let ack = Ack {
            message_id: envelope.message_id.clone(),
            task_id: receipt.task_id.clone(),
            conversation_id: Some(id.clone()),
            duplicate: false,
            ended: None,
        };
        let sealed = receipt.sealed(key.clone()).map_err(internal)?;
        self.in_flight.insert(key, (digest, Vec::new()));
        self.counts.admitted += 1;
        let (waiter, durable) = promise();
        let is_owner_user =
            by.agent().is_none() && conversation.task.as_ref().is_some_and(|row| row.task.owner == by);
        // A task's owner ends it by a message as well as by the route.
        let what = if let Payload::TaskCancel(TaskCancel { reason, .. }) = &envelope.payload
            && is_owner_user
        {
            What::Cancelled {
                by,
                reason: reason.clone().unwrap_or_else(|| "cancelled by its owner".to_owned()),
            }
        } else {
            What::Heard { by, answers, envelope }
        };
        conversation.queue.push_back(Queued {
            what,
            closes: None,
            text,
            receipt: Some(sealed),
            cursor: None,
            waiters: vec![(waiter, ack)],
        });
        self.advance(&id, false, ctx);
        Ok(durable)
    }
}

/// What nobody here knows of a message: the members at its top, and under `payload` those in its payload.
fn unknown_members(envelope: &Envelope) -> Map<String, Value> {
    let mut unknown = envelope.extra.clone();
    let inside = envelope.payload.extra();
    if !inside.is_empty() {
        unknown.insert("payload".to_owned(), Value::Object(inside.clone()));
    }
    unknown
}

pub(super) fn not_found(envelope: &Envelope) -> Problem {
    match envelope.payload.task_id() {
        Some(task) => Problem::new(Reason::TaskNotFound, format!("no task {task} of yours")),
        None => Problem::new(Reason::MessageNotFound, "it answers nothing that was asked here"),
    }
}
