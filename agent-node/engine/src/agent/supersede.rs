//! A new award of a task that runs under an older award: the old work ends first, so that the new one goes on behind its last record.

use crate::agent::Agent;
use patterns::EventKind;
use protocol::{
    ids::ConversationId,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::time::Duration;

/// The `retryAfter` of a request that is received during a commit of the conversation it is about.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(50);

impl Agent {
    /// Ends the conversation that does the task under an older award. Returns the refusal of the new one (`Overloaded`), which the
    /// manager sends again.
    pub(super) fn end_older_award(&mut self, older: &ConversationId, by: &Principal) -> Problem {
        let what = EventKind::Cancelled { by: by.clone(), reason: "superseded: awarded anew".to_owned() };
        self.events.push(older, None, what);
        let message = format!("the work under an older award, {older}, is ended first");
        Problem { retry_after: Some(RETRY_AFTER), ..Problem::new(Reason::Overloaded, message) }
    }
}
