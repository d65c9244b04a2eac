//! The brief of an agent, and the curation after its task.

use super::{SpaceCaller, space_of};
use crate::http::{BoardData, BoardResult, request};
use actix_web::{HttpRequest, HttpResponse, web};
use protocol::{
    ids::{AgentId, TaskId},
    problem::{Problem, Reason},
};
use serde::Deserialize;

/// `GET …/brief?for=AGENT`; an agent may leave out its own name.
pub(super) async fn get_brief(board: BoardData, by: SpaceCaller, request: HttpRequest) -> BoardResult {
    let space = space_of(&request)?;
    let agent = agent_of(request.query_string(), &by)?;
    Ok(HttpResponse::Ok().json(board.spaces().brief(&by.0, &space, &agent).await?))
}

fn agent_of(query: &str, by: &SpaceCaller) -> Result<AgentId, Problem> {
    let invalid =
        |why: String| Problem::new(Reason::InvalidField, format!("for: {why}")).with("field", "for");
    let pairs: Vec<(String, String)> = web::Query::from_query(query)
        .map(web::Query::into_inner)
        .map_err(|error| invalid(error.to_string()))?;
    match pairs.as_slice() {
        [(name, agent)] if name == "for" => AgentId::parse(agent).map_err(|bad| invalid(bad.to_string())),
        [] => match by.0.principal.agent() {
            Some(agent) => Ok(agent.clone()),
            None => Err(invalid("name the agent, for=AGENT".to_owned())),
        },
        _ => Err(invalid("the query names one agent and nothing else, for=AGENT".to_owned())),
    }
}

#[derive(Deserialize)]
struct CurateBody {
    task: TaskId,
    #[serde(default)]
    session: bool,
}

/// `POST …/curate` by the agent whose proposals of a task are meant.
pub(super) async fn curate(
    board: BoardData,
    by: SpaceCaller,
    request: HttpRequest,
    body: web::Bytes,
) -> BoardResult {
    let space = space_of(&request)?;
    let CurateBody { task, session } = request::parse_body(&body)?;
    Ok(HttpResponse::Ok().json(board.spaces().curate(&by.0, &space, &task, session).await?))
}
