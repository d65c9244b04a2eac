//! A new award of a task that runs under an older award: one commit ends the old conversation and opens the new one.

use crate::{agent::Agent, conversation::QueuedEvent};
use protocol::{
    ids::{ConversationId, TaskId},
    patterns::EventKind,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::time::Duration;

/// The `retryAfter` of a request that is received during a commit of the conversation it is about.
pub(crate) const SOON: Duration = Duration::from_millis(50);

impl Agent {
    /// Queues a cancel for the conversation that does the task under an older award and returns its id.
    pub(crate) fn cancel_older_award(
        &mut self,
        owner: &(TaskId, Principal),
    ) -> Result<Option<ConversationId>, Problem> {
        let Some(older) = self.tasks.get(owner).cloned() else { return Ok(None) };
        let Some(conversation) = self.conversations.get_mut(&older) else { return Ok(None) };
        if conversation.is_committing() {
            let message = format!("a step of an older award of {} is being written", owner.0);
            return Err(Problem { retry_after: Some(SOON), ..Problem::new(Reason::Overloaded, message) });
        }
        // The row belongs to the new award from here on.
        conversation.task = None;
        let what = EventKind::Cancelled { by: owner.1.clone(), reason: "awarded anew".to_owned() };
        conversation.queue.push_back(QueuedEvent::from_inside(what, None));
        Ok(Some(older))
    }
}
