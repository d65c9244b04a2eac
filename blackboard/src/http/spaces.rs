//! The routes of spaces and entries. They expect the edge's `Principal` and `SenderProof`.

use super::{BoardData, BoardResult, request};
use crate::{
    board::{ImportedEntry, SpaceStore, WithdrawalOfAll},
    spaces::{EntryChange, EntryOutcome},
};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, http::Method, web};
use bytes::Bytes;
use protocol::{
    ids::{BadId, EntryId, SpaceId},
    json,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    spaces::{EntryDraft, Reader, Space},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::str::FromStr;
use transport::refusal::Refusal;
use transport::resource::resource;

mod briefs;
mod entry_stream;
mod space_query;

/// Entries in one page if none is asked for.
const DEFAULT_PAGE: usize = 50;
/// Entries in one import.
const MAX_IMPORT: usize = 100;
/// The most characters that are shown of an id that was refused.
const MAX_SHOWN_ID: usize = 160;

/// Every route of spaces.
pub(super) fn routes(cfg: &mut web::ServiceConfig) {
    let space = format!("{}/{{space}}", routes::SPACES);
    let (entries, entry) = (format!("{space}/entries"), format!("{space}/entries/{{entry}}"));
    cfg.service(resource(routes::SPACES, [(Method::GET, web::to(list))]))
        .service(resource(&format!("{entries}/stream"), [(Method::GET, web::to(entry_stream::follow))]))
        .service(resource(&format!("{entry}/merge"), [(Method::POST, web::to(merge))]))
        .service(resource(&format!("{entry}/reject"), [(Method::POST, web::to(reject))]))
        .service(resource(&format!("{entry}/supersede"), [(Method::POST, web::to(supersede))]))
        .service(resource(&format!("{entry}/archive"), [(Method::POST, web::to(archive))]))
        .service(resource(&format!("{entry}/withdraw"), [(Method::POST, web::to(withdraw))]))
        .service(resource(&format!("{entry}/accept"), [(Method::POST, web::to(accept))]))
        .service(resource(&entry, [(Method::GET, web::to(get_entry))]))
        .service(resource(&entries, [(Method::GET, web::to(get_entries)), (Method::POST, web::to(post))]))
        .service(resource(&format!("{space}/brief"), [(Method::GET, web::to(briefs::get_brief))]))
        .service(resource(&format!("{space}/curate"), [(Method::POST, web::to(briefs::curate))]))
        .service(resource(
            &format!("{space}/vault"),
            [(Method::GET, web::to(briefs::get_vault)), (Method::POST, web::to(briefs::change_vault))],
        ))
        .service(resource(&format!("{space}/release"), [(Method::POST, web::to(briefs::release))]))
        .service(resource(&format!("{space}/withdraw"), [(Method::POST, web::to(withdraw_all))]))
        .service(resource(&format!("{space}/import"), [(Method::POST, web::to(import))]))
        .service(resource(&space, [(Method::GET, web::to(get_space)), (Method::PUT, web::to(put_space))]));
}

/// Who asks, as the edge has proven it.
#[derive(Clone)]
struct SpaceCaller(Reader);

impl actix_web::FromRequest for SpaceCaller {
    type Error = Refusal;
    type Future = std::future::Ready<Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut actix_web::dev::Payload) -> Self::Future {
        let proof = super::proof_of(request);
        let reader = request
            .extensions()
            .get::<Principal>()
            .map(|principal| Reader { principal: principal.clone(), proof });
        let missing = || Problem::new(Reason::Unauthenticated, "the sender is not known").into();
        std::future::ready(reader.map(Self).ok_or_else(missing))
    }
}

/// The space and the entry that a path names.
fn path_id<T: FromStr<Err = BadId>>(request: &HttpRequest, name: &'static str) -> Result<T, Problem> {
    let text = request.match_info().get(name).unwrap_or_default();
    text.parse().map_err(|bad: BadId| Problem::new(Reason::InvalidField, bad.to_string()).with("field", name))
}

fn space_of(request: &HttpRequest) -> Result<SpaceId, Problem> {
    path_id(request, "space")
}

async fn list(board: BoardData, by: SpaceCaller) -> BoardResult {
    let spaces = board.spaces().spaces(&by.0).await?;
    Ok(HttpResponse::Ok().json(json!({ "spaces": spaces })))
}

async fn get_space(board: BoardData, by: SpaceCaller, request: HttpRequest) -> BoardResult {
    Ok(HttpResponse::Ok().json(board.spaces().space(&by.0, &space_of(&request)?).await?))
}

async fn put_space(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let id = space_of(&request)?;
    let mut members = json::parse_object(&body, json::MAX_DEPTH)?;
    if let Some(named) = members.insert("id".to_owned(), json!(id)).filter(|named| *named != json!(id)) {
        let message = format!("id: the path names {id}, the body {named}; leave it out");
        return Err(Problem::new(Reason::InvalidField, message).with("field", "id").into());
    }
    let names_version = members.contains_key("version");
    let wanted: Space = request::deserialize_members(members)?;
    let expected = names_version.then_some(wanted.version);
    let space = board.spaces().put_space(&by.0, wanted, expected).await?;
    Ok(HttpResponse::Ok().json(space))
}

async fn get_entries(board: BoardData, by: SpaceCaller, request: HttpRequest) -> BoardResult {
    let space = space_of(&request)?;
    let (query, limit) = space_query::parse(request.query_string())?;
    let page = board.spaces().entries(&by.0, &space, query, limit.unwrap_or(DEFAULT_PAGE)).await?;
    Ok(HttpResponse::Ok().json(page))
}

async fn get_entry(board: BoardData, by: SpaceCaller, request: HttpRequest) -> BoardResult {
    let (space, id): (_, EntryId) = (space_of(&request)?, path_id(&request, "entry")?);
    Ok(HttpResponse::Ok().json(board.spaces().entry(&by.0, &space, &id).await?))
}

async fn post(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let space = space_of(&request)?;
    let draft: EntryDraft = request::parse_body(&body)?;
    let outcome = board.spaces().post(&by.0, &space, &draft).await?;
    Ok(answer(&outcome))
}

/// 201 for what was written, 200 for a repeat.
fn answer(outcome: &EntryOutcome) -> HttpResponse {
    match outcome.duplicate {
        true => HttpResponse::Ok().json(outcome),
        false => HttpResponse::Created().json(outcome),
    }
}

/// The body of a change; an empty one says nothing.
fn change_body<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    match body.trim_ascii().is_empty() {
        true => request::parse_body(b"{}"),
        false => request::parse_body(body),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonBody {
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MergeBody {
    version: Option<u64>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RejectBody {
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SupersedeBody {
    by: EntryId,
    reason: Option<String>,
}

async fn change(store: &SpaceStore, by: &Reader, request: &HttpRequest, change: EntryChange) -> BoardResult {
    let (space, id): (_, EntryId) = (space_of(request)?, path_id(request, "entry")?);
    Ok(HttpResponse::Ok().json(store.change(by, &space, &id, &change).await?))
}

async fn merge(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let MergeBody { version, reason } = change_body(&body)?;
    change(board.spaces(), &by.0, &request, EntryChange::Merge { version, reason }).await
}

async fn reject(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let RejectBody { reason } = change_body(&body)?;
    change(board.spaces(), &by.0, &request, EntryChange::Reject { reason }).await
}

async fn supersede(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let SupersedeBody { by: other, reason } = change_body(&body)?;
    change(board.spaces(), &by.0, &request, EntryChange::Supersede { by: other, reason }).await
}

async fn archive(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let ReasonBody { reason } = change_body(&body)?;
    change(board.spaces(), &by.0, &request, EntryChange::Archive { reason }).await
}

async fn withdraw(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let ReasonBody { reason } = change_body(&body)?;
    change(board.spaces(), &by.0, &request, EntryChange::Withdraw { reason }).await
}

async fn accept(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let ReasonBody { reason } = change_body(&body)?;
    change(board.spaces(), &by.0, &request, EntryChange::Accept { reason }).await
}

async fn withdraw_all(
    board: BoardData,
    by: SpaceCaller,
    request: HttpRequest,
    body: web::Bytes,
) -> BoardResult {
    let (space, wanted): (_, WithdrawalOfAll) = (space_of(&request)?, request::parse_body(&body)?);
    Ok(HttpResponse::Ok().json(board.spaces().withdraw_all(&by.0, &space, &wanted).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImportBody {
    entries: Vec<Value>,
}

/// An entry to import. One that can't be read is refused alone.
fn imported(entry: Value) -> ImportedEntry {
    let id = entry["id"].as_str().map(|id| id.chars().take(MAX_SHOWN_ID).collect());
    let entry = serde_path_to_error::deserialize(entry).map_err(|error| {
        let field = error.path().to_string();
        Problem::new(Reason::InvalidField, format!("{field}: {}", error.inner())).with("field", field)
    });
    ImportedEntry { id, entry }
}

async fn import(board: BoardData, by: SpaceCaller, request: HttpRequest, body: web::Bytes) -> BoardResult {
    let space = space_of(&request)?;
    let ImportBody { entries } = request::parse_body(&body)?;
    if entries.len() > MAX_IMPORT {
        let message = format!("entries: {} in one request, the limit is {MAX_IMPORT}", entries.len());
        return Err(Problem::new(Reason::InvalidField, message).with("field", "entries").into());
    }
    let entries = entries.into_iter().map(imported).collect();
    Ok(HttpResponse::Ok().json(board.spaces().import(&by.0, &space, entries).await?))
}
