//! Work that is one request, without a turn: the agent's own process sends it from outside of any turn. The answer is the result.

use super::{Doing, Effect, Event, TaskState, WorkKind, WorkLimits};
use crate::{ownership::TaskOwnership, turn::Progress};
use protocol::{artifact::ArtifactChunk, ids::AgentId};

impl Doing {
    /// `me` sends the `help` or `delegate` of `request`. It takes no place.
    pub fn requesting(
        me: AgentId,
        mut ownership: TaskOwnership,
        request: Progress,
        limits: WorkLimits,
    ) -> Self {
        // The agent that does it tells the board.
        ownership.announces = false;
        let limits = WorkLimits { is_unmetered: false, ..limits };
        let mut work = Self { kind: WorkKind::LoneRequest, ..Self::new(me, ownership, None, limits) };
        work.task.pending.note(request);
        work
    }

    /// Sends the request as the end of a turn sends it.
    pub(super) fn send_lone_request(&mut self, event: &Event) -> Vec<Effect> {
        self.task.begin_turn();
        let mut effects: Vec<_> = self.task.ownership.deadline_timer().into_iter().collect();
        let message = format!("{} has sent it and waits for the answer", self.task.me);
        effects.extend(self.task.ownership.status(TaskState::Working, message));
        effects.extend(self.send(None, event));
        effects.extend(self.go_on());
        effects
    }

    /// Ends with the answer.
    pub(super) fn end_with_answer(&mut self) -> Vec<Effect> {
        if self.handed.is_some() {
            return self.handed_in_vain();
        }
        let Some(answer) = self.task.pending.take_results().pop() else { return Vec::new() };
        let artifacts = answer.artifacts.into_iter().map(ArtifactChunk::whole);
        let mut effects: Vec<_> = artifacts.filter_map(|chunk| self.task.ownership.produce(chunk)).collect();
        let state = if answer.ok { TaskState::Completed } else { TaskState::Failed };
        effects.extend(self.finish(state, Some(answer.text)));
        effects
    }
}
