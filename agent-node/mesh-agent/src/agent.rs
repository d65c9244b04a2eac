//! A brain made of closures.

use crate::{BidCall, BidLine, Brain, Turn, TurnResult, process};
use std::process::ExitCode;

/// A brain made of closures.
///
/// ```no_run
/// # use mesh_agent::{Agent, BidLine, Cost};
/// let mut turns = 0;
/// let agent = Agent::new(move |turn| {
///     turns += 1;
///     Ok(format!("{}: turn {turns} of this process", turn.task()?.description))
/// });
/// agent
///     .bid(|call| match call.cfp.description.len() {
///         0..1_000 => Ok(BidLine { cost: Cost::new(0.05), eta: Some("3m".into()), ..BidLine::default() }),
///         _ => Err("too long for me".to_owned()),
///     })
///     .run();
/// ```
pub struct Agent<'a> {
    work: Box<dyn FnMut(&Turn) -> TurnResult + 'a>,
    bidder: Option<Box<Bidder<'a>>>,
}

type Bidder<'a> = dyn FnMut(&BidCall) -> Result<BidLine, String> + 'a;

impl<'a> Agent<'a> {
    /// A brain whose turns `work` takes.
    pub fn new(work: impl FnMut(&Turn) -> TurnResult + 'a) -> Self {
        Self { work: Box::new(work), bidder: None }
    }

    /// Lets `bidder` answer calls for proposals, see [`Brain::bid`].
    #[must_use]
    pub fn bid(mut self, bidder: impl FnMut(&BidCall) -> Result<BidLine, String> + 'a) -> Self {
        self.bidder = Some(Box::new(bidder));
        self
    }

    /// Takes turns until the node needs the process no more, see [`crate::run`].
    pub fn run(self) -> ExitCode {
        process::run(self)
    }
}

impl Brain for Agent<'_> {
    fn turn(&mut self, turn: &Turn) -> TurnResult {
        (self.work)(turn)
    }

    fn bid(&mut self, call: &BidCall) -> Result<BidLine, String> {
        self.bidder.as_mut().map_or_else(|| Ok(BidLine::default()), |bidder| bidder(call))
    }
}
