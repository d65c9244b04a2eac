//! The HTTP client for other processes of the mesh: signed, bounded in time and size. A refusal is returned as the
//! [`Problem`] that the server sent.

use crate::key_ring::KeyRing;
use actix_web::http::StatusCode;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use protocol::{
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    signature::{
        CONTENT_DIGEST, MESSAGE_ID, PresentedSignature, RECIPIENT, SIGNATURE, SIGNATURE_INPUT,
        SignatureHeaders, SignedParts, SignedResponse,
    },
    trace::TraceContext,
};
use reqwest::{Method, Response, Url, header, redirect};
use serde::de::DeserializeOwned;
use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

mod introduction;
mod message_answer;
mod redact;
mod refusal_body;
pub mod tls;

pub use message_answer::MessageAnswer;
pub use redact::{has_credentials, redact_url, redact_urls};

/// Limits of every outgoing request.
#[derive(Debug, Clone)]
pub struct HttpClientLimits {
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

impl Default for HttpClientLimits {
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

/// One outgoing request. `recipient` is the agent id or the service name (`registry`, `board`).
#[derive(Debug, Clone)]
pub struct ClientRequest<'a> {
    method: Method,
    url: &'a str,
    recipient: &'a str,
    message_id: Option<&'a str>,
    content_type: Cow<'static, str>,
    body: Option<Bytes>,
    trace: Option<TraceContext>,
    headers: Vec<(&'static str, String)>,
    within: Option<Duration>,
    acts_for: Option<Principal>,
}

impl<'a> ClientRequest<'a> {
    /// A request without a body.
    pub fn new(method: Method, url: &'a str, recipient: &'a str) -> Self {
        Self {
            method,
            url,
            recipient,
            message_id: None,
            content_type: Cow::Borrowed("application/json"),
            body: None,
            trace: None,
            headers: Vec::new(),
            within: None,
            acts_for: None,
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

    /// Sets a JSON body.
    #[must_use]
    pub fn body(mut self, json: Bytes) -> Self {
        self.body = Some(json);
        self
    }

    /// Sets a body of another type.
    #[must_use]
    pub fn content(mut self, content_type: impl Into<Cow<'static, str>>, content: Bytes) -> Self {
        self.content_type = content_type.into();
        self.body = Some(content);
        self
    }

    /// Sets the id of the message that it carries.
    #[must_use]
    pub fn message_id(mut self, id: &'a str) -> Self {
        self.message_id = Some(id);
        self
    }

    /// Sets the trace context.
    #[must_use]
    pub fn trace(mut self, trace: Option<TraceContext>) -> Self {
        self.trace = trace;
        self
    }

    /// Adds a header, which the signature does not cover.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Makes it for this user, whom the signer has authenticated. It is believed of the registry alone.
    #[must_use]
    pub fn acts_for(mut self, user: Principal) -> Self {
        self.acts_for = Some(user);
        self
    }

    /// Sets the time limit of the answer, instead of [`HttpClientLimits::answer`].
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }
}

/// Signs as one agent or service of this process.
#[derive(Debug, Clone)]
pub struct Signer {
    /// The keys of the process.
    pub keys: KeyRing,
    pub me: AgentId,
}

/// What the time limit of a request is for: the whole response, or the head of a stream.
#[derive(Debug, Clone, Copy)]
enum ResponseKind {
    Whole,
    Stream,
}

/// Sends requests. Cheap to clone; all clones share connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: reqwest::Client,
    signer: Option<Arc<Signer>>,
    limits: Arc<HttpClientLimits>,
    unreachable_reason: Option<Reason>,
    acts_for: Option<Principal>,
}

impl HttpClient {
    /// Signs requests with `signer`; without one, they are a user's. Proxies are not used and redirects not followed.
    pub fn new(signer: Option<Signer>, limits: HttpClientLimits) -> Result<Self, Problem> {
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
        Ok(Self {
            client,
            signer: signer.map(Arc::new),
            limits: Arc::new(limits),
            unreachable_reason: None,
            acts_for: None,
        })
    }

    /// The same connections, signing with `signer`.
    #[must_use]
    pub fn signing_as(&self, signer: Signer) -> Self {
        Self { signer: Some(Arc::new(signer)), ..self.clone() }
    }

    /// The same connections; every request is made for this user, as by [`ClientRequest::acts_for`].
    #[must_use]
    pub fn acting_for(&self, user: &Principal) -> Self {
        Self { acts_for: Some(user.clone()), ..self.clone() }
    }

    /// The same connections; an unreachable server gives the problem `reason`, such as `registry_unavailable`.
    #[must_use]
    pub fn with_unreachable_reason(&self, reason: Reason) -> Self {
        Self { unreachable_reason: Some(reason), ..self.clone() }
    }

    /// The response if its status is below 400, else its refusal. If the server is unreachable ([`is_unreachable`]), the
    /// reason is that of [`HttpClient::with_unreachable_reason`], else `gateway_timeout` on a timeout and `recipient_unreachable`.
    pub async fn send(&self, call: ClientRequest<'_>) -> Result<Response, Problem> {
        self.send_introduced(&call, ResponseKind::Whole).await
    }

    /// Sends `call`. If it is refused because one of both sides does not know the other's key, or another one, both tell each
    /// other their keys, and it is sent again.
    async fn send_introduced(
        &self,
        call: &ClientRequest<'_>,
        kind: ResponseKind,
    ) -> Result<Response, Problem> {
        let first = self.send_once(call, kind).await;
        match (&first, &self.signer) {
            (Err(problem), Some(signer)) if problem.reason == Reason::Unauthenticated => {
                self.introduce(signer, call).await?;
                self.send_once(call, kind).await
            }
            _ => first,
        }
    }

    async fn send_once(&self, call: &ClientRequest<'_>, kind: ResponseKind) -> Result<Response, Problem> {
        let (request, within) = (self.request(call)?, call.within.unwrap_or(self.limits.answer));
        let answer = match kind {
            ResponseKind::Whole => request.timeout(within).send().await,
            ResponseKind::Stream => match tokio::time::timeout(within, request.send()).await {
                Ok(answer) => answer,
                Err(_) => return Err(self.with_reason(timed_out("no answer in time"))),
            },
        };
        self.check_status(answer).await
    }

    /// The response's JSON.
    pub async fn json<T: DeserializeOwned>(&self, call: ClientRequest<'_>) -> Result<T, Problem> {
        let answer = self.bytes(call).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            Problem::new(Reason::Internal, format!("the answer cannot be read: {error}")).with(FOREIGN, true)
        })
    }

    /// The response's JSON, also if its status is `also`: a service that is not ready explains it in a 503.
    pub async fn json_also<T: DeserializeOwned>(
        &self,
        call: ClientRequest<'_>,
        also: StatusCode,
    ) -> Result<T, Problem> {
        let within = call.within.unwrap_or(self.limits.answer);
        let answer = self.request(&call)?.timeout(within).send().await;
        let answer = match answer {
            Ok(answer) if answer.status().as_u16() == also.as_u16() => answer,
            answer => self.check_status(answer).await?,
        };
        let status = answer.status().as_u16();
        let body =
            read(answer, self.limits.max_answer_bytes).await.map_err(|problem| self.with_reason(problem))?;
        serde_json::from_slice(&body).map_err(|_| refusal_body::parse(status, None, &body))
    }

    /// The response's body, at most [`HttpClientLimits::max_answer_bytes`].
    pub async fn bytes(&self, call: ClientRequest<'_>) -> Result<Bytes, Problem> {
        let answer = self.send(call).await?;
        read(answer, self.limits.max_answer_bytes).await.map_err(|problem| self.with_reason(problem))
    }

    /// The response's body, and when it was signed (Unix seconds), if its status is 200 and `by` has signed it as the answer to
    /// this message; `None` if the message is only acknowledged. Fails with `unauthenticated` if the signature is not right.
    pub async fn signed_bytes(
        &self,
        call: ClientRequest<'_>,
        by: &AgentId,
    ) -> Result<Option<(Bytes, u64)>, Problem> {
        let id = call.message_id.unwrap_or_default().to_owned();
        let answer = self.send(call).await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body =
            read(answer, self.limits.max_answer_bytes).await.map_err(|problem| self.with_reason(problem))?;
        let (Some(signer), StatusCode::OK) =
            (&self.signer, StatusCode::from_u16(status.as_u16()).unwrap_or_default())
        else {
            return Ok(None);
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let presented = PresentedSignature {
            content_digest: header(CONTENT_DIGEST),
            signature_input: header(SIGNATURE_INPUT),
            signature: header(SIGNATURE),
        };
        let parts = SignedResponse { status: 200, message_id: &id, digest: Digest::of(&body) };
        let signed_at = signer.keys.verify_response((&signer.me, by), &parts, &presented, now())?;
        Ok(Some((body, signed_at)))
    }

    /// The headers of a response that this client's agent signs for `to`; none if it does not sign.
    pub fn sign_response(
        &self,
        to: &AgentId,
        parts: &SignedResponse<'_>,
    ) -> Result<Vec<(&'static str, String)>, Problem> {
        let Some(Signer { keys, me }) = self.signer.as_deref() else { return Ok(Vec::new()) };
        let signed = keys.sign_response(me, to.as_str(), parts, now())?;
        Ok(signed.into_pairs().into_iter().collect())
    }

    /// The bytes of an event stream (`Accept: text/event-stream`). It ends with an error after a silence of [`HttpClientLimits::silence`].
    pub async fn events(
        &self,
        call: ClientRequest<'_>,
    ) -> Result<impl Stream<Item = Result<Bytes, Problem>> + Send + use<>, Problem> {
        let silence = self.limits.silence;
        let call = call.header("accept", "text/event-stream");
        let answer = self.send_introduced(&call, ResponseKind::Stream).await?;
        let body = Box::pin(answer.bytes_stream());
        Ok(futures_util::stream::unfold(Some(body), move |body| async move {
            let mut body = body?;
            match tokio::time::timeout(silence, body.next()).await {
                Ok(None) => None,
                Ok(Some(Ok(bytes))) => Some((Ok(bytes), Some(body))),
                Ok(Some(Err(error))) => Some((Err(no_answer(&error)), None)),
                Err(_) => Some((Err(timed_out("the stream fell silent")), None)),
            }
        }))
    }

    /// The request of `call`, signed under the key that the signer shares with the recipient.
    fn request(&self, call: &ClientRequest<'_>) -> Result<reqwest::RequestBuilder, Problem> {
        self.request_signed_by(call, |Signer { keys, me }, parts| {
            let user = call.acts_for.as_ref().or(self.acts_for.as_ref());
            keys.sign_request_for(me, parts, now(), user)
        })
    }

    fn request_signed_by(
        &self,
        call: &ClientRequest<'_>,
        sign: impl FnOnce(&Signer, &SignedParts<'_>) -> Result<SignatureHeaders, Problem>,
    ) -> Result<reqwest::RequestBuilder, Problem> {
        let url = parse_url(call.url)?;
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
            for (name, value) in sign(signer, &parts)?.into_pairs() {
                request = request.header(name, value);
            }
        }
        if let Some(id) = call.message_id {
            request = request.header(MESSAGE_ID, id);
        }
        if let Some(trace) = &call.trace {
            request = request.header(protocol::trace::TRACEPARENT, trace.to_string());
            if let Some(state) = &trace.state {
                request = request.header(protocol::trace::TRACESTATE, &**state);
            }
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        Ok(match &call.body {
            Some(body) => request.header(header::CONTENT_TYPE, &*call.content_type).body(body.clone()),
            None => request,
        })
    }

    async fn check_status(&self, answer: reqwest::Result<Response>) -> Result<Response, Problem> {
        let answer = answer.map_err(|error| self.with_reason(no_answer(&error)))?;
        let status = answer.status().as_u16();
        if status < StatusCode::BAD_REQUEST.as_u16() {
            return Ok(answer);
        }
        let wait =
            answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = read(answer, self.limits.max_answer_bytes).await.unwrap_or_default();
        Err(refusal_body::parse(status, wait.map(Duration::from_secs), &body))
    }

    fn with_reason(&self, mut problem: Problem) -> Problem {
        if let (Some(reason), true) = (self.unreachable_reason, is_unreachable(&problem)) {
            problem.reason = reason;
        }
        problem
    }
}

fn parse_url(text: &str) -> Result<Url, Problem> {
    Url::parse(text).map_err(|error| {
        Problem::new(Reason::InvalidField, format!("{:?} is no URL: {error}", redact_url(text)))
    })
}

/// The time in Unix seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Whether the server did not answer. It is unknown whether the request had an effect.
pub fn is_unreachable(problem: &Problem) -> bool {
    problem.metadata.iter().any(|(key, _)| *key == UNREACHABLE)
}

const UNREACHABLE: &str = "unreachable";

/// Whether the response does not have the shape of a mesh process; it may come from a proxy.
pub fn is_foreign_response(problem: &Problem) -> bool {
    problem.metadata.iter().any(|(key, _)| *key == FOREIGN)
}

const FOREIGN: &str = "strange";

fn no_answer(error: &reqwest::Error) -> Problem {
    if error.is_timeout() && !error.is_connect() {
        return timed_out("no answer in time");
    }
    let mut cause = error.to_string();
    // reqwest keeps credentials in the URL that it cannot send as basic authentication.
    if let Some(url) = error.url().map(Url::as_str) {
        cause = cause.replace(url, &redact_url(url));
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        cause = format!("{cause}: {inner}");
        source = inner.source();
    }
    if error.is_builder() {
        return Problem::new(Reason::InvalidField, cause);
    }
    Problem::new(Reason::RecipientUnreachable, cause).with(UNREACHABLE, true)
}

fn timed_out(message: &str) -> Problem {
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
