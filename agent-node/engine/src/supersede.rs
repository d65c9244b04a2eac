//! An award that comes while an older one of the same task is being done: the older one's end and the new one's
//! beginning are one commit, so that no crash leaves both, or neither.

use crate::{agent::Agent, conversation::QueuedEvent};
use protocol::{
    ids::{ConversationId, TaskId},
    patterns::EventKind,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::time::Duration;

/// How long a manager waits before it sends an award again that came in the middle of a step.
const SOON: Duration = Duration::from_millis(50);

impl Agent {
    /// The conversation that does `owner`'s task under an older award, told that it is over; its step is not decided yet.
    pub(crate) fn end_older(
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
