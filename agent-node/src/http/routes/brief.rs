//! `GET /a2a/spaces/{space}/brief`: a brain reads again what a space knows for its agent.

use crate::{agent::GetReadableLayers, http::node_state::NodeState};
use actix::MailboxError;
use actix_web::{HttpResponse, web};
use engine::ReadableLayers;
use protocol::{
    deputy::Deputy,
    ids::SpaceId,
    principal::{Principal, TaskRoot},
    problem::{Problem, Reason},
    spaces::brief::Brief,
};
use transport::refusal::Refusal;

/// Answers the brain of an agent of this node with the present brief of its agent, vault included. The node asks the board as
/// that agent. The request does not name a turn: while the agent has turns as a seat, it is what the strictest of them may read, and
/// while turns are for several principals, what all of these may. Without a turn it is what the agent knows by itself.
pub async fn get(
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    space: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let Principal::Brain(agent) = by.into_inner() else {
        let message = "only a brain reads its brief here; GET /board/spaces/{space}/brief?for=AGENT shows it to a person";
        return Err(Problem::new(Reason::Forbidden, message).into());
    };
    let space: SpaceId = super::id(&space)?;
    let local = node.agent(&agent)?;
    let overloaded = |error: MailboxError| Problem::new(Reason::Overloaded, error.to_string());
    let ReadableLayers { layers, scope, roots } =
        local.actor.send(GetReadableLayers).await.map_err(overloaded)??;
    let mut brief = None;
    for root in &roots {
        let deputy = Deputy { agent: agent.clone(), root: root.clone() };
        brief = Some(local.board.brief(&deputy, &space, &scope).await?);
    }
    // All may read the space. What one of them has caused is for none of the others.
    let brief = match brief.filter(|_| roots.len() == 1) {
        Some(brief) => brief,
        None => {
            let own = Deputy { root: TaskRoot::agent(&agent), agent };
            local.board.brief(&own, &space, &scope).await?
        }
    };
    let brief = match layers {
        Some(layers) => brief.only(&layers).unwrap_or_else(|| Brief::empty(space)),
        None => brief,
    };
    Ok(HttpResponse::Ok().json(brief))
}
