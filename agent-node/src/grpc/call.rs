//! One call: the edge's checks as over HTTP, the operation, the response.

use crate::{
    budget_holder::BudgetHolder,
    grpc_wire::{
        schema::{self, JsonCodec, SERVICE},
        status::status,
    },
    http::{
        a2a::{A2aCall, A2aResponse, CallHeaders, TaskEventStream},
        client_address::FORWARDED_FOR,
        connections::{ConnectionGuard, ServedRequest},
        edge::{CallCredentials, Edge, InFlightPermit, StreamPermit, is_proxy_header, single},
        node_state::NodeState,
        routes::messages::trace_from,
    },
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http_body_util::{BodyDataStream, BodyExt as _, Full};
use hyper::{
    Request as HttpRequest, Response as HttpResponse, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HOST, ORIGIN},
};
use protocol::{
    a2a::{
        agent_policy::API_KEY_HEADER,
        error::{A2aError, A2aErrorKind},
        json::InvalidField,
        request::A2aOperation,
        version::{self, EXTENSIONS_PARAMETER, ProtocolVersion, VERSION_PARAMETER},
    },
    address_policy::OUTBOUND,
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    signature::{SIGNATURE, SIGNATURE_INPUT},
    trace::{TRACEPARENT, TRACESTATE},
};
use serde_json::Value;
use std::{convert::Infallible, net::IpAddr, panic::AssertUnwindSafe, sync::Arc};
use tokio::sync::watch;
use tonic::{
    Request, Response, Status,
    body::Body,
    metadata::{AsciiMetadataKey, MetadataMap, MetadataValue},
    server::{Grpc, ServerStreamingService, UnaryService},
};

/// What all calls of a node have in common.
#[derive(Clone)]
pub(super) struct CallContext {
    pub(super) node: Arc<NodeState>,
    pub(super) edge: Edge,
    /// The agent of calls without a tenant.
    pub(super) first: AgentId,
    /// Whether the node drains. `Server::stop` waits until every clone of it is dropped.
    pub(super) draining: watch::Receiver<bool>,
}

/// Returns when the node begins to drain.
pub(super) async fn drains(draining: &mut watch::Receiver<bool>) {
    // An error means that the server is dropped, which ends calls as well.
    let _ = draining.wait_for(|drains| *drains).await;
}

fn is_draining() -> A2aError {
    Problem::new(Reason::Draining, "this node is leaving; ask again later, or elsewhere").into()
}

pub(super) async fn answer(
    context: CallContext,
    from: IpAddr,
    connection: Arc<ConnectionGuard>,
    request: HttpRequest<Incoming>,
) -> Result<HttpResponse<Body>, Infallible> {
    let served = connection.begin_request();
    let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
    if request.method() != "POST" || !kind.starts_with(b"application/grpc") {
        let mut answer = HttpResponse::new(Body::empty());
        *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Ok(answer);
    }
    let path = request.uri().path().to_owned();
    let result = AssertUnwindSafe(admit(context, from, &served, request)).catch_unwind().await;
    Ok(match result {
        Ok(Ok(answer)) => answer.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // The request is served until its body is sent.
                let _ = &served;
                frame
            }))
        }),
        Ok(Err(error)) => status(&error).into_http(),
        Err(_) => {
            tracing::error!(path, "a call panicked");
            status(&A2aError::new(A2aErrorKind::Internal, "a fault of ours; nothing more is known"))
                .into_http()
        }
    })
}

async fn admit(
    context: CallContext,
    from: IpAddr,
    served: &ServedRequest,
    request: HttpRequest<Incoming>,
) -> Result<HttpResponse<Body>, A2aError> {
    if *context.draining.borrow() {
        return Err(is_draining());
    }
    let (head, body) = request.into_parts();
    let credential = |name| single(name, head.headers.get_all(name).iter().map(|value| value.as_bytes()));
    let authority = head.uri.authority().map(|authority| authority.as_str());
    let named = head.headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let hosts: Vec<_> = authority.into_iter().chain(named).collect();
    let forwarded_for: Vec<_> =
        head.headers.get_all(FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok()).collect();
    let credentials = CallCredentials {
        hosts: &hosts,
        has_origin: head.headers.contains_key(ORIGIN),
        is_signed: [SIGNATURE, SIGNATURE_INPUT].iter().any(|name| head.headers.contains_key(*name)),
        is_outbound: head.headers.contains_key(OUTBOUND),
        is_proxied: head.headers.keys().any(|name| is_proxy_header(name.as_str())),
        key: credential(API_KEY_HEADER),
        authorization: credential("authorization"),
        from,
        forwarded_for: &forwarded_for,
        takes_files: ["/SendMessage", "/SendStreamingMessage"]
            .iter()
            .any(|name| head.uri.path().ends_with(name)),
    };
    let admitted = context.edge.admit(served, &credentials, BodyDataStream::new(body)).await;
    let admitted = admitted.inspect_err(|problem| context.edge.count_refusal(problem))?;
    let name =
        head.uri.path().strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE)?.strip_prefix('/'));
    let Some(operation) = name.and_then(A2aOperation::from_name) else {
        let path: String = head.uri.path().chars().take(80).collect();
        let known: Vec<_> = A2aOperation::ALL.iter().map(|operation| operation.name()).collect();
        let message = format!("no method {path:?}; /{SERVICE}/ has {}", known.join(", "));
        return Err(A2aError::new(A2aErrorKind::MethodNotFound, message));
    };
    let _guard = admitted.guard;
    let request = HttpRequest::from_parts(head, Full::new(admitted.bytes));
    let (by, holder, permit) = (admitted.by, admitted.holder, Some(admitted.permit));
    let performer = Performer { context, operation, by, holder, permit };
    // The edge has limited the body's size.
    let mut grpc = Grpc::new(JsonCodec::of_server(operation)).max_decoding_message_size(usize::MAX);
    Ok(match schema::is_streaming(operation) {
        true => grpc.server_streaming(performer, request).await,
        false => grpc.unary(performer, request).await,
    })
}

struct Performer {
    context: CallContext,
    operation: A2aOperation,
    by: Principal,
    holder: BudgetHolder,
    permit: Option<InFlightPermit>,
}

impl UnaryService<Value> for Performer {
    type Response = Value;
    type Future = BoxFuture<'static, Result<Response<Value>, Status>>;

    fn call(&mut self, request: Request<Value>) -> Self::Future {
        let operation = self.operation;
        let reply = self.reply(request);
        Box::pin(async move {
            let (reply, activated) = reply.await.map_err(|error| status(&error))?;
            let A2aResponse::Single(answer) = reply else {
                return Err(status(&wrong_kind(operation)));
            };
            let answer =
                serde_json::to_value(&answer).map_err(|error| Status::internal(error.to_string()))?;
            Ok(with_extensions(Response::new(answer), activated))
        })
    }
}

impl ServerStreamingService<Value> for Performer {
    type Response = Value;
    type ResponseStream = BoxStream<'static, Result<Value, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Value>) -> Self::Future {
        let (operation, holder, context) = (self.operation, self.holder.clone(), self.context.clone());
        let reply = self.reply(request);
        Box::pin(async move {
            let (reply, activated) = reply.await.map_err(|error| status(&error))?;
            let A2aResponse::Stream(events) = reply else {
                return Err(status(&wrong_kind(operation)));
            };
            let permit = context.edge.open_stream(&holder).map_err(|problem| {
                context.edge.count_refusal(&problem);
                status(&problem.into())
            })?;
            let events = stream::unfold((Some(events), context.draining, permit), next).boxed();
            Ok(with_extensions(Response::new(events), activated))
        })
    }
}

impl Performer {
    fn reply(
        &mut self,
        request: Request<Value>,
    ) -> impl Future<Output = Result<(A2aResponse, Option<String>), A2aError>> + Send + 'static {
        let (operation, by, permit) = (self.operation, self.by.clone(), self.permit.take());
        let (node, first) = (self.context.node.clone(), self.context.first.clone());
        async move {
            let no_agent = || Problem::new(Reason::AgentNotFound, "no agent lives here");
            let local = node.agents.get(&first).ok_or_else(no_agent)?.clone();
            let max_depth = node.limits.max_depth;
            let call = A2aCall::new(call_headers(request.metadata())?, local, node, by, permit);
            let params = request.into_inner();
            if depth(&params) > max_depth {
                let message = format!("is nested more than {max_depth} levels deep");
                return Err(InvalidField::new("", message).into());
            }
            call.perform(operation, params).await
        }
    }
}

fn wrong_kind(operation: A2aOperation) -> A2aError {
    let message = format!("{} was answered in a shape that is not its own", operation.name());
    A2aError::new(A2aErrorKind::Internal, message)
}

type StreamState = (Option<Box<TaskEventStream>>, watch::Receiver<bool>, StreamPermit);

/// The next event; when the node drains, the error that says so, and the end.
async fn next((events, mut draining, permit): StreamState) -> Option<(Result<Value, Status>, StreamState)> {
    let mut events = events?;
    let event = tokio::select! {
        biased;
        event = events.next() => event?,
        () = drains(&mut draining) => Err(is_draining()),
    };
    let event = event
        .map_err(|error| status(&error))
        .and_then(|event| serde_json::to_value(event).map_err(|error| Status::internal(error.to_string())));
    let rest = event.is_ok().then_some(events);
    Some((event, (rest, draining, permit)))
}

/// Fails if the call does not name version 1.0.
fn call_headers(metadata: &MetadataMap) -> Result<CallHeaders, A2aError> {
    let text = |name: &str| metadata.get(name.to_ascii_lowercase()).and_then(|value| value.to_str().ok());
    let all = |name: &str| {
        let lines = metadata.get_all(name.to_ascii_lowercase()).into_iter();
        lines.filter_map(|line| line.to_str().ok()).collect::<Vec<_>>()
    };
    version::negotiate(text(VERSION_PARAMETER))?;
    Ok(CallHeaders {
        version: ProtocolVersion::V1,
        extensions: version::extensions(all(EXTENSIONS_PARAMETER)),
        trace: trace_from(text(TRACEPARENT), &all(TRACESTATE)),
    })
}

/// `response` with the extensions that the call activated.
fn with_extensions<T>(mut response: Response<T>, activated: Option<String>) -> Response<T> {
    let value = activated.and_then(|uris| MetadataValue::try_from(uris).ok());
    let key = AsciiMetadataKey::from_bytes(EXTENSIONS_PARAMETER.to_ascii_lowercase().as_bytes());
    if let (Some(value), Ok(key)) = (value, key) {
        response.metadata_mut().insert(key, value);
    }
    response
}

/// The nesting depth of arrays and objects.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
