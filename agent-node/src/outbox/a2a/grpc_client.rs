//! Calls of a foreign agent over gRPC: parameters are sent as protobuf, results are converted to JSON.

use super::{CallError, RemoteEventStream, decode, from_outbound_error};
use crate::{
    grpc_wire::{
        schema::{self, JsonCodec, ReadError},
        status::error_of,
    },
    outbox::outbound_client::{Error as OutboundError, OutboundClient, OutboundRequest},
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use http_body_util::BodyExt as _;
use hyper::{Request, Response};
use protocol::a2a::{card::AgentInterface, error::A2aErrorKind, request::A2aOperation};
use serde_json::Value;
use std::{
    error::Error as _,
    task::{Context, Poll},
};
use tonic::{Code, Status, body::Body, client::Grpc, codegen::Service};

/// tonic's transport to one agent. It uses [`OutboundClient`], which checks addresses; tonic's own channel does not.
#[derive(Clone)]
struct GrpcChannel {
    client: OutboundClient,
    /// The headers and the timeout of every request.
    request: OutboundRequest,
    base_url: String,
}

impl Service<Request<Body>> for GrpcChannel {
    type Response = Response<reqwest::Body>;
    type Error = OutboundError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, http: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (head, body) = http.into_parts();
            let body = body.collect().await.map_err(|error| OutboundError::Unreachable(error.to_string()))?;
            let mut request = this.request.with_url(format!("{}{}", this.base_url, head.uri.path()));
            for (name, value) in &head.headers {
                request = request.header(name.as_str(), value.to_str().unwrap_or_default());
            }
            this.client.open_http2(request, body.to_bytes()).await
        })
    }
}

async fn connect(
    client: &OutboundClient,
    request: OutboundRequest,
    interface: &AgentInterface,
) -> Result<Grpc<GrpcChannel>, CallError> {
    let base_url = client.url_of(&interface.url).await.map_err(from_outbound_error)?;
    let channel = GrpcChannel { client: client.clone(), request, base_url };
    Ok(Grpc::new(channel).max_decoding_message_size(client.limits().max_bytes))
}

fn operation(method: &str) -> Result<A2aOperation, CallError> {
    A2aOperation::from_name(method).ok_or_else(|| CallError::Forbidden(format!("no operation {method}")))
}

pub(super) async fn call(
    client: &OutboundClient,
    request: OutboundRequest,
    interface: &AgentInterface,
    method: &str,
    params: Value,
) -> Result<Value, CallError> {
    let timeout = request.timeout().unwrap_or(client.limits().response);
    let operation = operation(method)?;
    let mut grpc = connect(client, request, interface).await?;
    let codec = JsonCodec::of_client(operation, client.limits().max_bytes);
    let response = grpc.unary(tonic::Request::new(params), schema::path(operation), codec);
    match tokio::time::timeout(timeout, response).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(call_error(&status)),
        Err(_) => Err(CallError::Unreachable("no answer in time".to_owned())),
    }
}

pub(super) async fn call_streaming(
    client: &OutboundClient,
    request: OutboundRequest,
    interface: &AgentInterface,
    method: &str,
    params: Value,
) -> Result<RemoteEventStream, CallError> {
    let operation = operation(method)?;
    let mut grpc = connect(client, request, interface).await?;
    let codec = JsonCodec::of_client(operation, client.limits().max_stream_bytes);
    let events = grpc.server_streaming(tonic::Request::new(params), schema::path(operation), codec).await;
    let events = events.map_err(|status| call_error(&status))?.into_inner();
    Ok(stream::unfold(Some(events), |open| async move {
        let mut events = open?;
        let event =
            events.message().await.map_err(|status| call_error(&status)).transpose()?.and_then(decode);
        let rest = event.is_ok().then_some(events);
        Some((event, rest))
    })
    .boxed())
}

/// The error that `status` stands for: its cause on this side, if there is one, else what the agent says.
fn call_error(status: &Status) -> CallError {
    let mut cause = status.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<OutboundError>() {
            return from_outbound_error(error.clone());
        }
        match inner.downcast_ref() {
            Some(ReadError::TooLarge(max)) => {
                return from_outbound_error(OutboundError::TooLarge(*max));
            }
            Some(ReadError::Malformed(why)) => return CallError::Malformed(why.clone()),
            None => cause = inner.source(),
        }
    }
    let error = error_of(status);
    let unreachable = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Unknown];
    if unreachable.contains(&status.code()) {
        CallError::Unreachable(error.message)
    } else if [A2aErrorKind::Unauthenticated, A2aErrorKind::Forbidden].contains(&error.kind) {
        CallError::Unauthenticated(error.message)
    } else {
        CallError::Refused(error)
    }
}
