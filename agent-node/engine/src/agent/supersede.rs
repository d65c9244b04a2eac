//! A new award of a task that runs under an older award: one commit ends the old conversation and opens the new one.

use crate::{agent::Agent, conversation::QueuedEvent};
use patterns::EventKind;
use protocol::{
    ids::{ConversationId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
};
use std::time::Duration;

/// The `retryAfter` of a request that is received during a commit of the conversation it is about.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(50);

impl Agent {
    /// Queues a cancel for the conversation that does the task under an older award, and returns the id of that conversation.
    /// Returns `None` if there is no such conversation, and refuses (`Overloaded`) while a step of it is being written.
    pub(super) fn cancel_older_award(
        &mut self,
        task_key: &(TaskId, Principal),
    ) -> Result<Option<ConversationId>, Problem> {
        let Some(older) = self.conversations.of_task(&task_key.0, &task_key.1).cloned() else {
            return Ok(None);
        };
        let Some(conversation) = self.conversations.get_mut(&older) else { return Ok(None) };
        if conversation.is_committing() {
            let message = format!("a step of an older award of {} is being written", task_key.0);
            return Err(Problem {
                retry_after: Some(RETRY_AFTER),
                ..Problem::new(Reason::Overloaded, message)
            });
        }
        // The conversation of the new award writes the task's row from here on; the older one must not.
        conversation.task = None;
        let what =
            EventKind::Cancelled { by: task_key.1.clone(), reason: "superseded: awarded anew".to_owned() };
        conversation.queue.push_back(QueuedEvent::from_inside(what, None));
        Ok(Some(older))
    }
}
