//! The A2A client: finds a foreign agent by its card, and calls its operations over JSON-RPC or HTTP+JSON, whichever its
//! card prefers, or over gRPC if it offers nothing else (A2A §5, §9–11). Everything goes through
//! [`super::outside`].

pub mod card;
pub mod credentials;
pub mod errand;
mod grpc;
pub mod hooks;
pub mod notes;
mod stream;

use super::{
    outside::{self, Answer, Call, Outside, Streamed},
    retry_after::retry_after,
};
use credentials::Credentials;
use futures_util::{StreamExt, stream::BoxStream};
use protocol::{
    a2a::{
        card::{AgentInterface, GRPC, HTTP_JSON},
        card_validation::ValidatedCard,
        error::{A2aError, A2aErrorKind},
        event::{SendMessageResponse, StreamResponse},
        json::FromProtoJson,
        request::{SendMessage, SubscribeToTask},
        route::encoded,
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

/// Why an operation came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// Nobody answered; another try may fare better.
    #[error("no answer: {0}")]
    Away(String),
    /// It is busy, and says when another try may fare better.
    #[error("no answer: {why}")]
    Later {
        /// What it answered.
        why: String,
        /// How long it asks to be left alone.
        after: Duration,
    },
    /// It may not be called at all.
    #[error("{0}")]
    Forbidden(String),
    /// It wants proof of who calls, or does not take ours.
    #[error("it does not take our credentials: {0}")]
    Unauthenticated(String),
    /// It refused.
    #[error("{0}")]
    Refused(A2aError),
    /// What it says is more than is taken.
    #[error("{0}")]
    TooLarge(String),
    /// What it answered is no A2A.
    #[error("its answer can't be read: {0}")]
    Malformed(String),
}

impl CallError {
    /// Whether the same call may succeed a moment later.
    pub fn is_worth_another_try(&self) -> bool {
        match self {
            Self::Away(_) | Self::Later { .. } => true,
            Self::Refused(error) => {
                matches!(error.kind, A2aErrorKind::Unavailable | A2aErrorKind::RateLimited)
            }
            Self::Forbidden(_) | Self::Unauthenticated(_) | Self::TooLarge(_) | Self::Malformed(_) => false,
        }
    }

    /// How long the agent asks to be left alone.
    pub fn asked_pause(&self) -> Option<Duration> {
        match self {
            Self::Later { after, .. } => Some(*after),
            Self::Refused(error) => error.retry_after,
            Self::Away(_)
            | Self::Forbidden(_)
            | Self::Unauthenticated(_)
            | Self::TooLarge(_)
            | Self::Malformed(_) => None,
        }
    }
}

/// A foreign agent, ready to be called. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote {
    outside: Outside,
    vetted: Arc<ValidatedCard>,
    credentials: Arc<Credentials>,
    trace: Option<TraceContext>,
    at: Arc<AtomicUsize>,
    calls: Arc<AtomicU64>,
}

/// The events of a stream.
pub type Events = BoxStream<'static, Result<StreamResponse, CallError>>;

impl Remote {
    /// The agent of that card.
    pub fn new(outside: Outside, vetted: ValidatedCard, credentials: Arc<Credentials>) -> Self {
        Self {
            outside,
            vetted: Arc::new(vetted),
            credentials,
            trace: None,
            at: Arc::default(),
            calls: Arc::default(),
        }
    }

    /// The same, its calls under a trace.
    #[must_use]
    pub fn traced(&self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self.clone() }
    }

    /// The most that its artifacts may hold, bytes.
    pub fn most(&self) -> usize {
        self.outside.bounds().max_task_bytes
    }

    /// Its card.
    pub fn vetted(&self) -> &ValidatedCard {
        &self.vetted
    }

    /// The security schemes there is a credential for.
    pub fn schemes(&self) -> std::collections::BTreeSet<String> {
        self.credentials.schemes()
    }

    /// Hands it a message; the answer may take as long as `within`.
    pub async fn send(
        &self,
        request: &SendMessage,
        within: Duration,
    ) -> Result<SendMessageResponse, CallError> {
        let params = json!(request);
        let sent = self.first_that_answers(|interface| {
            let params = params.clone();
            async move { self.operation(&interface, "SendMessage", "", params, Some(within)).await }
        });
        read(sent.await?)
    }

    /// Hands it a message and listens; the first event may take as long as `within`.
    pub async fn send_streaming(&self, request: &SendMessage, within: Duration) -> Result<Events, CallError> {
        let params = json!(request);
        self.first_that_answers(|interface| {
            let params = params.clone();
            async move { self.first_event(&interface, "SendStreamingMessage", "", params, within).await }
        })
        .await
    }

    /// Listens to a task; the first event may take as long as `within`.
    pub async fn subscribe(&self, task: &str, within: Duration) -> Result<Events, CallError> {
        let request = SubscribeToTask { tenant: None, id: task.to_owned() };
        self.first_event(&self.interface(), "SubscribeToTask", task, json!(request), within).await
    }

    async fn first_event(
        &self,
        interface: &AgentInterface,
        method: &str,
        task: &str,
        params: Value,
        within: Duration,
    ) -> Result<Events, CallError> {
        let params = with_tenant(interface, params);
        let first = async {
            let mut events = self.listen(interface, method, task, params, within).await?;
            let first = events.next().await;
            Ok(futures_util::stream::iter(first).chain(events).boxed())
        };
        let late = |_| Err(CallError::Away(format!("no event within {} ms", within.as_millis())));
        tokio::time::timeout(within, first).await.unwrap_or_else(late)
    }

    /// The task as it is.
    pub async fn get(&self, task: &str) -> Result<A2aTask, CallError> {
        read(self.operation(&self.interface(), "GetTask", task, json!({ "id": task }), None).await?)
    }

    /// Ends the task.
    pub async fn cancel(&self, task: &str) -> Result<A2aTask, CallError> {
        read(self.operation(&self.interface(), "CancelTask", task, json!({ "id": task }), None).await?)
    }

    fn interface(&self) -> AgentInterface {
        let interfaces = &self.vetted.interfaces;
        interfaces[self.at.load(Ordering::Relaxed) % interfaces.len()].clone()
    }

    /// Where nobody answers at the preferred interface, the next one is tried, and kept: what is said of the task later
    /// is said where it began.
    async fn first_that_answers<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        call: impl Fn(AgentInterface) -> F,
    ) -> Result<T, CallError> {
        let mut last = CallError::Away("it has no interface".to_owned());
        for _ in 0..self.vetted.interfaces.len() {
            match call(self.interface()).await {
                Err(error @ (CallError::Away(_) | CallError::Later { .. } | CallError::Forbidden(_))) => {
                    last = error;
                    self.at.fetch_add(1, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        Err(last)
    }

    async fn operation(
        &self,
        interface: &AgentInterface,
        method: &str,
        task: &str,
        params: Value,
        within: Option<Duration>,
    ) -> Result<Value, CallError> {
        if interface.protocol_binding == GRPC {
            let call = self.dressed(Call::new(Method::POST, ""));
            let call = within.map_or(call.clone(), |within| call.within(within));
            return grpc::call(&self.outside, call, interface, method, with_tenant(interface, params)).await;
        }
        let call = self.call(interface, method, task, with_tenant(interface, params))?;
        let mut call = call.header("accept", "application/json");
        if let Some(within) = within {
            call = call.within(within);
        }
        let answer = self.outside.call(call).await.map_err(away)?;
        result(interface, &answer)
    }

    async fn listen(
        &self,
        interface: &AgentInterface,
        method: &str,
        task: &str,
        params: Value,
        within: Duration,
    ) -> Result<Events, CallError> {
        if interface.protocol_binding == GRPC {
            let call = self.dressed(Call::new(Method::POST, ""));
            return grpc::listen(&self.outside, call, interface, method, params).await;
        }
        let call = self.call(interface, method, task, params)?.within(within);
        match self.outside.stream(call).await.map_err(away)? {
            Streamed::Stream(bytes) => {
                Ok(stream::events(bytes, is_rest(interface), self.outside.bounds().max_bytes))
            }
            Streamed::Answer(answer) => match result(interface, &answer) {
                Ok(_) => Err(CallError::Malformed("an answer came where a stream was to be".to_owned())),
                Err(error) => Err(error),
            },
        }
    }

    fn call(
        &self,
        interface: &AgentInterface,
        method: &str,
        task: &str,
        params: Value,
    ) -> Result<Call, CallError> {
        let base = interface.url.trim_end_matches('/');
        let (http, url, body) = if is_rest(interface) {
            let tenant = interface.tenant.as_deref().filter(|tenant| !tenant.is_empty());
            let base = tenant.map_or_else(|| base.to_owned(), |tenant| format!("{base}/{}", encoded(tenant)));
            let task = encoded(task);
            let body = params.to_string();
            match method {
                "SendMessage" => (Method::POST, format!("{base}/message:send"), Some(body)),
                "SendStreamingMessage" => (Method::POST, format!("{base}/message:stream"), Some(body)),
                "SubscribeToTask" => (Method::POST, format!("{base}/tasks/{task}:subscribe"), None),
                "CancelTask" => (Method::POST, format!("{base}/tasks/{task}:cancel"), None),
                _ => (Method::GET, format!("{base}/tasks/{task}"), None),
            }
        } else {
            let id = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            (Method::POST, interface.url.clone(), Some(body.to_string()))
        };
        let url = self.credentials.within(&self.vetted.card, url);
        let mut call = Call::new(http, url);
        if let Some(body) = body {
            call = call.body("application/json", body);
        }
        Ok(self.dressed(call))
    }

    /// `call` with what every call says beside its parameters.
    fn dressed(&self, call: Call) -> Call {
        let mut call = call.header(VERSION_PARAMETER, VERSION);
        if let Some(trace) = &self.trace {
            call = call.header(TRACEPARENT, &trace.to_string());
        }
        self.credentials.onto(&self.vetted.card, call)
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

fn away(error: outside::Error) -> CallError {
    match error {
        outside::Error::Away(why) => CallError::Away(why),
        outside::Error::BadUrl(why) | outside::Error::NotAllowed(why) => CallError::Forbidden(why),
        error @ outside::Error::TooLarge(_) => CallError::TooLarge(error.to_string()),
    }
}

/// The result in an answer, or the refusal.
fn result(interface: &AgentInterface, answer: &Answer) -> Result<Value, CallError> {
    let status = answer.status.as_u16();
    let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let after =
        answer.headers.get(RETRY_AFTER).and_then(|said| retry_after(said.to_str().ok()?, SystemTime::now()));
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
                    || CallError::Away(why.clone()),
                    |after| CallError::Later { why: why.clone(), after },
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

fn read<T: FromProtoJson>(value: Value) -> Result<T, CallError> {
    T::from_proto(value).map_err(|invalid| CallError::Malformed(invalid.to_string()))
}
