//! From the call for proposals to the ranking.

use super::{
    AuctionStage, ContractNet, Effect, Event, Label, Timer,
    auction::Strategy,
    eligible::{self, EligiblePeer},
    record::{BiddingRound, CandidateResult, ScoredOffer, clip},
    score::{self, ValidBid},
};
use crate::{Candidate, TimerAt};
use protocol::{
    bid::Eta,
    ids::AgentId,
    message::{BUSY, Bid, Cfp, NoBid, Payload},
    task::TaskState,
    time::NodeTime,
    words::counted,
};
use serde_json::{Map, json};
use std::{collections::BTreeMap, time::Duration};

/// The most rejections that the end of a task names.
pub(super) const MAX_NAMED: usize = 8;
/// The validity of a bid that names none.
const VALID: Duration = Duration::from_secs(60);

impl ContractNet {
    /// Calls for proposals among `candidates`.
    pub(super) fn call(&mut self, candidates: &[Candidate], event: &Event) -> Vec<Effect> {
        self.open_call();
        let Some(capability) = self.ownership.spec.capability.clone() else {
            return self.finish(TaskState::Failed, Some("no capability is named".to_owned()));
        };
        let window = self.auction.window(self.round);
        let fanout = self.auction.fanout.max(1);
        if let Some(own) = self.own_candidate(candidates) {
            if own.has_free_place() {
                return self.award_to_itself(event);
            }
            self.place_search.note_busy(None);
        }
        let (me, spec) = (&self.me, &self.ownership.spec);
        let rejected = self.rejections.keys().map(|agent| (agent, "it rejected this task"));
        let refused = self.refused.iter().map(|agent| (agent, "its result was refused"));
        let failed =
            self.lasting_failures.keys().map(|agent| (agent, "another try would fail as its last one"));
        let excluded = rejected.chain(refused).chain(failed).collect();
        let choice = eligible::choose(me, spec, &capability, candidates, &excluded, fanout);
        self.record.rounds.push(BiddingRound {
            round: self.round,
            opened_at: event.wall,
            window_ms: u64::try_from(window.as_millis()).unwrap_or(u64::MAX),
            candidates: choice.candidates,
            not_listed: choice.not_listed,
        });
        if choice.asked.is_empty() {
            let there = candidates.iter().filter(|candidate| candidate.is_alive);
            self.place_search.passed_over = there.map(|candidate| candidate.agent.clone()).collect();
            return self.nobody_to_ask(choice.may_come, event);
        }
        let asked = choice.asked;
        let text = format!("asked {} for bids on {capability}", names(asked.keys()));
        let mut effects = match self.place_search.is_queued {
            true => Vec::new(),
            false => self.ownership.status(TaskState::Working, text),
        };
        let bid_by = event.wall.plus(window);
        let mut constraints = Map::new();
        if let Some(deadline) = self.ownership.spec.deadline {
            constraints.insert("deadline".into(), json!(deadline));
        }
        if !self.ownership.spec.accepted_modes.is_empty() {
            constraints.insert("acceptedModes".into(), json!(self.ownership.spec.accepted_modes));
        }
        for agent in asked.keys() {
            let cfp = Cfp {
                task_id: self.ownership.spec.task_id.clone(),
                capability: capability.clone(),
                description: self.ownership.spec.description.clone(),
                bid_by,
                constraints: constraints.clone(),
                extra: Map::new(),
            };
            effects.push(self.send_to(Label::Cfp, agent, Payload::Cfp(cfp)));
        }
        effects.push(wake(Timer::Bids, event.at + window));
        self.stage = AuctionStage::Bidding { asked, answers: BTreeMap::new(), closes: event.at + window };
        effects
    }

    /// Nobody can be asked for a bid. If an agent that may be asked is away, the task waits for it.
    fn nobody_to_ask(&mut self, may_come: bool, event: &Event) -> Vec<Effect> {
        if self.place_search.is_busy() {
            return self.no_bid_left(event.at, event);
        }
        if let (Some(own), false) = (self.own_failure.take(), may_come) {
            return match self.lasting_failures.is_empty() {
                true => self.finish(TaskState::Failed, Some(own)),
                false => self.end_unassigned("", format!("{} could not do it: {own}", self.me)),
            };
        }
        let capability = self.ownership.spec.capability.as_ref().map(ToString::to_string).unwrap_or_default();
        let candidates =
            self.record.rounds.last().map(|round| round.candidates.as_slice()).unwrap_or_default();
        let reasons: Vec<_> = candidates
            .iter()
            .take(MAX_NAMED)
            .map(|candidate| {
                format!("{}: {}", candidate.agent, candidate.why.as_deref().unwrap_or("not asked"))
            })
            .collect();
        let why = match reasons.is_empty() {
            true => {
                let hint = self.nearest.as_ref().map(|nearest| format!("; did you mean {nearest}?"));
                let hint = hint.unwrap_or_default();
                format!("no bids: no known agent has the capability {capability}{hint}")
            }
            false => {
                let reasons = reasons.join("; ");
                format!("no bids: no agent can be asked for {capability} ({reasons})")
            }
        };
        if may_come && self.auction.max_queue_ms > 0 {
            return self.wait_for_peers(&why, event);
        }
        match self.last_failure.take() {
            Some(last) => self.end_unassigned("unassigned: ", format!("{last}; then {why}")),
            None => self.finish(TaskState::Failed, Some(why)),
        }
    }

    pub(super) fn receive_bid(&mut self, agent: &AgentId, bid: &Bid, event: &Event) -> Vec<Effect> {
        let eta = Eta(bid.eta.0.saturating_add(bid.starts_in_ms.unwrap_or_default()));
        let is_too_late = self.ownership.spec.deadline.is_some_and(|by| event.wall.plus(eta.duration()) > by);
        if is_too_late {
            return self.passes(agent, CandidateResult::NoBid, "its eta is past the deadline", event);
        }
        let first_wins = self.auction.strategy == Strategy::FirstClaim;
        let AuctionStage::Bidding { asked, answers, .. } = &mut self.stage else {
            self.record.ignore(agent.to_string(), "bid", "the auction is closed", event.wall);
            return Vec::new();
        };
        let Some(peer) = asked.get(agent) else {
            self.record.ignore(agent.to_string(), "bid", "it was not asked", event.wall);
            return Vec::new();
        };
        let claimed = bid.capability_match.map_or(1.0, |share| share.get());
        let offer = ScoredOffer {
            cost: bid.cost,
            eta,
            capability_match: peer.support.min(claimed),
            load: bid.load.map_or(peer.load, |share| share.get()),
        };
        let valid = bid.valid_for_ms.map_or(VALID, Duration::from_millis);
        answers.insert(agent.clone(), Some(ValidBid { offer: offer.clone(), valid_until: event.at + valid }));
        let all_answered = answers.len() == asked.len();
        if let Some(candidate) = self.record.candidate_mut(agent) {
            (candidate.fate, candidate.bid, candidate.why) = (CandidateResult::Bid, Some(offer), None);
        }
        if all_answered || first_wins { self.close(event) } else { Vec::new() }
    }

    pub(super) fn receive_no_bid(&mut self, agent: &AgentId, no_bid: &NoBid, event: &Event) -> Vec<Effect> {
        if no_bid.reason == BUSY {
            return self.receive_busy(agent, (no_bid.free_in_ms, no_bid.waits_for.as_deref()), event);
        }
        self.passes(agent, CandidateResult::NoBid, &no_bid.reason, event)
    }

    /// Records a called peer that does not bid.
    pub(super) fn passes(
        &mut self,
        agent: &AgentId,
        fate: CandidateResult,
        why: &str,
        event: &Event,
    ) -> Vec<Effect> {
        let AuctionStage::Bidding { asked, answers, .. } = &mut self.stage else {
            self.record.ignore(agent.to_string(), "no-bid", "the auction is closed", event.wall);
            return Vec::new();
        };
        if !asked.contains_key(agent) {
            self.record.ignore(agent.to_string(), "no-bid", "it was not asked", event.wall);
            return Vec::new();
        }
        answers.insert(agent.clone(), None);
        let all_answered = answers.len() == asked.len();
        self.record.set(agent, fate, Some(clip(why)));
        if let Some(entry) = self.record.candidate_mut(agent) {
            entry.bid = None;
        }
        if all_answered { self.close(event) } else { Vec::new() }
    }

    /// The bidding window has ended.
    pub(super) fn window_ends(&mut self, event: &Event) -> Vec<Effect> {
        if let AuctionStage::Bidding { closes, .. } = &self.stage
            && event.at < *closes
        {
            return vec![wake(Timer::Bids, *closes)];
        }
        self.close(event)
    }

    /// Closes the bidding and ranks the bids.
    pub(super) fn close(&mut self, event: &Event) -> Vec<Effect> {
        let AuctionStage::Bidding { asked, answers, closes } = &mut self.stage else { return Vec::new() };
        let (asked, answers, closes) = (std::mem::take(asked), std::mem::take(answers), *closes);
        let bids: Vec<(AgentId, EligiblePeer, ValidBid)> = answers
            .into_iter()
            .filter_map(|(agent, bid)| Some((agent.clone(), asked.get(&agent)?.clone(), bid?)))
            .collect();
        let task = self.ownership.spec.task_id.to_string();
        let ranked = score::rank(&self.auction, &task, bids);
        for (place, (agent, _, score)) in ranked.iter().enumerate() {
            if let Some(candidate) = self.record.candidate_mut(agent) {
                (candidate.score, candidate.rank) = (Some(score.clone()), Some(place + 1));
            }
        }
        if let Some(round) = self.record.rounds.last_mut() {
            round.candidates.sort_by_key(|candidate| candidate.rank.unwrap_or(usize::MAX));
        }
        let next: Vec<_> = ranked.into_iter().map(|(agent, bid, _)| (agent, bid)).collect();
        let mut effects = vec![Effect::ClearTimer { timer: Timer::Bids }];
        if next.is_empty() {
            effects.extend(self.no_bid_left(closes, event));
        } else {
            effects.extend(self.award_next(next, event));
        }
        effects
    }

    /// Claims the task for the best valid bid; without one, waits for a place, starts another round, or ends the task.
    pub(super) fn award_next(&mut self, mut next: Vec<(AgentId, ValidBid)>, event: &Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        while !next.is_empty() {
            let (winner, bid) = next.remove(0);
            if bid.valid_until < event.at {
                let why = "its offer stood no longer";
                self.record.set(&winner, CandidateResult::Outbid, Some(why.to_owned()));
                effects.push(self.reject(&winner, why));
                continue;
            }
            effects.extend(self.claim(winner, next));
            return effects;
        }
        effects.extend(self.no_bid_left(event.at, event));
        effects
    }

    /// Claims the task for `winner`. A lapsed award is given up first; the task ends if that uses up its budget.
    pub(super) fn claim(&mut self, winner: AgentId, next: Vec<(AgentId, ValidBid)>) -> Vec<Effect> {
        let mut effects = self.give_up_lapsed();
        let last = self.last_failure.clone().unwrap_or_default();
        if let Some(why) = self.why_budget_ends_it(&last).filter(|_| !effects.is_empty()) {
            effects.extend(self.reject_losers(&why));
            effects.extend(self.finish(TaskState::Failed, Some(why)));
            return effects;
        }
        self.record.set(&winner, CandidateResult::Awarded, None);
        effects.push(Effect::Claim {
            task: self.ownership.spec.task_id.clone(),
            holder: winner.clone(),
            lease: self.auction.lease(),
        });
        self.stage = AuctionStage::Claiming { winner, next, called_off: None, revision: None };
        effects
    }

    /// Schedules another round, not before `at`; after the last round, the task ends unassigned.
    pub(super) fn another_round(&mut self, at: NodeTime, event: &Event) -> Vec<Effect> {
        if self.round >= self.auction.rounds {
            let rounds = counted(self.round, "round", "rounds");
            let last = self.last_failure.take().unwrap_or_else(|| "no bids".to_owned());
            return self.end_unassigned(&format!("unassigned after {rounds}: "), last);
        }
        if event.at < at {
            self.stage = AuctionStage::Between { until: at };
            return vec![wake(Timer::Round, at)];
        }
        self.next_round()
    }

    /// No bidder is left: rejected if every awarded bidder rejected the task, otherwise failed. The message begins with the
    /// lasting failures: whoever reads it can do something about them. Then it says `how` the task has ended, with every rejection
    /// and the `last` failure, unless that is a lasting one.
    fn end_unassigned(&mut self, how: &str, last: String) -> Vec<Effect> {
        let is_last = |why: &&String| last.starts_with(why.as_str());
        let is_last_lasting = self.lasting_failures.values().any(|why| is_last(&why));
        let rejections = self.rejections.values().filter(|why| !is_last(why)).take(MAX_NAMED);
        let mut others: Vec<_> = rejections.cloned().collect();
        let mut named: Vec<_> = self.lasting_failures.values().take(MAX_NAMED).cloned().collect();
        self.ownership.is_failure_lasting = is_last_lasting && others.is_empty();
        if !is_last_lasting {
            others.push(last);
        }
        if !others.is_empty() {
            named.push(format!("{how}{}", others.join("; ")));
        }
        let is_rejected = !self.rejections.is_empty() && !self.was_tried;
        let state = if is_rejected { TaskState::Rejected } else { TaskState::Failed };
        self.finish(state, Some(named.join("; ")))
    }

    /// The pause between two rounds is over.
    pub(super) fn pause_ends(&mut self, event: &Event) -> Vec<Effect> {
        let AuctionStage::Between { until } = &self.stage else { return Vec::new() };
        if event.at < *until { vec![wake(Timer::Round, *until)] } else { self.next_round() }
    }

    pub(super) fn next_round(&mut self) -> Vec<Effect> {
        let Some(capability) = self.ownership.spec.capability.clone() else { return Vec::new() };
        self.stage = AuctionStage::Searching;
        vec![Effect::FindPeers { label: self.search(), capability }]
    }

    /// The label of the search for the next round's peers.
    pub(super) fn search(&self) -> Label {
        Label::Search(self.round + 1)
    }
}

/// Sets `timer` to `at`.
pub(super) fn wake(timer: Timer, at: NodeTime) -> Effect {
    Effect::SetTimer { timer, when: TimerAt::Node(at) }
}

fn names<'a>(agents: impl ExactSizeIterator<Item = &'a AgentId>) -> String {
    let count = agents.len();
    let first: Vec<_> = agents.take(5).map(AgentId::as_str).collect();
    match count - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
