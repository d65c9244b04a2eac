//! Counts how often an agent asks this one for the same in one run. Each of these requests has a task and a message id of its own, so
//! no receipt tells that they are equal. Tasks are counted where their rows are listed, so the count outlives a restart.

use super::is_seat_turn;
use crate::{
    IncomingMessage,
    agent::Agent,
    context::Context,
    problems::internal,
    records::{keys, lists},
};
use protocol::{
    artifact::{Artifact, ArtifactRef},
    ids::{AgentId, Capability, Digest},
    message,
    problem::{Problem, Reason},
    run_root::RunRoot,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use store_types::ListQuery;

/// How often an agent may ask another one for the same in one run.
const MAX_EQUAL: usize = 4;

/// What equal requests have in common.
#[derive(Serialize)]
struct RepeatedContent<'a> {
    run: &'a RunRoot,
    sender: &'a AgentId,
    capability: Option<&'a Capability>,
    description: &'a str,
    input: Option<&'a Value>,
    artifacts: &'a [ArtifactRef],
    inline_artifacts: &'a [Artifact],
}

impl RepeatedContent<'_> {
    fn digest(&self) -> Result<Digest, Problem> {
        Ok(Digest::of(&serde_json::to_vec(self).map_err(internal)?))
    }
}

impl Agent {
    /// The digest that a request of another agent has in common with equal ones of the same run. Fails if there were too many of
    /// them. The turns of a session have bounds of their own.
    pub(super) fn check_repeats(
        &self,
        message: &IncomingMessage,
        request: &message::TaskRequest,
        cx: &Context<'_>,
    ) -> Result<Option<Digest>, Problem> {
        let sender = message.by.agent().filter(|sender| **sender != self.me);
        let (Some(sender), Some(run)) = (sender, &request.run) else { return Ok(None) };
        if is_seat_turn(message, request) {
            return Ok(None);
        }
        let asked = RepeatedContent {
            run,
            sender,
            capability: request.capability.as_ref(),
            description: &request.description,
            input: request.input.as_ref(),
            artifacts: &request.artifacts,
            inline_artifacts: &request.inline_artifacts,
        };
        let equals = asked.digest()?;
        let listed = ListQuery::oldest(lists::of_equal_requests(&self.me, &equals));
        let listed = cx.store.list(&listed, MAX_EQUAL)?.into_iter().map(|entry| entry.key);
        // The first step of an open one may not be recorded yet.
        let open = self.conversations.of_equal_requests(&equals);
        let open = open.map(|row| keys::task(&self.me, &row.task.spec.task_id, &row.task.owner));
        let tasks: BTreeSet<_> = listed.chain(open).collect();
        if tasks.len() < MAX_EQUAL {
            return Ok(Some(equals));
        }
        let message = format!(
            "loop: {sender} has asked {} for the same {MAX_EQUAL} times in the run of task {}; ask for something else, or end",
            self.me, run.task
        );
        Err(Problem::new(Reason::Loop, message).with("limit", MAX_EQUAL))
    }
}
