//! What a manager does while every bidder is busy or away. A bidder that only lacks a free place will bid later, and one that is
//! away may come back, so such a call does not count as a round: the auction waits until the engine lets it call again
//! ([`crate::EventKind::CallDue`]).

use super::{
    AuctionStage, ContractNet, Effect, Event, Timer,
    call::{MAX_NAMED, wake},
    record::{BiddingRound, CandidateRecord, CandidateResult},
};
use crate::{AuctionPhase, AuctionView, Candidate};
use protocol::{ids::AgentId, task::TaskState, time::NodeTime, words::cut};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// The time until the next call if no bidder says when it has a free place.
const DEFAULT_FREE_IN_MS: u64 = 1_000;
/// The shortest and the longest time until the next call: a bidder only estimates when it has a free place.
const MIN_FREE_IN_MS: u64 = 50;
const MAX_FREE_IN_MS: u64 = 10_000;
/// The most characters of what a bidder waits for.
const MAX_WAITS_FOR: usize = 240;
/// After how long an auction that calls at the end of its time in the queue is looked at again.
const QUEUE_CHECK: Duration = Duration::from_secs(1);

/// How an auction searches a place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PlaceSearch {
    /// Whether the manager itself is a bidder.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_do_it_itself: bool,
    /// Whether it waits for a place, also while it calls again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_queued: bool,
    /// The smallest announced time until a place is free, if a bidder of this call was busy. Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_in_ms: Option<u64>,
    /// What a called bidder waits for, if it is no place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// Whether an award of this call has failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_failed: bool,
    /// Whether the next call repeats this one, because only busy bidders answered it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_repeat: bool,
    /// Whether it waits for an agent that is away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_for_absent: bool,
    /// The agents that are there and can't be asked, while it waits for one that is away.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub passed_over: BTreeSet<AgentId>,
    /// The calls in a row that a bidder could not be reached for.
    #[serde(skip_serializing_if = "is_zero")]
    unreachable: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl PlaceSearch {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.free_in_ms.is_some()
    }

    /// Notes that a bidder has no free place.
    pub(super) fn note_busy(&mut self, free_in_ms: Option<u64>) {
        let free_in_ms = free_in_ms.unwrap_or(DEFAULT_FREE_IN_MS);
        self.free_in_ms = Some(self.free_in_ms.map_or(free_in_ms, |known| known.min(free_in_ms)));
    }

    /// Notes that a bidder can't be reached: it may be starting again. The next call follows after a pause that doubles.
    pub(super) fn note_unreachable(&mut self) {
        self.unreachable = (self.unreachable + 1).min(4);
        self.note_busy(Some(DEFAULT_FREE_IN_MS << (self.unreachable - 1)));
    }

    /// Notes that an award has failed. What failed here goes to others.
    pub(super) fn note_failure(&mut self, is_own: bool) {
        self.has_failed = true;
        self.may_do_it_itself &= !is_own;
    }
}

impl ContractNet {
    /// Begins a call. One that repeats a call that only busy bidders answered is the same round.
    pub(super) fn open_call(&mut self) {
        if self.place_search.is_repeat {
            self.record.rounds.pop();
        } else {
            self.round += 1;
        }
        (self.place_search.free_in_ms, self.place_search.has_failed) = (None, false);
        self.place_search.waits_for = None;
        (self.place_search.is_repeat, self.place_search.is_for_absent) = (false, false);
        self.place_search.passed_over.clear();
    }

    /// This agent among the candidates, if it is a bidder.
    pub(super) fn own_candidate<'a>(&self, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
        let mut own = candidates.iter().filter(|candidate| candidate.agent == self.me);
        own.find(|own| self.place_search.may_do_it_itself && own.is_alive)
    }

    /// Awards the task to this agent, which has a free place.
    pub(super) fn award_to_itself(&mut self, event: &Event) -> Vec<Effect> {
        let me = self.me.clone();
        self.record.rounds.push(BiddingRound::own(CandidateRecord::asked(&me), event.wall));
        self.claim(me, Vec::new())
    }

    /// A called peer has no free place.
    pub(super) fn receive_busy(
        &mut self,
        agent: &AgentId,
        (free_in_ms, waits_for): (Option<u64>, Option<&str>),
        event: &Event,
    ) -> Vec<Effect> {
        if let AuctionStage::Bidding { asked, .. } = &self.stage
            && asked.contains_key(agent)
        {
            self.place_search.note_busy(free_in_ms);
            if let Some(what) = waits_for {
                self.place_search.waits_for = Some(cut(&format!("{agent}: {what}"), MAX_WAITS_FOR));
            }
        }
        let why = match (waits_for, free_in_ms) {
            (Some(what), _) => what.to_owned(),
            (None, None) => "busy".to_owned(),
            (None, Some(ms)) => format!("busy, free in {} s", ms.div_ceil(1_000)),
        };
        self.passes(agent, CandidateResult::NoBid, &why, event)
    }

    /// No bid is left: it waits for a place if a bidder was only busy, otherwise another round follows, not before `at`.
    pub(super) fn no_bid_left(&mut self, at: NodeTime, event: &Event) -> Vec<Effect> {
        let is_last_round = self.place_search.has_failed && self.round >= self.auction.rounds;
        if self.place_search.is_busy() && self.auction.max_queue_ms > 0 && !is_last_round {
            return self.join_queue(event);
        }
        if self.last_failure.is_none() {
            self.last_failure = Some(self.why_no_bids());
        }
        self.another_round(at, event)
    }

    /// That nobody has bid, with the reason of each that has said one.
    fn why_no_bids(&self) -> String {
        let candidates = self.record.rounds.last().map(|round| round.candidates.as_slice());
        let said = candidates.unwrap_or_default().iter().filter_map(|candidate| {
            let why = candidate.why.as_ref().filter(|_| candidate.fate == CandidateResult::NoBid)?;
            Some(format!("{}: {why}", candidate.agent))
        });
        let said: Vec<_> = said.take(MAX_NAMED).collect();
        match said.is_empty() {
            true => "no bids".to_owned(),
            false => format!("no bids ({})", said.join("; ")),
        }
    }

    /// Waits for a place.
    pub(super) fn join_queue(&mut self, event: &Event) -> Vec<Effect> {
        let free_in = self.place_search.free_in_ms.map_or(0, |ms| ms.clamp(MIN_FREE_IN_MS, MAX_FREE_IN_MS));
        self.stage = AuctionStage::Queued { until: event.at + Duration::from_millis(free_in) };
        self.place_search.is_repeat = self.round > 0 && !self.place_search.has_failed;
        if std::mem::replace(&mut self.place_search.is_queued, true) && self.round > 0 {
            return Vec::new();
        }
        let what = self.place_search.waits_for.iter().map(|what| format!(": {what}"));
        let status = what.fold("waiting for a bidder".to_owned(), |status, what| status + &what);
        let mut effects = self.ownership.status(TaskState::Submitted, status);
        effects.push(wake(Timer::Queue, event.at + self.longest_wait()));
        effects
    }

    /// Waits for an agent that is away; `why` says which one.
    pub(super) fn wait_for_peers(&mut self, why: &str, event: &Event) -> Vec<Effect> {
        let until = event.at + self.longest_wait();
        let was_queued = std::mem::replace(&mut self.place_search.is_queued, true);
        self.stage = AuctionStage::Queued { until };
        self.place_search.is_repeat = !self.place_search.has_failed;
        self.place_search.is_for_absent = true;
        let failed = self.last_failure.iter().map(|failure| format!("{failure}; then "));
        let status = format!("waiting for a bidder: {}{why}", failed.collect::<String>());
        let mut effects = self.ownership.status(TaskState::Submitted, status);
        if !was_queued {
            effects.push(wake(Timer::Queue, until));
        }
        effects
    }

    /// How long it waits for a place at most.
    fn longest_wait(&self) -> Duration {
        Duration::from_millis(self.auction.max_queue_ms)
    }

    /// It has found a place, or an award of its call has failed: it waits no longer.
    pub(super) fn leave_queue(&mut self) -> Option<Effect> {
        self.place_search.unreachable = 0;
        let was_queued = std::mem::take(&mut self.place_search.is_queued);
        was_queued.then_some(Effect::ClearTimer { timer: Timer::Queue })
    }

    /// The time in which a place was awaited is over.
    pub(super) fn queue_ends(&mut self, event: &Event) -> Vec<Effect> {
        if !self.place_search.is_queued {
            return Vec::new();
        }
        if !matches!(self.stage, AuctionStage::Queued { .. }) {
            return vec![wake(Timer::Queue, event.at + QUEUE_CHECK)];
        }
        let was = if self.place_search.is_for_absent { "away" } else { "busy" };
        let why = format!("no bids: every bidder was {was} for {} ms", self.auction.max_queue_ms);
        self.call_off(TaskState::Failed, why)
    }

    /// What the engine needs to know to keep the queue.
    pub(super) fn auction_view(&self) -> Option<AuctionView<'_>> {
        let phase = match &self.stage {
            AuctionStage::Queued { .. } if self.place_search.is_for_absent => {
                AuctionPhase::Absent { passed_over: &self.place_search.passed_over }
            }
            AuctionStage::Queued { until } => AuctionPhase::Waiting { until: *until },
            AuctionStage::Awarded(award) if award.is_accepted => AuctionPhase::Placed,
            AuctionStage::Checking(_) => AuctionPhase::Placed,
            AuctionStage::Bidding { .. }
            | AuctionStage::Searching
            | AuctionStage::Claiming { .. }
            | AuctionStage::Awarded(_)
                if self.place_search.is_queued =>
            {
                AuctionPhase::Calling
            }
            _ => return None,
        };
        let spec = &self.ownership.spec;
        Some(AuctionView { capability: spec.capability.as_ref()?, principal: &spec.root, phase })
    }
}
