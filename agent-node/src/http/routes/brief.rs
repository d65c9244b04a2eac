//! `GET /a2a/spaces/{space}/brief`: a brain reads again what a space knows for its agent.

use crate::http::node_state::NodeState;
use actix_web::{HttpResponse, web};
use blackboard::refusal::Refusal;
use protocol::{
    ids::SpaceId,
    principal::Principal,
    problem::{Problem, Reason},
};

/// Answers the brain of an agent of this node with the present brief of its agent, vault included. The node asks the board as
/// that agent.
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
    let brief = node.agent(&agent)?.board.brief(&agent, &space).await?;
    Ok(HttpResponse::Ok().json(brief))
}
