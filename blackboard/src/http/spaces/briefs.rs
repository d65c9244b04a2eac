//! The brief of an agent, and the curation after its task.

use super::{SpaceCaller, space_of};
use crate::{
    board::EndedRun,
    http::{BoardData, BoardResult, request},
};
use actix_web::{HttpRequest, HttpResponse, web};
use protocol::{
    ids::{AgentId, TaskId},
    principal::{Principal, RootProof, TaskRoot},
    problem::{Problem, Reason},
    spaces::{request::SessionScope, sealed::EntryRelease, vault::VaultChange},
};
use serde::{Deserialize, de::IntoDeserializer};

/// `GET …/brief?for=AGENT`; an agent may leave out its own name. `session` and `sealed` name sessions, `root` and `rootProof` the
/// principal for whom the brief is.
pub(super) async fn get_brief(board: BoardData, by: SpaceCaller, request: HttpRequest) -> BoardResult {
    let space = space_of(&request)?;
    let (agent, seen) = brief_of(request.query_string(), &by)?;
    Ok(HttpResponse::Ok().json(board.spaces().brief(&by.0, &space, &agent, seen).await?))
}

fn brief_of(query: &str, by: &SpaceCaller) -> Result<(AgentId, (SessionScope, Option<TaskRoot>)), Problem> {
    let invalid = |field: &'static str, why: String| {
        Problem::new(Reason::InvalidField, format!("{field}: {why}")).with("field", field)
    };
    let pairs: Vec<(String, String)> = web::Query::from_query(query)
        .map(web::Query::into_inner)
        .map_err(|error| invalid("for", error.to_string()))?;
    let (mut agent, mut scope) = (by.0.principal.agent().cloned(), SessionScope::default());
    let (mut root, mut proof) = (None, None);
    for (name, value) in &pairs {
        let session = |field| TaskId::parse(value).map(Some).map_err(|bad| invalid(field, bad.to_string()));
        match name.as_str() {
            "for" => {
                agent = Some(AgentId::parse(value).map_err(|bad| invalid("for", bad.to_string()))?);
            }
            "session" => scope.session = session("session")?,
            "sealed" => scope.sealed = session("sealed")?,
            "root" => {
                let named = Principal::try_from(value.clone());
                root = Some(named.map_err(|bad| invalid("root", bad.to_string()))?);
            }
            "rootProof" => {
                proof = RootProof::known(value.as_str().into_deserializer())
                    .map_err(|error: serde::de::value::Error| invalid("rootProof", error.to_string()))?
            }
            _ => {
                let why = "the query names an agent, for=AGENT, and may name a session".to_owned();
                return Err(invalid("for", why));
            }
        }
    }
    let agent = agent.ok_or_else(|| invalid("for", "name the agent, for=AGENT".to_owned()))?;
    let root = root.map(|principal| TaskRoot { principal, proof });
    Ok((agent, (scope, root)))
}

/// `POST …/release` by the agent that hosts the session.
pub(super) async fn release(
    board: BoardData,
    by: SpaceCaller,
    request: HttpRequest,
    body: web::Bytes,
) -> BoardResult {
    let space = space_of(&request)?;
    let wanted: EntryRelease = request::parse_body(&body)?;
    Ok(HttpResponse::Ok().json(board.spaces().release(&by.0, &space, &wanted).await?))
}

/// `POST …/curate` by the agent that answers for a run.
pub(super) async fn curate(
    board: BoardData,
    by: SpaceCaller,
    request: HttpRequest,
    body: web::Bytes,
) -> BoardResult {
    let space = space_of(&request)?;
    let run: EndedRun = request::parse_body(&body)?;
    Ok(HttpResponse::Ok().json(board.spaces().curate(&by.0, &space, &run).await?))
}

/// `GET …/vault?of=AGENT`, for the person.
pub(super) async fn get_vault(board: BoardData, by: SpaceCaller, request: HttpRequest) -> BoardResult {
    let (space, agent) = (space_of(&request)?, owner_of(request.query_string())?);
    Ok(HttpResponse::Ok().json(board.spaces().vault(&by.0, &space, &agent).await?))
}

/// `POST …/vault?of=AGENT`: the person mends it.
pub(super) async fn change_vault(
    board: BoardData,
    by: SpaceCaller,
    request: HttpRequest,
    body: web::Bytes,
) -> BoardResult {
    let (space, agent) = (space_of(&request)?, owner_of(request.query_string())?);
    let change: VaultChange = request::parse_body(&body)?;
    Ok(HttpResponse::Ok().json(board.spaces().change_vault(&by.0, &space, &agent, &change).await?))
}

/// The agent whose vault is meant.
fn owner_of(query: &str) -> Result<AgentId, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Owner {
        of: AgentId,
    }
    let owner = web::Query::<Owner>::from_query(query);
    owner.map(|owner| owner.into_inner().of).map_err(|error| {
        let why = format!("of: the query names the agent, of=AGENT ({error})");
        Problem::new(Reason::InvalidField, why).with("field", "of")
    })
}
