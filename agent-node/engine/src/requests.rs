//! Messages that open a conversation: which pattern handles them.

mod broadcasts;
mod history;
mod known_tasks;
mod task_requests;

use crate::{
    Ack, IncomingMessage, ReplyTo,
    agent::Agent,
    context::Context,
    conversation::{
        Conversation, QueuedEvent,
        origin::{OpeningMessage, OpeningSignal, Origin},
    },
    faults::{self, PlantedFault},
    problems::internal,
    records::{Receipt, TaskRow, keys, large_bytes},
};
use protocol::{
    acceptance::AcceptanceTerms,
    budget::Budget,
    envelope::Envelope,
    ids::{Address, AgentId, Capability, ConversationId, Digest, TaskId, ThreadId},
    message::{self, Payload},
    patterns::{
        AnyPattern, Candidate, EventKind, WorkPhase,
        broadcast::Broadcast,
        contract_net::ContractNet,
        delegation::Delegation,
        help_request::HelpRequest,
        ownership::TaskOwnership,
        session::{self, graph::Graph},
    },
    principal::Principal,
    problem::{Problem, Reason},
    task::{TaskSpec, TaskTerms},
    trace::{TraceContext, trace_begun_by},
};
use std::time::Duration;
use store_types::Key;
use task_requests::{digest_of_request, references, requester, root};

/// What triggered a conversation: its trace, and its subject if it is not a task.
#[derive(Default)]
pub(crate) struct ConversationTrigger {
    pub(crate) trace: Option<TraceContext>,
    /// The id of the new trace if there is no `trace`; several agents that react to one signal start the same trace.
    pub(crate) begins: Option<u128>,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) message: Option<OpeningMessage>,
    pub(crate) signal: Option<OpeningSignal>,
    pub(crate) task: Option<TaskId>,
    pub(crate) capability: Option<Capability>,
    /// The older conversation that the same commit ends.
    pub(crate) older: Option<ConversationId>,
}

impl Agent {
    pub(crate) fn route(
        &mut self,
        message: IncomingMessage,
        key: Key,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        if !AnyPattern::is_opened_by(message.envelope.kind()) {
            return self.take_for_conversation(message, key, reply, cx);
        }
        match message.envelope.payload.clone() {
            Payload::TaskRequest(request) => self.take_task(message, request, reply, cx),
            Payload::Award(award) => self.take_award(message, award, reply, cx),
            Payload::HelpRequest(request) => self.take_help_request(message, request, reply, cx),
            Payload::Broadcast(broadcast) => {
                let asked = Digest::of(&serde_json::to_vec(&broadcast).map_err(internal)?);
                let broadcast = Broadcast::new(broadcast, &message.by);
                self.check_announcement(&broadcast, &message.by, cx)?;
                match self.offered_task(&broadcast, &message.by, cx)? {
                    Some((offer, spec)) => self.take_offer(message, offer, spec, asked, reply, cx),
                    None => self.begin_for(message, broadcast.into(), None, reply, cx),
                }
            }
            other => Err(internal(format!("no pattern is built from a {}", other.kind().wire()))),
        }
    }

    fn take_task(
        &mut self,
        message: IncomingMessage,
        request: message::TaskRequest,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let asked = digest_of_request(&request)?;
        let task_id = match request.task_id.clone() {
            Some(id) => id,
            None => TaskId::parse(&format!("task-{}", cx.world.uuid())).map_err(internal)?,
        };
        if self.answer_if_known_task(&task_id, &message, asked, reply, cx)? {
            self.counts.duplicates += 1;
            return Ok(());
        }
        if request.deadline.is_some_and(|deadline| deadline <= cx.wall()) {
            return Err(Problem::new(Reason::Expired, "the deadline has passed"));
        }
        let is_self = message.by.agent() == Some(&self.me);
        let names_me = matches!(&message.envelope.to_agent_id, Address::Agent(agent) if *agent == self.me);
        let capability = request.capability.clone().or_else(|| addressed_capability(&message.envelope));
        let capability = capability.or_else(|| self.implied_capability(&message, cx).cloned());
        // A host sends turns to itself, too.
        let is_session = capability.as_ref().is_some_and(|wanted| wanted.as_str() == session::CAPABILITY);
        if is_session {
            self.check_session(request.input.as_ref(), cx)?;
        }
        let is_host_work = is_self
            && capability.as_ref().is_some_and(|wanted| wanted.as_str() == session::host_work::HOST_WORK);
        let is_addressed = message.contact.as_ref().is_some_and(|contact| contact.is_addressed);
        let does_it_itself = match &capability {
            Some(_) if is_session || is_host_work => true,
            _ if is_addressed => true,
            Some(capability) => self.config.card.support(capability) > 0.0 && (names_me || !is_self),
            // An A2A client names no capability; it chose this agent. So did the host of a session that gives it a turn.
            None => {
                let is_seat_turn = session::seat::is_seat_input(request.input.as_ref());
                self.config.card.open
                    || is_seat_turn && names_me && message.by.agent().is_some()
                    || message.contact.is_some() && self.orchestrator_capability(cx).is_err()
            }
        };
        let acceptance = match is_self && request.is_review {
            true => AcceptanceTerms::default(),
            false if is_host_work => AcceptanceTerms::default(),
            false => self.acceptance(capability.as_ref(), request.accept.map(|demand| *demand)),
        };
        let (root, root_proof) = root(&message, request.on_behalf_of, request.root_proof);
        let mut path = self.path_to_here(&message.envelope, &message.by);
        // Its own requests to itself stay here: the path of an auction would not show them.
        let may_auction = does_it_itself && !is_self && !is_session && !is_addressed;
        let is_auctioned = match &capability {
            Some(capability) if may_auction => self.is_better_auctioned(capability, &root, &path, cx),
            Some(_) | None => false,
        };
        let has_own_bid = is_auctioned;
        let does_it_itself = does_it_itself && !is_auctioned;
        let managed = match (&capability, does_it_itself) {
            (_, true) => None,
            (Some(capability), false) => Some(capability.clone()),
            (None, false) => Some(self.orchestrator_capability(cx)?),
        };
        if is_self && managed.is_none() && !is_session && !is_host_work {
            self.push_self_on_path(&mut path)?;
        }
        let spec = TaskSpec {
            task_id,
            terms: TaskTerms { capability: capability.or_else(|| managed.clone()), ..request.terms },
            artifacts: self.resolve_artifacts(
                request.inline_artifacts,
                &request.artifacts,
                (&message.by, message.proof),
                cx,
            )?,
            path,
            parent: request.parent_task_id.filter(|_| message.by.agent().is_some()),
            root: root.clone(),
            root_proof,
            budget: if faults::is_planted(PlantedFault::LostBudget) {
                Budget::default()
            } else {
                request.budget
            },
            contact: message.contact.clone(),
            space: message.envelope.space_id.clone(),
            history: Vec::new(),
            exclude: if is_self { request.exclude } else { Vec::new() },
        };
        let shared = TaskSpec {
            task_id: self.id_among_agents(&spec.task_id, &message.by, cx)?,
            history: self.past_tasks(&message, cx)?,
            ..spec.clone()
        };
        let ownership = TaskOwnership::new(shared, requester(&message, None));
        let pattern = match managed {
            None => Delegation::new(self.me.clone(), ownership, None, self.config.work_limits)
                .queued(!is_host_work && !self.has_free_place())
                .with_session(is_session)
                .with_auction(self.config.auction.clone())
                .with_acceptance(acceptance)
                .into(),
            Some(capability) => {
                let mut auction = self.config.auction.clone();
                if faults::is_planted(PlantedFault::NoQueue) {
                    auction.max_queue_ms = 0;
                }
                let others_wait = self.auction_queues.has_waiting(&capability, &root);
                let candidates = if others_wait { Vec::new() } else { self.candidates(&capability, cx) };
                let nearest = self.nearest_capability(&capability, &candidates, cx);
                let mut contract_net = ContractNet::new(self.me.clone(), ownership, auction, candidates)
                    .with_nearest(nearest)
                    .with_acceptance(acceptance);
                if has_own_bid {
                    contract_net = contract_net.with_own_bid();
                }
                if others_wait {
                    contract_net = contract_net.queued();
                }
                contract_net.into()
            }
        };
        self.begin_for(message, pattern, Some((spec, asked, None)), reply, cx)
    }

    /// Refuses a session whose graph can't work, or that names an agent nobody knows.
    fn check_session(&self, input: Option<&serde_json::Value>, cx: &Context<'_>) -> Result<(), Problem> {
        let invalid = |why: String| {
            Problem::new(Reason::InvalidField, format!("payload.input: {why}")).with("field", "payload.input")
        };
        let graph = Graph::read(input).map_err(|faults| invalid(faults.to_string()))?;
        let directory = cx.world.directory();
        match graph.agents().find(|agent| **agent != self.me && !directory.knows(agent)) {
            Some(unknown) => Err(invalid(format!("seat {unknown}: no such agent is registered"))),
            None => Ok(()),
        }
    }

    /// Whether a task that this agent could do waits for a place: behind others that do, or because this agent is full and
    /// another agent may have a free place.
    fn is_better_auctioned(
        &self,
        capability: &Capability,
        root: &Principal,
        path: &[AgentId],
        cx: &Context<'_>,
    ) -> bool {
        let is_other =
            |peer: &Candidate| peer.is_alive && peer.agent != self.me && !path.contains(&peer.agent);
        self.auction_queues.has_waiting(capability, root)
            || !self.has_free_place() && cx.world.directory().candidates(capability).iter().any(is_other)
    }

    fn take_award(
        &mut self,
        message: IncomingMessage,
        award: message::Award,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let Some(manager) = message.by.agent().cloned() else {
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
        let owner = (spec.task_id.clone(), message.by.clone());
        let superseded = match self.tasks.get(&owner).cloned() {
            Some(open) => {
                self.conversations.get(&open).and_then(|conversation| conversation.task.as_ref()?.epoch)
            }
            None => self.row_unless_parked(&owner.0, &owner.1, cx)?.and_then(|row| row.epoch),
        };
        let cancelled = self.tombstone(&owner.0, &owner.1, cx)?;
        let is_old = |epoch: Option<u64>| {
            epoch.is_some_and(|epoch| epoch >= award.epoch) && !faults::is_planted(PlantedFault::LateAward)
        };
        let mut ownership = TaskOwnership::new(spec.clone(), requester(&message, Some(award.epoch)));
        ownership.is_last = award.is_last;
        let phase = self.tasks.get(&owner).and_then(|older| self.working.get(older));
        let taken = self.taken_places().saturating_sub(u32::from(phase == Some(&WorkPhase::Active)));
        let why_not = if is_old(superseded) {
            Some("a later award of this task is known".to_owned())
        } else if is_old(cancelled) {
            Some("it was cancelled before it came".to_owned())
        } else {
            None
        };
        let me = self.me.clone();
        let refusal = match why_not {
            Some(why) => Some(Delegation::declining(me, ownership.clone(), why)),
            None if taken >= self.max_parallel() => {
                Some(Delegation::busy(me, ownership.clone(), self.place_free_in(cx)))
            }
            None => None,
        };
        if let Some(refusal) = refusal {
            return self.begin_for(message, refusal.into(), None, reply, cx);
        }
        let lease = Some(Duration::from_millis(award.lease_ms));
        let acceptance = self.acceptance(spec.capability.as_ref(), None);
        let delegation = Delegation::new(self.me.clone(), ownership, lease, self.config.work_limits)
            .with_acceptance(acceptance)
            .revising(award.revision);
        let asked = Digest::of(spec.description.as_bytes());
        self.check_room(Some(&spec.root).filter(|_| message.by.agent() != Some(&self.me)))?;
        let older = self.cancel_older_award(&owner)?;
        self.begin_after(older, message, delegation.into(), Some((spec, asked, Some(award.epoch))), reply, cx)
    }

    fn take_help_request(
        &mut self,
        message: IncomingMessage,
        mut request: message::HelpRequest,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let inline = std::mem::take(&mut request.inline_artifacts);
        request.inline_artifacts =
            self.resolve_artifacts(inline, &request.artifacts, (&message.by, message.proof), cx)?;
        request.artifacts.clear();
        let is_self = message.by.agent() == Some(&self.me);
        if !is_self {
            request.exclude.clear();
        }
        let wanted = request.capability.clone().or_else(|| addressed_capability(&message.envelope));
        let others = wanted.filter(|capability| is_self || self.config.card.support(capability) == 0.0);
        // Whoever is on the path may help, but not ask others: so a question makes no loop.
        if let Some(capability) = others.as_ref().filter(|_| !is_self)
            && message.envelope.path.contains(&self.me)
        {
            let message =
                format!("{} is on the path already, and has not the capability {capability}", self.me);
            return Err(Problem::new(Reason::DelegationLoop, message));
        }
        let requester = requester(&message, None);
        let pattern = match others {
            Some(capability) => {
                let path = self.path_to_here(&message.envelope, &message.by);
                HelpRequest::asking(
                    self.me.clone(),
                    request,
                    requester,
                    path,
                    capability,
                    self.config.work_limits.help,
                )
            }
            None => {
                HelpRequest::answering(self.me.clone(), request, requester).within(&self.config.work_limits)
            }
        };
        self.begin_for(message, pattern.into(), None, reply, cx)
    }

    pub(crate) fn begin_for(
        &mut self,
        message: IncomingMessage,
        pattern: AnyPattern,
        task: Option<(TaskSpec, Digest, Option<u64>)>,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let principal = task.as_ref().map_or(&message.by, |(spec, _, _)| &spec.root);
        self.check_room(Some(principal).filter(|_| message.by.agent() != Some(&self.me)))?;
        self.begin_after(None, message, pattern, task, reply, cx)
    }

    /// Opens a conversation, in one commit with the end of `older`.
    fn begin_after(
        &mut self,
        older: Option<ConversationId>,
        message: IncomingMessage,
        pattern: AnyPattern,
        task: Option<(TaskSpec, Digest, Option<u64>)>,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        let Envelope { message_id, from_agent_id, .. } = &*message.envelope;
        let key = keys::receipt(&self.me, message_id, &message.by, from_agent_id);
        let mut receipt = self.receipt(&message.envelope, message.digest, cx);
        receipt.task_id = task.as_ref().map(|(spec, _, _)| spec.task_id.clone()).or(receipt.task_id);
        let id = ConversationId::parse(&cx.world.uuid()).map_err(internal)?;
        let references = references(&message.envelope.payload);
        let request_bytes = large_bytes(&message.envelope.payload);
        let task = task.map(|(spec, asked, epoch)| TaskRow {
            asked,
            epoch,
            references,
            request_bytes,
            ..TaskRow::new(spec, message.by.clone(), id.clone(), receipt.at)
        });
        let ack = Ack { task_id: receipt.task_id.clone(), ..Ack::of(message_id.clone()) };
        self.counts.admitted += 1;
        let capability = match &message.envelope.payload {
            Payload::HelpRequest(asked) => asked.capability.clone(),
            Payload::Broadcast(announced) => announced.capability.clone(),
            _ => None,
        };
        let trigger = ConversationTrigger {
            thread: message.envelope.thread_id.clone(),
            message: Some(OpeningMessage::of(&message.envelope, &message.by)),
            task: message.envelope.payload.task_id().cloned(),
            trace: message.trace,
            capability,
            older,
            ..ConversationTrigger::default()
        };
        self.begin(id, pattern, task, Some((key, receipt)), trigger, (reply, ack), cx)
    }

    /// Opens a conversation. The caller is answered when the first step is durable.
    #[expect(clippy::too_many_arguments, reason = "what a conversation begins with, named one by one")]
    pub(crate) fn begin(
        &mut self,
        id: ConversationId,
        pattern: AnyPattern,
        task: Option<TaskRow>,
        receipt: Option<(Key, Receipt)>,
        trigger: ConversationTrigger,
        (reply, mut ack): (ReplyTo, Ack),
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        ack.conversation_id = Some(id.clone());
        let mut sealed = None;
        if let Some((key, receipt)) = receipt {
            let receipt = Receipt { conversation_id: Some(id.clone()), ..receipt };
            sealed = Some(receipt.sealed(key.clone()).map_err(internal)?);
            self.in_flight.insert(key, (receipt.digest, Vec::new()));
        }
        if let Some(row) = &task {
            self.tasks.insert((row.task.spec.task_id.clone(), row.task.owner.clone()), id.clone());
        }
        let older = trigger.older.clone();
        let sender = trigger.message.as_ref().map(|message| message.by.clone());
        let principal = task.as_ref().map(|row| row.task.spec.root.clone()).or(sender);
        let origin = self.origin(&id, &pattern, task.as_ref(), trigger, cx);
        let mut conversation = Conversation::open(id.clone(), pattern, task, Some(origin));
        conversation.principal = principal;
        conversation.queue.push_back(QueuedEvent {
            receipt: sealed,
            waiters: vec![(reply, ack)],
            ..QueuedEvent::from_inside(EventKind::Started, None)
        });
        self.insert_open(id.clone(), conversation);
        if faults::is_planted(PlantedFault::EarlyReply) {
            let waiting = self.conversations.get_mut(&id).and_then(|open| open.queue.front_mut());
            let waiters = waiting.map(|first| std::mem::take(&mut first.waiters)).unwrap_or_default();
            waiters.into_iter().for_each(|(reply, ack)| cx.reply(reply, Ok(ack)));
        }
        // Counted before the commit, so that simultaneous awards see each other.
        self.count_running(&id);
        match older {
            Some(older) => self.advance_together(&[older, id.clone()], cx),
            None => self.advance(&id, false, cx),
        }
        // A turn that takes no time holds its place only during the step.
        self.count_place(&id);
        Ok(())
    }

    /// The origin of a conversation: in the trace and thread of its trigger, or in new ones.
    pub(crate) fn origin(
        &self,
        id: &ConversationId,
        pattern: &AnyPattern,
        task: Option<&TaskRow>,
        trigger: ConversationTrigger,
        cx: &Context<'_>,
    ) -> Origin {
        let trace = trigger.trace;
        let join = |first| match trace {
            Some(parent) => {
                let sampled = cx.world.samples(Some(parent.sampled), parent.trace_id);
                TraceContext { sampled, ..parent }
            }
            None => {
                let trace_id = trigger.begins.unwrap_or_else(|| trace_begun_by(&self.me, id));
                let sampled = cx.world.samples(None, trace_id);
                TraceContext { trace_id, span_id: first, sampled, state: None }
            }
        };
        let origin = Origin::new(&self.me, id, pattern, trigger.message, join);
        let spec = task.map(|row| &row.task.spec);
        let task = spec.map(|spec| spec.task_id.clone()).or(trigger.task);
        let begun = || ThreadId::parse(task.as_ref().map_or(id.as_str(), TaskId::as_str)).ok();
        Origin {
            signal: trigger.signal,
            thread: trigger.thread.or_else(begun),
            capability: spec.and_then(|spec| spec.capability.clone()).or(trigger.capability),
            task,
            ..origin
        }
    }
}

/// The capability the message is addressed to, if it is not addressed to an agent.
fn addressed_capability(envelope: &Envelope) -> Option<Capability> {
    match &envelope.to_agent_id {
        Address::Capability(capability) => Some(capability.clone()),
        Address::Agent(_) => None,
    }
}
