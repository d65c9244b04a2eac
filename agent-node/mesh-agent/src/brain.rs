//! What a brain implements.

use crate::{BidCall, BidLine, OutputLine, Turn, TurnResult};

/// Takes turns, one at a time. A function `fn(&Turn) -> TurnResult` is one; [`crate::Agent`] is made of closures.
pub trait Brain {
    /// Takes one turn. For a peer's question the message is the answer; a result to check is accepted with any message and
    /// refused with [`crate::End::Rejected`].
    fn turn(&mut self, turn: &Turn) -> TurnResult;

    /// Answers a call for proposals, if the agent's file says `bid: { ask: brain }`. The error is the reason for no bid. The
    /// bid that the node has computed is made if this is left out.
    fn bid(&mut self, _call: &BidCall) -> Result<BidLine, String> {
        Ok(BidLine::default())
    }
}

impl<F: FnMut(&Turn) -> TurnResult> Brain for F {
    fn turn(&mut self, turn: &Turn) -> TurnResult {
        self(turn)
    }
}

/// The answer to a call for proposals. The error is the reason for no bid.
pub(crate) fn bid_line(bid: Result<BidLine, String>) -> OutputLine {
    bid.map_or_else(|reason| OutputLine::NoBid { reason }, OutputLine::Bid)
}
