//! The board's routes. They expect the edge's `Principal` and whole body, and `web::Data<Board>`.

mod asked;
mod stream;

use crate::{board::Board, refusal::Refusal, resource::resource};
use actix_web::{HttpRequest, HttpResponse, http::Method, web};
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

type Answer = Result<HttpResponse, Refusal>;
type Place = web::Data<Board>;
type By = web::ReqData<Principal>;

/// Every route of the board.
///
/// A reader of the stream that does not read holds no more than a few socket buffers; it is cut by the listener's
/// `TCP_USER_TIMEOUT`, which the server sets on every connection.
pub fn routes(cfg: &mut web::ServiceConfig) {
    let claim = |verb: &str| format!("{}/{{task}}{verb}", routes::CLAIMS);
    cfg.service(resource(&format!("{}/stream", routes::SIGNALS), [(Method::GET, web::to(stream::follow))]))
        .service(resource(routes::SIGNALS, [(Method::GET, web::to(read)), (Method::POST, web::to(publish))]))
        .service(resource(&claim("/renew"), [(Method::POST, web::to(renew))]))
        .service(resource(&claim("/release"), [(Method::POST, web::to(release))]))
        .service(resource(&claim("/complete"), [(Method::POST, web::to(complete))]))
        .service(resource(&claim("/fail"), [(Method::POST, web::to(fail))]))
        .service(resource(&claim(""), [(Method::GET, web::to(look)), (Method::POST, web::to(take))]));
}

async fn publish(board: Place, by: By, request: HttpRequest, body: web::Bytes) -> Answer {
    let mut signal = asked::signal(&body, &by)?;
    asked::under_trace(&mut signal, request.headers());
    let id = signal.id.clone();
    let revision = board.publish(&by, signal).await?;
    Ok(HttpResponse::Created().json(json!({ "revision": revision, "id": id })))
}

async fn read(board: Place, _by: By, request: HttpRequest) -> Answer {
    let query = asked::query(request.query_string())?;
    let limit = query.limit.unwrap_or(100);
    let page = board.read(query.selector, query.after, limit).await?;
    Ok(HttpResponse::Ok().json(page))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Take {
    lease_ms: u64,
    holder: Option<AgentId>,
}

#[derive(Deserialize)]
struct Named {
    epoch: u64,
}

async fn take(board: Place, by: By, task: web::Path<String>, body: web::Bytes) -> Answer {
    let (task, Take { lease_ms, holder }) = (parsed(&task)?, asked::body(&body)?);
    let holder = match (holder, &*by) {
        (Some(holder), _) => holder,
        (None, Principal::Agent(id) | Principal::User(id)) => id.clone(),
    };
    let claim = board.claim(&by, &task, &holder, Duration::from_millis(lease_ms)).await?;
    Ok(HttpResponse::Ok().json(claim))
}

async fn renew(board: Place, by: By, task: web::Path<String>, body: web::Bytes) -> Answer {
    let (task, Named { epoch }) = (parsed(&task)?, asked::body(&body)?);
    Ok(HttpResponse::Ok().json(board.renew(&by, &task, epoch).await?))
}

async fn release(board: Place, by: By, task: web::Path<String>, body: web::Bytes) -> Answer {
    let (task, Named { epoch }) = (parsed(&task)?, asked::body(&body)?);
    Ok(HttpResponse::Ok().json(board.release(&by, &task, epoch).await?))
}

async fn complete(board: Place, by: By, task: web::Path<String>, body: web::Bytes) -> Answer {
    let (task, Named { epoch }) = (parsed(&task)?, asked::body(&body)?);
    Ok(HttpResponse::Ok().json(board.complete(&by, &task, epoch).await?))
}

async fn fail(board: Place, by: By, task: web::Path<String>, body: web::Bytes) -> Answer {
    let (task, Named { epoch }) = (parsed(&task)?, asked::body(&body)?);
    Ok(HttpResponse::Ok().json(board.fail(&by, &task, epoch).await?))
}

async fn look(board: Place, _by: By, task: web::Path<String>) -> Answer {
    Ok(HttpResponse::Ok().json(board.look(&parsed(&task)?).await?))
}

fn parsed(task: &str) -> Result<TaskId, Problem> {
    TaskId::parse(task)
        .map_err(|bad| Problem::new(Reason::InvalidField, bad.to_string()).with("field", "task"))
}

#[cfg(test)]
mod tests;
