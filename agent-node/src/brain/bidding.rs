//! Bids by brains: what a brain is asked, and what it answers.

use super::BrainError;
use patterns::{contract_net::bidding::BidAnswer, turn::TurnEnd};
use protocol::message::Cfp;
use std::{future::Future, pin::Pin};
use wire::prompt::BidCall;

pub use wire::prompt::ComputedBid;

/// An answer to a call for proposals in progress.
pub type BidFuture = Pin<Box<dyn Future<Output = Result<BidAnswer, BrainError>> + Send>>;

/// A call for proposals. On the wire it is one JSON object.
pub type BidRequest = BidCall<Cfp>;

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
