//! `/a2a/logins`: the logins of an agent at its tool servers. A user begins and ends one of its own; one of the agent needs the
//! person's token.

use super::{keys::check_person, person_token::is_persons};
use crate::{
    budget_holder::BudgetHolder,
    http::{edge::PublicUrls, listener::ListenerAddress, node_state::NodeState},
    outbox::environment_proxy::is_loopback,
    tool_login::{LoginEnd, LoginError, LoginOwner, LoginProgress, ServerLogin},
};
use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, header},
    web,
};
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    time::WallTime,
};
use reqwest::Url;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use std::time::UNIX_EPOCH;
use transport::refusal::Refusal;

/// Lists the servers that take a login and the logins that the caller has begun.
pub async fn list(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    check_user(&request, &by)?;
    let agent = &node.default_agent(&request)?.id;
    let mut servers = Vec::new();
    for login in node.logins.of_agent(agent) {
        let known = login.known(&by).map_err(problem)?;
        let ends = known.as_ref().and_then(|known| known.ends?.duration_since(UNIX_EPOCH).ok());
        let ends = ends.map(|ends| WallTime(i64::try_from(ends.as_millis()).unwrap_or(i64::MAX)));
        servers.push(json!({
            "agent": login.agent,
            "server": login.server,
            "url": login.url,
            "whose": whose(&login, &by),
            "isLoggedIn": known.is_some(),
            "issuer": known.as_ref().and_then(|known| known.issuer.clone()),
            "scopes": known.map(|known| known.scopes),
            "tokenEndsAt": ends,
        }));
    }
    let logins: Vec<_> = node.logins.progress(&by).into_iter().map(shown).collect();
    Ok(HttpResponse::Ok().json(json!({ "servers": servers, "logins": logins })))
}

fn shown(LoginProgress { id, end }: LoginProgress) -> serde_json::Value {
    match end {
        None => json!({ "id": id, "state": "waiting" }),
        Some(Ok(())) => json!({ "id": id, "state": "done" }),
        Some(Err(reason)) => json!({ "id": id, "state": "failed", "reason": reason }),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BeginBody {
    server: String,
    /// The base URL at which the caller reaches this agent. Counts if it is one of this machine, or a public URL of this node.
    redirect: Option<String>,
}

/// Begins a login: 201 with the URL that the person opens, or 200 if none is needed.
pub async fn begin(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    check_user(&request, &by)?;
    let BeginBody { server, redirect } = read(&node, &body)?;
    let login = own_server(&request, &node, &by, &server)?;
    let port = request.conn_data::<ListenerAddress>().map_or(0, |ListenerAddress(address)| address.port());
    let base = redirect.and_then(|base| way_back(&base, &node.public_urls));
    let base = base.unwrap_or_else(|| format!("http://127.0.0.1:{port}"));
    let redirect = format!("{}{}", base.trim_end_matches('/'), routes::LOGIN_CALLBACK);
    match node.logins.begin(&login, &by, &redirect).await.map_err(problem)? {
        Some(begun) => Ok(HttpResponse::Created().json(json!({
            "id": begun.id, "url": begun.url, "redirect": redirect, "whose": whose(&login, &by),
        }))),
        None => Ok(HttpResponse::Ok().json(json!({ "whose": whose(&login, &by) }))),
    }
}

/// `base` as it is written in full, if a browser may be sent back there: a port of the caller's machine (OAuth 2.1, 8.4.2), or a public
/// URL of this node. The address has what ends the login in it.
fn way_back(base: &str, public_urls: &PublicUrls) -> Option<String> {
    if let Some(url) = public_urls.urls().find(|url| *url == base.trim_end_matches('/')) {
        return Some(url.to_owned());
    }
    let url = Url::parse(base).ok()?;
    let is_bare = url.query().is_none() && url.fragment().is_none();
    let has_user = !url.username().is_empty() || url.password().is_some();
    let is_local = url.scheme() == "http" && is_loopback(&url) && is_bare && !has_user;
    is_local.then(|| url.into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishBody {
    url: String,
}

/// Ends a login of the caller with the URL to which the browser was sent back.
pub async fn finish(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    check_user(&request, &by)?;
    let FinishBody { url } = read(&node, &body)?;
    let login = node.logins.finish(&url, LoginEnd::Brought(&by)).await.map_err(problem)?;
    Ok(HttpResponse::Ok()
        .json(json!({ "agent": login.agent, "server": login.server, "whose": whose(&login, &by) })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgetBody {
    server: String,
}

/// Forgets a login.
pub async fn forget(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    check_user(&request, &by)?;
    let ForgetBody { server } = read(&node, &body)?;
    let was_there = own_server(&request, &node, &by, &server)?.forget(&by).await.map_err(problem)?;
    Ok(HttpResponse::Ok().json(json!({ "wasLoggedIn": was_there })))
}

/// Where the browser comes back to. A browser of this machine ends a login that the person began; else the page says what to do with
/// its address, as whoever looks at it may have been sent the page of a login that somebody else has begun.
pub async fn callback(
    request: HttpRequest,
    node: web::Data<NodeState>,
    holder: web::ReqData<BudgetHolder>,
) -> Result<HttpResponse, Refusal> {
    // By its address alone, from this machine and through no proxy.
    let is_local =
        *request.method() == Method::GET && *holder == BudgetHolder::Principal(Principal::local_user());
    let url = format!("http://localhost{}?{}", routes::LOGIN_CALLBACK, request.query_string());
    let ended = match is_local {
        true => node.logins.finish(&url, LoginEnd::LocalBrowser).await,
        false => Err(LoginError::NotPending),
    };
    let text = match ended {
        Ok(login) => format!("{} is logged in at {}. You may close this page.\n", login.agent, login.server),
        Err(LoginError::NotPending) => {
            "If `mesh login` waits for you, copy the address of this page into it.\n".to_owned()
        }
        // The words of a foreign server are for who began the login, not for a page of this node.
        Err(_) => {
            let message = "the login has failed: `mesh login` says why";
            return Err(Problem::new(Reason::InvalidField, message).into());
        }
    };
    Ok(HttpResponse::Ok()
        .content_type("text/plain; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .body(text))
}

fn check_user(request: &HttpRequest, by: &Principal) -> Result<(), Problem> {
    match is_persons(request, by) {
        true => Ok(()),
        false => {
            let message = "logins are for users with a credential, such as the person's token (`mesh token`)";
            Err(Problem::new(Reason::Forbidden, message))
        }
    }
}

/// The server with this name or URL, if the caller may log in there.
fn own_server(
    request: &HttpRequest,
    node: &NodeState,
    by: &Principal,
    name: &str,
) -> Result<ServerLogin, Problem> {
    let agent = &node.default_agent(request)?.id;
    let servers = node.logins.of_agent(agent);
    let found = servers.iter().find(|login| login.server == name || login.url == name).cloned();
    let login = found.ok_or_else(|| {
        let known: Vec<_> = servers.iter().map(|login| login.server.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("server: {agent} has no tool server {name:?} with `login`; it has: {known}");
        Problem::new(Reason::InvalidField, message)
    })?;
    if login.config.whose == LoginOwner::Agent {
        check_person(request, by)?;
    }
    Ok(login)
}

fn whose(login: &ServerLogin, by: &Principal) -> String {
    match login.config.whose {
        LoginOwner::Agent => "agent".to_owned(),
        LoginOwner::User => by.to_string(),
    }
}

fn read<T: DeserializeOwned>(node: &NodeState, body: &[u8]) -> Result<T, Problem> {
    let body = protocol::json::parse(body, node.limits.max_depth)?;
    serde_json::from_value(body).map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))
}

fn problem(error: LoginError) -> Problem {
    let reason = match error {
        LoginError::NotPending => Reason::NotAwaitingAnswer,
        LoginError::TooMany => Reason::Overloaded,
        LoginError::Unreachable(_) => Reason::RecipientUnreachable,
        LoginError::Store(_) => Reason::Internal,
        LoginError::Missing(_)
        | LoginError::OtherIssuer { .. }
        | LoginError::Unproven
        | LoginError::Refused(_) => Reason::InvalidField,
    };
    match reason {
        Reason::InvalidField | Reason::RecipientUnreachable => {
            Problem::new(reason, format!("the server {error}"))
        }
        _ => Problem::new(reason, error.to_string()),
    }
}
