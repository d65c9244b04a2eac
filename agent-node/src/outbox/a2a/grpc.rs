//! A foreign agent over gRPC: JSON goes out as protobuf, and protobuf comes in as JSON.

use super::{CallError, Events, away, read};
use crate::{
    grpc::{
        schema::{self, JsonCodec, ReadError},
        status::error_of,
    },
    outbox::outside::{self, Call, Outside},
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

/// The way to one agent. Every call goes through [`Outside`], which checks the address where it connects; tonic's own
/// channel would connect without that.
#[derive(Clone)]
struct Channel {
    outside: Outside,
    call: Call,
    base: String,
}

impl Service<Request<Body>> for Channel {
    type Response = Response<reqwest::Body>;
    type Error = outside::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| outside::Error::Away(error.to_string()))?;
            let mut call = this.call.at(format!("{}{}", this.base, head.uri.path()));
            for (name, value) in &head.headers {
                call = call.header(name.as_str(), value.to_str().unwrap_or_default());
            }
            this.outside.open(call, body.to_bytes()).await
        })
    }
}

async fn client(
    outside: &Outside,
    call: Call,
    interface: &AgentInterface,
) -> Result<Grpc<Channel>, CallError> {
    let base = outside.url_of(&interface.url).await.map_err(away)?;
    let channel = Channel { outside: outside.clone(), call, base };
    Ok(Grpc::new(channel).max_decoding_message_size(outside.bounds().max_bytes))
}

fn operation(method: &str) -> Result<A2aOperation, CallError> {
    A2aOperation::from_name(method).ok_or_else(|| CallError::Forbidden(format!("no operation {method}")))
}

/// The result of `method` with `params`.
pub(super) async fn call(
    outside: &Outside,
    call: Call,
    interface: &AgentInterface,
    method: &str,
    params: Value,
) -> Result<Value, CallError> {
    let within = call.limit().unwrap_or(outside.bounds().answer);
    let operation = operation(method)?;
    let mut client = client(outside, call, interface).await?;
    let codec = JsonCodec::of_client(operation, outside.bounds().max_bytes);
    let answered = client.unary(tonic::Request::new(params), schema::path(operation), codec);
    match tokio::time::timeout(within, answered).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(failure(&status)),
        Err(_) => Err(CallError::Away("no answer in time".to_owned())),
    }
}

/// The events of `method` with `params`.
pub(super) async fn listen(
    outside: &Outside,
    call: Call,
    interface: &AgentInterface,
    method: &str,
    params: Value,
) -> Result<Events, CallError> {
    let operation = operation(method)?;
    let mut client = client(outside, call, interface).await?;
    let codec = JsonCodec::of_client(operation, outside.bounds().max_stream_bytes);
    let request = tonic::Request::new(params);
    let events = client.server_streaming(request, schema::path(operation), codec).await;
    let events = events.map_err(|status| failure(&status))?.into_inner();
    Ok(stream::unfold(Some(events), |open| async move {
        let mut events = open?;
        let event = events.message().await.map_err(|status| failure(&status)).transpose()?.and_then(read);
        let rest = event.is_ok().then_some(events);
        Some((event, rest))
    })
    .boxed())
}

/// Why a call failed.
fn failure(status: &Status) -> CallError {
    let mut cause = status.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<outside::Error>() {
            return away(error.clone());
        }
        match inner.downcast_ref() {
            Some(ReadError::TooLarge(most)) => return away(outside::Error::TooLarge(*most)),
            Some(ReadError::Malformed(why)) => return CallError::Malformed(why.clone()),
            None => cause = inner.source(),
        }
    }
    let error = error_of(status);
    let is_away = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Unknown];
    if is_away.contains(&status.code()) {
        CallError::Away(error.message)
    } else if [A2aErrorKind::Unauthenticated, A2aErrorKind::Forbidden].contains(&error.kind) {
        CallError::Unauthenticated(error.message)
    } else {
        CallError::Refused(error)
    }
}
