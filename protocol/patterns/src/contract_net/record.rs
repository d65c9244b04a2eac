//! Why a bid won: the result of every candidate, stored with the task (`mesh award explain`).

use super::auction::{Strategy, Weights};
use protocol::{
    acceptance::{MAX_CHECKS, ResultCheck},
    bid::{Cost, Eta},
    ids::{AgentId, Capability, TaskId},
    message::Epoch,
    time::WallTime,
};
use serde::{Deserialize, Serialize};

/// The most candidates written out a round; those who were not asked are counted.
pub const MAX_CANDIDATES: usize = 64;
/// The most ignored messages written out.
pub const MAX_IGNORED: usize = 32;

/// The history of one task's auction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwardRecord {
    pub task: TaskId,
    /// The capability it needs.
    pub capability: Option<Capability>,
    /// How the best bid was found.
    pub strategy: Strategy,
    /// The weights for `weighted`.
    pub weights: Weights,
    /// Every call for proposals.
    pub rounds: Vec<BiddingRound>,
    /// The checks of results, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ResultCheck>,
    /// Messages that changed nothing, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredMessage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// One call for proposals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BiddingRound {
    pub round: u32,
    /// When it was called.
    pub opened_at: WallTime,
    /// How long bids were awaited, milliseconds.
    pub window_ms: u64,
    /// The candidates, best first once they are ranked.
    pub candidates: Vec<CandidateRecord>,
    /// The number of omitted candidates.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_listed: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands in a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The record of one candidate in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateRecord {
    pub agent: AgentId,
    pub fate: CandidateResult,
    /// Why, as a text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bid: Option<ScoredOffer>,
    /// The score of its bid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<BidScore>,
    /// Its rank, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
}

/// The possible results of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateResult {
    /// It is not eligible.
    NotEligible,
    /// It is eligible, but the limit of calls was reached.
    NotAsked,
    /// Called; no answer so far.
    NoAnswer,
    /// It refused to bid.
    NoBid,
    Bid,
    /// Another bid was better.
    Outbid,
    /// It got the award.
    Awarded,
    /// It accepted the award.
    Accepted,
    /// It declined the award.
    Declined,
    /// It did not accept in time.
    AcceptTimeout,
    /// It was silent for a lease.
    LeaseExpired,
    /// It could not be reached.
    Unreachable,
    Failed,
    /// Its result was refused, twice.
    Refused,
    /// It completed the task.
    Completed,
    /// The task was cancelled.
    Cancelled,
}

/// The terms of a bid, as they were scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoredOffer {
    /// What it would cost.
    pub cost: Cost,
    /// How long it would take, milliseconds.
    pub eta: Eta,
    /// How well it matches: the support in its card, or less if its bid says so.
    pub capability_match: f64,
    /// How busy it is.
    pub load: f64,
}

/// A score and what it is made of, each from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BidScore {
    /// The total, by which bids are ranked.
    pub total: f64,
    #[serde(rename = "match")]
    pub fit: f64,
    /// The record with this manager.
    pub track_record: f64,
    /// The eta, 1 for the shortest at hand; under `weighted`, times the track record, as what follows.
    pub eta: f64,
    /// The cost, 1 for the lowest at hand.
    pub cost: f64,
    /// The load, 1 for idle.
    pub load: f64,
}

/// A message that changed nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IgnoredMessage {
    pub from: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// Why it changed nothing.
    pub why: String,
    /// When it was received.
    pub at: WallTime,
}

/// The most characters of a peer's text that are kept.
const MAX_WORDS: usize = 500;

pub(crate) fn clip(words: &str) -> String {
    words.chars().take(MAX_WORDS).collect()
}

impl CandidateRecord {
    /// A candidate that was called and has not answered.
    pub(super) fn asked(agent: &AgentId) -> Self {
        let fate = CandidateResult::NoAnswer;
        Self { agent: agent.clone(), fate, why: None, bid: None, score: None, rank: None, epoch: None }
    }
}

impl BiddingRound {
    /// A round without a call: the task goes to the manager itself.
    pub(super) fn own(manager: CandidateRecord, opened_at: WallTime) -> Self {
        Self { round: 0, opened_at, window_ms: 0, candidates: vec![manager], not_listed: 0 }
    }
}

impl AwardRecord {
    pub(super) fn candidate_mut(&mut self, agent: &AgentId) -> Option<&mut CandidateRecord> {
        self.rounds.last_mut()?.candidates.iter_mut().find(|candidate| candidate.agent == *agent)
    }

    pub(super) fn set(&mut self, agent: &AgentId, fate: CandidateResult, why: Option<String>) {
        if let Some(entry) = self.candidate_mut(agent) {
            entry.fate = fate;
            entry.why = why.or_else(|| entry.why.take());
        }
    }

    pub(super) fn append_check(&mut self, check: ResultCheck) {
        self.checks.push(check);
        let old = self.checks.len().saturating_sub(MAX_CHECKS);
        self.checks.drain(..old);
    }

    pub(super) fn ignore(&mut self, from: String, kind: &str, why: &str, at: WallTime) {
        if self.ignored.len() < MAX_IGNORED {
            self.ignored.push(IgnoredMessage { from, kind: kind.to_owned(), why: why.to_owned(), at });
        }
    }
}
