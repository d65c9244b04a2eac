//! The registry's routes. They need the edge's `Principal` and buffered body, and `web::Data<SupervisedRegistry>`.

mod catalog;
mod stream;

use crate::{
    client::Registry,
    entry::{AgentList, AgentQuery},
    registrar::{
        ChangeKey, Deregister, GetAgent, ReadKeyRecords, RecordHeartbeat, ReportSuspicion, SupervisedRegistry,
    },
    registration_request::RegistrationRequest,
};
use actix_web::{HttpResponse, http::Method, web};
use protocol::{principal::Principal, routes};
use transport::operation::OperationRoutes;
use transport::refusal::Refusal;

type RegistryResponse = Result<HttpResponse, Refusal>;
type RegistryData = web::Data<SupervisedRegistry>;

/// Every route of the registry.
pub fn routes(config: &mut web::ServiceConfig) {
    OperationRoutes::default()
        .with::<SupervisedRegistry, AgentQuery>()
        .with::<SupervisedRegistry, RegistrationRequest>()
        .with::<SupervisedRegistry, GetAgent>()
        .with::<SupervisedRegistry, Deregister>()
        .with::<SupervisedRegistry, RecordHeartbeat>()
        .with::<SupervisedRegistry, ReportSuspicion>()
        .with::<SupervisedRegistry, ChangeKey>()
        .with::<SupervisedRegistry, ReadKeyRecords>()
        .and(routes::REGISTRY_WATCH, Method::GET, web::to(watch))
        .and(routes::AI_CATALOG, Method::GET, web::to(catalog))
        .configure(config);
}

async fn catalog(registry: RegistryData) -> RegistryResponse {
    let AgentList { agents } =
        Registry::local(registry.get_ref().clone()).read(AgentQuery::default()).await?;
    let body = catalog::document(&agents).to_string();
    let cached = (actix_web::http::header::CACHE_CONTROL, "public, max-age=5");
    Ok(HttpResponse::Ok().content_type(catalog::MEDIA_TYPE).insert_header(cached).body(body))
}

async fn watch(registry: RegistryData, _by: web::ReqData<Principal>) -> RegistryResponse {
    Ok(stream::respond(registry.get_ref().clone()).await?)
}
