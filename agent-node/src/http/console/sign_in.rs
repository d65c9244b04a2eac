//! How a browser is signed in: by the code of a link that `mesh console` has asked for, or by the credential of a caller.

use super::secured;
use crate::{
    budget_holder::BudgetHolder,
    clock::wall_time,
    http::{
        edge::{ConsoleUser, SESSION, console_cookie, cookie_name},
        listener::ListenerAddress,
        node_state::NodeState,
        routes::person_token::is_persons,
    },
};
use actix_web::{
    HttpMessage as _, HttpRequest, HttpResponse,
    http::header::{CACHE_CONTROL, HeaderValue, ORIGIN, SET_COOKIE},
    web,
};
use bytes::Bytes;
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::json;
use transport::refusal::Refusal;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInBody {
    /// The code of a link; without it the request proves itself by a credential.
    #[serde(default)]
    code: Option<String>,
}

fn port(request: &HttpRequest) -> Result<u16, Problem> {
    let listener = request.conn_data::<ListenerAddress>().map(|ListenerAddress(address)| address.port());
    listener.ok_or_else(|| Problem::new(Reason::Internal, "the port of the request is not known"))
}

/// A person who has proven it by a credential, and whose budget the requests use. Fails for anybody else.
fn proven(request: &HttpRequest, by: &Principal) -> Result<ConsoleUser, Problem> {
    let holder = request.extensions().get::<BudgetHolder>().cloned();
    match holder.filter(|_| is_persons(request, by)) {
        Some(holder) => Ok(ConsoleUser { principal: by.clone(), holder }),
        None => Err(Problem::new(
            Reason::Unauthenticated,
            "sign in by the link of `mesh console`, or with the credential of a caller (`mesh: { callers: … }`)",
        )),
    }
}

/// The cookie of a session at `port` for `seconds`. Behind a proxy that speaks TLS it is sent over TLS only.
fn set_cookie(request: &HttpRequest, port: u16, value: &str, seconds: u64) -> String {
    let origin = request.headers().get(ORIGIN).map(HeaderValue::as_bytes);
    let secure = if origin.is_some_and(|origin| origin.starts_with(b"https://")) { "; Secure" } else { "" };
    format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", cookie_name(port))
}

/// Signs a browser in: sets the cookie, and answers with the key that the page keeps.
pub(super) async fn post(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    if !request.headers().contains_key(ORIGIN) {
        let why = "a page signs in, with its Origin";
        return Err(Problem::new(Reason::ForeignOrigin, why).into());
    }
    let body = protocol::json::parse(&body, node.limits.max_depth)?;
    let SignInBody { code } = serde_json::from_value(body)
        .map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?;
    let (port, now) = (port(&request)?, wall_time());
    let user = match code {
        Some(code) => node.console.redeem(&code, port, now).ok_or_else(|| {
            let why = "the link was opened before, or is older than two minutes: run `mesh console` again";
            Problem::new(Reason::Unauthenticated, why)
        })?,
        None => proven(&request, &by)?,
    };
    let who = user.principal.to_string();
    let session = node.console.begin(user, port, now);
    let cookie = set_cookie(&request, port, &session.cookie, SESSION.as_secs());
    Ok(secured(HttpResponse::Ok())
        .insert_header((SET_COOKIE, cookie))
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(json!({ "key": session.key, "who": who })))
}

/// Makes the code of a link for a person who has proven it.
pub(super) async fn link(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let user = proven(&request, &by)?;
    let code = node.console.new_link(user, port(&request)?, wall_time());
    Ok(HttpResponse::Created().insert_header((CACHE_CONTROL, "no-store")).json(json!({ "code": code })))
}

/// Ends the session of the page.
pub(super) async fn sign_out(
    request: HttpRequest,
    node: web::Data<NodeState>,
) -> Result<HttpResponse, Refusal> {
    let port = port(&request)?;
    if let Some(cookie) = console_cookie(request.headers(), port) {
        node.console.end(cookie);
    }
    Ok(secured(HttpResponse::NoContent())
        .insert_header((SET_COOKIE, set_cookie(&request, port, "", 0)))
        .finish())
}

/// Ends all sessions of the caller at this process.
pub(super) async fn revoke(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let ConsoleUser { principal, .. } = proven(&request, &by)?;
    Ok(HttpResponse::Ok().json(json!({ "ended": node.console.end_all(&principal) })))
}
