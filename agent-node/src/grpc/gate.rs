//! What every call passes before it does anything: the same edge as over HTTP, and the words of gRPC around it.

use super::{service::Asked, status::status, wire::a2a_service_server::A2aServiceServer};
use crate::http::{
    edge::{Edge, Knock},
    routes::Node,
};
use futures_util::FutureExt as _;
use http_body_util::{BodyDataStream, Full};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HOST, HeaderMap, ORIGIN},
};
use protocol::{
    a2a::{
        error::{A2aError, Kind},
        request::Operation,
        terms::API_KEY_HEADER,
    },
    ids::AgentId,
    problem::{Problem, Reason},
    signature::{SIGNATURE, SIGNATURE_INPUT},
};
use std::{convert::Infallible, net::IpAddr, panic::AssertUnwindSafe, sync::Arc};
use tokio::sync::watch;
use tonic::{body::Body, codegen::Service as _};

const SERVICE: &str = "/lf.a2a.v1.A2AService/";

/// What all calls have in common.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) node: Arc<Node>,
    pub(super) edge: Edge,
    /// The agent that is meant where none is named.
    pub(super) first: AgentId,
    /// Whether the node leaves. Whoever holds it is waited for.
    pub(super) leaving: watch::Receiver<bool>,
}

/// Returns when the node leaves.
pub(super) async fn leaves(leaving: &mut watch::Receiver<bool>) {
    // Without anybody to tell, there is no node any more.
    let _ = leaving.wait_for(|leaves| *leaves).await;
}

/// What is said to those who come while the node leaves.
pub(super) fn farewell() -> A2aError {
    Problem::new(Reason::Draining, "this node is leaving; ask again later, or elsewhere").into()
}

/// Answers one call.
pub(super) async fn answer(
    door: Door,
    from: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
    if request.method() != "POST" || !kind.starts_with(b"application/grpc") {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Ok(answer);
    }
    let path = request.uri().path().to_owned();
    let answered = AssertUnwindSafe(call(door, from, request)).catch_unwind().await;
    Ok(match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => status(&error).into_http(),
        Err(_) => {
            tracing::error!(path, "a call panicked");
            status(&A2aError::new(Kind::Internal, "a fault of ours; nothing more is known")).into_http()
        }
    })
}

async fn call(door: Door, from: IpAddr, request: Request<Incoming>) -> Result<Response<Body>, A2aError> {
    if *door.leaving.borrow() {
        return Err(farewell());
    }
    let (head, body) = request.into_parts();
    let text = |name: &str| text(&head.headers, name);
    let authority = head.uri.authority().map(|authority| authority.as_str());
    let knock = Knock {
        authority: authority.or_else(|| text(HOST.as_str())).unwrap_or_default(),
        has_origin: head.headers.contains_key(ORIGIN),
        is_signed: [SIGNATURE, SIGNATURE_INPUT].iter().any(|name| head.headers.contains_key(*name)),
        key: text(API_KEY_HEADER),
        authorization: text("authorization"),
        from,
    };
    let admitted = door.edge.admit(&knock, BodyDataStream::new(body)).await;
    let admitted = admitted.inspect_err(|problem| door.edge.count(problem))?;
    let operation = head.uri.path().strip_prefix(SERVICE).and_then(Operation::from_name);
    if operation.is_none() {
        let path: String = head.uri.path().chars().take(80).collect();
        let known: Vec<_> = Operation::ALL.iter().map(|operation| operation.name()).collect();
        let message = format!("no method {path:?}; {SERVICE} has {}", known.join(", "));
        return Err(A2aError::new(Kind::MethodNotFound, message));
    }
    let _held = admitted.held;
    let request = Request::from_parts(head, Full::new(admitted.bytes));
    let mut service = A2aServiceServer::new(Asked::new(door, admitted.by, admitted.place))
        .max_decoding_message_size(usize::MAX);
    let Ok(answer) = service.call(request).await;
    Ok(answer)
}

/// A header that is there, as text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
