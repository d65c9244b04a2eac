//! A message comes in: is it for us, was it here before, which conversation is it for? One acknowledgement, from the
//! recipient, once what it says is durable.

use super::{
    AgentActor,
    reply::{Durable, now, promise},
};
use crate::conversation::record::{Receipt, TaskRow, keys};
use crate::telemetry::meters::more;
use actix::{Context, Handler, Message};
use blackboard::store;
use bytes::Bytes;
use protocol::{
    envelope::Envelope,
    ids::{Address, ConversationId, Digest, MessageId, TaskId},
    message::Payload,
    principal::Principal,
    problem::{Problem, Reason},
    task::Contact,
    trace::TraceContext,
};
use serde::{Deserialize, Serialize};

/// Takes a message in.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct Admit {
    /// The message.
    pub envelope: Box<Envelope>,
    /// Its body, if that would do for a record of it.
    pub text: Option<Bytes>,
    /// Who was proven to have sent it.
    pub by: Principal,
    /// The digest of its body as it came.
    pub digest: Digest,
    /// The trace it came under.
    pub trace: Option<TraceContext>,
    /// How it was said, if an A2A client said it.
    pub contact: Option<Box<Contact>>,
}

/// What a taken message is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// The message.
    pub message_id: MessageId,
    /// The task it began or is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The conversation it went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// Whether it had been taken before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// The task as it is recorded, if it ended with the message.
    #[serde(skip)]
    pub ended: Option<Box<TaskRow>>,
}

/// The refusal that a store's error becomes.
pub(crate) fn store_problem(error: &store::Error) -> Problem {
    let reason = match error {
        store::Error::Full => Reason::Overloaded,
        store::Error::StorageFull => Reason::StorageFull,
        store::Error::Trimmed { .. } => Reason::Trimmed,
        store::Error::Unknown(_) | store::Error::Closed(_) => Reason::StoreUnavailable,
        store::Error::Conflict { .. } | store::Error::Corrupt { .. } | store::Error::Refused(_) => {
            Reason::Internal
        }
    };
    Problem::new(reason, error.to_string())
}

impl Handler<Admit> for AgentActor {
    type Result = Durable;

    fn handle(&mut self, admit: Admit, ctx: &mut Context<Self>) -> Durable {
        // A panic here would end the actor for good: it ends the message instead.
        let (kind, duplicates) = (admit.envelope.kind(), self.counts.duplicates);
        let message = admit.envelope.message_id.clone();
        let trace = admit.trace.clone();
        let admitted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.admit(admit, ctx)));
        match admitted {
            Ok(Ok(durable)) => {
                let meters = self.parts.telemetry.meters();
                match self.counts.duplicates > duplicates {
                    true => more(&meters.duplicates),
                    false => meters.take(kind),
                }
                durable
            }
            Ok(Err(problem)) => {
                self.counts.refused += 1;
                self.parts.telemetry.meters().refuse(problem.reason);
                let (trace, reason) = (trace.map(|trace| trace.trace()), problem.reason.code());
                tracing::info!(agent = %self.me, %message, kind = kind.wire(), trace, reason, "a message was refused");
                now(Err(problem))
            }
            Err(_) => {
                let trace = trace.map(|trace| trace.trace());
                tracing::error!(agent = %self.me, %message, trace, "a message could not be handled");
                self.counts.panics += 1;
                now(Err(Problem::new(
                    Reason::Internal,
                    "the message could not be handled; nothing was recorded",
                )))
            }
        }
    }
}

impl AgentActor {
    fn admit(&mut self, admit: Admit, ctx: &mut Context<Self>) -> Result<Durable, Problem> {
        self.check_recipient(&admit)?;
        self.check_sender(&admit)?;
        if admit.envelope.kind().is_best_effort() {
            self.check_time(&admit)?;
            return self.hear_best_effort(admit, ctx);
        }
        let key =
            keys::receipt(&self.me, &admit.envelope.message_id, &admit.by, &admit.envelope.from_agent_id);
        if let Some(repeat) = self.repeat(&key, &admit)? {
            self.counts.duplicates += 1;
            return Ok(repeat);
        }
        self.check_time(&admit)?;
        self.check_path(&admit)?;
        self.route(admit, key, ctx)
    }

    fn check_recipient(&self, admit: &Admit) -> Result<(), Problem> {
        match &admit.envelope.to_agent_id {
            Address::Agent(id) if *id != self.me => {
                Err(Problem::new(Reason::AgentNotFound, format!("this is {}, not {id}", self.me)))
            }
            Address::Agent(_) | Address::Capability(_) => Ok(()),
        }
    }

    /// Whether it is not too late for it: neither for the message nor for this agent. What was taken in time stays
    /// taken, so a repeat is recognised before.
    fn check_time(&self, admit: &Admit) -> Result<(), Problem> {
        let envelope = &admit.envelope;
        let is_self = admit.by.agent() == Some(&self.me);
        if self.parts.pulse.is_draining() && !is_self && opens(&envelope.payload) {
            return Err(Problem::new(Reason::Draining, format!("{} is leaving", self.me)));
        }
        match envelope.expires_at {
            Some(expires) if expires <= self.parts.clock.wall() => {
                Err(Problem::new(Reason::Expired, format!("expiresAt {expires} has passed")))
            }
            _ => Ok(()),
        }
    }

    /// An agent's name needs that agent's signature; a user may use any label that is no agent's.
    fn check_sender(&self, admit: &Admit) -> Result<(), Problem> {
        let from = &admit.envelope.from_agent_id;
        match &admit.by {
            Principal::Agent(id) if id == from => Ok(()),
            Principal::Agent(id) => Err(Problem::new(
                Reason::SenderNotProven,
                format!("fromAgentId is {from}, the signature is {id}'s"),
            )),
            Principal::User(_)
                if *from == self.me
                    || self.parts.ways.locals.get(from).is_some()
                    || self.parts.ways.peers.knows(from) =>
            {
                Err(Problem::new(
                    Reason::SenderNotProven,
                    format!("{from} is a registered agent; its messages carry its signature"),
                ))
            }
            Principal::User(_) => Ok(()),
        }
    }

    fn check_path(&self, admit: &Admit) -> Result<(), Problem> {
        let envelope = &admit.envelope;
        let is_self = admit.by.agent() == Some(&self.me);
        let path =
            if let Payload::Award(award) = &envelope.payload { &award.task.path } else { &envelope.path };
        if path.contains(&self.me) && !is_self {
            let way: Vec<_> = path.iter().map(|id| id.as_str()).collect();
            let message = format!("{} is already on the path: {}", self.me, way.join(" → "));
            return Err(Problem::new(Reason::DelegationLoop, message));
        }
        if path.len() >= self.parts.limits.max_hops {
            let message = format!("{} hops, the limit is {}", path.len(), self.parts.limits.max_hops);
            return Err(Problem::new(Reason::TooManyHops, message));
        }
        Ok(())
    }

    /// The answer to a message that was here before: the stored one, or the one its first copy will get.
    fn repeat(&mut self, key: &store::Key, admit: &Admit) -> Result<Option<Durable>, Problem> {
        let reused = || {
            let id = &admit.envelope.message_id;
            Problem::new(Reason::MessageIdReused, format!("messageId {id} was used for another message"))
        };
        if let Some((digest, joined)) = self.in_flight.get_mut(key) {
            if *digest != admit.digest {
                return Err(reused());
            }
            let (waiter, durable) = promise();
            let ack = Ack {
                message_id: admit.envelope.message_id.clone(),
                task_id: None,
                conversation_id: None,
                duplicate: true,
                ended: None,
            };
            joined.push((waiter, ack));
            return Ok(Some(durable));
        }
        let Some(record) = self.parts.store.latest(key).map_err(|error| store_problem(&error))? else {
            return Ok(None);
        };
        let receipt: Receipt = serde_json::from_slice(&record.value)
            .map_err(|error| Problem::new(Reason::Internal, format!("a receipt can't be read: {error}")))?;
        if receipt.digest != admit.digest {
            return Err(reused());
        }
        Ok(Some(now(Ok(Ack {
            message_id: admit.envelope.message_id.clone(),
            task_id: receipt.task_id,
            conversation_id: receipt.conversation_id,
            duplicate: true,
            ended: None,
        }))))
    }
}

/// Whether a message begins something.
fn opens(payload: &Payload) -> bool {
    match payload {
        Payload::TaskRequest(_)
        | Payload::HelpRequest(_)
        | Payload::Broadcast(_)
        | Payload::Cfp(_)
        | Payload::Award(_) => true,
        Payload::TaskUpdate(_)
        | Payload::TaskResponse(_)
        | Payload::TaskCancel(_)
        | Payload::HelpResponse(_)
        | Payload::Bid(_)
        | Payload::NoBid(_)
        | Payload::AwardAccept(_)
        | Payload::AwardDecline(_)
        | Payload::Reject(_) => false,
    }
}
