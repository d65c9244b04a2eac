//! The registry's routes. They need the edge's `Principal` and buffered body, and `web::Data<SupervisedRegistry>`.

mod catalog;
mod stream;

use crate::{
    entry::{AgentList, AgentQuery, CapabilityMatch, Heartbeat, SearchOrder},
    pinned_keys::KeyCursor,
    registrar::{
        ChangeKey, Deregister, FindAgents, GetAgent, ReadKeyRecords, RecordHeartbeat, Register,
        ReportSuspicion, SupervisedRegistry,
    },
    registration_request::{RegistrationRequest, may_speak_for},
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
use serde::{Deserialize, de::DeserializeOwned};

type RegistryResponse = Result<HttpResponse, Refusal>;
type RegistryData = web::Data<SupervisedRegistry>;

/// Every route of the registry.
pub fn routes(cfg: &mut web::ServiceConfig) {
    let agents = routes::AGENTS;
    cfg.service(resource(agents, [(Method::GET, web::to(find)), (Method::POST, web::to(register))]))
        .service(resource(
            &format!("{agents}/{{id}}"),
            [(Method::GET, web::to(get)), (Method::DELETE, web::to(deregister))],
        ))
        .service(resource(&format!("{agents}/{{id}}/heartbeat"), [(Method::PUT, web::to(heartbeat))]))
        .service(resource(&format!("{agents}/{{id}}/suspicion"), [(Method::POST, web::to(suspect))]))
        .service(resource(
            &format!("{}/{{id}}/change", routes::REGISTRY_KEYS),
            [(Method::POST, web::to(change_key))],
        ))
        .service(resource(routes::KEY_RECORDS, [(Method::GET, web::to(key_records))]))
        .service(resource(routes::REGISTRY_WATCH, [(Method::GET, web::to(watch))]))
        .service(resource(routes::AI_CATALOG, [(Method::GET, web::to(catalog))]));
}

async fn register(registry: RegistryData, by: web::ReqData<Principal>, body: web::Bytes) -> RegistryResponse {
    let request: RegistrationRequest = read(&body)?;
    let grant = registry.ask(Register { by: by.into_inner(), request }).await??;
    Ok(HttpResponse::Created().json(grant))
}

async fn heartbeat(
    registry: RegistryData,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
    body: web::Bytes,
) -> RegistryResponse {
    let (id, heartbeat): (_, Heartbeat) = (agent(&id)?, read(&body)?);
    registry.ask(RecordHeartbeat { by: by.into_inner(), id, heartbeat }).await??;
    Ok(HttpResponse::NoContent().finish())
}

async fn change_key(
    registry: RegistryData,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
    body: web::Bytes,
) -> RegistryResponse {
    let (id, by) = (agent(&id)?, by.into_inner());
    may_speak_for(&by, &id, true)?;
    Ok(HttpResponse::Ok().json(registry.ask(ChangeKey { by, id, change: read(&body)? }).await??))
}

async fn key_records(
    registry: RegistryData,
    _by: web::ReqData<Principal>,
    request: HttpRequest,
) -> RegistryResponse {
    let (mut life, mut revision) = (None, None);
    for (name, value) in query_pairs(&request)? {
        match name.as_str() {
            "life" => life = Some(value),
            "revision" => revision = value.parse().ok(),
            _ => {}
        }
    }
    let after = match (life, revision) {
        (Some(life), Some(revision)) => Some(KeyCursor { life, revision }),
        (None, None) => None,
        (_, _) => return Err(invalid("life and revision (a number) are the cursor of the last page").into()),
    };
    Ok(HttpResponse::Ok().json(registry.ask(ReadKeyRecords(after)).await??))
}

async fn suspect(
    registry: RegistryData,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
    body: web::Bytes,
) -> RegistryResponse {
    #[derive(Deserialize)]
    struct SuspicionBody {
        incarnation: u64,
    }
    let (id, SuspicionBody { incarnation }) = (agent(&id)?, read(&body)?);
    registry.ask(ReportSuspicion { by: by.into_inner(), id, incarnation }).await??;
    Ok(HttpResponse::NoContent().finish())
}

async fn deregister(
    registry: RegistryData,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
    request: HttpRequest,
) -> RegistryResponse {
    let (mut incarnation, mut is_drained) = (None, false);
    for (name, value) in query_pairs(&request)? {
        match (name.as_str(), value.as_str()) {
            ("incarnation", number) => incarnation = number.parse().ok(),
            ("reason", "drained") => is_drained = true,
            _ => {}
        }
    }
    let incarnation = incarnation.ok_or_else(|| invalid("the query needs incarnation=<number>"))?;
    registry.ask(Deregister { by: by.into_inner(), id: agent(&id)?, incarnation, is_drained }).await??;
    Ok(HttpResponse::NoContent().finish())
}

async fn find(
    registry: RegistryData,
    _by: web::ReqData<Principal>,
    request: HttpRequest,
) -> RegistryResponse {
    let agents = registry.ask(FindAgents(query(&request)?)).await?;
    Ok(HttpResponse::Ok().json(AgentList { agents }))
}

async fn catalog(registry: RegistryData) -> RegistryResponse {
    let agents = registry.ask(FindAgents(AgentQuery::default())).await?;
    let body = catalog::document(&agents).to_string();
    let cached = (actix_web::http::header::CACHE_CONTROL, "public, max-age=5");
    Ok(HttpResponse::Ok().content_type(catalog::MEDIA_TYPE).insert_header(cached).body(body))
}

async fn get(
    registry: RegistryData,
    _by: web::ReqData<Principal>,
    id: web::Path<String>,
) -> RegistryResponse {
    let id = agent(&id)?;
    match registry.ask(GetAgent(id.clone())).await? {
        Some(entry) => Ok(HttpResponse::Ok().json(entry)),
        None => Err(Problem::new(Reason::AgentNotFound, format!("no agent {id} is known")).into()),
    }
}

async fn watch(registry: RegistryData, _by: web::ReqData<Principal>) -> RegistryResponse {
    Ok(stream::respond(registry.get_ref().clone()).await?)
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

fn query_pairs(request: &HttpRequest) -> Result<Vec<(String, String)>, Problem> {
    web::Query::from_query(request.query_string())
        .map(web::Query::into_inner)
        .map_err(|error| invalid(format!("the query cannot be read: {error}")))
}

fn query(request: &HttpRequest) -> Result<AgentQuery, Problem> {
    let mut query = AgentQuery::default();
    for (name, value) in query_pairs(request)? {
        match (name.as_str(), value.as_str()) {
            ("capability", name) => {
                query.capabilities.push(Capability::parse(name).map_err(|error| invalid(error.to_string()))?);
            }
            ("match", "any") => query.matching = CapabilityMatch::Any,
            ("match", "all") => query.matching = CapabilityMatch::All,
            ("prefer", "none") => query.prefer = SearchOrder::None,
            ("prefer", "least-loaded") => query.prefer = SearchOrder::LeastLoaded,
            ("prefer", "cheapest") => query.prefer = SearchOrder::Cheapest,
            ("includeDead", "true") => query.include_dead = true,
            ("includeDead", "false") => query.include_dead = false,
            (name, value) => {
                let (name, value): (String, String) = (truncate(name), truncate(value));
                return Err(invalid(format!(
                    "{name}={value} is not understood: capability=<name> (repeatable), match=any|all, \
                     prefer=none|least-loaded|cheapest, includeDead=true|false"
                )));
            }
        }
    }
    Ok(query)
}

fn truncate(text: &str) -> String {
    text.chars().take(80).collect()
}
