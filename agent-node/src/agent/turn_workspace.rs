//! The clone that a turn works in, and what it hands over for the commit at its end.

use crate::{
    artifacts::part_with_content,
    brain::TurnRequest,
    workspace::{TurnWorkspace, WorkspaceRights},
};
use patterns::{
    session::{names::SESSION, seat},
    turn::{Progress, TurnEnd, TurnSubject},
};
use protocol::{
    artifact::Artifact,
    ids::{AgentId, ConversationId},
    time::WallTime,
};
use serde_json::json;
use store::Store;

/// A turn that works in a clone.
pub(super) struct WorkspaceTurn {
    workspace: TurnWorkspace,
    /// What it has handed over.
    made: Vec<Artifact>,
}

/// Makes the clone of a turn that works in one. Its brain is told where it is, and no more.
pub(super) async fn prepare(
    workspaces: &WorkspaceRights,
    me: &AgentId,
    conversation: &ConversationId,
    request: &mut TurnRequest,
) -> Result<Option<WorkspaceTurn>, String> {
    let TurnSubject::Task(task) = &mut request.prompt.about else { return Ok(None) };
    let Some(wanted) = seat::workspace(task.terms.input.as_ref()) else { return Ok(None) };
    let workspace = workspaces.prepare(me, conversation, wanted).await?;
    if let Some(input) = &mut task.terms.input {
        input["seat"]["workspace"] = json!({ "dir": workspace.dir });
    }
    request.workspace = Some(workspace.dir.clone());
    Ok(Some(WorkspaceTurn { workspace, made: request.prompt.produced.clone() }))
}

/// Notes what the turn hands over. Only the node names a commit.
pub(super) fn note(turn: Option<&mut WorkspaceTurn>, progress: &mut Progress) {
    let (Some(turn), Progress::Artifact { artifact, append, .. }) = (turn, progress) else { return };
    if seat::named_commit(artifact).is_some() {
        artifact.metadata.remove(SESSION);
    }
    let known = turn.made.iter_mut().find(|made| made.artifact_id == artifact.artifact_id);
    match known {
        Some(known) if *append => known.parts.extend(artifact.parts.iter().cloned()),
        Some(known) => known.clone_from(artifact),
        None => turn.made.push(artifact.clone()),
    }
}

impl WorkspaceTurn {
    /// Commits what the turn has done, if it has ended its work.
    pub(super) async fn commit(
        &mut self,
        store: &dyn Store,
        me: &AgentId,
        now: WallTime,
        end: &TurnEnd,
    ) -> Result<Option<Progress>, String> {
        for part in self.made.iter_mut().flat_map(|made| &mut made.parts) {
            part_with_content(store, me, part, u64::MAX).await.map_err(|problem| problem.to_string())?;
        }
        let named = self.workspace.commit((me, now), end, &self.made).await?;
        Ok(named.map(|artifact| Progress::Artifact { artifact, append: false, last_chunk: true }))
    }
}
