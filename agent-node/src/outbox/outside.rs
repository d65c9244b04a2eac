//! The one client for URLs that strangers name: webhooks, foreign cards, foreign agents (DESIGN §8).
//!
//! The address is judged where the connection is opened: the client's own resolver hands it nothing but addresses that
//! passed, so what was checked is what is called. No redirect is followed, no proxy asked; time and size are bounded.
//! Plain `http` goes only where the configuration allows it by address.

mod calls;
mod resolve;

use blackboard::http_client::redact_url;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use protocol::{a2a::limits, address_policy::AddressPolicy, limits::Limits};
use reqwest::{
    Client, ClientBuilder, Method, Response, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use resolve::{NotAllowed, Resolver};
use std::{net::IpAddr, sync::Arc, time::Duration};

/// Bounds of every call.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long a name may take that is looked up before anything is called there.
    pub look_up: Duration,
    /// How long a name and a connection may take.
    pub connect: Duration,
    /// How long an answer may take, first byte sent to last byte read; for a stream, until its head is there.
    pub answer: Duration,
    /// How long a stream may stay silent.
    pub silence: Duration,
    /// The largest answer, bytes.
    pub max_bytes: usize,
    /// The largest stream, bytes in all.
    pub max_stream_bytes: usize,
    /// The most that the artifacts of one foreign task may hold, bytes.
    pub max_task_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            look_up: Duration::from_secs(2),
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            silence: Duration::from_secs(90),
            max_bytes: limits::MAX_FOREIGN_ANSWER,
            max_stream_bytes: limits::MAX_FOREIGN_STREAM,
            max_task_bytes: limits::foreign_task_bytes(&Limits::default()),
        }
    }
}

impl Bounds {
    /// The usual ones, for a node of these limits.
    pub fn of(configured: &Limits) -> Self {
        Self { max_task_bytes: limits::foreign_task_bytes(configured), ..Self::default() }
    }
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing can be called like this, today or tomorrow.
    #[error("{0}")]
    BadUrl(String),
    /// The address is none that may be called.
    #[error("{0}")]
    NotAllowed(String),
    /// Nobody answered, or not to the end; another try may fare better.
    #[error("{0}")]
    Away(String),
    /// The answer is longer than is taken.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
}

/// One call.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Bytes,
    within: Option<Duration>,
}

impl Call {
    /// Within which time it is to be answered, if that was said.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.within
    }

    /// The same at another URL.
    #[must_use]
    pub(crate) fn at(self, url: String) -> Self {
        Self { url, ..self }
    }

    /// A call without a body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), headers: HeaderMap::new(), body: Bytes::new(), within: None }
    }

    /// The same with a body of this type.
    #[must_use]
    pub fn body(self, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }.header("content-type", media_type)
    }

    /// The same with one more header. One that no header can be is left out.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.headers.append(name, value);
        }
        self
    }

    /// The same with a header that no log shows.
    #[must_use]
    pub fn secret_header(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            value.set_sensitive(true);
            self.headers.append(name, value);
        }
        self
    }

    /// The same, answered within `time` instead of [`Bounds::answer`].
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { within: Some(time), ..self }
    }
}

/// What was answered, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// A header as text, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The answer to a call for a stream: one, or something else.
pub enum Streamed<S> {
    /// Its bytes, as they come.
    Stream(S),
    /// An answer of another type.
    Answer(Answer),
}

/// The client. Cheap to clone; all clones share connections.
#[derive(Debug, Clone)]
pub struct Outside {
    requests: Clients,
    calls: Clients,
    rules: Arc<AddressPolicy>,
    bounds: Bounds,
}

/// With TLS, and without where that is allowed.
#[derive(Debug, Clone)]
struct Clients {
    secured: Client,
    plain: Client,
}

impl Outside {
    /// A client that goes where `rules` let it.
    pub fn new(rules: AddressPolicy, bounds: Bounds) -> Result<Self, Error> {
        let rules = Arc::new(rules);
        let client = |only_named, speaking: fn(ClientBuilder) -> ClientBuilder| {
            let client = blackboard::http_client::tls::client()
                .no_proxy()
                .redirect(redirect::Policy::none())
                .referer(false)
                .user_agent(concat!("agent-mesh/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(bounds.connect)
                .dns_resolver(Arc::new(Resolver::new(rules.clone(), only_named)));
            speaking(client).build().map_err(|error| Error::Away(format!("no HTTP client: {error}")))
        };
        let clients = |speaking| {
            Ok::<_, Error>(Clients { secured: client(false, speaking)?, plain: client(true, speaking)? })
        };
        Ok(Self {
            requests: clients(ClientBuilder::http1_only)?,
            calls: clients(calls::over_http2)?,
            rules: rules.clone(),
            bounds,
        })
    }

    /// Whether `url` may be called, as far as that shows without asking for a name.
    pub fn check(&self, url: &str) -> Result<(), Error> {
        self.request(&self.requests, Call::new(Method::POST, url)).map(drop)
    }

    /// Whether `url` may be called, as far as that shows now: where its name leads is looked up, and a name that can't be
    /// has the benefit of the doubt. Whatever is found, the address is judged again where the connection is opened.
    pub async fn look_up(&self, url: &str) -> Result<(), Error> {
        self.check(url)?;
        let Ok(parsed) = Url::parse(url) else { return Ok(()) };
        let Some(host) = parsed.host_str().filter(|_| literal(&parsed).is_none()) else { return Ok(()) };
        let found = resolve::lead(&self.rules, host, parsed.scheme() == "http");
        match tokio::time::timeout(self.bounds.look_up, found).await {
            Ok(Ok(_)) | Ok(Err(resolve::Astray::Unknown(_))) | Err(_) => Ok(()),
            Ok(Err(resolve::Astray::NotAllowed(NotAllowed(why)))) => Err(Error::NotAllowed(why)),
        }
    }

    /// What holds for every call.
    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Where it may go.
    pub fn rules(&self) -> &AddressPolicy {
        &self.rules
    }

    /// The whole answer.
    pub async fn call(&self, call: Call) -> Result<Answer, Error> {
        let within = call.within.unwrap_or(self.bounds.answer);
        let asked = async {
            let answer = self.request(&self.requests, call)?.send().await.map_err(|error| why(&error))?;
            whole(answer, self.bounds.max_bytes).await
        };
        tokio::time::timeout(within, asked).await.unwrap_or_else(|_| Err(late("no answer in time")))
    }

    /// The bytes of an event stream, for as long as it lasts; whatever else is answered, as a whole.
    pub async fn stream(
        &self,
        call: Call,
    ) -> Result<Streamed<impl Stream<Item = Result<Bytes, Error>> + Send + 'static>, Error> {
        let within = call.within.unwrap_or(self.bounds.answer);
        let request = self.request(&self.requests, call.header("accept", "text/event-stream"))?;
        let Ok(answer) = tokio::time::timeout(within, request.send()).await else {
            return Err(late("no answer in time"));
        };
        let answer = answer.map_err(|error| why(&error))?;
        let media_type = answer.headers().get("content-type").and_then(|value| value.to_str().ok());
        if !media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream")) {
            let whole = whole(answer, self.bounds.max_bytes);
            return match tokio::time::timeout(within, whole).await {
                Ok(answer) => answer.map(Streamed::Answer),
                Err(_) => Err(late("no answer in time")),
            };
        }
        let Bounds { silence, max_stream_bytes: most, .. } = self.bounds;
        let open = Some((Box::pin(answer.bytes_stream()), 0));
        Ok(Streamed::Stream(futures_util::stream::unfold(open, move |open| async move {
            let (mut body, so_far) = open?;
            match tokio::time::timeout(silence, body.next()).await {
                Ok(None) => None,
                Ok(Some(Ok(bytes))) if so_far + bytes.len() > most => {
                    Some((Err(Error::TooLarge(most)), None))
                }
                Ok(Some(Ok(bytes))) => {
                    let so_far = so_far + bytes.len();
                    Some((Ok(bytes), Some((body, so_far))))
                }
                Ok(Some(Err(error))) => Some((Err(why(&error)), None)),
                Err(_) => Some((Err(late("the stream fell silent")), None)),
            }
        })))
    }

    fn request(&self, clients: &Clients, call: Call) -> Result<reqwest::RequestBuilder, Error> {
        let url = Url::parse(&call.url)
            .map_err(|error| Error::BadUrl(format!("{:?} is no URL: {error}", redact_url(&call.url))))?;
        let client = match url.scheme() {
            "https" => &clients.secured,
            "http" => &clients.plain,
            other => return Err(Error::BadUrl(format!("{other}: is not called; https and http are"))),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::BadUrl("a URL must not carry credentials".to_owned()));
        }
        // An address needs no resolver, so it is judged here.
        if let Some(address) = literal(&url) {
            let is_plain = url.scheme() == "http";
            resolve::judge(&self.rules, address, is_plain)
                .map_err(|NotAllowed(why)| Error::NotAllowed(format!("{address} {why}")))?;
        }
        Ok(client.request(call.method, url).headers(call.headers).body(call.body))
    }
}

fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

async fn whole(mut answer: Response, limit: usize) -> Result<Answer, Error> {
    if answer.content_length().is_some_and(|length| length > limit as u64) {
        return Err(Error::TooLarge(limit));
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| why(&error))? {
        if body.len() + chunk.len() > limit {
            return Err(Error::TooLarge(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status: answer.status(), headers: answer.headers().clone(), body: body.freeze() })
}

fn late(what: &str) -> Error {
    Error::Away(what.to_owned())
}

/// The innermost cause says what happened; the URL, which may hold a token, is not repeated.
fn why(error: &reqwest::Error) -> Error {
    let mut cause: &dyn std::error::Error = error;
    let mut said = if error.is_timeout() { "no answer in time".to_owned() } else { "no answer".to_owned() };
    while let Some(inner) = cause.source() {
        if let Some(NotAllowed(why)) = inner.downcast_ref::<NotAllowed>() {
            return Error::NotAllowed(why.clone());
        }
        said = inner.to_string();
        cause = inner;
    }
    Error::Away(said)
}

#[cfg(test)]
mod tests;
