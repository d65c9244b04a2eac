//! A message that begins something: which pattern takes it.

mod announced;
mod asked;
mod known;

use super::{
    AgentActor,
    admit::{Ack, Admit},
    hear::not_found,
    reply::{Durable, now, promise},
};
use crate::conversation::{
    Conversation, Queued,
    opening::{Arrived, Noticed, Opening},
    record::{Receipt, TaskRow, keys},
};
use actix::Context;
use asked::{asker, digest_of_request, references, root};
use blackboard::store::Key;
use protocol::{
    coordination::{
        AnyPattern, What, accountable::Accountable, broadcast::Broadcast, contract_net::ContractNet,
        delegation::Delegation, help_request::HelpRequest, joint,
    },
    envelope::Envelope,
    ids::{Address, Capability, ConversationId, Digest, TaskId},
    message::Payload,
    problem::{Problem, Reason},
    task::TaskSpec,
    trace::{TraceContext, trace_begun_by},
    words::counted,
};
use std::time::Duration;

/// Skills that a refusal names.
const MOST_NAMED: usize = 20;

/// Under which trace something came, and what it is about if it is no task's request.
#[derive(Default)]
pub(super) struct Came {
    pub(super) trace: Option<TraceContext>,
    /// The trace that it begins if it came under none, where others begin the same.
    pub(super) begins: Option<u128>,
    pub(super) message: Option<Arrived>,
    pub(super) signal: Option<Noticed>,
    pub(super) task: Option<TaskId>,
    pub(super) capability: Option<Capability>,
    /// The conversation that it ends, in the commit that begins it.
    pub(super) older: Option<ConversationId>,
}

impl AgentActor {
    pub(super) fn route(
        &mut self,
        admit: Admit,
        key: Key,
        ctx: &mut Context<Self>,
    ) -> Result<Durable, Problem> {
        match &admit.envelope.payload {
            Payload::TaskRequest(_) => self.take_task(admit, ctx),
            Payload::Award(_) => self.take_award(admit, ctx),
            Payload::HelpRequest(_) => self.take_help_request(admit, ctx),
            Payload::Broadcast(broadcast) => {
                let broadcast = Broadcast::new(broadcast.clone(), &admit.by);
                self.may_announce(&broadcast)?;
                self.begin_for(admit, AnyPattern::Broadcast(broadcast), None, ctx)
            }
            Payload::TaskUpdate(_)
            | Payload::TaskResponse(_)
            | Payload::TaskCancel(_)
            | Payload::HelpResponse(_)
            | Payload::AwardAccept(_)
            | Payload::AwardDecline(_)
            | Payload::Cfp(_)
            | Payload::Bid(_)
            | Payload::NoBid(_)
            | Payload::Reject(_) => self.hear(admit, key, ctx),
        }
    }

    fn take_task(&mut self, admit: Admit, ctx: &mut Context<Self>) -> Result<Durable, Problem> {
        let Payload::TaskRequest(request) = admit.envelope.payload.clone() else {
            return Err(not_found(&admit.envelope));
        };
        let asked = digest_of_request(&request);
        let task_id = match request.task_id.clone() {
            Some(id) => id,
            None => TaskId::parse(&format!("task-{}", uuid::Uuid::now_v7())).map_err(internal)?,
        };
        if let Some(known) = self.known_task(&task_id, &admit, asked)? {
            self.counts.duplicates += 1;
            return Ok(known);
        }
        if request.deadline.is_some_and(|deadline| deadline <= self.parts.clock.wall()) {
            return Err(Problem::new(Reason::Expired, "the deadline has passed"));
        }
        let is_self = admit.by.agent() == Some(&self.me);
        let names_me = matches!(&admit.envelope.to_agent_id, Address::Agent(agent) if *agent == self.me);
        let addressed = match &admit.envelope.to_agent_id {
            Address::Capability(capability) => Some(capability.clone()),
            Address::Agent(_) => None,
        };
        let capability = request.capability.clone().or(addressed);
        let capability = capability.or_else(|| self.meant_by_a_client(&admit).cloned());
        let does_it_itself = match &capability {
            Some(capability) if capability.as_str() == joint::CAPABILITY => true,
            Some(capability) => self.parts.card.support(capability) > 0.0 && (names_me || !is_self),
            // An A2A client knows nothing of capabilities: it chose this agent.
            None => self.parts.card.open || admit.contact.is_some() && self.whoever_orchestrates().is_err(),
        };
        let managed = match (&capability, does_it_itself) {
            (_, true) => None,
            (Some(capability), false) => Some(capability.clone()),
            (None, false) => Some(self.whoever_orchestrates()?),
        };
        let mut path = self.path_to_here(&admit.envelope, &admit.by);
        // Coordination only takes apart; its own part in what follows is asked of itself again.
        let coordinates = capability.as_ref().is_some_and(|wanted| wanted.as_str() == joint::CAPABILITY);
        if is_self && managed.is_none() && !coordinates {
            self.once_by_itself(&mut path)?;
        }
        let spec = TaskSpec {
            task_id,
            description: request.description,
            capability: capability.or_else(|| managed.clone()),
            input: request.input,
            artifacts: self.resolve(request.inline_artifacts, &request.artifacts, &admit.by)?,
            deadline: request.deadline,
            accepted_modes: request.accepted_modes,
            path,
            parent: request.parent_task_id.filter(|_| admit.by.agent().is_some()),
            root: root(&admit.by, request.on_behalf_of),
            contact: admit.contact.clone(),
        };
        let accountable = Accountable::new(spec.clone(), asker(&admit, None));
        let pattern = match managed {
            None => AnyPattern::Delegation(Delegation::new(
                self.me.clone(),
                accountable,
                None,
                self.parts.patience,
            )),
            Some(capability) => {
                let candidates = self.parts.ways.peers.candidates(&capability, &self.track_records);
                let net =
                    ContractNet::new(self.me.clone(), accountable, self.parts.auction.clone(), candidates);
                AnyPattern::ContractNet(Box::new(net))
            }
        };
        self.begin_for(admit, pattern, Some((spec, asked, None)), ctx)
    }

    fn take_award(&mut self, admit: Admit, ctx: &mut Context<Self>) -> Result<Durable, Problem> {
        let Payload::Award(award) = admit.envelope.payload.clone() else {
            return Err(not_found(&admit.envelope));
        };
        let Some(manager) = admit.by.agent().cloned() else {
            return Err(Problem::new(Reason::Forbidden, "only an agent can award work"));
        };
        if award.task_id != award.task.task_id {
            let message =
                format!("payload.task.taskId is {}, payload.taskId {}", award.task.task_id, award.task_id);
            return Err(Problem::new(Reason::InvalidField, message).with("field", "payload.task.taskId"));
        }
        let mut spec = award.task.clone();
        if spec.path.last() != Some(&manager) {
            spec.path.push(manager);
        }
        let owner = (spec.task_id.clone(), admit.by.clone());
        let superseded = match self.tasks.get(&owner).cloned() {
            Some(open) => {
                self.conversations.get(&open).and_then(|conversation| conversation.task.as_ref()?.epoch)
            }
            None => self.row(&owner.0, &owner.1)?.and_then(|row| row.epoch),
        };
        let buried = self.tombstone(&owner.0, &owner.1)?;
        let is_old = |epoch: Option<u64>| epoch.is_some_and(|epoch| epoch >= award.epoch);
        let mut accountable = Accountable::new(spec.clone(), asker(&admit, Some(award.epoch)));
        accountable.is_last = award.is_last;
        let supersedes = self.tasks.get(&owner).is_some_and(|older| self.working.contains(older));
        let running = self.parts.pulse.running().saturating_sub(u32::from(supersedes));
        let why_not = if is_old(superseded) {
            Some("a later award of this task is known".to_owned())
        } else if is_old(buried) {
            Some("it was cancelled before it came".to_owned())
        } else if running >= self.parts.card.terms.max_parallel.max(1) {
            let busy = counted(running, "task is", "tasks are");
            Some(format!("{busy} running, the limit is {}", self.parts.card.terms.max_parallel))
        } else {
            None
        };
        let delegation = match why_not {
            Some(why) => {
                let pattern =
                    AnyPattern::Delegation(Delegation::declining(self.me.clone(), accountable, why));
                return self.begin_for(admit, pattern, None, ctx);
            }
            None => {
                let lease = Some(Duration::from_millis(award.lease_ms));
                Delegation::new(self.me.clone(), accountable, lease, self.parts.patience)
            }
        };
        let asked = Digest::of(spec.description.as_bytes());
        self.check_room()?;
        let older = self.end_older(&owner)?;
        let pattern = AnyPattern::Delegation(delegation);
        self.begin_after(older, admit, pattern, Some((spec, asked, Some(award.epoch))), ctx)
    }

    fn take_help_request(&mut self, admit: Admit, ctx: &mut Context<Self>) -> Result<Durable, Problem> {
        let Payload::HelpRequest(mut request) = admit.envelope.payload.clone() else {
            return Err(not_found(&admit.envelope));
        };
        let inline = std::mem::take(&mut request.inline_artifacts);
        request.inline_artifacts = self.resolve(inline, &request.artifacts, &admit.by)?;
        request.artifacts.clear();
        let is_self = admit.by.agent() == Some(&self.me);
        let addressed = match &admit.envelope.to_agent_id {
            Address::Capability(capability) => Some(capability.clone()),
            Address::Agent(_) => None,
        };
        let wanted = request.capability.clone().or(addressed);
        let others = wanted.filter(|capability| is_self || self.parts.card.support(capability) == 0.0);
        let asker = asker(&admit, None);
        let pattern = match others {
            Some(capability) => {
                let path = self.path_to_here(&admit.envelope, &admit.by);
                HelpRequest::asking(
                    self.me.clone(),
                    request,
                    asker,
                    path,
                    capability,
                    self.parts.patience.help,
                )
            }
            None => HelpRequest::answering(self.me.clone(), request, asker),
        };
        self.begin_for(admit, AnyPattern::HelpRequest(pattern), None, ctx)
    }

    fn check_room(&self) -> Result<(), Problem> {
        let limit = self.parts.limits.max_open_conversations;
        match self.conversations.len() < limit {
            true => Ok(()),
            false => {
                let message = format!("{limit} conversations are open, which is the limit");
                Err(Problem::new(Reason::Overloaded, message))
            }
        }
    }

    fn begin_for(
        &mut self,
        admit: Admit,
        pattern: AnyPattern,
        task: Option<(TaskSpec, Digest, Option<u64>)>,
        ctx: &mut Context<Self>,
    ) -> Result<Durable, Problem> {
        self.check_room()?;
        self.begin_after(None, admit, pattern, task, ctx)
    }

    /// The same, in one commit with the end of `older`, which has been told of it.
    fn begin_after(
        &mut self,
        older: Option<ConversationId>,
        admit: Admit,
        pattern: AnyPattern,
        task: Option<(TaskSpec, Digest, Option<u64>)>,
        ctx: &mut Context<Self>,
    ) -> Result<Durable, Problem> {
        let Envelope { message_id, from_agent_id, .. } = &*admit.envelope;
        let key = keys::receipt(&self.me, message_id, &admit.by, from_agent_id);
        let mut receipt = self.receipt(&admit.envelope, admit.digest);
        receipt.task_id = task.as_ref().map(|(spec, _, _)| spec.task_id.clone()).or(receipt.task_id);
        let pending = ConversationId::parse("pending").unwrap_or_else(|_| unreachable!("`pending` is an id"));
        let references = references(&admit.envelope.payload);
        let task = task.map(|(spec, asked, epoch)| TaskRow {
            asked,
            epoch,
            references,
            ..TaskRow::new(spec, admit.by.clone(), pending, receipt.at)
        });
        let ack = Ack {
            message_id: message_id.clone(),
            task_id: receipt.task_id.clone(),
            conversation_id: None,
            duplicate: false,
            ended: None,
        };
        self.counts.admitted += 1;
        let arrived = Arrived::of(&admit.envelope, &admit.by);
        let capability = match &admit.envelope.payload {
            Payload::HelpRequest(asked) => asked.capability.clone(),
            Payload::Broadcast(told) => told.capability.clone(),
            // A task's is in its row.
            Payload::TaskRequest(_)
            | Payload::TaskUpdate(_)
            | Payload::TaskResponse(_)
            | Payload::TaskCancel(_)
            | Payload::HelpResponse(_)
            | Payload::Cfp(_)
            | Payload::Bid(_)
            | Payload::NoBid(_)
            | Payload::Award(_)
            | Payload::AwardAccept(_)
            | Payload::AwardDecline(_)
            | Payload::Reject(_) => None,
        };
        let about = admit.envelope.payload.task_id().cloned();
        let came = Came {
            trace: admit.trace,
            message: Some(arrived),
            task: about,
            capability,
            older,
            ..Came::default()
        };
        Ok(self.begin(pattern, task, Some((key, receipt)), came, ack, ctx))
    }

    /// Opens a conversation; the answer comes when its first step is durable.
    pub(super) fn begin(
        &mut self,
        pattern: AnyPattern,
        task: Option<TaskRow>,
        receipt: Option<(Key, Receipt)>,
        came: Came,
        mut ack: Ack,
        ctx: &mut Context<Self>,
    ) -> Durable {
        let id = match ConversationId::parse(&uuid::Uuid::now_v7().to_string()) {
            Ok(id) => id,
            Err(error) => return now(Err(internal(error))),
        };
        ack.conversation_id = Some(id.clone());
        let receipt =
            receipt.map(|(key, receipt)| (key, Receipt { conversation_id: Some(id.clone()), ..receipt }));
        let sealed = receipt.as_ref().map(|(key, receipt)| receipt.sealed(key.clone())).transpose();
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(error) => return now(Err(internal(error))),
        };
        let task = task.map(|mut row| {
            row.task.conversation = id.clone();
            self.tasks.insert((row.task.spec.task_id.clone(), row.task.owner.clone()), id.clone());
            row
        });
        if let Some((key, receipt)) = receipt {
            self.in_flight.insert(key, (receipt.digest, Vec::new()));
        }
        let (waiter, durable) = promise();
        let older = came.older.clone();
        let opening = self.opening(&id, &pattern, task.as_ref(), came);
        let mut conversation = Conversation::open(id.clone(), pattern, task, Some(opening));
        conversation.queue.push_back(Queued {
            what: What::Started,
            closes: None,
            text: None,
            receipt: sealed,
            cursor: None,
            waiters: vec![(waiter, ack)],
        });
        self.conversations.insert(id.clone(), Box::new(conversation));
        // From here on and not only once it is recorded: awards that come at once see each other.
        self.count_running(&id);
        match older {
            Some(older) => self.advance_together(&[older, id], ctx),
            None => self.advance(&id, false, ctx),
        }
        durable
    }

    /// How a conversation comes to be: in the trace it came under, or in one that begins with it.
    pub(super) fn opening(
        &self,
        id: &ConversationId,
        pattern: &AnyPattern,
        task: Option<&TaskRow>,
        came: Came,
    ) -> Opening {
        let telemetry = &self.parts.telemetry;
        let begin = || came.begins.unwrap_or_else(|| trace_begun_by(&self.me, id));
        let join = |first| telemetry.join(came.trace, first, begin);
        let opening = Opening::new(&self.me, id, pattern, came.message, join);
        let spec = task.map(|row| &row.task.spec);
        Opening {
            signal: came.signal,
            task: spec.map(|spec| spec.task_id.clone()).or(came.task),
            capability: spec.and_then(|spec| spec.capability.clone()).or(came.capability),
            ..opening
        }
    }
}

pub(super) fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Internal, error.to_string())
}
