//! Messages that open a conversation: which pattern handles them.

mod broadcasts;
mod history;
mod known_tasks;
mod peer_requests;
mod repeats;
pub(super) mod task_requests;

use crate::{
    IncomingMessage, PeerLocation, ReplyTo,
    agent::{
        Agent,
        begin::{EarlierWork, OpenedTask, Opening},
    },
    context::Context,
    context_records,
    fate::{Fate, RequestFacts, Wanted, fate},
    problems::internal,
    quotas::Gate,
    settings::Openness,
};
use patterns::{
    AnyPattern, Candidate, WorkPhase,
    broadcast::Broadcast,
    context,
    contract_net::ContractNet,
    help_request::{AskedQuestion, HelpRequest},
    ownership::TaskOwnership,
    session::{self, graph::Graph},
    work::{Doing, Hosting},
};
use protocol::{
    acceptance::AcceptanceTerms,
    envelope::Envelope,
    ids::{Address, AgentId, Capability, Digest, TaskId},
    message::{self, Payload},
    principal::{Principal, RootProof, SenderProof},
    problem::{Problem, Reason},
    task::{TaskSpec, TaskTerms},
};
use std::time::Duration;
use store_types::Key;
use task_requests::{digest_of_request, requester, root};

impl Agent {
    pub(super) fn route(
        &mut self,
        message: IncomingMessage,
        key: Key,
        reply: ReplyTo,
        cx: &mut Context<'_>,
    ) -> Result<(), Problem> {
        if matches!(message.by, Principal::Brain(_)) {
            return self.take_peer_request(message, reply, cx);
        }
        if !AnyPattern::is_opened_by(message.envelope.kind()) {
            return self.take_for_conversation(message, key, reply, cx);
        }
        match message.envelope.payload.clone() {
            Payload::TaskRequest(request) => self.take_task(message, request, reply, cx),
            Payload::Award(award) => self.take_award(message, award, reply, cx),
            Payload::HelpRequest(request) => self.take_help_request(message, request, reply, cx),
            Payload::Broadcast(broadcast) => {
                let asked = Digest::of(&serde_json::to_vec(&broadcast).map_err(internal)?);
                let proof = RootProof::of(&message.by, message.proof);
                let broadcast = Broadcast::new(broadcast, &message.by).proven(proof);
                self.check_announcement(&broadcast, &message.by, cx)?;
                match self.offered_task(&broadcast, &message.by, cx)? {
                    Some((offer, spec)) => self.take_offer(message, offer, spec, asked, reply, cx),
                    None => {
                        let pattern = broadcast.into();
                        self.open(Opening { message, pattern, task: None, reply }, cx)
                    }
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
        let equals = self.check_repeats(&message, &request, cx)?;
        let wanted = request.capability.clone().or_else(|| addressed_capability(&message.envelope));
        let wanted = wanted.or_else(|| self.only_skill(&message, &request));
        let facts = self.facts(&message, &request, wanted.as_ref(), cx);
        if facts.wanted == Wanted::Session {
            self.check_session(request.input.as_ref(), &message, cx)?;
        }
        let (fate, held) = match fate(&facts) {
            // Another agent does it.
            other
                if !matches!(other, Fate::Host | Fate::HostWork) && self.is_handed_over(&message, cx)? =>
            {
                (Fate::Do { is_queued: false, is_bound: true }, None)
            }
            fate => self.within_quotas(fate, (&message, &request, wanted.as_ref()), cx)?,
        };
        let acceptance = match facts.is_self && request.is_review || fate == Fate::HostWork {
            true => AcceptanceTerms::default(),
            false => self.acceptance(wanted.as_ref(), request.accept.as_deref().cloned()),
        };
        let capability = match (wanted, fate) {
            (_, Fate::Delegate) => Some(self.orchestrator_capability(cx)?),
            (_, Fate::Refuse) => return Err(self.needs_capability()),
            (wanted, _) => wanted,
        };
        let mut spec = self.task_spec(&message, request, (task_id, capability), cx)?;
        if facts.is_self && matches!(fate, Fate::Do { .. }) {
            self.push_self_on_path(&mut spec.path)?;
        }
        let shared = TaskSpec {
            task_id: self.id_among_agents(&spec.task_id, &message.by, cx)?,
            history: match &spec.handed {
                Some(_) => spec.history.clone(),
                None => self.past_tasks(&message, cx)?,
            },
            ..spec.clone()
        };
        let context = match fate {
            Fate::Do { .. } => self.context_of(&shared, &message.by, cx)?,
            Fate::Host
            | Fate::HostWork
            | Fate::Auction
            | Fate::AuctionWithOwnBid
            | Fate::Delegate
            | Fate::Refuse => None,
        };
        let ownership = TaskOwnership::new(shared, requester(&message, None));
        let does = |ownership| {
            Doing::new(self.me.clone(), ownership, None, self.config.work_limits)
                .in_context(context.clone())
                .held(held.clone())
                .with_acceptance(acceptance.clone())
        };
        let auction = || self.config.auction.clone();
        let pattern = match fate {
            Fate::Host => {
                Hosting::new(self.me.clone(), ownership, self.config.work_limits, acceptance).into()
            }
            Fate::HostWork => does(ownership).into(),
            Fate::Do { is_queued, is_bound: true } => does(ownership).queued(is_queued).into(),
            Fate::Do { is_queued, is_bound: false } => {
                does(ownership).queued(is_queued).with_auction(auction()).into()
            }
            Fate::AuctionWithOwnBid => {
                self.auction(ownership, cx).with_own_bid().with_acceptance(acceptance).into()
            }
            Fate::Auction | Fate::Delegate | Fate::Refuse => {
                self.auction(ownership, cx).with_acceptance(acceptance).into()
            }
        };
        let task = Some(OpenedTask { spec, asked, equals, epoch: None, earlier: None });
        self.open(Opening { message, pattern, task, reply }, cx)
    }

    /// Whether a message belongs to a context that this agent has handed over: it is passed on, and takes no place.
    fn is_handed_over(&self, message: &IncomingMessage, cx: &Context<'_>) -> Result<bool, Problem> {
        let Some(contact) = message.contact.as_ref().filter(|_| message.by.agent().is_none()) else {
            return Ok(false);
        };
        let Some(context) = contact.context_id.as_deref() else { return Ok(false) };
        let name = context::name_of((&message.by, &message.by), contact.tenant.as_deref(), context);
        Ok(context_records::handover(cx.store, &self.me, &name)?.is_some())
    }

    /// What decides the fate of a request for a task with the skill `wanted`.
    fn facts(
        &self,
        message: &IncomingMessage,
        request: &message::TaskRequest,
        wanted: Option<&Capability>,
        cx: &Context<'_>,
    ) -> RequestFacts {
        let is_self = message.by.agent() == Some(&self.me);
        let names_me = matches!(&message.envelope.to_agent_id, Address::Agent(agent) if *agent == self.me);
        let (root, _) = root(message, request.on_behalf_of.clone(), None);
        let is_elsewhere = |peer: &Candidate| {
            let is_on_path = || self.path_to_here(&message.envelope, &message.by).contains(&peer.agent);
            peer.is_alive && peer.agent != self.me && !is_on_path()
        };
        let directory = cx.world.directory();
        let by_other = message.by.agent().is_some_and(|by| *by != self.me);
        let is_closed = self.closed_quota(Gate::Taken, (wanted, &root), cx).is_some();
        let has_free_place = self.has_free_place() && (is_self || !is_closed);
        RequestFacts {
            wanted: match wanted {
                Some(wanted) if wanted.as_str() == session::CAPABILITY => Wanted::Session,
                Some(wanted) if is_self && wanted.as_str() == session::host_work::HOST_WORK => {
                    Wanted::HostWork
                }
                Some(wanted) if self.config.card.support(wanted) > 0.0 => Wanted::OwnSkill,
                Some(_) => Wanted::OtherSkill,
                None => Wanted::Anything,
            },
            is_self,
            names_me,
            is_addressed: message.contact.as_ref().is_some_and(|contact| contact.is_addressed)
                || by_other && request.handed.is_some(),
            is_bound: names_me && by_other && !request.hand_on,
            openness: match is_seat_turn(message, request) {
                true => Openness::Open,
                false => self.config.settings.open,
            },
            has_free_place,
            others_wait: wanted.is_some_and(|wanted| self.auctions.has_waiting(wanted, &root)),
            has_peer: !has_free_place
                && wanted.is_some_and(|wanted| directory.candidates(wanted).iter().any(is_elsewhere)),
        }
    }

    /// The specification of a task, as its sender names it.
    fn task_spec(
        &self,
        message: &IncomingMessage,
        mut request: message::TaskRequest,
        (task_id, capability): (TaskId, Option<Capability>),
        cx: &Context<'_>,
    ) -> Result<TaskSpec, Problem> {
        let by = (&message.by, message.proof);
        let mut handed = request.handed.take().filter(|_| message.by.agent().is_some());
        let history = handed.as_mut().map(|handed| std::mem::take(&mut handed.history)).unwrap_or_default();
        let exclude = self.excluded(&message.by, &request, cx);
        let (root, root_proof) = root(message, request.on_behalf_of, request.root_proof);
        Ok(TaskSpec {
            task_id,
            terms: TaskTerms { capability, ..request.terms },
            artifacts: self.resolve_artifacts(request.inline_artifacts, &request.artifacts, by, cx)?,
            path: self.path_to_here(&message.envelope, &message.by),
            parent: request.parent_task_id.filter(|_| message.by.agent().is_some()),
            run: request.run.filter(|_| message.by.agent().is_some()),
            root,
            root_proof,
            budget: request.budget,
            accept: request.accept,
            contact: message.contact.clone(),
            space: message.envelope.space_id.clone(),
            session: request.session.filter(|_| message.by.agent().is_some()),
            origin: message.origin.clone(),
            history,
            exclude,
            handed,
        })
    }

    /// The agents that are not asked for a bid: those that the agent itself excludes, and for work in a repository those on other
    /// machines.
    fn excluded(&self, by: &Principal, request: &message::TaskRequest, cx: &Context<'_>) -> Vec<AgentId> {
        if by.agent() != Some(&self.me) {
            return Vec::new();
        }
        let directory = cx.world.directory();
        let works_here = session::seat::workspace(request.input.as_ref()).is_some();
        let wanted = request.capability.as_ref().filter(|_| works_here);
        let candidates = wanted.map(|wanted| directory.candidates(wanted)).unwrap_or_default();
        let elsewhere = candidates.into_iter().map(|candidate| candidate.agent);
        let elsewhere = elsewhere.filter(|agent| !directory.locate(agent).is_on_this_machine());
        request.exclude.iter().cloned().chain(elsewhere).collect()
    }

    /// The auction of a task; it waits behind the others of the same skill and principal.
    fn auction(&self, ownership: TaskOwnership, cx: &Context<'_>) -> ContractNet {
        let auction = self.config.auction.clone();
        let (capability, root) = (ownership.spec.capability.clone(), &ownership.spec.root);
        let Some(capability) = capability else {
            return ContractNet::new(self.me.clone(), ownership, auction, Vec::new());
        };
        // Without the directory it would find nobody.
        let is_early = !cx.world.directory().is_synced() && auction.max_queue_ms > 0;
        if is_early || self.auctions.has_waiting(&capability, root) {
            let nearest = self.nearest_capability(&capability, &[], cx);
            let waiting = ContractNet::new(self.me.clone(), ownership, auction, Vec::new());
            return waiting.with_nearest(nearest).queued();
        }
        let candidates = self.candidates(&capability, cx);
        let nearest = self.nearest_capability(&capability, &candidates, cx);
        ContractNet::new(self.me.clone(), ownership, auction, candidates).with_nearest(nearest)
    }

    /// Refuses a session whose graph can't work, or that names an agent nobody knows.
    fn check_session(
        &self,
        input: Option<&serde_json::Value>,
        message: &IncomingMessage,
        cx: &Context<'_>,
    ) -> Result<(), Problem> {
        let invalid = |why: String| {
            Problem::new(Reason::InvalidField, format!("payload.input: {why}")).with("field", "payload.input")
        };
        let graph = Graph::read(input).map_err(|faults| invalid(faults.to_string()))?;
        if let Some(name) = &graph.workspace {
            let known = &self.config.settings.workspaces;
            if !known.contains(name) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let why = format!(
                    "workspace: {} has no repository {name} in `workspaces`; it has {}",
                    self.me,
                    known.join(", ")
                );
                return Err(invalid(why));
            }
            let is_persons =
                matches!(message.by, Principal::User(_)) && message.proof == SenderProof::Credential;
            if !is_persons {
                let why = "a session works in a repository for a person alone, with the person's token";
                return Err(Problem::new(Reason::Forbidden, why));
            }
            let is_elsewhere = |agent: &&AgentId| {
                let at = cx.world.directory().locate(agent);
                **agent != self.me && matches!(at, PeerLocation::At(_)) && !at.is_on_this_machine()
            };
            if let Some(agent) = graph.agents().find(is_elsewhere) {
                let why = format!("seat {agent}: it is on another machine than the repository {name}");
                return Err(invalid(why));
            }
        }
        let directory = cx.world.directory();
        match graph.agents().find(|agent| **agent != self.me && !directory.knows(agent)) {
            Some(unknown) => Err(invalid(format!("seat {unknown}: no such agent is registered"))),
            None => Ok(()),
        }
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
        let known = self.conversations.of_task(&owner.0, &owner.1).cloned();
        let older = known.as_ref().and_then(|id| self.conversations.get(id));
        // One that has ended may still have something to send.
        let running = known.as_ref().filter(|_| older.is_some_and(|older| !older.has_ended_for_good()));
        let before = match older {
            Some(older) => older.task.clone(),
            None => self.row_unless_parked(&owner.0, &owner.1, cx)?,
        };
        let superseded = before.as_ref().and_then(|row| row.epoch);
        let cancelled = self.tombstone(&owner.0, &owner.1, cx)?;
        let is_old = |epoch: Option<u64>| epoch.is_some_and(|epoch| epoch >= award.epoch);
        let mut ownership = TaskOwnership::new(spec.clone(), requester(&message, Some(award.epoch)));
        ownership.is_last = award.is_last;
        let phase = running.and_then(|older| self.conversations.phase(older));
        let taken = self.taken_places().saturating_sub(u32::from(phase == Some(WorkPhase::Active)));
        let why_not = if is_old(superseded) {
            Some("a later award of this task is known".to_owned())
        } else if is_old(cancelled) {
            Some("it was cancelled before it came".to_owned())
        } else {
            self.config.card.waits_for.as_ref().map(|why| format!("it takes no work: {why}"))
        };
        let me = self.me.clone();
        let work = (spec.capability.as_ref(), &spec.root);
        let refusal = match (why_not, self.closed_quota(Gate::Given, work, cx)) {
            (Some(why), _) => Some(Doing::declining(me, ownership.clone(), why)),
            (None, Some(closed)) if closed.waits => {
                Some(Doing::busy(me, ownership.clone(), cx.wall().until(closed.opens)))
            }
            (None, Some(closed)) => Some(Doing::declining(me, ownership.clone(), closed.why)),
            (None, None) if taken >= self.max_parallel() => {
                Some(Doing::busy(me, ownership.clone(), self.place_free_in(cx)))
            }
            (None, None) => None,
        };
        if let Some(refusal) = refusal {
            let pattern = refusal.into();
            return self.open(Opening { message, pattern, task: None, reply }, cx);
        }
        if let Some(running) = running {
            return Err(self.end_older_award(running, &owner.1));
        }
        // What was refused is made afresh.
        let before = before.filter(|_| award.revision.is_none());
        let earlier = before.as_ref().and_then(|row| {
            let chunks = row.so_far.as_ref()?.chunks;
            Some(EarlierWork { log: row.log_epoch(), chunks })
        });
        let lease = Some(Duration::from_millis(award.lease_ms));
        let acceptance = self.acceptance(spec.capability.as_ref(), None);
        let context = self.context_of(&spec, &message.by, cx)?;
        let doing = Doing::new(self.me.clone(), ownership, lease, self.config.work_limits)
            .in_context(context)
            .with_acceptance(acceptance)
            .revising(award.revision)
            .behind(before.and_then(|row| row.so_far));
        let asked = Digest::of(spec.description.as_bytes());
        self.check_room(Some(&spec.root).filter(|_| message.by.agent() != Some(&self.me)))?;
        if let Some(older) = known.as_ref().and_then(|id| self.conversations.get_mut(id)) {
            // The new conversation writes the task's row from here on.
            older.task = None;
        }
        let task = Some(OpenedTask { spec, asked, equals: None, epoch: Some(award.epoch), earlier });
        self.open(Opening { message, pattern: doing.into(), task, reply }, cx)
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
        if message.by.agent().is_none() {
            request.session = None;
        }
        let (root, root_proof) = root(&message, request.on_behalf_of.take(), request.root_proof);
        (request.on_behalf_of, request.root_proof) = (Some(root), root_proof);
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
        let asked = AskedQuestion {
            request,
            requester: requester(&message, None),
            path: self.path_to_here(&message.envelope, &message.by),
            space: message.envelope.space_id.clone(),
        };
        let (me, limits) = (self.me.clone(), self.config.work_limits);
        let pattern = match others {
            Some(capability) => HelpRequest::asking(me, asked, capability, limits.help),
            None => HelpRequest::answering(me, asked, limits),
        };
        self.open(Opening { message, pattern: pattern.into(), task: None, reply }, cx)
    }
}

/// Whether a session's host gives a seat its turn.
pub(super) fn is_seat_turn(message: &IncomingMessage, request: &message::TaskRequest) -> bool {
    message.by.agent().is_some() && session::seat::is_seat_input(request.input.as_ref())
}

/// The capability the message is addressed to, if it is not addressed to an agent.
fn addressed_capability(envelope: &Envelope) -> Option<Capability> {
    match &envelope.to_agent_id {
        Address::Capability(capability) => Some(capability.clone()),
        Address::Agent(_) => None,
    }
}
