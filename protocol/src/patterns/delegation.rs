//! One agent does a task: it runs turns of its brain, sends the requests of a turn to other agents or the owner, runs the
//! next turn with the answers, and ends the task once (RFC-005, pattern 1).
//!
//! The requester is a user, a peer that delegates, or a manager that awarded the task. Under an award every report carries
//! the award's epoch, and reports renew the lease. Awarded work ends here when its manager has the result. If the manager
//! fences a report, the award has lapsed: the work stops and ends as canceled, superseded.
//!
//! Work that was sent to the agent itself is like an award to itself: if its brain fails for a technical reason, the same
//! conversation goes on as an auction among other agents.

mod award_answer;
mod confirmation;
mod labels;
mod own_failure;
mod pending_requests;

pub use labels::{DelegationLabel, DelegationTimer, RequestKey, Timeouts};

use super::{
    AuctionView, EventKind, OutgoingSignal, Pattern, TimerAt, WorkPhase,
    contract_net::{Auction, ContractNet, record::AwardRecord},
    ownership::TaskOwnership,
    turn,
};
use crate::{
    a2a::message::Message,
    artifact::ArtifactChunk,
    ids::AgentId,
    message::{AwardAccept, MessageKind, Payload},
    principal::Principal,
    problem::Reason,
    signal::{ON_BEHALF_OF, PARENT_TASK, SignalType},
    task::{Status, TaskState},
};
use award_answer::AwardRefusal;
use confirmation::UnconfirmedOutcome;
use labels::{DelegationEffect, DelegationEvent};
use pending_requests::PendingRequests;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};
use turn::{Progress, Prompt, TurnEnd, TurnSubject};

/// The most turns one task may take; a task with more fails.
pub const MAX_TURNS: u32 = 64;

/// The doer's side of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delegation {
    me: AgentId,
    pub(super) ownership: TaskOwnership,
    lease: Option<Duration>,
    timeouts: Timeouts,
    turn: u32,
    is_thinking: bool,
    pending: PendingRequests,
    declines: Option<AwardRefusal>,
    /// Whether the first turn waits for a free slot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_queued: bool,
    /// Whether it awards the task to others if its own brain fails, and on which terms.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    may_auction: bool,
    #[serde(default, skip_serializing_if = "Auction::is_default")]
    auction_terms: Auction,
    /// The auction, after its own brain has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auction: Option<Box<ContractNet>>,
    /// The owner's newest message after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Box<Message>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_reported: bool,
    /// The outcome of awarded work, until the manager has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unconfirmed: Option<Box<UnconfirmedOutcome>>,
}

impl Delegation {
    /// `me` does it. `lease` is the award's, if it is done under one.
    pub fn new(me: AgentId, ownership: TaskOwnership, lease: Option<Duration>, timeouts: Timeouts) -> Self {
        Self {
            me,
            ownership,
            lease,
            timeouts,
            turn: 0,
            is_thinking: false,
            pending: PendingRequests::default(),
            declines: None,
            is_queued: false,
            may_auction: false,
            auction_terms: Auction::default(),
            auction: None,
            said: None,
            has_reported: false,
            unconfirmed: None,
        }
    }

    /// The first turn waits for a free slot.
    #[must_use]
    pub fn queued(mut self, is_queued: bool) -> Self {
        self.is_queued = is_queued;
        self
    }

    fn start(&mut self, event: &DelegationEvent) -> Vec<DelegationEffect> {
        if let Some(refusal) = self.declines.clone() {
            return self.decline(refusal);
        }
        let mut effects = Vec::new();
        if let Some((requester, epoch)) =
            self.ownership.requester.as_ref().and_then(|requester| Some((requester, requester.epoch?)))
        {
            let accept = AwardAccept {
                task_id: self.ownership.spec.task_id.clone(),
                epoch,
                extra: Default::default(),
            };
            effects.push(DelegationEffect::Send(
                requester.reply(DelegationLabel::Accept, Payload::AwardAccept(accept)),
            ));
        }
        effects.extend(self.renew(event));
        if let Some(deadline) = self.ownership.spec.deadline {
            effects.push(DelegationEffect::SetTimer {
                timer: DelegationTimer::Deadline,
                when: TimerAt::Wall(deadline),
            });
        }
        effects.extend(match self.is_queued {
            true => self.ownership.status(TaskState::Submitted, format!("queued: {} is busy", self.me)),
            false => self.works_on_it(),
        });
        effects.push(self.think());
        effects
    }

    fn works_on_it(&mut self) -> Vec<DelegationEffect> {
        let status = Status::new(TaskState::Working, format!("{} is working on it", self.me));
        // Under an award the acceptance says the same.
        match self.ownership.is_awarded() {
            true => vec![DelegationEffect::Update(super::Update::Status(status))],
            false => self.ownership.show_status(status),
        }
    }

    fn renew(&self, event: &DelegationEvent) -> Option<DelegationEffect> {
        let lease = self.lease?;
        Some(DelegationEffect::SetTimer {
            timer: DelegationTimer::Renew,
            when: TimerAt::Node(event.at + lease / 3),
        })
    }

    fn think(&mut self) -> DelegationEffect {
        self.turn += 1;
        self.is_thinking = true;
        let spec = &self.ownership.spec;
        let about = TurnSubject::Task {
            task_id: spec.task_id.clone(),
            description: spec.description.clone(),
            capability: spec.capability.clone(),
            input: spec.input.clone(),
            artifacts: spec.artifacts.clone(),
            deadline: spec.deadline,
            accepted_modes: spec.accepted_modes.clone(),
        };
        let first = || spec.contact.as_ref().map(|contact| Box::new(contact.message.clone()));
        let message = self.said.clone().or_else(first);
        let answers = self.pending.take_results();
        let epoch = self.ownership.epoch();
        let prompt = Prompt { turn: self.turn, epoch, about, produced: Vec::new(), answers, message };
        let produced = self.ownership.produced();
        let (turn, prompt, deadline) = (self.turn, Box::new(prompt), spec.deadline);
        DelegationEffect::RunTurn { turn, prompt, deadline, produced }
    }

    fn report(&mut self, updates: &[Progress]) -> Vec<DelegationEffect> {
        let mut effects = Vec::new();
        self.has_reported |= !updates.is_empty();
        for update in updates {
            match update.clone() {
                Progress::Status { message } => {
                    effects.extend(self.ownership.status(TaskState::Working, message))
                }
                Progress::Artifact { artifact, append, last_chunk } => {
                    let chunk = ArtifactChunk { artifact, append, last_chunk };
                    effects.extend(self.ownership.produce(chunk));
                }
                Progress::Signal { signal, subject, capability, mut refs } => {
                    refs.remove(ON_BEHALF_OF);
                    let mut task_id = Some(self.ownership.spec.task_id.clone());
                    if signal == SignalType::task_available() {
                        // Each offer is a task of its own.
                        refs.extend(task_id.take().map(|parent| (PARENT_TASK.to_owned(), json!(parent))));
                    }
                    let signal = OutgoingSignal { kind: signal, subject, task_id, capability, refs };
                    effects.push(DelegationEffect::Publish { signal });
                }
                ask @ (Progress::Help { .. } | Progress::Delegate { .. } | Progress::Question { .. }) => {
                    self.pending.note(ask);
                }
            }
        }
        effects.extend(self.ownership.report_chunks(false));
        effects
    }

    fn end_turn(&mut self, end: &TurnEnd, event: &DelegationEvent) -> Vec<DelegationEffect> {
        self.is_thinking = false;
        match end {
            TurnEnd::Done { message } => {
                let has_message = message.as_ref().is_some_and(|text| !text.trim().is_empty());
                if has_message || self.ownership.has_content() {
                    self.finish(TaskState::Completed, message.clone())
                } else {
                    self.fail("done without a result: no artifact and no message".to_owned())
                }
            }
            TurnEnd::Failed { reason } => self.fail(reason.clone()),
            TurnEnd::Rejected { reason } => self.finish(TaskState::Rejected, Some(reason.clone())),
            TurnEnd::Message { text } if self.may_just_answer() => self.just_answer(text),
            TurnEnd::Message { text } => self.end_turn(&TurnEnd::Done { message: Some(text.clone()) }, event),
            TurnEnd::Waiting if self.turn >= MAX_TURNS => {
                self.fail(format!("asked for more than {MAX_TURNS} turns"))
            }
            TurnEnd::Waiting if self.pending.is_too_much() => {
                self.fail(format!("asked more than {} things in one turn", pending_requests::MAX_ASKS))
            }
            TurnEnd::Waiting => {
                let mut asks = self.pending.send(&self.ownership, &self.me, self.turn, &self.timeouts, event);
                let question = asks.iter().find_map(|ask| {
                    if let DelegationEffect::AskPerson { question, auth } = ask {
                        Some((question.clone(), *auth))
                    } else {
                        None
                    }
                });
                if let Some((question, auth)) = question {
                    let waits_for = if auth { TaskState::AuthRequired } else { TaskState::InputRequired };
                    asks.extend(self.ownership.status(waits_for, question));
                }
                if self.pending.is_waiting() {
                    return asks;
                }
                self.fail("the turn ended without a result and without a question".to_owned())
            }
        }
    }

    /// Whether a message may be the whole answer: the requester is an A2A client that has not seen the task yet.
    fn may_just_answer(&self) -> bool {
        let is_its_own = self.ownership.requester.is_none() && self.ownership.claim.is_none();
        is_its_own && self.ownership.spec.contact.is_some() && self.turn == 1 && !self.has_reported
    }

    fn just_answer(&mut self, text: &str) -> Vec<DelegationEffect> {
        self.ownership.announces = false;
        let mut effects = self.finish(TaskState::Completed, Some(text.to_owned()));
        for effect in &mut effects {
            if let DelegationEffect::Finish(outcome) = effect {
                outcome.is_message = true;
            }
        }
        effects
    }

    fn go_on(&mut self) -> Vec<DelegationEffect> {
        if self.is_thinking || self.pending.is_waiting() || self.ownership.has_ended() {
            return Vec::new();
        }
        let mut effects =
            self.ownership.status(TaskState::Working, format!("{} goes on with what came back", self.me));
        effects.push(self.think());
        effects
    }

    /// The owner's answer: to this agent's own questions, and to those of the agents that work for it.
    fn answered(&mut self, text: &str, message: Option<&Message>) -> Vec<DelegationEffect> {
        self.said = message.cloned().map(Box::new).or_else(|| self.said.take());
        let was_asked = self.pending.answer(text);
        let mut effects = self.pending.pass_on(text, message);
        if !was_asked && effects.is_empty() {
            return effects;
        }
        if self.pending.is_waiting() {
            effects.extend(self.ownership.status(TaskState::Working, "answered"));
        } else {
            effects.extend(self.go_on());
        }
        effects
    }

    fn fail(&mut self, reason: String) -> Vec<DelegationEffect> {
        self.finish(TaskState::Failed, Some(reason))
    }

    fn finish(&mut self, state: TaskState, message: Option<String>) -> Vec<DelegationEffect> {
        if self.ownership.has_ended() {
            return Vec::new();
        }
        let mut effects = self.stop(message.as_deref().unwrap_or("no longer needed"));
        effects.extend(self.ownership.finish(state, message, BTreeMap::new()));
        if self.ownership.is_awarded()
            && state != TaskState::Canceled
            && let Some(DelegationEffect::Finish(outcome)) =
                effects.pop_if(|last| matches!(last, DelegationEffect::Finish(_)))
        {
            self.unconfirmed = Some(Box::new(UnconfirmedOutcome { outcome, responses: 1 }));
        }
        effects
    }

    /// The reason of the requester's cancel, if `payload` is one.
    fn cancel_reason(&self, by: &Principal, payload: &Payload) -> Option<String> {
        let Payload::TaskCancel(cancel) = payload else { return None };
        self.ownership.is_requested_by(by.agent()?, cancel.epoch).then(|| cancel.words())
    }

    /// Stops the running turn and withdraws open requests.
    fn stop(&mut self, why: &str) -> Vec<DelegationEffect> {
        let stopped = std::mem::take(&mut self.is_thinking).then_some(DelegationEffect::StopTurn);
        stopped.into_iter().chain(self.pending.withdraw(why)).collect()
    }

    fn receive(
        &mut self,
        by: &Principal,
        answers: Option<DelegationLabel>,
        payload: &Payload,
    ) -> Vec<DelegationEffect> {
        let by_requester =
            |epoch| by.agent().is_some_and(|agent| self.ownership.is_requested_by(agent, epoch));
        if let Payload::TaskCancel(_) = payload {
            let reason = self.cancel_reason(by, payload);
            return reason.map(|reason| self.finish(TaskState::Canceled, Some(reason))).unwrap_or_default();
        }
        if let Payload::TaskAnswer(answer) = payload {
            if by_requester(answer.epoch) {
                return self.answered(&answer.words(), answer.message.as_deref());
            }
            return Vec::new();
        }
        if let Payload::TaskUpdate(update) = payload {
            let Some(status) = self.pending.take_status(by, update) else { return Vec::new() };
            let mut effects = self.pending.show(&mut self.ownership);
            effects.extend(self.ownership.show_status(status));
            return effects;
        }
        if !self.pending.take_answer(by, answers, payload) {
            return Vec::new();
        }
        if self.pending.has_question() { self.pending.show(&mut self.ownership) } else { self.go_on() }
    }
}

impl Pattern for Delegation {
    type Label = DelegationLabel;
    type Timer = DelegationTimer;

    const NAME: &'static str = "delegation";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::TaskRequest, MessageKind::Award];
    const RECEIVES: &'static [MessageKind] = &[
        MessageKind::TaskUpdate,
        MessageKind::TaskResponse,
        MessageKind::TaskCancel,
        MessageKind::TaskAnswer,
        MessageKind::HelpResponse,
        MessageKind::Bid,
        MessageKind::NoBid,
        MessageKind::AwardAccept,
        MessageKind::AwardDecline,
    ];

    fn work(&self) -> Option<WorkPhase> {
        if self.declines.is_some() || self.auction.is_some() || self.ownership.has_ended() {
            None
        } else if self.is_thinking || self.turn == 0 {
            Some(WorkPhase::Active)
        } else if self.pending.waits_for_person() {
            Some(WorkPhase::AwaitsPerson)
        } else {
            Some(WorkPhase::AwaitsAgents)
        }
    }

    fn auction(&self) -> Option<AuctionView<'_>> {
        self.auction.as_ref()?.auction()
    }

    fn award(&self) -> Option<&AwardRecord> {
        self.auction.as_ref()?.award()
    }

    fn awarded(&self) -> Option<(&AgentId, DelegationLabel)> {
        let (winner, label) = self.auction.as_ref()?.awarded()?;
        Some((winner, DelegationLabel::Auction(label)))
    }

    fn why_fenced(&self, agent: &AgentId, payload: &Payload) -> Option<String> {
        self.auction.as_ref()?.why_fenced(agent, payload)
    }

    fn has_runner_up(&self) -> bool {
        self.ownership.is_awarded() && !self.ownership.is_last
    }

    fn is_closing(&self) -> bool {
        self.unconfirmed.is_some()
    }

    fn on(&mut self, event: &DelegationEvent) -> Vec<DelegationEffect> {
        if self.unconfirmed.is_some() {
            return self.confirm(event);
        }
        if let Some(effects) = self.run_auction(event) {
            return effects;
        }
        if let EventKind::Undelivered { label: DelegationLabel::Response, reason, message, .. } = &event.what
            && self.ownership.has_ended()
        {
            return self.ownership.response_undelivered(reason, message);
        }
        if let EventKind::Delivered { label: DelegationLabel::Chunks, .. } = &event.what {
            return self.ownership.chunks_settled(true);
        }
        if let EventKind::Undelivered { label: DelegationLabel::Chunks, reason, .. } = &event.what
            && *reason != Reason::Fenced.code()
        {
            return self.ownership.chunks_settled(false);
        }
        if self.ownership.has_ended() {
            return Vec::new();
        }
        match &event.what {
            EventKind::Started if self.turn == 0 => self.start(event),
            EventKind::TurnStarted { turn: 1 } if std::mem::take(&mut self.is_queued) => self.works_on_it(),
            EventKind::TurnProgress { turn, updates } if *turn == self.turn && self.is_thinking => {
                self.report(updates)
            }
            EventKind::TurnEnded { turn, updates, end } if *turn == self.turn && self.is_thinking => {
                let mut effects = self.report(updates);
                effects.extend(self.end_turn(end, event));
                effects
            }
            EventKind::TurnFailed { turn, reason } if *turn == self.turn && self.is_thinking => {
                self.is_thinking = false;
                self.brain_failed(reason.clone(), event)
            }
            EventKind::MessageReceived { by, answers, envelope } => {
                self.receive(by, *answers, &envelope.payload)
            }
            EventKind::Undelivered { label, reason, message, .. }
                if label.is_report() && *reason == Reason::Fenced.code() =>
            {
                self.superseded(message)
            }
            EventKind::Undelivered { label: DelegationLabel::Request(key), message, .. }
                if self.pending.give_up(*key, message) =>
            {
                self.go_on()
            }
            EventKind::Answered { text, message, .. } => self.answered(text, message.as_deref()),
            EventKind::TimerFired { timer: DelegationTimer::Renew } => {
                let mut effects = self.ownership.sign_of_life();
                effects.extend(self.renew(event));
                effects
            }
            EventKind::TimerFired { timer: DelegationTimer::Deadline } => {
                self.fail("its deadline passed".to_owned())
            }
            EventKind::TimerFired { timer: DelegationTimer::Request(key) }
                if self.pending.give_up(*key, "no answer in time") =>
            {
                self.go_on()
            }
            EventKind::Cancelled { reason, .. } => self.finish(TaskState::Canceled, Some(reason.clone())),
            EventKind::Draining { reason } => self.hand_back(reason),
            EventKind::Started
            | EventKind::TurnStarted { .. }
            | EventKind::TurnProgress { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::TurnFailed { .. }
            | EventKind::Claimed { .. }
            | EventKind::ClaimLost { .. }
            | EventKind::ClaimExpired { .. }
            | EventKind::ClaimEnded { .. }
            | EventKind::TimerFired { .. }
            | EventKind::Delivered { .. }
            | EventKind::Undelivered { .. }
            | EventKind::Published { .. }
            | EventKind::PublishRefused { .. }
            | EventKind::PeersFound { .. }
            | EventKind::CallDue { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
