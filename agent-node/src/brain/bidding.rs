//! Bids by brains: what a brain is asked, and what it answers.

use super::BrainError;
use patterns::{contract_net::bidding::BidAnswer, turn::TurnEnd};
use protocol::{
    bid::{Cost, Eta, Fraction},
    ids::AgentId,
    message::Cfp,
};
use serde::Serialize;
use std::{future::Future, pin::Pin};

/// An answer to a call for proposals in progress.
pub type BidFuture = Pin<Box<dyn Future<Output = Result<BidAnswer, BrainError>> + Send>>;

/// A call for proposals. On the wire it is one JSON object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BidRequest {
    pub agent: AgentId,
    /// Names this question. No turn has the same.
    pub key: String,
    /// How long the answer is waited for, milliseconds.
    pub within_ms: u64,
    pub cfp: Cfp,
    /// The bid that is made without an answer.
    pub computed: ComputedBid,
}

/// A bid from the terms of the agent and its load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComputedBid {
    /// The cost of the task.
    pub cost: Cost,
    /// The duration of the task, milliseconds.
    pub eta: Eta,
    /// How well the agent's skills fit.
    #[serde(rename = "match")]
    pub capability_match: Option<Fraction>,
    /// The share of its places that is taken.
    pub load: Option<Fraction>,
}

/// How an answer of a brain ends.
#[derive(Debug, Clone, PartialEq)]
pub enum BrainEnd {
    Turn(TurnEnd),
    /// The answer to a call for proposals.
    Bid(BidAnswer),
}

impl BrainEnd {
    /// The end of a turn; fails if it is a bid.
    pub(super) fn into_turn(self) -> Result<TurnEnd, BrainError> {
        match self {
            Self::Turn(end) => Ok(end),
            Self::Bid(_) => Err(BrainError::WrongEnd("a turn with a bid")),
        }
    }

    /// The answer to a call for proposals. `rejected` is no bid; every other end of a turn fails.
    pub(super) fn into_bid(self) -> Result<BidAnswer, BrainError> {
        match self {
            Self::Bid(answer) => Ok(answer),
            Self::Turn(TurnEnd::Rejected { reason }) => Ok(BidAnswer::NoBid { reason }),
            Self::Turn(_) => Err(BrainError::WrongEnd("a call for proposals with the end of a turn")),
        }
    }
}
