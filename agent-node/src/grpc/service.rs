//! One call: what it says beside its parameters, what it does, and how it is answered.

use super::{
    gate::{Door, farewell, leaves},
    read::Read,
    status::status,
    wire::{self, a2a_service_server::A2aService},
};
use crate::http::{
    a2a::{Answer, Call, Heading, Heard, Reply},
    edge::Permit,
    routes::messages::trace_from,
};
use futures_util::{Stream, stream};
use protocol::{
    a2a::{
        card::AgentCard,
        error::{A2aError, Kind},
        json::{FromProto as _, Invalid},
        request::Operation,
        version::{self, EXTENSIONS_PARAMETER, VERSION_PARAMETER},
    },
    principal::Principal,
    problem::{Problem, Reason},
    trace::{TRACEPARENT, TRACESTATE},
};
use serde_json::Value;
use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
};
use tonic::{
    Request, Response, Status,
    metadata::{AsciiMetadataKey, MetadataMap, MetadataValue},
};

/// One call that was let in.
pub(super) struct Asked {
    door: Door,
    by: Principal,
    place: Mutex<Option<Permit>>,
}

type Events = Pin<Box<dyn Stream<Item = Result<wire::StreamResponse, Status>> + Send>>;

impl Asked {
    pub(super) fn new(door: Door, by: Principal, place: Permit) -> Self {
        Self { door, by, place: Mutex::new(Some(place)) }
    }

    async fn perform<T: Read>(
        &self,
        operation: Operation,
        request: Request<T>,
    ) -> Result<(Reply, Option<String>), A2aError> {
        let node = &self.door.node;
        let local = node
            .agents
            .get(&self.door.first)
            .ok_or_else(|| Problem::new(Reason::AgentNotFound, "no agent lives here"))?;
        let heading = heading(request.metadata());
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        let call = Call::new(heading, local.clone(), node.clone(), self.by.clone(), place)?;
        let params = request.into_inner().read()?;
        if depth(&params) > node.limits.max_depth {
            let message = format!("is nested more than {} levels deep", node.limits.max_depth);
            return Err(Invalid::new("", message).into());
        }
        call.perform(operation, params).await
    }

    /// What one answer is made of, by `take`, which knows the kind that `operation` has.
    async fn one<T: Read, A>(
        &self,
        operation: Operation,
        request: Request<T>,
        take: impl FnOnce(Answer) -> Option<A>,
    ) -> Result<Response<A>, Status> {
        let (reply, activated) = self.perform(operation, request).await.map_err(|error| status(&error))?;
        let answer = match reply {
            Reply::One(answer) => take(*answer),
            Reply::Many(_) => None,
        };
        let answer = answer.ok_or_else(|| {
            let message = format!("{} was answered in a shape that is not its own", operation.name());
            status(&A2aError::new(Kind::Internal, message))
        })?;
        Ok(with(Response::new(answer), activated))
    }

    async fn many<T: Read>(
        &self,
        operation: Operation,
        request: Request<T>,
    ) -> Result<Response<Events>, Status> {
        let (reply, activated) = self.perform(operation, request).await.map_err(|error| status(&error))?;
        let Reply::Many(heard) = reply else {
            return Err(status(&A2aError::new(Kind::Internal, "a stream was answered with one value")));
        };
        let seat = self.door.edge.seat(&self.by).map_err(|problem| {
            self.door.edge.count(&problem);
            status(&problem.into())
        })?;
        let events = stream::unfold((Some(heard), self.door.leaving.clone(), seat), next);
        Ok(with(Response::new(Box::pin(events)), activated))
    }
}

type Listening = (Option<Box<Heard>>, tokio::sync::watch::Receiver<bool>, crate::http::edge::Seat);

/// The next event; when the node leaves, its goodbye.
async fn next(state: Listening) -> Option<(Result<wire::StreamResponse, Status>, Listening)> {
    let (heard, mut leaving, seat) = state;
    let mut heard = heard?;
    let event = tokio::select! {
        biased;
        event = heard.next() => event?,
        () = leaves(&mut leaving) => Err(farewell()),
    };
    match event {
        Ok(event) => Some((Ok(event.into()), (Some(heard), leaving, seat))),
        Err(error) => Some((Err(status(&error)), (None, leaving, seat))),
    }
}

fn heading(metadata: &MetadataMap) -> Heading {
    let text = |name: &str| metadata.get(name.to_ascii_lowercase()).and_then(|value| value.to_str().ok());
    let all = |name: &str| {
        let lines = metadata.get_all(name.to_ascii_lowercase()).into_iter();
        lines.filter_map(|line| line.to_str().ok()).collect::<Vec<_>>()
    };
    Heading {
        version: text(VERSION_PARAMETER).map(str::to_owned),
        wanted: version::extensions(all(EXTENSIONS_PARAMETER)),
        trace: trace_from(text(TRACEPARENT), &all(TRACESTATE)),
    }
}

fn with<T>(mut response: Response<T>, activated: Option<String>) -> Response<T> {
    let value = activated.and_then(|uris| MetadataValue::try_from(uris).ok());
    let key = AsciiMetadataKey::from_bytes(EXTENSIONS_PARAMETER.to_ascii_lowercase().as_bytes());
    if let (Some(value), Ok(key)) = (value, key) {
        response.metadata_mut().insert(key, value);
    }
    response
}

/// How deep arrays and objects are nested.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The one kind of answer that an operation has.
macro_rules! only {
    ($kind:ident) => {
        |answer| if let Answer::$kind(it) = answer { Some(it.into()) } else { None }
    };
}

#[tonic::async_trait]
impl A2aService for Asked {
    type SendStreamingMessageStream = Events;
    type SubscribeToTaskStream = Events;

    async fn send_message(
        &self,
        request: Request<wire::SendMessageRequest>,
    ) -> Result<Response<wire::SendMessageResponse>, Status> {
        self.one(Operation::SendMessage, request, only!(Sent)).await
    }

    async fn send_streaming_message(
        &self,
        request: Request<wire::SendMessageRequest>,
    ) -> Result<Response<Events>, Status> {
        self.many(Operation::SendStreamingMessage, request).await
    }

    async fn get_task(&self, request: Request<wire::GetTaskRequest>) -> Result<Response<wire::Task>, Status> {
        self.one(Operation::GetTask, request, only!(Task)).await
    }

    async fn list_tasks(
        &self,
        request: Request<wire::ListTasksRequest>,
    ) -> Result<Response<wire::ListTasksResponse>, Status> {
        self.one(Operation::ListTasks, request, only!(Tasks)).await
    }

    async fn cancel_task(
        &self,
        request: Request<wire::CancelTaskRequest>,
    ) -> Result<Response<wire::Task>, Status> {
        self.one(Operation::CancelTask, request, only!(Task)).await
    }

    async fn subscribe_to_task(
        &self,
        request: Request<wire::SubscribeToTaskRequest>,
    ) -> Result<Response<Events>, Status> {
        self.many(Operation::SubscribeToTask, request).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<wire::TaskPushNotificationConfig>,
    ) -> Result<Response<wire::TaskPushNotificationConfig>, Status> {
        self.one(Operation::CreateTaskPushNotificationConfig, request, only!(Webhook)).await
    }

    async fn get_task_push_notification_config(
        &self,
        request: Request<wire::GetTaskPushNotificationConfigRequest>,
    ) -> Result<Response<wire::TaskPushNotificationConfig>, Status> {
        self.one(Operation::GetTaskPushNotificationConfig, request, only!(Webhook)).await
    }

    async fn list_task_push_notification_configs(
        &self,
        request: Request<wire::ListTaskPushNotificationConfigsRequest>,
    ) -> Result<Response<wire::ListTaskPushNotificationConfigsResponse>, Status> {
        self.one(Operation::ListTaskPushNotificationConfigs, request, only!(Webhooks)).await
    }

    async fn get_extended_agent_card(
        &self,
        request: Request<wire::GetExtendedAgentCardRequest>,
    ) -> Result<Response<wire::AgentCard>, Status> {
        let card = |answer| {
            let Answer::Card(card) = answer else { return None };
            AgentCard::from_proto(card).ok().map(Into::into)
        };
        self.one(Operation::GetExtendedAgentCard, request, card).await
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<wire::DeleteTaskPushNotificationConfigRequest>,
    ) -> Result<Response<()>, Status> {
        let done = |answer| matches!(answer, Answer::Done {}).then_some(());
        self.one(Operation::DeleteTaskPushNotificationConfig, request, done).await
    }
}
