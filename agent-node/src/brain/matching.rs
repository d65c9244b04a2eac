//! A request and the skills that agents advertise, for a brain that can say who does which part.

use patterns::session::team::{AdvertisedSkill, chosen::ChosenPart};
use protocol::ids::AgentId;
use std::{future::Future, pin::Pin, time::Duration};

/// What a brain is asked. It answers with pieces of the request and skills among these.
#[derive(Debug, Clone)]
pub struct MatchQuestion {
    pub agent: AgentId,
    pub request: String,
    pub skills: Vec<AdvertisedSkill>,
    /// How long the answer is waited for.
    pub within: Duration,
}

/// What a brain has chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchAnswer {
    pub model: String,
    pub parts: Vec<ChosenPart>,
}

/// An answer in progress; the error says why there is none.
pub type MatchFuture = Pin<Box<dyn Future<Output = Result<MatchAnswer, String>> + Send>>;
