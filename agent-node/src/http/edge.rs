//! What every request passes before any handler sees it (DESIGN §4, §8), cheap checks first: where it comes from, what
//! it carries and how fast, who sends it, how often, and how many others are at it.
//!
//! Behind it a handler finds, in the request's extensions: the [`Principal`], the whole body as [`Bytes`] (which
//! `web::ReqData<Bytes>` takes without the copy that `web::Bytes` makes), and the body's [`Digest`] if the request was
//! signed.

mod body;
mod callers;
mod calls;
mod dialect;
mod front;
mod identity;
mod in_flight;
mod local_callers;
mod origin;
mod rate;
mod readers;
mod shape;

#[cfg(test)]
mod tests;

pub use callers::{Caller, Callers, Credential};
pub(crate) use calls::Credentials;
pub use front::Front;
pub use identity::Auth;
pub use in_flight::stop_counting;
pub(crate) use in_flight::{Permit, take_permit};
pub use local_callers::{LocalCaller, LocalCallers};
pub use readers::Readers;
pub(crate) use readers::Seat;

use crate::http::server::line::Line;
use actix_web::{
    Error, HttpMessage,
    body::{BodySize, BoxBody, MessageBody as _},
    dev::{Payload, Service, ServiceRequest, ServiceResponse, Transform},
    http::Method,
};
use blackboard::refusal::Refusal;
use bytes::Bytes;
use dialect::Dialect;
use futures_util::{FutureExt, future::LocalBoxFuture};
use in_flight::Gate;
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

/// The edge of one node, shared by its workers.
#[derive(Clone)]
pub struct Edge(Arc<Shared>);

struct Shared {
    front: Front,
    in_flight: Gate,
    buffered: body::Budget,
    rates: rate::Rates<AgentId>,
    failed: rate::Rates<IpAddr>,
}

impl Edge {
    /// The edge that `front` describes.
    pub fn new(front: Front) -> Self {
        Self(Arc::new(Shared {
            in_flight: Gate::new(front.limits.max_in_flight),
            buffered: body::Budget::new(front.max_buffered_bytes),
            rates: rate::Rates::new(front.limits.max_rate_per_second),
            failed: rate::Rates::new(front.limits.max_failed_auth_per_second),
            front,
        }))
    }

    /// What it was made of.
    pub(crate) fn front(&self) -> &Front {
        &self.0.front
    }
}

impl<S> Transform<S, ServiceRequest> for Edge
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = ServiceResponse<BoxBody>;
    type Error = Error;
    type Transform = Checked<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        let inner = Inner { service, shared: Arc::clone(&self.0), user: Principal::local_user() };
        ready(Ok(Checked(Rc::new(inner))))
    }
}

/// A worker's services behind the edge.
pub struct Checked<S>(Rc<Inner<S>>);

struct Inner<S> {
    service: S,
    shared: Arc<Shared>,
    user: Principal,
}

impl<S> Service<ServiceRequest> for Checked<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
{
    type Response = ServiceResponse<BoxBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<ServiceResponse<BoxBody>, Error>>;

    fn poll_ready(&self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Error>> {
        self.0.service.poll_ready(cx)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let inner = Rc::clone(&self.0);
        Box::pin(async move {
            let spoken = Dialect::of(request.path());
            let answer = inner.pass(request).await;
            inner.count(&answer);
            answer.map_err(|error| spoken.put(error))
        })
    }
}

impl<S> Inner<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error>,
{
    async fn pass(&self, mut request: ServiceRequest) -> Result<ServiceResponse<BoxBody>, Error> {
        let shared = &*self.shared;
        let serving = request.conn_data::<Rc<Line>>().map(Line::serve);
        let mut payload = request.take_payload();
        let heard = async {
            origin::check(&request, &shared.front.hosts)?;
            let rules = body::Rules::for_request(&request, &payload, &shared.front)?;
            let body = body::read(&mut payload, &rules, &shared.buffered).await?;
            let who = identity::of(&request, &body.bytes, &shared.front.auth, &self.user);
            let from = || request.peer_addr().map(|peer| peer.ip());
            let who = who.map_err(|problem| shared.failed.refuse(from(), problem, Instant::now()))?;
            shared.rate(&who.principal, &self.user)?;
            let permit = shared.in_flight.enter()?;
            Ok((body, who, permit))
        };
        let (body, who, permit) = match heard.await {
            Ok(heard) => heard,
            Err(problem) => {
                shared.refuse(&problem);
                return Err(shape::unread(problem, payload));
            }
        };
        drop(payload);

        let _permit = in_flight::hand_over(permit, &request);
        let _held = body.held;
        if !body.bytes.is_empty() {
            request.set_payload(Payload::from(body.bytes.clone()));
        }
        {
            let mut extensions = request.extensions_mut();
            extensions.insert(who.principal);
            extensions.insert::<Bytes>(body.bytes);
            if let Some(digest) = who.digest {
                extensions.insert::<Digest>(digest);
            }
        }
        let (method, path) = (request.method().clone(), request.uri().clone());
        match AssertUnwindSafe(async { self.service.call(request).await }).catch_unwind().await {
            Ok(answer) => {
                let answer = answer.and_then(shape::ours)?;
                if method == Method::HEAD {
                    return Ok(answer.map_body(shape::without_body));
                }
                let seat = match answer.response().body().size() {
                    BodySize::Stream => {
                        let reader = answer.request().extensions().get::<Principal>().cloned();
                        reader
                            .map(|reader| shared.front.readers.enter(&reader))
                            .transpose()
                            .map_err(Refusal)?
                    }
                    BodySize::None | BodySize::Sized(_) => None,
                };
                let leaves = shape::is_events(&answer).then(|| Box::pin(shared.front.leaving.begun()) as _);
                Ok(answer.map_body(|_, body| shape::while_sent(body, serving, seat, leaves)))
            }
            Err(panic) => {
                tracing::error!(%method, path = path.path(), panic = said(&*panic), "a handler panicked");
                Err(Refusal(Problem::new(Reason::Internal, "a fault of ours; nothing more is known")).into())
            }
        }
    }
}

impl Shared {
    fn refuse(&self, problem: &Problem) {
        if let Some(telemetry) = &self.front.meters {
            telemetry.meters().refuse_request(problem.reason);
        }
    }

    /// Counts one more request of `who`; the user of this machine has no limit.
    fn rate(&self, who: &Principal, local: &Principal) -> Result<(), Problem> {
        match who {
            Principal::Agent(id) => self.rates.take(id, Instant::now()),
            Principal::User(id) if who != local => self.rates.take(id, Instant::now()),
            Principal::User(_) => Ok(()),
        }
    }
}

impl<S> Inner<S> {
    /// Counts an answer that is a refusal.
    fn count<B>(&self, answer: &Result<ServiceResponse<B>, Error>) {
        let error = match answer {
            Ok(answer) => answer.response().error(),
            Err(error) => Some(error),
        };
        if let Some(Refusal(problem)) = error.and_then(|error| error.as_error::<Refusal>()) {
            self.shared.refuse(problem);
        }
    }
}

/// Whether this request puts an artifact, which may be larger than a message and of any type.
fn puts_artifact(request: &ServiceRequest) -> bool {
    request.method() == Method::PUT && request.path().starts_with(routes::ARTIFACTS)
}

/// Whether this request speaks A2A, whose bindings judge types themselves and whose answers may take their time.
fn speaks_a2a(request: &ServiceRequest) -> bool {
    [routes::A2A_RPC, routes::A2A_REST, routes::HOOKS].iter().any(|base| request.path().starts_with(base))
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
