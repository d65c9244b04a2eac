//! The A2A client: fetches the card of a foreign agent and calls its operations over JSON-RPC or HTTP+JSON, whichever the
//! card prefers, or over gRPC if it offers nothing else (A2A §5, §9–11). Agents of A2A 0.3 are called as `v03` says. All requests go through [`super::outbound_client`].

pub mod callbacks;
pub mod card_fetch;
pub mod credentials;
mod event_stream;
mod grpc_client;
pub mod remote_memory;
pub mod remote_task_runner;
pub mod remote_task_store;
mod v03;

use super::{
    outbound_client::{
        Error as OutboundError, OutboundClient, OutboundRequest, OutboundResponse, StreamOrResponse,
    },
    retry_after::retry_after,
};
use credentials::SchemeCredentials;
use futures_util::{StreamExt, stream::BoxStream};
use protocol::{
    a2a::{
        card::{AgentInterface, GRPC, HTTP_JSON},
        card_validation::ValidatedCard,
        error::{A2aError, A2aErrorKind},
        event::{SendMessageResponse, StreamResponse},
        json::FromProtoJson,
        request::{A2aOperation, SendMessage, SubscribeToTask},
        route::{self, encoded},
        task::A2aTask,
        version::{VERSION, VERSION_PARAMETER},
    },
    trace::{TRACEPARENT, TraceContext},
};
use reqwest::{Method, header::RETRY_AFTER};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Why an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// There was no response. A retry may succeed.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// The agent is busy and says when to retry.
    #[error("no answer: {why}")]
    Busy { why: String, after: Duration },
    /// The address policy forbids the call.
    #[error("{0}")]
    Forbidden(String),
    /// Credentials are missing or not accepted.
    #[error("it does not take our credentials: {0}")]
    Unauthenticated(String),
    /// The agent refused the operation.
    #[error("{0}")]
    Refused(A2aError),
    /// The response is larger than the limit.
    #[error("{0}")]
    TooLarge(String),
    /// The response is not valid A2A.
    #[error("its answer can't be read: {0}")]
    Malformed(String),
}

impl CallError {
    /// Whether a retry may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Busy { .. } => true,
            Self::Refused(error) => {
                matches!(error.kind, A2aErrorKind::Unavailable | A2aErrorKind::RateLimited)
            }
            _ => false,
        }
    }

    /// How long the agent asks to wait before a retry.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { after, .. } => Some(*after),
            Self::Refused(error) => error.retry_after,
            _ => None,
        }
    }
}

/// The client of one foreign agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteAgent {
    client: OutboundClient,
    card: Arc<ValidatedCard>,
    credentials: Arc<SchemeCredentials>,
    trace: Option<TraceContext>,
    /// Counts changes of the interface; the one in use is this number modulo the number of interfaces.
    interface: Arc<AtomicUsize>,
    /// The id of the last JSON-RPC request.
    last_id: Arc<AtomicU64>,
}

/// The events of a stream.
pub type RemoteEventStream = BoxStream<'static, Result<StreamResponse, CallError>>;

impl RemoteAgent {
    /// A client of the agent that `card` describes.
    pub fn new(client: OutboundClient, card: ValidatedCard, credentials: Arc<SchemeCredentials>) -> Self {
        let (interface, last_id) = Default::default();
        Self { client, card: Arc::new(card), credentials, trace: None, interface, last_id }
    }

    /// The same client, with `trace` in its requests.
    #[must_use]
    pub fn with_trace(&self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self.clone() }
    }

    /// The largest sum of the artifacts of a task, bytes.
    pub fn max_task_bytes(&self) -> usize {
        self.client.limits().max_task_bytes
    }

    /// Its card.
    pub fn card(&self) -> &ValidatedCard {
        &self.card
    }

    /// The security schemes that have a credential.
    pub fn schemes(&self) -> std::collections::BTreeSet<String> {
        self.credentials.schemes()
    }

    /// Sends a message and waits for the response.
    pub async fn send(
        &self,
        request: &SendMessage,
        timeout: Duration,
    ) -> Result<SendMessageResponse, CallError> {
        let params = json!(request);
        let response =
            self.try_interfaces(|interface| {
                let params = params.clone();
                async move {
                    self.operation(&interface, A2aOperation::SendMessage, "", params, Some(timeout)).await
                }
            });
        decode(response.await?)
    }

    /// Sends a message and returns the stream of its task. Fails if there is no event within `timeout`.
    pub async fn send_streaming(
        &self,
        request: &SendMessage,
        timeout: Duration,
    ) -> Result<RemoteEventStream, CallError> {
        let params = json!(request);
        self.try_interfaces(|interface| {
            let params = params.clone();
            async move {
                self.open_stream(&interface, A2aOperation::SendStreamingMessage, "", params, timeout).await
            }
        })
        .await
    }

    /// Subscribes to a task. Fails if there is no event within `timeout`.
    pub async fn subscribe(&self, task: &str, timeout: Duration) -> Result<RemoteEventStream, CallError> {
        let request = SubscribeToTask { tenant: None, id: task.to_owned() };
        self.open_stream(&self.interface(), A2aOperation::SubscribeToTask, task, json!(request), timeout)
            .await
    }

    /// Opens a stream and waits for its first event.
    async fn open_stream(
        &self,
        interface: &AgentInterface,
        operation: A2aOperation,
        task: &str,
        params: Value,
        timeout: Duration,
    ) -> Result<RemoteEventStream, CallError> {
        let params = with_tenant(interface, params);
        let first = async {
            let mut events = self.request_stream(interface, operation, task, params, timeout).await?;
            let first = events.next().await;
            Ok(futures_util::stream::iter(first).chain(events).boxed())
        };
        let timed_out =
            |_| Err(CallError::Unreachable(format!("no event within {} ms", timeout.as_millis())));
        tokio::time::timeout(timeout, first).await.unwrap_or_else(timed_out)
    }

    /// Gets the task.
    pub async fn get(&self, task: &str) -> Result<A2aTask, CallError> {
        let params = json!({ "id": task });
        decode(self.operation(&self.interface(), A2aOperation::GetTask, task, params, None).await?)
    }

    /// Cancels the task.
    pub async fn cancel(&self, task: &str) -> Result<A2aTask, CallError> {
        let params = json!({ "id": task });
        decode(self.operation(&self.interface(), A2aOperation::CancelTask, task, params, None).await?)
    }

    fn interface(&self) -> AgentInterface {
        let interfaces = &self.card.interfaces;
        interfaces[self.interface.load(Ordering::Relaxed) % interfaces.len()].clone()
    }

    /// Tries each interface until one responds. That one stays in use, because later calls about the task must go where it
    /// began.
    async fn try_interfaces<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        call: impl Fn(AgentInterface) -> F,
    ) -> Result<T, CallError> {
        let mut last = CallError::Unreachable("it has no interface".to_owned());
        for _ in 0..self.card.interfaces.len() {
            match call(self.interface()).await {
                Err(
                    error @ (CallError::Unreachable(_) | CallError::Busy { .. } | CallError::Forbidden(_)),
                ) => {
                    last = error;
                    self.interface.fetch_add(1, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        Err(last)
    }

    async fn operation(
        &self,
        interface: &AgentInterface,
        operation: A2aOperation,
        task: &str,
        params: Value,
        timeout: Option<Duration>,
    ) -> Result<Value, CallError> {
        if interface.protocol_binding == GRPC {
            let request = self.with_metadata(OutboundRequest::new(Method::POST, ""), VERSION);
            let request = timeout.map_or(request.clone(), |timeout| request.with_timeout(timeout));
            let params = with_tenant(interface, params);
            return grpc_client::call(&self.client, request, interface, operation.name(), params).await;
        }
        let (request, id) = self.request(interface, operation, task, with_tenant(interface, params));
        let mut request = request.header("accept", "application/json");
        if let Some(timeout) = timeout {
            request = request.with_timeout(timeout);
        }
        let response = self.client.send(request).await.map_err(from_outbound_error)?;
        let result = result(interface, id, &response)?;
        Ok(if v03::is_spoken(interface) { v03::result(operation, result) } else { result })
    }

    async fn request_stream(
        &self,
        interface: &AgentInterface,
        operation: A2aOperation,
        task: &str,
        params: Value,
        timeout: Duration,
    ) -> Result<RemoteEventStream, CallError> {
        if interface.protocol_binding == GRPC {
            let request = self.with_metadata(OutboundRequest::new(Method::POST, ""), VERSION);
            return grpc_client::call_streaming(&self.client, request, interface, operation.name(), params)
                .await;
        }
        let (request, id) = self.request(interface, operation, task, params);
        let request = request.with_timeout(timeout);
        match self.client.stream(request).await.map_err(from_outbound_error)? {
            StreamOrResponse::Stream(bytes) => {
                Ok(event_stream::events(bytes, (interface, id), self.client.limits().max_bytes))
            }
            StreamOrResponse::Response(response) => match result(interface, id, &response) {
                Ok(_) => Err(CallError::Malformed("an answer came where a stream was to be".to_owned())),
                Err(error) => Err(error),
            },
        }
    }

    /// The request of an operation, and its id in JSON-RPC.
    fn request(
        &self,
        interface: &AgentInterface,
        operation: A2aOperation,
        task: &str,
        params: Value,
    ) -> (OutboundRequest, Option<u64>) {
        let mut rpc_id = None;
        let base = interface.url.trim_end_matches('/');
        let is_v03 = v03::is_spoken(interface);
        let (verb, url, body) = if is_v03 && is_rest(interface) {
            v03::rest(interface, operation, task, params)
        } else if is_rest(interface) {
            let tenant = interface.tenant.as_deref().filter(|tenant| !tenant.is_empty());
            let base = tenant.map_or_else(|| base.to_owned(), |tenant| format!("{base}/{}", encoded(tenant)));
            let path = route::template(operation).1.replace("{id}", &encoded(task));
            let verb = if operation == A2aOperation::GetTask { Method::GET } else { Method::POST };
            (verb, format!("{base}/{path}"), operation.sends().then(|| params.to_string()))
        } else {
            let id = *rpc_id.insert(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
            let (method, params) =
                if is_v03 { v03::rpc(operation, params) } else { (operation.name(), params) };
            let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            (Method::POST, interface.url.clone(), Some(body.to_string()))
        };
        let url = self.credentials.with_query(&self.card.card, url);
        let mut request = OutboundRequest::new(verb, url);
        if let Some(body) = body {
            request = request.body("application/json", body);
        }
        (self.with_metadata(request, if is_v03 { v03::VERSION } else { VERSION }), rpc_id)
    }

    /// Adds the protocol version, the trace and the credentials.
    fn with_metadata(&self, request: OutboundRequest, version: &str) -> OutboundRequest {
        let mut request = request.header(VERSION_PARAMETER, version);
        if let Some(trace) = &self.trace {
            request = request.header(TRACEPARENT, &trace.to_string());
        }
        self.credentials.with_headers(&self.card.card, request)
    }
}

fn is_rest(interface: &AgentInterface) -> bool {
    interface.protocol_binding == HTTP_JSON
}

fn with_tenant(interface: &AgentInterface, mut params: Value) -> Value {
    let tenant = interface.tenant.as_deref().filter(|tenant| !tenant.is_empty());
    if let (Some(members), Some(tenant)) = (params.as_object_mut(), tenant) {
        members.insert("tenant".to_owned(), json!(tenant));
    }
    params
}

fn from_outbound_error(error: OutboundError) -> CallError {
    match error {
        OutboundError::Unreachable(why) => CallError::Unreachable(why),
        OutboundError::BadUrl(why) | OutboundError::AddressRefused(why) => CallError::Forbidden(why),
        error @ OutboundError::TooLarge(_) => CallError::TooLarge(error.to_string()),
    }
}

/// Fails if `answer` names another request than that of `id`. An error may name none: it may be about a request that could not
/// be read (JSON-RPC 2.0, 5).
fn check_id(answer: &Value, id: Option<u64>) -> Result<(), CallError> {
    let (Some(id), Some(named)) = (id, answer.get("id")) else { return Ok(()) };
    if *named == id || named.is_null() && answer.get("error").is_some_and(|error| !error.is_null()) {
        return Ok(());
    }
    Err(CallError::Malformed(format!("a JSON-RPC answer to another request than {id}")))
}

/// The result that a response to the request of `id` holds, or the error.
fn result(
    interface: &AgentInterface,
    id: Option<u64>,
    response: &OutboundResponse,
) -> Result<Value, CallError> {
    let status = response.status.as_u16();
    let body: Option<Value> = serde_json::from_slice(&response.body).ok();
    body.as_ref().map_or(Ok(()), |body| check_id(body, id))?;
    let header = response.headers.get(RETRY_AFTER);
    let after = header.and_then(|value| retry_after(value.to_str().ok()?, SystemTime::now()));
    let refused = |error: A2aError| match (status, error.kind) {
        (401 | 403, _) | (_, A2aErrorKind::Unauthenticated | A2aErrorKind::Forbidden) => {
            CallError::Unauthenticated(error.message)
        }
        _ => CallError::Refused(A2aError { retry_after: error.retry_after.or(after), ..error }),
    };
    if let Some(error) = body.as_ref().and_then(|body| body.get("error")).filter(|error| !error.is_null()) {
        return Err(refused(match is_rest(interface) {
            true => A2aError::from_rest(status, body.as_ref().unwrap_or(&Value::Null)),
            false => A2aError::from_rpc(error),
        }));
    }
    if status >= 400 {
        return Err(match status {
            502..=504 | 429 => {
                let why = format!("it answered {status}");
                after.map_or_else(
                    || CallError::Unreachable(why.clone()),
                    |after| CallError::Busy { why: why.clone(), after },
                )
            }
            _ => refused(A2aError::from_rest(status, body.as_ref().unwrap_or(&Value::Null))),
        });
    }
    let Some(mut body) = body.filter(|_| status < 300) else {
        return Err(CallError::Malformed(format!("it answered {status} without JSON")));
    };
    if is_rest(interface) {
        return Ok(body);
    }
    match body.get_mut("result").map(Value::take) {
        Some(result) => Ok(result),
        None => Err(CallError::Malformed("a JSON-RPC answer with neither result nor error".to_owned())),
    }
}

fn decode<T: FromProtoJson>(value: Value) -> Result<T, CallError> {
    T::from_proto(value).map_err(|invalid| CallError::Malformed(invalid.to_string()))
}
