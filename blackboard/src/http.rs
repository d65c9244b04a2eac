//! The board's routes. They expect the edge's `Principal`, a complete body, and `web::Data<Board>`.

mod request;
mod spaces;
mod stream;

use crate::{board::Board, client::MAX_SIGNALS, shares::LeaseShare};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, http::Method, web};
use protocol::{
    ids::AgentId,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
    routes,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use store::Revision;
use transport::http_client::MessageAnswer;
use transport::operation::OperationRoutes;
use transport::refusal::Refusal;
use transport::resource::resource;

type BoardResult = Result<HttpResponse, Refusal>;
type BoardData = web::Data<Board>;
type CallerId = web::ReqData<Principal>;

/// Every route of the board.
///
/// A stream whose client does not read holds only a few socket buffers. `TCP_USER_TIMEOUT`, which the server sets on every
/// connection, ends it.
pub fn routes(cfg: &mut web::ServiceConfig) {
    spaces::routes(cfg);
    OperationRoutes::default().with::<Board, LeaseShare>().configure(cfg);
    let claim_path = |verb: &str| format!("{}/{{task}}{verb}", routes::CLAIMS);
    cfg.service(resource(&format!("{}/stream", routes::SIGNALS), [(Method::GET, web::to(stream::follow))]))
        .service(resource(routes::SIGNALS, [(Method::GET, web::to(read)), (Method::POST, web::to(publish))]))
        .service(resource(&claim_path("/renew"), [(Method::POST, web::to(renew))]))
        .service(resource(&claim_path("/release"), [(Method::POST, web::to(release))]))
        .service(resource(&claim_path("/complete"), [(Method::POST, web::to(complete))]))
        .service(resource(&claim_path("/fail"), [(Method::POST, web::to(fail))]))
        .service(resource(
            &claim_path(""),
            [(Method::GET, web::to(get_claim)), (Method::POST, web::to(claim))],
        ));
}

/// What proves the sender of a request.
fn proof_of(request: &HttpRequest) -> SenderProof {
    request.extensions().get().copied().unwrap_or(SenderProof::Address)
}

async fn publish(board: BoardData, by: CallerId, request: HttpRequest, body: web::Bytes) -> BoardResult {
    if body.trim_ascii_start().starts_with(b"[") {
        return publish_several(&board, &by, &request, &body).await;
    }
    let (mut signal, warnings) = request::parse_signal(&body, (&by, proof_of(&request)))?;
    request::attach_trace(&mut signal, request.headers());
    let id = signal.id.clone();
    let revision = board.publish(&by, signal).await?;
    Ok(HttpResponse::Created().json(published(revision, &id, &warnings)))
}

/// The body of the answer to a signal that was published.
fn published(revision: Revision, id: &str, warnings: &[String]) -> Value {
    match warnings {
        [] => json!({ "revision": revision, "id": id }),
        warnings => json!({ "revision": revision, "id": id, "warnings": warnings }),
    }
}

/// Publishes a JSON array of signals in order. Each is answered with the status and body that it would have got by itself; those
/// behind one that is refused are not published and not answered.
async fn publish_several(board: &Board, by: &Principal, request: &HttpRequest, body: &[u8]) -> BoardResult {
    let elements = protocol::json::elements(body)?;
    if elements.is_empty() || elements.len() > MAX_SIGNALS {
        let message = format!("{} signals in one request, 1 to {MAX_SIGNALS} are possible", elements.len());
        return Err(Problem::new(Reason::InvalidField, message).into());
    }
    let (mut signals, mut answers, mut refusal) = (Vec::with_capacity(elements.len()), Vec::new(), None);
    for element in elements {
        match request::parse_signal(element, (by, proof_of(request))) {
            Ok((mut signal, warnings)) => {
                request::attach_trace(&mut signal, request.headers());
                answers.push((signal.id.clone(), warnings));
                signals.push(signal);
            }
            Err(problem) => {
                refusal = Some(MessageAnswer::refused(&problem));
                break;
            }
        }
    }
    let outcomes = if signals.is_empty() { Vec::new() } else { board.publish_all(by, signals).await? };
    let are_published = outcomes.iter().all(Result::is_ok);
    let answers = outcomes.into_iter().zip(answers).map(|(outcome, (id, warnings))| match outcome {
        Ok(revision) => MessageAnswer::acknowledged(201, published(revision, &id, &warnings)),
        Err(problem) => MessageAnswer::refused(&problem),
    });
    let answers: Vec<_> = answers.chain(refusal.filter(|_| are_published)).collect();
    Ok(HttpResponse::Ok().json(answers))
}

async fn read(board: BoardData, by: CallerId, request: HttpRequest) -> BoardResult {
    let query = request::parse_query(request.query_string())?;
    let limit = query.limit.unwrap_or(100);
    let page = match query.until {
        Some(until) => board.read_range(&by, query.selector, (query.after, until), limit).await?,
        None => board.read(&by, query.selector, query.after, limit).await?,
    };
    Ok(HttpResponse::Ok().json(page))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimBody {
    lease_ms: u64,
    holder: Option<AgentId>,
}

#[derive(Deserialize)]
struct EpochBody {
    epoch: u64,
}

async fn claim(board: BoardData, by: CallerId, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let task = request::claimed_task(&request, &by)?;
    let ClaimBody { lease_ms, holder } = request::parse_body(&body)?;
    let own_name =
        || AgentId::parse(by.id()).map_err(|bad| Problem::new(Reason::InvalidField, bad.to_string()));
    let holder = holder.map_or_else(own_name, Ok)?;
    let claim = board.claim(&by, &task, &holder, Duration::from_millis(lease_ms)).await?;
    Ok(HttpResponse::Ok().json(claim))
}

async fn renew(board: BoardData, by: CallerId, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let (task, EpochBody { epoch }) = (request::claimed_task(&request, &by)?, request::parse_body(&body)?);
    Ok(HttpResponse::Ok().json(board.renew(&by, &task, epoch).await?))
}

async fn release(board: BoardData, by: CallerId, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let (task, EpochBody { epoch }) = (request::claimed_task(&request, &by)?, request::parse_body(&body)?);
    Ok(HttpResponse::Ok().json(board.release(&by, &task, epoch).await?))
}

async fn complete(board: BoardData, by: CallerId, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let (task, EpochBody { epoch }) = (request::claimed_task(&request, &by)?, request::parse_body(&body)?);
    Ok(HttpResponse::Ok().json(board.complete(&by, &task, epoch).await?))
}

async fn fail(board: BoardData, by: CallerId, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let (task, EpochBody { epoch }) = (request::claimed_task(&request, &by)?, request::parse_body(&body)?);
    Ok(HttpResponse::Ok().json(board.fail(&by, &task, epoch).await?))
}

async fn get_claim(board: BoardData, by: CallerId, request: HttpRequest) -> BoardResult {
    Ok(HttpResponse::Ok().json(board.claim_of(&by, &request::claimed_task(&request, &by)?).await?))
}

#[cfg(test)]
mod tests;
