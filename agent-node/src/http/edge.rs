//! The checks that every request passes before a handler runs (DESIGN §4, §8), cheapest first: origin, body type, sender, rate,
//! connections, size, speed and digest of the body, requests in flight.
//!
//! A handler finds in the request's extensions: the [`Principal`], its [`SenderProof`](protocol::principal::SenderProof) and [`BudgetHolder`], the whole body as [`Bytes`] (`web::ReqData<Bytes>` takes
//! it without the copy that `web::Bytes` makes), and the body's [`Digest`] and [`SignedAt`] if the request was signed.

mod body;
mod call_admission;
mod console_access;
mod console_sessions;
mod cross_origin;
mod error_format;
mod identity;
mod in_flight;
mod origin;
mod public_urls;
mod rate_limit;
mod response;
mod server_config;
mod spool;
mod stream_limit;
mod taken_requests;
pub mod tokens;

#[cfg(test)]
mod tests;

pub(crate) use call_admission::CallCredentials;
pub(crate) use console_access::cookie as console_cookie;
pub use console_sessions::ConsoleSessions;
pub(crate) use console_sessions::{ConsoleUser, SESSION, cookie_name};
pub use identity::Auth;
pub(crate) use identity::{SignedAt, bearer_token, single};
pub use in_flight::release_permit;
pub(crate) use in_flight::{InFlightPermit, take_permit};
pub use origin::BrowserOrigin;
pub(crate) use origin::is_proxy_header;
pub(crate) use public_urls::AddressedAgent;
pub use public_urls::PublicUrls;
pub use server_config::HttpServerConfig;
pub(crate) use spool::{SpooledFile, SpooledFiles};
pub use stream_limit::StreamLimit;
pub(crate) use stream_limit::StreamPermit;
pub use taken_requests::TakenRequests;
pub use tokens::IssuedTokens;

use crate::{
    budget_holder::BudgetHolder,
    http::{
        connections::{Connections, connection_state::ConnectionState},
        headers,
    },
};
use actix_web::{
    Error, HttpMessage,
    body::{BodySize, BoxBody, MessageBody as _},
    dev::{Payload, Service, ServiceRequest, ServiceResponse, Transform},
    http::Method,
};
use bytes::Bytes;
use cross_origin::CrossOrigin;
use error_format::ErrorFormat;
use futures_util::{FutureExt, future::LocalBoxFuture};
use in_flight::InFlightLimit;
use protocol::{
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use std::{
    any::Any,
    future::{Ready, ready},
    net::IpAddr,
    panic::AssertUnwindSafe,
    rc::Rc,
    sync::Arc,
    time::Instant,
};
use transport::key_ring::is_unknown_key;
use transport::refusal::Refusal;

/// The edge of one node, shared by its workers.
#[derive(Clone)]
pub struct Edge(Arc<EdgeState>);

struct EdgeState {
    config: HttpServerConfig,
    connections: Connections,
    in_flight: InFlightLimit,
    buffered: Arc<body::BodyBudget>,
    unproven: Arc<body::BodyBudget>,
    /// The disk of files that are on their way.
    spooled: Arc<body::BodyBudget>,
    rates: rate_limit::RateLimiter<AgentId>,
    failed_auth: rate_limit::RateLimiter<IpAddr>,
}

impl Edge {
    /// An edge with this configuration.
    pub fn new(config: HttpServerConfig) -> Self {
        Self(Arc::new(EdgeState {
            in_flight: InFlightLimit::new(config.limits.max_in_flight),
            buffered: body::BodyBudget::new(config.max_buffered_bytes, config.max_buffered_bytes_per_caller),
            unproven: body::BodyBudget::new(config.max_unproven_bytes, config.max_unproven_bytes_per_address),
            spooled: body::BodyBudget::new(config.max_spooled_bytes, config.max_spooled_bytes_per_caller),
            rates: rate_limit::RateLimiter::new(config.limits.max_rate_per_second),
            connections: Connections::new(config.connections, config.auth.uncounted_peers()),
            failed_auth: rate_limit::RateLimiter::new(config.limits.max_failed_auth_per_second),
            config,
        }))
    }

    /// The open connections.
    pub fn connections(&self) -> &Connections {
        &self.0.connections
    }

    pub(crate) fn config(&self) -> &HttpServerConfig {
        &self.0.config
    }
}

impl<S> Transform<S, ServiceRequest> for Edge
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = ServiceResponse<BoxBody>;
    type Error = Error;
    type Transform = EdgeService<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        let inner = WorkerEdge { service, state: Arc::clone(&self.0), user: Principal::local_user() };
        ready(Ok(EdgeService(Rc::new(inner))))
    }
}

/// A worker's service behind the edge.
pub struct EdgeService<S>(Rc<WorkerEdge<S>>);

struct WorkerEdge<S> {
    service: S,
    state: Arc<EdgeState>,
    user: Principal,
}

impl<S> Service<ServiceRequest> for EdgeService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = ServiceResponse<BoxBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<ServiceResponse<BoxBody>, Error>>;

    fn poll_ready(&self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Error>> {
        self.0.service.poll_ready(cx)
    }

    fn call(&self, mut request: ServiceRequest) -> Self::Future {
        let inner = Rc::clone(&self.0);
        Box::pin(async move {
            inner.state.config.auth.public_urls().enter(&mut request);
            let format = ErrorFormat::of(request.path());
            let origin = CrossOrigin::of(&request, &inner.state.config.origins);
            let answer = inner.handle(request).await;
            inner.count_refusal(&answer);
            let answer = answer.map_err(|error| format.apply(error));
            match origin {
                Some(origin) => origin.apply(answer),
                None => answer,
            }
        })
    }
}

impl<S> WorkerEdge<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error>,
{
    async fn handle(&self, mut request: ServiceRequest) -> Result<ServiceResponse<BoxBody>, Error> {
        let state = &*self.state;
        let guard = request.conn_data::<Rc<ConnectionState>>().map(ConnectionState::begin_request);
        let mut payload = request.take_payload();
        let checks = async {
            origin::check(&request, &state.config.hosts, &state.config.origins)?;
            if let Some(answer) = cross_origin::preflight(&request) {
                return Ok(Err(answer));
            }
            let rules = body::BodyRules::for_request(&request, &payload, &state.config)?;
            let address = state.config.auth.client_address(&request);
            let limited = |problem| state.failed_auth.limit_failure(address, problem, Instant::now());
            let auth = &state.config.auth;
            // The head authenticates every request, so that no body is read of a sender that proves nothing.
            let sender = identity::authenticate(&request, auth, &self.user);
            let sender = sender.map_err(|problem| match is_unknown_key(&problem) {
                true => problem,
                false => limited(problem),
            })?;
            state.check_rate(&sender.principal, &self.user)?;
            let note_caller = || guard.as_ref().map_or(Ok(()), |guard| guard.note_caller(&sender.holder));
            let has_credential = sender.holder.has_credential();
            if has_credential {
                note_caller()?;
            }
            let budgets = body::Budgets { memory: state.budget(&sender.holder), disk: &state.spooled };
            let body = body::read(&mut payload, &rules, budgets, &sender.holder).await?;
            sender.check_body(&body.bytes, body.digest).map_err(limited)?;
            if !has_credential {
                note_caller()?;
            }
            let permit = state.in_flight.acquire()?;
            Ok(Ok((body, sender, permit)))
        };
        let (body, sender, permit) = match checks.await {
            Ok(Ok(checked)) => checked,
            Ok(Err(preflight)) => return Ok(request.into_response(preflight)),
            Err(problem) => {
                state.count(&problem);
                return Err(response::refuse_unread(problem, payload));
            }
        };
        drop(payload);

        let _permit = in_flight::hand_over(permit, &request);
        let _budget = body.guard;
        if !body.bytes.is_empty() {
            request.set_payload(Payload::from(body.bytes.clone()));
        }
        {
            let mut extensions = request.extensions_mut();
            extensions.insert(sender.principal);
            extensions.insert(sender.holder.proof());
            extensions.insert(sender.holder);
            extensions.insert::<Bytes>(body.bytes);
            extensions.insert(body.files);
            if let Some(digest) = sender.digest {
                extensions.insert::<Digest>(digest);
            }
            if let Some(signed_at) = sender.signed_at {
                extensions.insert(signed_at);
            }
        }
        let (method, path) = (request.method().clone(), request.uri().clone());
        match AssertUnwindSafe(async { self.service.call(request).await }).catch_unwind().await {
            Ok(answer) => {
                let answer = answer.and_then(response::normalize_error)?;
                if method == Method::HEAD {
                    return Ok(answer.map_body(response::without_body));
                }
                let permit = match answer.response().body().size() {
                    BodySize::Stream => {
                        let reader = answer.request().extensions().get::<BudgetHolder>().cloned();
                        reader
                            .map(|reader| state.config.streams.acquire(&reader))
                            .transpose()
                            .map_err(Refusal)?
                    }
                    BodySize::None | BodySize::Sized(_) => None,
                };
                let drain =
                    response::is_event_stream(&answer).then(|| Box::pin(state.config.drain.started()) as _);
                Ok(answer.map_body(|_, body| response::guard_body(body, guard, permit, drain)))
            }
            Err(panic) => {
                tracing::error!(%method, path = path.path(), panic = panic_text(&*panic), "a handler panicked");
                Err(Refusal(Problem::new(Reason::Internal, "a fault of ours; nothing more is known")).into())
            }
        }
    }
}

impl EdgeState {
    fn count(&self, problem: &Problem) {
        if let Some(telemetry) = &self.config.telemetry {
            telemetry.meters().refuse_request(problem.reason);
        }
    }

    fn budget(&self, holder: &BudgetHolder) -> &Arc<body::BodyBudget> {
        match holder {
            BudgetHolder::Address(_) => &self.unproven,
            BudgetHolder::Principal(_) | BudgetHolder::Person => &self.buffered,
        }
    }

    /// Counts a request of a user with a credential, or refuses it with 429. The user of this machine and the agents of the
    /// mesh have no rate limit; the number of requests in flight holds them back.
    fn check_rate(&self, sender: &Principal, local: &Principal) -> Result<(), Problem> {
        match sender {
            Principal::User(id) if sender != local => self.rates.take(id, Instant::now()),
            Principal::User(_) | Principal::Agent(_) | Principal::Service(_) | Principal::Brain(_) => Ok(()),
        }
    }
}

impl<S> WorkerEdge<S> {
    fn count_refusal<B>(&self, answer: &Result<ServiceResponse<B>, Error>) {
        let error = match answer {
            Ok(answer) => answer.response().error(),
            Err(error) => Some(error),
        };
        if let Some(Refusal(problem)) = error.and_then(|error| error.as_error::<Refusal>()) {
            self.state.count(problem);
        }
    }
}

/// Whether it has a signature, which is checked then, whatever else it has.
fn is_signed(request: &ServiceRequest) -> bool {
    [headers::SIGNATURE_INPUT, headers::SIGNATURE].iter().any(|name| request.headers().contains_key(name))
}

/// Whether this request uploads an artifact, which may be larger than a message and of any type.
fn is_artifact_upload(request: &ServiceRequest) -> bool {
    request.method() == Method::PUT && request.path().starts_with(routes::ARTIFACTS)
}

/// Whether this request has lines of turns, each a JSON object.
fn is_peer_lines(request: &ServiceRequest) -> bool {
    request.path().strip_prefix(routes::PEER) == Some("/lines")
}

/// Whether this is an A2A request. Its binding checks the content type, and its response may take long.
fn is_a2a(request: &ServiceRequest) -> bool {
    [routes::A2A_RPC, routes::A2A_REST, routes::HOOKS].iter().any(|base| request.path().starts_with(base))
}

/// Whether the body may have files in its parts.
fn takes_files(request: &ServiceRequest) -> bool {
    let path = request.path();
    request.method() == Method::POST
        && [routes::A2A_RPC, routes::A2A_REST].iter().any(|base| path.starts_with(base))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
