//! Bids by brains: what a brain is asked, what it answers, and the wrapper of a brain that is asked.

use super::{
    Brain, BrainError, CompletedTurn, TurnFuture, TurnHandle, TurnRequest,
    matching::{MatchFuture, MatchQuestion},
};
use protocol::{
    bid::{Cost, Eta, Fraction},
    ids::{AgentId, ConversationId},
    message::Cfp,
    patterns::{
        contract_net::bidding::BidAnswer,
        turn::{Prompt, TurnEnd},
    },
};
use serde::Serialize;
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

/// An answer to a call for proposals in progress.
pub type BidFuture = Pin<Box<dyn Future<Output = Result<BidAnswer, BrainError>> + Send>>;

/// A call for proposals. On the wire it is one JSON object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BidRequest {
    /// The agent of the brain.
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
    /// The end of a turn.
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

/// A brain that is asked for bids.
pub struct BiddingBrain {
    pub brain: Arc<dyn Brain>,
    /// How long it has for an answer.
    pub within: Duration,
}

impl Brain for BiddingBrain {
    fn think(&self, request: TurnRequest, turn: TurnHandle) -> TurnFuture {
        self.brain.think(request, turn)
    }

    fn answer_at_once(&self, prompt: &Prompt) -> Option<CompletedTurn> {
        self.brain.answer_at_once(prompt)
    }

    fn match_parts(&self, question: MatchQuestion, turn: TurnHandle) -> Option<MatchFuture> {
        self.brain.match_parts(question, turn)
    }

    fn is_unmetered(&self) -> bool {
        self.brain.is_unmetered()
    }

    fn turn_timeout(&self, request: &TurnRequest) -> Option<Duration> {
        self.brain.turn_timeout(request)
    }

    fn release(&self, conversation: &ConversationId) {
        self.brain.release(conversation);
    }

    fn bid_timeout(&self) -> Option<Duration> {
        Some(self.within)
    }

    fn bid(&self, request: BidRequest, turn: TurnHandle) -> BidFuture {
        self.brain.bid(request, turn)
    }

    fn name(&self) -> &'static str {
        self.brain.name()
    }
}
