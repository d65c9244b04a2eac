//! A manager gives a task to the best bidder (FIPA contract net; RFC-005, pattern 4).
//!
//! Peers that could do it → `cfp` → bids until the deadline or until all have answered → score → claim → `award` →
//! `award-accept`, else the next bid → result checked → finish. At most one award is active at any time. The
//! manager stays accountable, and every announced task ends visibly.
//!
//! If bidders are only busy, the auction waits for a place: the engine keeps the queue of waiting auctions, and lets the first
//! one call again.

pub mod auction;
pub mod bidding;
pub mod record;
pub mod track_record;

mod acceptance;
mod award;
mod away;
mod budget;
mod call;
mod eligible;
mod queue;
mod score;

pub use auction::{Auction, Strategy, Weights};

use super::{
    Candidate, Effect, Event, EventKind, Label, OutgoingMessage, Pattern, RecordedTurnProgress, Timer,
    TimerAt, View, ownership::TaskOwnership, result_check::ResultChecks,
};
use acceptance::{CheckedResult, RefusedResult};
use eligible::EligiblePeer;
use protocol::{
    acceptance::AcceptanceTerms,
    envelope::Envelope,
    ids::{Address, AgentId, Capability},
    message::{Epoch, MessageKind, Payload, Reject, Seq, TaskCancel, TaskResponse, TaskUpdate},
    principal::Principal,
    question::Answer,
    task::{Status, TaskState},
    time::{NodeTime, WallTime},
};
use record::{AwardRecord, BiddingRound, CandidateRecord, CandidateResult, clip};
use score::ValidBid;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};

/// The manager's side of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractNet {
    me: AgentId,
    ownership: TaskOwnership,
    auction: Auction,
    round: u32,
    stage: AuctionStage,
    record: AwardRecord,
    fulfilments: BTreeMap<AgentId, Vec<bool>>,
    last_failure: Option<String>,
    /// The reasons of awarded bidders that rejected the task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rejections: BTreeMap<AgentId, String>,
    /// The reasons of awarded bidders whose failure neither waiting nor another try changes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    lasting_failures: BTreeMap<AgentId, String>,
    /// The bidders whose results were refused twice.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    refused: BTreeSet<AgentId>,
    /// Whether an award failed in any other way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    was_tried: bool,
    /// How it waits for a place.
    #[serde(default, skip_serializing_if = "queue::PlaceSearch::is_default")]
    place_search: queue::PlaceSearch,
    /// Why this agent's own work on the task failed, before the auction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_failure: Option<String>,
    /// The epoch of the last award; the next one's is greater.
    last_epoch: Epoch,
    /// The award whose holder has fallen silent. Its reports count until another agent is given the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lapsed: Option<Box<ActiveAward>>,
    /// The checks that a result passes before it counts.
    #[serde(default, skip_serializing_if = "ResultChecks::is_none")]
    checks: ResultChecks,
    /// The peers known at the start; empty from the first round on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<Candidate>,
    /// If no known agent has the capability, the one that may have been meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nearest: Option<Capability>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum AuctionStage {
    Opening,
    /// Proposals have been called for.
    #[serde(rename_all = "camelCase")]
    Bidding {
        asked: BTreeMap<AgentId, EligiblePeer>,
        answers: BTreeMap<AgentId, Option<ValidBid>>,
        closes: NodeTime,
    },
    /// There was no peer to call or no bid; another round follows.
    #[serde(rename_all = "camelCase")]
    Between {
        until: NodeTime,
    },
    /// The next round looks for peers.
    Searching,
    /// Every bidder is busy. It waits until the engine lets it call again, at the earliest at `until`.
    #[serde(rename_all = "camelCase")]
    Queued {
        until: NodeTime,
    },
    /// A claim is being written.
    #[serde(rename_all = "camelCase")]
    Claiming {
        winner: AgentId,
        next: Vec<(AgentId, ValidBid)>,
        /// The task was ended meanwhile; the claim must come back before it can be freed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        called_off: Option<(TaskState, String)>,
        /// What was refused of the winner's last result, if it is awarded the task again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<Box<RefusedResult>>,
    },
    /// An award is active.
    Awarded(ActiveAward),
    /// The result under an award is checked before it counts.
    Checking(Box<CheckedResult>),
    Over,
}

/// The active award.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ActiveAward {
    winner: AgentId,
    epoch: Epoch,
    is_accepted: bool,
    next: Vec<(AgentId, ValidBid)>,
    /// When the award is revoked: without acceptance, later without reports.
    revoked_at: NodeTime,
    applied: Seq,
    /// The chunks in the applied updates.
    #[serde(default)]
    chunks: u64,
    /// A response that counts more chunks than have arrived: it overtook a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<TaskResponse>>,
    /// Updates that arrived before missing ones, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    early: Vec<TaskUpdate>,
    /// Whether the winner is away with its work, and has said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_away: bool,
    /// Whether the winner's result was refused before: it is awarded the task again once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_revision: bool,
    /// The winner's latest status, if it has open questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<Box<Status>>,
}

impl ContractNet {
    /// `me` awards the task to one of `candidates` and stays accountable.
    pub fn new(me: AgentId, ownership: TaskOwnership, auction: Auction, candidates: Vec<Candidate>) -> Self {
        let record = AwardRecord {
            task: ownership.spec.task_id.clone(),
            capability: ownership.spec.capability.clone(),
            strategy: auction.strategy,
            weights: auction.weights,
            rounds: Vec::new(),
            checks: Vec::new(),
            ignored: Vec::new(),
            outcome: None,
        };
        let (stage, fulfilments) = (AuctionStage::Opening, BTreeMap::new());
        Self {
            me,
            ownership,
            auction,
            round: 0,
            stage,
            record,
            fulfilments,
            last_failure: None,
            rejections: BTreeMap::new(),
            lasting_failures: BTreeMap::new(),
            refused: BTreeSet::new(),
            was_tried: false,
            place_search: queue::PlaceSearch::default(),
            own_failure: None,
            checks: ResultChecks::default(),
            last_epoch: 0,
            lapsed: None,
            candidates,
            nearest: None,
        }
    }

    /// `nearest` is the known capability that may have been meant, if no known agent has the one that is wanted.
    #[must_use]
    pub fn with_nearest(self, nearest: Option<Capability>) -> Self {
        Self { nearest, ..self }
    }

    /// Results of others are checked on these terms before they count. The agent's own are checked where it works.
    #[must_use]
    pub fn with_acceptance(mut self, terms: AcceptanceTerms) -> Self {
        self.ownership.is_checked = !terms.is_default();
        self.checks = ResultChecks::of(terms);
        self
    }

    /// The agent itself is a bidder: the task was sent to it, and it has the skill.
    #[must_use]
    pub fn with_own_bid(mut self) -> Self {
        self.place_search.may_do_it_itself = true;
        self
    }

    /// It calls after the auctions that already wait for a place.
    #[must_use]
    pub fn queued(mut self) -> Self {
        self.place_search.is_queued = true;
        self
    }

    /// The auction of a task on which `me` itself has failed for `reason`: a search for other agents comes first.
    pub(super) fn after_own_failure(
        me: AgentId,
        ownership: TaskOwnership,
        (auction, terms): (Auction, AcceptanceTerms),
        reason: String,
        wall: WallTime,
    ) -> Self {
        let mut own = Self::new(me.clone(), ownership, auction, Vec::new()).with_acceptance(terms);
        let failed = CandidateRecord {
            fate: CandidateResult::Failed,
            why: Some(clip(&reason)),
            ..CandidateRecord::asked(&me)
        };
        own.record.rounds.push(BiddingRound::own(failed, wall));
        own.was_tried = true;
        own.last_failure = Some(reason.clone());
        own.own_failure = Some(reason);
        own
    }

    fn start(&mut self, event: &Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(deadline) = self.ownership.spec.deadline {
            effects.push(Effect::SetTimer { timer: Timer::Deadline, when: TimerAt::Wall(deadline) });
        }
        let candidates = std::mem::take(&mut self.candidates);
        effects.extend(if self.place_search.is_queued {
            self.join_queue(event)
        } else if self.own_failure.is_some() {
            self.next_round()
        } else {
            self.call(&candidates, event)
        });
        effects
    }

    fn receive(&mut self, by: &Principal, envelope: &Envelope, event: &Event) -> Vec<Effect> {
        let kind = envelope.kind();
        let is_this_task = envelope.payload.task_id() == Some(&self.ownership.spec.task_id);
        let Some(agent) = by.agent() else {
            self.record.ignore(
                by.to_string(),
                kind.wire(),
                "only agents take part in an auction",
                event.wall,
            );
            return Vec::new();
        };
        // A late word about a review.
        if !is_this_task && *agent == self.me {
            return Vec::new();
        }
        if !is_this_task {
            return self.ignore(agent, envelope, "it is about another task", event);
        }
        match &envelope.payload {
            Payload::Bid(bid) => self.receive_bid(agent, bid, event),
            Payload::NoBid(no_bid) => self.receive_no_bid(agent, no_bid, event),
            Payload::AwardAccept(accept) => self.receive_accept(agent, accept.epoch, event),
            Payload::AwardDecline(decline) => self.receive_decline(agent, decline, event),
            Payload::TaskUpdate(update) => self.receive_update(agent, update, event),
            Payload::TaskResponse(response) => self.receive_response(agent, response, event),
            Payload::TaskAnswer(answer) if self.ownership.is_requested_by(agent, answer.epoch) => {
                match Answer::from_json(&answer.answer) {
                    Ok(said) => {
                        self.pass_on_answer(answer.question_id.as_ref(), &said, answer.message.as_deref())
                    }
                    Err(why) => self.ignore(agent, envelope, &why, event),
                }
            }
            Payload::TaskCancel(cancel) if self.ownership.is_requested_by(agent, cancel.epoch) => {
                self.call_off(TaskState::Canceled, cancel.words())
            }
            Payload::TaskAnswer(_) | Payload::TaskCancel(_) => {
                self.ignore(agent, envelope, "it is not the requester's, or names another award", event)
            }
            Payload::TaskRequest(_)
            | Payload::HelpRequest(_)
            | Payload::HelpResponse(_)
            | Payload::Broadcast(_)
            | Payload::Cfp(_)
            | Payload::Award(_)
            | Payload::Reject(_) => self.ignore(agent, envelope, "it has no place in an auction", event),
        }
    }

    fn ignore(&mut self, agent: &AgentId, envelope: &Envelope, why: &str, event: &Event) -> Vec<Effect> {
        self.record.ignore(agent.to_string(), envelope.kind().wire(), why, event.wall);
        Vec::new()
    }

    /// Ends the task before it is done; notifies the winner or the bidders.
    fn call_off(&mut self, state: TaskState, reason: String) -> Vec<Effect> {
        let mut effects = Vec::new();
        match std::mem::replace(&mut self.stage, AuctionStage::Over) {
            AuctionStage::Awarded(award) => {
                effects.extend(self.charge_silent(&award));
                self.record.set(&award.winner, CandidateResult::Cancelled, Some(reason.clone()));
                effects.extend(self.revoke(&award.winner, award.epoch, &reason));
                effects.extend(self.reject_losers(&reason));
            }
            AuctionStage::Bidding { asked, answers, .. } => {
                let waiting = asked.keys().filter(|agent| !matches!(answers.get(agent), Some(None)));
                effects.extend(waiting.map(|agent| self.reject(agent, &reason)));
            }
            AuctionStage::Claiming { winner, next, called_off, revision } => {
                let called_off = called_off.or(Some((state, reason)));
                self.stage = AuctionStage::Claiming { winner, next, called_off, revision };
                return Vec::new();
            }
            AuctionStage::Checking(checked) => {
                effects.extend(self.stop_check(&reason));
                let ActiveAward { winner, epoch, .. } = checked.award;
                self.record.set(&winner, CandidateResult::Cancelled, Some(reason.clone()));
                effects.extend(self.revoke(&winner, epoch, &reason));
                effects.extend(self.reject_losers(&reason));
            }
            _ => {}
        }
        effects.extend(self.finish(state, Some(reason)));
        effects
    }

    fn finish(&mut self, state: TaskState, message: Option<String>) -> Vec<Effect> {
        self.stage = AuctionStage::Over;
        let mut effects = self.give_up_lapsed();
        let said = message.clone().unwrap_or_default();
        self.record.outcome =
            Some(format!("{}{}{said}", state.word(), if said.is_empty() { "" } else { ": " }));
        let fulfilments = std::mem::take(&mut self.fulfilments);
        effects.extend(self.ownership.finish(state, message, fulfilments));
        effects
    }

    /// Revokes an award: cancels it at the winner and frees the claim.
    fn revoke(&self, winner: &AgentId, epoch: Epoch, reason: &str) -> Vec<Effect> {
        let task_id = self.ownership.spec.task_id.clone();
        let cancel =
            TaskCancel { task_id, reason: Some(reason.to_owned()), epoch: Some(epoch), extra: Map::new() };
        let mut effects = vec![self.send_to(Label::Revoke, winner, Payload::TaskCancel(cancel))];
        effects.extend(self.release(epoch));
        effects
    }

    /// Frees the claim of an award that is no longer in force.
    fn release(&self, epoch: Epoch) -> Vec<Effect> {
        let task = self.ownership.spec.task_id.clone();
        vec![
            Effect::Release { task, epoch },
            Effect::Assign { doer: None },
            Effect::ClearTimer { timer: Timer::Accept },
            Effect::ClearTimer { timer: Timer::Lease },
        ]
    }

    /// Rejects every bidder that has no answer yet.
    fn reject_losers(&mut self, reason: &str) -> Vec<Effect> {
        let candidates =
            self.record.rounds.last().map(|round| round.candidates.as_slice()).unwrap_or_default();
        let losers = candidates
            .iter()
            .filter(|candidate| candidate.fate == CandidateResult::Bid)
            .map(|candidate| candidate.agent.clone());
        let losers: Vec<_> = losers.collect();
        losers.iter().for_each(|loser| self.record.set(loser, CandidateResult::Outbid, None));
        losers.iter().map(|loser| self.reject(loser, reason)).collect()
    }

    fn reject(&self, agent: &AgentId, reason: &str) -> Effect {
        let task_id = self.ownership.spec.task_id.clone();
        let reject = Reject { task_id, reason: reason.to_owned(), extra: Map::new() };
        self.send_to(Label::Reject, agent, Payload::Reject(reject))
    }

    fn send_to(&self, label: Label, to: &AgentId, payload: Payload) -> Effect {
        let path = self.ownership.spec.path.clone();
        Effect::Send(OutgoingMessage {
            path,
            ..OutgoingMessage::new(label, Address::Agent(to.clone()), payload)
        })
    }
}

impl Pattern for ContractNet {
    const NAME: &'static str = "contract-net";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::TaskRequest];
    const RECEIVES: &'static [MessageKind] = &[
        MessageKind::Bid,
        MessageKind::NoBid,
        MessageKind::AwardAccept,
        MessageKind::AwardDecline,
        MessageKind::TaskUpdate,
        MessageKind::TaskResponse,
        MessageKind::TaskCancel,
        MessageKind::TaskAnswer,
    ];

    fn view(&self) -> View<'_> {
        let awarded = match &self.stage {
            AuctionStage::Awarded(award) if !award.is_away => Some(award),
            _ => None,
        };
        View {
            auction: self.auction_view(),
            award: Some(&self.record),
            awarded: awarded.map(|award| (&award.winner, Label::Award(award.epoch))),
            fence: Some(self.fence()),
            turn: RecordedTurnProgress { produced: self.ownership.produced(), ..Default::default() },
            ..View::default()
        }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        let reserved = self.reserved();
        let mut effects = self.step(event);
        // Before the effect that ends the task.
        effects.splice(0..0, self.show_reserved(reserved));
        effects
    }
}

impl ContractNet {
    fn step(&mut self, event: &Event) -> Vec<Effect> {
        if let EventKind::Undelivered { label: Label::Response, reason, message, .. } = &event.what
            && self.ownership.has_ended()
        {
            return self.ownership.response_undelivered(reason, message);
        }
        if let EventKind::Delivered { label: Label::Chunks, .. } = &event.what {
            return self.ownership.chunks_settled(true);
        }
        if let EventKind::Undelivered { label: Label::Chunks, .. } = &event.what {
            return self.ownership.chunks_settled(false);
        }
        if self.ownership.has_ended() {
            return Vec::new();
        }
        if let Some(effects) = self.check_event(event) {
            return effects;
        }
        match &event.what {
            EventKind::Started if self.stage == AuctionStage::Opening => self.start(event),
            // It answers what the agent asked while it worked on the task itself.
            EventKind::MessageReceived { answers: Some(Label::Request(_)), .. } => Vec::new(),
            EventKind::MessageReceived { by, envelope, .. } => self.receive(by, envelope, event),
            EventKind::PeersFound { label, candidates, nearest }
                if *label == self.search() && self.stage == AuctionStage::Searching =>
            {
                self.nearest.clone_from(nearest);
                self.call(candidates, event)
            }
            EventKind::Claimed { holder, epoch } => self.claimed(holder, *epoch, event),
            EventKind::Undelivered { label, to, reason, message } => {
                self.undelivered(*label, to, (reason, message), event)
            }
            EventKind::TimerFired { timer } => match timer {
                Timer::Bids => self.window_ends(event),
                Timer::Round => self.pause_ends(event),
                Timer::Accept | Timer::Lease => self.award_expires(event),
                Timer::Deadline => {
                    let waited =
                        if self.place_search.is_queued { " while it waited for a bidder" } else { "" };
                    self.call_off(TaskState::Failed, format!("its deadline passed{waited}"))
                }
                Timer::Queue => self.queue_ends(event),
                _ => Vec::new(),
            },
            EventKind::CallDue { candidates } if matches!(self.stage, AuctionStage::Queued { .. }) => {
                self.call(candidates, event)
            }
            EventKind::Cancelled { reason, .. } => self.call_off(TaskState::Canceled, reason.clone()),
            EventKind::Answered { question, answer, message, .. } => {
                self.pass_on_answer(question.as_ref(), answer, message.as_deref())
            }
            EventKind::ClaimLost { holder } => self.claim_lost(holder.as_ref(), event),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
