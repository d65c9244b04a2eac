//! Whether the sender of a message may let its work belong to the space that it names.

use crate::http::node_state::HostedAgent;
use protocol::{
    deputy::{Deputy, MeshOperation},
    envelope::Envelope,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    spaces::{Reader, Space, SpaceVerb, may},
};

/// Refuses a message whose work belongs to a space that its sender may not read: the agent tells its brain what that space knows,
/// so what comes back could tell the sender. The default space is everybody's. Fails if the board can't be asked now.
pub(super) async fn check(
    local: &HostedAgent,
    by: &Principal,
    proof: SenderProof,
    envelope: &Envelope,
) -> Result<(), Problem> {
    let named = envelope.payload.awarded_space().or(envelope.space_id.as_ref());
    let Some(id) = named.filter(|id| **id != Space::initial_default().id) else { return Ok(()) };
    let space = local.board.space(&Principal::Agent(local.id.clone()), id).await.map_err(|problem| {
        let is_no_member = problem.reason == Reason::SpaceNotFound;
        let message = format!(
            "{} is a member of no space {id}: there is none, or it is not among the members (`mesh space ls`); another agent may be asked, or host (`--host`)",
            local.id
        );
        if is_no_member { Problem::new(problem.reason, message).with("field", "spaceId") } else { problem }
    })?;
    may(&Reader { principal: by.clone(), proof }, SpaceVerb::Read, None, &space)
        .and_then(|()| match (by, envelope.payload.root(by)) {
            // Who asks for somebody else, asks for no more than that one may read.
            (Principal::Agent(agent), Some(root)) => {
                let deputy = Deputy { agent: agent.clone(), root };
                deputy.may(MeshOperation::InSpace(SpaceVerb::Read, None, &space))
            }
            _ => Ok(()),
        })
        .map_err(|problem| problem.with("field", "spaceId"))
}
