//! The HTTP client for URLs that others choose: webhooks, foreign cards, foreign agents (DESIGN §8).
//!
//! The client's own resolver checks addresses and returns only allowed ones, so the connection goes to the address that was
//! checked. The client follows no redirect and uses no proxy; time and size are bounded. Plain `http`, and other ports than 443
//! and 8443, are allowed only where the configuration names them. Every call has the header [`OUTBOUND`], so that no process of a mesh takes it for
//! one of its local user, and none goes to a known endpoint of the mesh.

mod clients;
mod http2;
mod mesh_endpoints;
mod resolve;

use bytes::{Bytes, BytesMut};
use clients::{Clients, HttpVersion};
use futures_util::{Stream, StreamExt};
use mesh_endpoints::MeshEndpoints;
use protocol::{
    a2a::limits,
    address_policy::{AddressPolicy, AllowedTarget, OUTBOUND},
    limits::Limits,
};
use reqwest::{
    Method, RequestBuilder, Response, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use resolve::AddressRefused;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};
use transport::http_client::redact_url;

/// Limits of every request.
#[derive(Debug, Clone, Copy)]
pub struct OutboundLimits {
    /// The timeout of a DNS lookup that only checks a URL.
    pub lookup: Duration,
    /// The timeout of a DNS lookup and a connection together.
    pub connect: Duration,
    /// The timeout of a whole response, or of the head of a stream, from the start of the request.
    pub response: Duration,
    /// The longest silence of a stream.
    pub idle: Duration,
    /// The largest response, bytes.
    pub max_bytes: usize,
    /// The largest stream, bytes in all.
    pub max_stream_bytes: usize,
    /// The largest sum of the artifacts of one foreign task, bytes.
    pub max_task_bytes: usize,
}

impl Default for OutboundLimits {
    fn default() -> Self {
        Self {
            lookup: Duration::from_secs(2),
            connect: Duration::from_secs(5),
            response: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            max_bytes: limits::MAX_FOREIGN_ANSWER,
            max_stream_bytes: limits::MAX_FOREIGN_STREAM,
            max_task_bytes: limits::foreign_task_bytes(&Limits::default()),
        }
    }
}

impl OutboundLimits {
    /// The defaults, with the artifact size that `configured` implies.
    pub fn for_node(configured: &Limits) -> Self {
        Self { max_task_bytes: limits::foreign_task_bytes(configured), ..Self::default() }
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The URL can't be called. Permanent.
    #[error("{0}")]
    BadUrl(String),
    /// The address policy forbids the address.
    #[error("{0}")]
    AddressRefused(String),
    /// There was no response, or no complete one. A retry may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// The response is larger than the limit.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
}

/// One request.
#[derive(Debug, Clone)]
pub struct OutboundRequest {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Bytes,
    timeout: Option<Duration>,
}

impl OutboundRequest {
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    #[must_use]
    pub(crate) fn with_url(self, url: String) -> Self {
        Self { url, ..self }
    }

    /// A request without a body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), headers: HeaderMap::new(), body: Bytes::new(), timeout: None }
    }

    /// Sets the body and its media type.
    #[must_use]
    pub fn body(self, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }.header("content-type", media_type)
    }

    /// Adds a header. Ignores names and values that HTTP does not allow.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.headers.append(name, value);
        }
        self
    }

    /// Adds a header that logs do not show.
    #[must_use]
    pub fn secret_header(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            value.set_sensitive(true);
            self.headers.append(name, value);
        }
        self
    }

    /// Sets a timeout instead of [`OutboundLimits::response`].
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }
}

impl From<http::Request<Vec<u8>>> for OutboundRequest {
    fn from(request: http::Request<Vec<u8>>) -> Self {
        let (mut head, body) = request.into_parts();
        if let Some(authorization) = head.headers.get_mut(http::header::AUTHORIZATION) {
            authorization.set_sensitive(true);
        }
        let request = Self::new(head.method, head.uri.to_string());
        Self { headers: head.headers, body: body.into(), ..request }
    }
}

/// A response of any status.
#[derive(Debug, Clone)]
pub struct OutboundResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl OutboundResponse {
    /// The header `name`, if it is present and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The response to a request for an event stream.
pub enum StreamOrResponse<S> {
    /// The bytes of an event stream.
    Stream(S),
    /// A response of another media type.
    Response(OutboundResponse),
}

const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// The client. Cheap to clone; all clones share connections.
#[derive(Debug, Clone)]
pub struct OutboundClient {
    clients: Clients,
    policy: Arc<AddressPolicy>,
    mesh: MeshEndpoints,
    limits: OutboundLimits,
}

impl OutboundClient {
    /// A client for the addresses that `policy` allows.
    pub fn new(policy: AddressPolicy, limits: OutboundLimits) -> Result<Self, Error> {
        let policy = Arc::new(policy);
        let clients = Clients::new(policy.clone(), limits.connect);
        clients.get(HttpVersion::Http1, false, 443)?;
        Ok(Self { clients, policy, mesh: MeshEndpoints::default(), limits })
    }

    /// This client, which may also call every port of loopback addresses, but no endpoint of the mesh.
    pub fn with_loopback(&self) -> Result<Self, Error> {
        let mut policy = AddressPolicy::clone(&self.policy);
        policy.allow.extend(LOOPBACK.iter().filter_map(|net| net.parse::<AllowedTarget>().ok()));
        Ok(Self { mesh: self.mesh.clone(), ..Self::new(policy, self.limits)? })
    }

    /// Refuses, for this client and its clones, calls to the base URLs that `list` returns.
    pub fn refuse_endpoints(&self, list: impl Fn() -> Vec<String> + Send + Sync + 'static) {
        self.mesh.set(Box::new(list));
    }

    /// Checks whether `url` may be called, without a DNS lookup.
    pub fn check(&self, url: &str) -> Result<(), Error> {
        self.build(HttpVersion::Http1, OutboundRequest::new(Method::POST, url)).map(drop)
    }

    /// Checks whether `url` may be called, with a DNS lookup. A name that can't be resolved passes: a request checks its
    /// addresses again.
    pub async fn check_resolved(&self, url: &str) -> Result<(), Error> {
        self.check(url)?;
        let Ok(parsed) = Url::parse(url) else { return Ok(()) };
        self.check_endpoint(&parsed).await?;
        let Some(host) = parsed.host_str().filter(|_| literal(&parsed).is_none()) else { return Ok(()) };
        let port = parsed.port_or_known_default().unwrap_or_default();
        let addresses = resolve::resolve_allowed(&self.policy, (host, port), parsed.scheme() == "http");
        match tokio::time::timeout(self.limits.lookup, addresses).await {
            Ok(Ok(_)) | Ok(Err(resolve::ResolveError::Unknown(_))) | Err(_) => Ok(()),
            Ok(Err(resolve::ResolveError::Refused(AddressRefused(why)))) => Err(Error::AddressRefused(why)),
        }
    }

    pub(crate) fn limits(&self) -> OutboundLimits {
        self.limits
    }

    /// The addresses it may call.
    pub fn policy(&self) -> &AddressPolicy {
        &self.policy
    }

    /// Sends `request` and reads the whole response.
    pub async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse, Error> {
        let timeout = request.timeout.unwrap_or(self.limits.response);
        let response = async {
            let response = self.open(HttpVersion::Http1, request).await?;
            read_body(response, self.limits.max_bytes).await
        };
        tokio::time::timeout(timeout, response).await.unwrap_or_else(|_| Err(timed_out("no answer in time")))
    }

    /// Sends `request` and reads the whole response, but nothing of an event stream, which may have no end.
    pub async fn send_unless_stream(&self, request: OutboundRequest) -> Result<OutboundResponse, Error> {
        let timeout = request.timeout.unwrap_or(self.limits.response);
        let response = async {
            let response = self.open(HttpVersion::Http1, request).await?;
            let media_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
            match media_type.is_some_and(|given| given.starts_with("text/event-stream")) {
                false => read_body(response, self.limits.max_bytes).await,
                true => {
                    let (status, headers) = (response.status(), response.headers().clone());
                    Ok(OutboundResponse { status, headers, body: Bytes::new() })
                }
            }
        };
        tokio::time::timeout(timeout, response).await.unwrap_or_else(|_| Err(timed_out("no answer in time")))
    }

    /// Sends `request` and returns the bytes of an event stream; a response of another type is read whole.
    pub async fn stream(
        &self,
        request: OutboundRequest,
    ) -> Result<StreamOrResponse<impl Stream<Item = Result<Bytes, Error>> + Send + 'static>, Error> {
        let OutboundLimits { idle, max_stream_bytes, .. } = self.limits;
        let answer = self.stream_as(request, &["text/event-stream"], idle, max_stream_bytes).await?;
        Ok(match answer {
            StreamOrResponse::Stream((_, stream)) => StreamOrResponse::Stream(stream),
            StreamOrResponse::Response(response) => StreamOrResponse::Response(response),
        })
    }

    /// Sends `request` and returns the media type (lower case, without parameters) and the bytes of a response with one of these, which may be silent
    /// for `idle` and have at most `max_bytes`; a refusal and a response of another type are read whole.
    pub async fn stream_as(
        &self,
        request: OutboundRequest,
        media_types: &[&str],
        idle: Duration,
        max_bytes: usize,
    ) -> Result<StreamOrResponse<(String, impl Stream<Item = Result<Bytes, Error>> + Send + 'static)>, Error>
    {
        let timeout = request.timeout.unwrap_or(self.limits.response);
        let open = self.open(HttpVersion::Http1, request.header("accept", &media_types.join(", ")));
        let Ok(response) = tokio::time::timeout(timeout, open).await else {
            return Err(timed_out("no answer in time"));
        };
        let response = response?;
        let media_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        // Type and subtype have no case (RFC 9110, 8.3.1).
        let media_type = media_type.and_then(|given| given.split(';').next()).map(str::trim);
        let media_type = media_type.map(str::to_ascii_lowercase);
        let media_type = media_type.filter(|found| media_types.contains(&found.as_str()));
        let Some(media_type) = media_type.filter(|_| response.status().is_success()) else {
            let body = read_body(response, self.limits.max_bytes);
            return match tokio::time::timeout(timeout, body).await {
                Ok(response) => response.map(StreamOrResponse::Response),
                Err(_) => Err(timed_out("no answer in time")),
            };
        };
        let open = Some((Box::pin(response.bytes_stream()), 0));
        let stream = futures_util::stream::unfold(open, move |open| async move {
            let (mut body, received) = open?;
            match tokio::time::timeout(idle, body.next()).await {
                Ok(None) => None,
                Ok(Some(Ok(bytes))) if received + bytes.len() > max_bytes => {
                    Some((Err(Error::TooLarge(max_bytes)), None))
                }
                Ok(Some(Ok(bytes))) => {
                    let received = received + bytes.len();
                    Some((Ok(bytes), Some((body, received))))
                }
                Ok(Some(Err(error))) => Some((Err(send_error(&error)), None)),
                Err(_) => Some((Err(timed_out("the stream fell silent")), None)),
            }
        });
        Ok(StreamOrResponse::Stream((media_type, stream)))
    }

    /// Sends `request` and returns when the head of the response has arrived.
    async fn open(&self, version: HttpVersion, request: OutboundRequest) -> Result<Response, Error> {
        let builder = self.build(version, request)?;
        let (client, request) = builder.build_split();
        let request = request.map_err(|error| send_error(&error))?;
        self.check_endpoint(request.url()).await?;
        client.execute(request).await.map_err(|error| send_error(&error))
    }

    /// Fails if `url` leads to an endpoint of the mesh.
    async fn check_endpoint(&self, url: &Url) -> Result<(), Error> {
        match tokio::time::timeout(self.limits.lookup, self.mesh.lead_to(url)).await {
            Ok(true) => Err(endpoint_refused(url)),
            Ok(false) | Err(_) => Ok(()),
        }
    }

    fn build(&self, version: HttpVersion, request: OutboundRequest) -> Result<RequestBuilder, Error> {
        let url = check_url(&self.policy, &request.url)?;
        let port = url.port_or_known_default().unwrap_or_default();
        let client = self.clients.get(version, url.scheme() == "http", port)?;
        if self.mesh.names(&url) {
            return Err(endpoint_refused(&url));
        }
        let headers = request.headers;
        Ok(client.request(request.method, url).headers(headers).header(OUTBOUND, "1").body(request.body))
    }
}

/// Checks whether `policy` lets `url` be called, as far as that can be told without a DNS lookup: the addresses of a name are
/// checked by the request. `localhost` is always this machine (RFC 6761, 6.3).
pub(crate) fn check_url(policy: &AddressPolicy, url: &str) -> Result<Url, Error> {
    let url = Url::parse(url)
        .map_err(|error| Error::BadUrl(format!("{:?} is no URL: {error}", redact_url(url))))?;
    let named_only = match url.scheme() {
        "https" => false,
        "http" => true,
        other => return Err(Error::BadUrl(format!("{other}: is not called; https and http are"))),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::BadUrl("a URL must not carry credentials".to_owned()));
    }
    let port = url.port_or_known_default().unwrap_or_default();
    let check = |address| {
        resolve::check_ip(policy, (address, port), named_only).map_err(|AddressRefused(why)| (address, why))
    };
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let refused = match literal(&url) {
        Some(address) => check(address).err().map(|(address, why)| format!("{address} {why}")),
        None if url.host_str() == Some("localhost") && loopback.iter().all(|own| check(*own).is_err()) => {
            let refused = check(loopback[0]).err();
            refused.map(|(address, why)| format!("localhost leads to {address}, which {why}"))
        }
        None => {
            let refused = policy.judge_port(port).err();
            refused.map(|why| format!("{} {why}", url.host_str().unwrap_or_default()))
        }
    };
    refused.map_or(Ok(url), |why| Err(Error::AddressRefused(why)))
}

/// The host of `url`, if it is an IP address.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

async fn read_body(mut response: Response, limit: usize) -> Result<OutboundResponse, Error> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(Error::TooLarge(limit));
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| send_error(&error))? {
        if body.len() + chunk.len() > limit {
            return Err(Error::TooLarge(limit));
        }
        body.extend_from_slice(&chunk);
    }
    let (status, headers) = (response.status(), response.headers().clone());
    Ok(OutboundResponse { status, headers, body: body.freeze() })
}

fn endpoint_refused(url: &Url) -> Error {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    Error::AddressRefused(format!(
        "{host}:{port} is an endpoint of the mesh, where webhooks, callbacks and calls to foreign agents never go"
    ))
}

fn timed_out(what: &str) -> Error {
    Error::Unreachable(what.to_owned())
}

/// The innermost cause of `error`, without the URL, which may hold a token.
fn send_error(error: &reqwest::Error) -> Error {
    let mut cause: &dyn std::error::Error = error;
    let mut message =
        if error.is_timeout() { "no answer in time".to_owned() } else { "no answer".to_owned() };
    while let Some(inner) = cause.source() {
        if let Some(AddressRefused(why)) = inner.downcast_ref::<AddressRefused>() {
            return Error::AddressRefused(why.clone());
        }
        message = inner.to_string();
        cause = inner;
    }
    Error::Unreachable(message)
}

#[cfg(test)]
mod tests;
