//! `GET /a2a/spaces/{space}/brief`: a brain reads again what a space knows for its agent.

use crate::{agent::GetReadableLayers, http::node_state::NodeState};
use actix::MailboxError;
use actix_web::{HttpResponse, web};
use protocol::{
    ids::SpaceId,
    principal::Principal,
    problem::{Problem, Reason},
    spaces::brief::Brief,
};
use transport::refusal::Refusal;

/// Answers the brain of an agent of this node with the present brief of its agent, vault included. The node asks the board as
/// that agent. The request does not name a turn: while the agent has turns as a seat, it is what the strictest of them may read.
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
    let (layers, scope) = local.actor.send(GetReadableLayers).await.map_err(overloaded)??;
    let brief = local.board.brief(&agent, &space, &scope).await?;
    let brief = match layers {
        Some(layers) => brief.only(&layers).unwrap_or_else(|| Brief::empty(space)),
        None => brief,
    };
    Ok(HttpResponse::Ok().json(brief))
}
