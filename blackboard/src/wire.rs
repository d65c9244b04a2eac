//! Outgoing HTTP, for every client in the mesh: signed, bounded in time and size, and a refusal comes back as the
//! [`Problem`] it was.

use actix_web::http::StatusCode;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use protocol::{
    ids::Digest,
    problem::{Problem, Reason},
    signature::{MESSAGE_ID, RECIPIENT, SignedParts, Signer},
    trace::TraceContext,
};
use reqwest::{Method, Response, Url, header, redirect};
use serde::de::DeserializeOwned;
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

mod answer;
mod shown;
pub mod tls;

pub use shown::{names_who_speaks, shown};

/// Bounds of every outgoing request.
#[derive(Debug, Clone)]
pub struct WireLimits {
    /// How long a connection may take to open.
    pub connect: Duration,
    /// How long an answer may take, from the first byte sent to the last byte read. Not for event streams.
    pub answer: Duration,
    /// How long an event stream may stay silent, heartbeats included.
    pub silence: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// The largest answer read, bytes.
    pub max_answer_bytes: usize,
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            answer: Duration::from_secs(5),
            silence: Duration::from_secs(45),
            idle: Duration::from_secs(20),
            max_answer_bytes: 16 * 1024 * 1024,
        }
    }
}

/// One outgoing request. `recipient` is the agent id or the service name (`registry`, `board`) it is for.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    method: Method,
    url: &'a str,
    recipient: &'a str,
    message_id: Option<&'a str>,
    content_type: &'static str,
    body: Option<Bytes>,
    trace: Option<TraceContext>,
    headers: Vec<(&'static str, String)>,
    within: Option<Duration>,
}

impl<'a> Call<'a> {
    /// A request without a body.
    pub fn new(method: Method, url: &'a str, recipient: &'a str) -> Self {
        Self {
            method,
            url,
            recipient,
            message_id: None,
            content_type: "application/json",
            body: None,
            trace: None,
            headers: Vec::new(),
            within: None,
        }
    }

    /// `GET url`.
    pub fn get(url: &'a str, recipient: &'a str) -> Self {
        Self::new(Method::GET, url, recipient)
    }

    /// `POST url`, with JSON.
    pub fn post(url: &'a str, recipient: &'a str, json: Bytes) -> Self {
        Self::new(Method::POST, url, recipient).body(json)
    }

    /// The same with a body of JSON.
    #[must_use]
    pub fn body(mut self, json: Bytes) -> Self {
        self.body = Some(json);
        self
    }

    /// The same with content of another type than JSON.
    #[must_use]
    pub fn content(mut self, content_type: &'static str, content: Bytes) -> Self {
        self.content_type = content_type;
        self.body = Some(content);
        self
    }

    /// The same, naming the message it carries.
    #[must_use]
    pub fn message_id(mut self, id: &'a str) -> Self {
        self.message_id = Some(id);
        self
    }

    /// The same under a trace.
    #[must_use]
    pub fn trace(mut self, trace: Option<TraceContext>) -> Self {
        self.trace = trace;
        self
    }

    /// The same with one more header, which the signature does not cover.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same, answered within `time` instead of [`WireLimits::answer`].
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }
}

/// Sends requests. Cheap to clone; all clones share connections.
#[derive(Debug, Clone)]
pub struct Wire {
    client: reqwest::Client,
    signer: Option<Arc<Signer>>,
    limits: Arc<WireLimits>,
    away: Option<Reason>,
}

impl Wire {
    /// Signs as `signer`; without one, speaks as a user. Proxies are not asked and redirects not followed.
    pub fn new(signer: Option<Signer>, limits: WireLimits) -> Result<Self, Problem> {
        let client = tls::client()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(limits.connect)
            .pool_idle_timeout(limits.idle)
            .build()
            .map_err(|error| Problem::new(Reason::Internal, format!("no HTTP client: {error}")))?;
        Ok(Self { client, signer: signer.map(Arc::new), limits: Arc::new(limits), away: None })
    }

    /// The same connections, speaking as `signer`.
    #[must_use]
    pub fn signing_as(&self, signer: Signer) -> Self {
        Self { signer: Some(Arc::new(signer)), ..self.clone() }
    }

    /// The same connections; where nobody answers, the problem is `reason` (`registry_unavailable`, say).
    #[must_use]
    pub fn unreachable_is(&self, reason: Reason) -> Self {
        Self { away: Some(reason), ..self.clone() }
    }

    /// The answer's head if it is below 400, else the refusal it carries. Where nobody answers ([`is_unreachable`]),
    /// `gateway_timeout` if a connection was there and `overloaded` if not, or what [`Wire::unreachable_is`] says.
    pub async fn send(&self, call: Call<'_>) -> Result<Response, Problem> {
        let within = call.within.unwrap_or(self.limits.answer);
        let request = self.request(call)?.timeout(within);
        self.accepted(request.send().await).await
    }

    /// The answer's JSON.
    pub async fn json<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, Problem> {
        let answer = self.bytes(call).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            Problem::new(Reason::Internal, format!("the answer cannot be read: {error}")).with(STRANGE, true)
        })
    }

    /// The answer's JSON, also if its status is `also`: what cannot do its work says in a 503 why.
    pub async fn json_also<T: DeserializeOwned>(
        &self,
        call: Call<'_>,
        also: StatusCode,
    ) -> Result<T, Problem> {
        let within = call.within.unwrap_or(self.limits.answer);
        let answer = self.request(call)?.timeout(within).send().await;
        let answer = match answer {
            Ok(answer) if answer.status().as_u16() == also.as_u16() => answer,
            answer => self.accepted(answer).await?,
        };
        let status = answer.status().as_u16();
        let body = read(answer, self.limits.max_answer_bytes).await.map_err(|problem| self.named(problem))?;
        serde_json::from_slice(&body).map_err(|_| answer::problem(status, None, &body))
    }

    /// The answer's body, at most [`WireLimits::max_answer_bytes`].
    pub async fn bytes(&self, call: Call<'_>) -> Result<Bytes, Problem> {
        let answer = self.send(call).await?;
        read(answer, self.limits.max_answer_bytes).await.map_err(|problem| self.named(problem))
    }

    /// The bytes of an event stream (`Accept: text/event-stream`), for as long as it lasts. It ends with an error
    /// when it has been silent for [`WireLimits::silence`].
    pub async fn events(
        &self,
        call: Call<'_>,
    ) -> Result<impl Stream<Item = Result<Bytes, Problem>> + Send + 'static, Problem> {
        let (head, silence) = (call.within.unwrap_or(self.limits.answer), self.limits.silence);
        let request = self.request(call.header("accept", "text/event-stream"))?;
        let Ok(answer) = tokio::time::timeout(head, request.send()).await else {
            return Err(self.named(too_late("no answer in time")));
        };
        let body = Box::pin(self.accepted(answer).await?.bytes_stream());
        Ok(futures_util::stream::unfold(Some(body), move |body| async move {
            let mut body = body?;
            match tokio::time::timeout(silence, body.next()).await {
                Ok(None) => None,
                Ok(Some(Ok(bytes))) => Some((Ok(bytes), Some(body))),
                Ok(Some(Err(error))) => Some((Err(no_answer(&error)), None)),
                Err(_) => Some((Err(too_late("the stream fell silent")), None)),
            }
        }))
    }

    fn request(&self, call: Call<'_>) -> Result<reqwest::RequestBuilder, Problem> {
        let url = Url::parse(call.url).map_err(|error| {
            Problem::new(Reason::InvalidField, format!("{:?} is no URL: {error}", shown(call.url)))
        })?;
        let mut request =
            self.client.request(call.method.clone(), url.clone()).header(RECIPIENT, call.recipient);
        if let Some(signer) = &self.signer {
            let target = match url.query() {
                Some(query) => format!("{}?{query}", url.path()),
                None => url.path().to_owned(),
            };
            let parts = SignedParts {
                method: call.method.as_str(),
                path_and_query: &target,
                recipient: call.recipient,
                message_id: call.message_id,
                digest: Digest::of(call.body.as_deref().unwrap_or_default()),
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            for (name, value) in signer.sign(&parts, now).into_pairs() {
                request = request.header(name, value);
            }
        }
        if let Some(id) = call.message_id {
            request = request.header(MESSAGE_ID, id);
        }
        if let Some(trace) = call.trace {
            request = request.header(protocol::trace::TRACEPARENT, trace.to_string());
            if let Some(state) = &trace.state {
                request = request.header(protocol::trace::TRACESTATE, &**state);
            }
        }
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        Ok(match call.body {
            Some(body) => request.header(header::CONTENT_TYPE, call.content_type).body(body),
            None => request,
        })
    }

    async fn accepted(&self, answer: reqwest::Result<Response>) -> Result<Response, Problem> {
        let answer = answer.map_err(|error| self.named(no_answer(&error)))?;
        let status = answer.status().as_u16();
        if status < StatusCode::BAD_REQUEST.as_u16() {
            return Ok(answer);
        }
        let wait =
            answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = read(answer, self.limits.max_answer_bytes).await.unwrap_or_default();
        Err(answer::problem(status, wait.map(Duration::from_secs), &body))
    }

    fn named(&self, mut problem: Problem) -> Problem {
        if let (Some(reason), true) = (self.away, is_unreachable(&problem)) {
            problem.reason = reason;
        }
        problem
    }
}

/// Whether nobody answered: nobody knows if the request had an effect.
pub fn is_unreachable(problem: &Problem) -> bool {
    problem.metadata.iter().any(|(key, _)| *key == UNREACHABLE)
}

const UNREACHABLE: &str = "unreachable";

/// Whether what answered is no process of a mesh, by the shape of its answer; a proxy before one, perhaps.
pub fn is_strange(problem: &Problem) -> bool {
    problem.metadata.iter().any(|(key, _)| *key == STRANGE)
}

const STRANGE: &str = "strange";

fn no_answer(error: &reqwest::Error) -> Problem {
    if error.is_timeout() && !error.is_connect() {
        return too_late("no answer in time");
    }
    let mut cause = error.to_string();
    // A name that can't be told as basic authentication stays where it was.
    if let Some(url) = error.url().map(Url::as_str) {
        cause = cause.replace(url, &shown(url));
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        cause = format!("{cause}: {inner}");
        source = inner.source();
    }
    if error.is_builder() {
        return Problem::new(Reason::InvalidField, cause);
    }
    Problem::new(Reason::Overloaded, cause).with(UNREACHABLE, true)
}

fn too_late(message: &str) -> Problem {
    Problem::new(Reason::GatewayTimeout, message).with(UNREACHABLE, true)
}

async fn read(mut answer: Response, limit: usize) -> Result<Bytes, Problem> {
    let mut body = BytesMut::new();
    loop {
        let Some(chunk) = answer.chunk().await.map_err(|error| no_answer(&error))? else {
            return Ok(body.freeze());
        };
        if body.len() + chunk.len() > limit {
            return Err(Problem::new(Reason::Internal, format!("the answer is longer than {limit} bytes")));
        }
        if body.is_empty() && answer.content_length() == Some(chunk.len() as u64) {
            return Ok(chunk);
        }
        body.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
mod tests;
