//! The registry's routes. They expect the edge's `Principal` and whole body, and `web::Data<Keeper>`.

mod catalog;
mod stream;

use crate::{
    application::Application,
    client::ask,
    entry::{Entry, Heartbeat, Match, Prefer, Query},
    registrar::{Beat, Deregister, Find, Keeper, Look, Register, Suspect},
};
use actix_web::{HttpRequest, HttpResponse, http::Method, web};
use blackboard::{refusal::Refusal, resource::resource};
use protocol::{
    ids::{AgentId, Capability},
    json::{self, MAX_DEPTH},
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The answer to a search, and a watch's snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) agents: Vec<Entry>,
}

type Answer = Result<HttpResponse, Refusal>;
type Place = web::Data<Keeper>;

/// Every route of the registry.
pub fn routes(cfg: &mut web::ServiceConfig) {
    let agents = routes::AGENTS;
    cfg.service(resource(agents, [(Method::GET, web::to(find)), (Method::POST, web::to(register))]))
        .service(resource(
            &format!("{agents}/{{id}}"),
            [(Method::GET, web::to(look)), (Method::DELETE, web::to(deregister))],
        ))
        .service(resource(&format!("{agents}/{{id}}/heartbeat"), [(Method::PUT, web::to(heartbeat))]))
        .service(resource(&format!("{agents}/{{id}}/suspicion"), [(Method::POST, web::to(suspect))]))
        .service(resource(routes::REGISTRY_WATCH, [(Method::GET, web::to(watch))]))
        .service(resource(routes::AI_CATALOG, [(Method::GET, web::to(catalog))]));
}

async fn register(registry: Place, by: web::ReqData<Principal>, body: web::Bytes) -> Answer {
    let application: Application = read(&body)?;
    let registered = ask(&registry, Register { by: by.into_inner(), application }).await??;
    Ok(HttpResponse::Created().json(registered))
}

async fn heartbeat(
    registry: Place,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
    body: web::Bytes,
) -> Answer {
    let (id, heartbeat): (_, Heartbeat) = (agent(&id)?, read(&body)?);
    ask(&registry, Beat { by: by.into_inner(), id, heartbeat }).await??;
    Ok(HttpResponse::NoContent().finish())
}

async fn suspect(
    registry: Place,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
    body: web::Bytes,
) -> Answer {
    #[derive(Deserialize)]
    struct Missed {
        incarnation: u64,
    }
    let (id, Missed { incarnation }) = (agent(&id)?, read(&body)?);
    ask(&registry, Suspect { by: by.into_inner(), id, incarnation }).await??;
    Ok(HttpResponse::NoContent().finish())
}

async fn deregister(
    registry: Place,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
    request: HttpRequest,
) -> Answer {
    let (mut incarnation, mut is_drained) = (None, false);
    for (name, value) in asked(&request)? {
        match (name.as_str(), value.as_str()) {
            ("incarnation", number) => incarnation = number.parse().ok(),
            ("reason", "drained") => is_drained = true,
            _ => {}
        }
    }
    let incarnation = incarnation.ok_or_else(|| invalid("the query needs incarnation=<number>"))?;
    ask(&registry, Deregister { by: by.into_inner(), id: agent(&id)?, incarnation, is_drained }).await??;
    Ok(HttpResponse::NoContent().finish())
}

async fn find(registry: Place, _by: web::ReqData<Principal>, request: HttpRequest) -> Answer {
    let agents = ask(&registry, Find(query(&request)?)).await?;
    Ok(HttpResponse::Ok().json(Found { agents }))
}

async fn catalog(registry: Place) -> Answer {
    let agents = ask(&registry, Find(Query::default())).await?;
    let body = catalog::of(&agents).to_string();
    let cached = (actix_web::http::header::CACHE_CONTROL, "public, max-age=5");
    Ok(HttpResponse::Ok().content_type(catalog::MEDIA_TYPE).insert_header(cached).body(body))
}

async fn look(registry: Place, _by: web::ReqData<Principal>, id: web::Path<String>) -> Answer {
    let id = agent(&id)?;
    match ask(&registry, Look(id.clone())).await? {
        Some(entry) => Ok(HttpResponse::Ok().json(entry)),
        None => Err(Problem::new(Reason::AgentNotFound, format!("no agent {id} is known")).into()),
    }
}

async fn watch(registry: Place, _by: web::ReqData<Principal>) -> Answer {
    Ok(stream::answer(registry.get_ref().clone()).await?)
}

fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(Reason::InvalidField, message)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let members = json::parse_object(body, MAX_DEPTH)?;
    serde_path_to_error::deserialize(serde_json::Value::Object(members))
        .map_err(|error| invalid(error.to_string()))
}

fn agent(text: &str) -> Result<AgentId, Problem> {
    AgentId::parse(text).map_err(|error| invalid(error.to_string()))
}

fn asked(request: &HttpRequest) -> Result<Vec<(String, String)>, Problem> {
    web::Query::from_query(request.query_string())
        .map(web::Query::into_inner)
        .map_err(|error| invalid(format!("the query cannot be read: {error}")))
}

fn query(request: &HttpRequest) -> Result<Query, Problem> {
    let mut query = Query::default();
    for (name, value) in asked(request)? {
        match (name.as_str(), value.as_str()) {
            ("capability", name) => {
                query.capabilities.push(Capability::parse(name).map_err(|error| invalid(error.to_string()))?);
            }
            ("match", "any") => query.matching = Match::Any,
            ("match", "all") => query.matching = Match::All,
            ("prefer", "none") => query.prefer = Prefer::None,
            ("prefer", "least-loaded") => query.prefer = Prefer::LeastLoaded,
            ("prefer", "cheapest") => query.prefer = Prefer::Cheapest,
            ("includeDead", "true") => query.include_dead = true,
            ("includeDead", "false") => query.include_dead = false,
            (name, value) => {
                let (name, value): (String, String) = (cut(name), cut(value));
                return Err(invalid(format!(
                    "{name}={value} is not understood: capability=<name> (repeatable), match=any|all, \
                     prefer=none|least-loaded|cheapest, includeDead=true|false"
                )));
            }
        }
    }
    Ok(query)
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}
