//! A foreign agent over gRPC: what is asked goes out as protobuf, what comes of it is read as the ProtoJSON it stands for.

use super::{CallError, Events, away, read};
use crate::{
    grpc::{
        read::Read,
        status::error_of,
        wire::{self, a2a_service_client::A2aServiceClient},
    },
    outbox::outside::{self, Call, Outside},
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use http_body_util::BodyExt as _;
use hyper::{Request, Response};
use prost::Message as _;
use protocol::a2a::{
    card::AgentInterface,
    error::Kind,
    request::{Operation, Request as Asked},
};
use serde_json::Value;
use std::{
    error::Error as _,
    task::{Context, Poll},
};
use tonic::{Code, Status, body::Body, codegen::Service};

/// The way to one agent: every call dressed alike, and through the one client for the outside.
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

type Stub = A2aServiceClient<Channel>;

async fn stub(outside: &Outside, call: Call, interface: &AgentInterface) -> Result<Stub, CallError> {
    let base = outside.url_of(&interface.url).await.map_err(away)?;
    let channel = Channel { outside: outside.clone(), call, base };
    Ok(A2aServiceClient::new(channel).max_decoding_message_size(outside.bounds().max_bytes))
}

fn asked(method: &str, params: Value) -> Result<Asked, CallError> {
    let operation = Operation::from_name(method);
    let operation = operation.ok_or_else(|| CallError::Forbidden(format!("no operation {method}")))?;
    Asked::read(operation, params).map_err(|invalid| CallError::Forbidden(invalid.to_string()))
}

fn never(method: &str) -> CallError {
    CallError::Forbidden(format!("{method} is not asked of foreign agents like this"))
}

/// The result of `method`, asked with `params`.
pub(super) async fn call(
    outside: &Outside,
    call: Call,
    interface: &AgentInterface,
    method: &str,
    params: Value,
) -> Result<Value, CallError> {
    let within = call.limit().unwrap_or(outside.bounds().answer);
    let mut stub = stub(outside, call, interface).await?;
    let answered = async {
        match asked(method, params)? {
            Asked::SendMessage(request) => {
                one(stub.send_message(wire::SendMessageRequest::from(request)).await)
            }
            Asked::GetTask(request) => one(stub.get_task(wire::GetTaskRequest::from(request)).await),
            Asked::CancelTask(request) => one(stub.cancel_task(wire::CancelTaskRequest::from(request)).await),
            Asked::SendStreamingMessage(_)
            | Asked::ListTasks(_)
            | Asked::SubscribeToTask(_)
            | Asked::CreateTaskPushNotificationConfig(_)
            | Asked::GetTaskPushNotificationConfig(_)
            | Asked::ListTaskPushNotificationConfigs(_)
            | Asked::DeleteTaskPushNotificationConfig(_)
            | Asked::GetExtendedAgentCard(_) => Err(never(method)),
        }
    };
    match tokio::time::timeout(within, answered).await {
        Ok(answer) => answer,
        Err(_) => Err(CallError::Away("no answer in time".to_owned())),
    }
}

fn one<T: Read>(answer: Result<tonic::Response<T>, Status>) -> Result<Value, CallError> {
    let read = answer.map_err(|status| refused(&status))?.into_inner().read();
    read.map_err(|invalid| CallError::Malformed(invalid.to_string()))
}

/// The events of `method`, asked with `params`.
pub(super) async fn listen(
    outside: &Outside,
    call: Call,
    interface: &AgentInterface,
    method: &str,
    params: Value,
) -> Result<Events, CallError> {
    let mut stub = stub(outside, call, interface).await?;
    let events = match asked(method, params)? {
        Asked::SendStreamingMessage(request) => {
            stub.send_streaming_message(wire::SendMessageRequest::from(request)).await
        }
        Asked::SubscribeToTask(request) => {
            stub.subscribe_to_task(wire::SubscribeToTaskRequest::from(request)).await
        }
        Asked::SendMessage(_)
        | Asked::GetTask(_)
        | Asked::ListTasks(_)
        | Asked::CancelTask(_)
        | Asked::CreateTaskPushNotificationConfig(_)
        | Asked::GetTaskPushNotificationConfig(_)
        | Asked::ListTaskPushNotificationConfigs(_)
        | Asked::DeleteTaskPushNotificationConfig(_)
        | Asked::GetExtendedAgentCard(_) => return Err(never(method)),
    };
    let events = events.map_err(|status| refused(&status))?.into_inner();
    let most = outside.bounds().max_stream_bytes;
    Ok(stream::unfold(Some((events, 0)), move |open| async move {
        let (mut events, so_far) = open?;
        let event = match events.message().await {
            Ok(event) => event?,
            Err(status) => return Some((Err(refused(&status)), None)),
        };
        let so_far = so_far + event.encoded_len();
        if so_far > most {
            return Some((Err(away(outside::Error::TooLarge(most))), None));
        }
        let event = event.read().map_err(|invalid| CallError::Malformed(invalid.to_string()));
        let event = event.and_then(read);
        let next = event.is_ok().then_some((events, so_far));
        Some((event, next))
    })
    .boxed())
}

/// Why a call came to nothing.
fn refused(status: &Status) -> CallError {
    let mut cause = status.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<outside::Error>() {
            return away(error.clone());
        }
        cause = inner.source();
    }
    let error = error_of(status);
    let is_away = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Unknown];
    if is_away.contains(&status.code()) {
        CallError::Away(error.message)
    } else if [Kind::Unauthenticated, Kind::Forbidden].contains(&error.kind) {
        CallError::Unauthenticated(error.message)
    } else {
        CallError::Refused(error)
    }
}
