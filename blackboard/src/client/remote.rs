//! The board of another process, over HTTP.

use super::SignalStream;
use crate::{board::SignalPage, claims::ClaimView};
use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt, stream};
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    signal::{Cursor, Selector, Signal, SignalRecord},
    task::OpenTaskKey,
    trace::{TRACEPARENT, TraceContext},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use std::{
    future::Future,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Mutex;
use transport::http_client::{ClientRequest, HttpClient, MessageAnswer, is_unreachable};
use transport::operation::{Caller, Operation, RemoteService, Service as _};

/// The answer to a signal that was published.
#[derive(Deserialize)]
struct PublishAnswer {
    revision: u64,
}

/// The most bytes of several signals in one request.
const MAX_SHARED_BYTES: usize = 64 * 1024;

/// The recipient name of the board in signed requests.
pub(super) const RECIPIENT: &str = "board";

/// The pause before a lost stream reconnects: full jitter under a ceiling that doubles from `first` to `max`. Not `backon`:
/// it has no full jitter, and its iterator advances before a sleep in which `SignalFollower::next` may be dropped.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The ceiling of the first pause.
    pub first: Duration,
    /// The ceiling of every pause.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(200), max: Duration::from_secs(10) }
    }
}

impl Backoff {
    fn pause(&self, attempt: u32) -> Duration {
        let ceiling = self.first.saturating_mul(1 << attempt.min(16)).min(self.max);
        let random = RandomState::new().hash_one(attempt) % 1_024;
        ceiling.mul_f64(random as f64 / 1_024.0)
    }
}

/// The URL of a board: fixed, or resolved at first use and again after the board was unreachable.
#[derive(Clone)]
pub struct BoardAddress {
    known: Arc<Mutex<Option<Arc<str>>>>,
    resolve: AddressLookup,
}

type AddressLookup =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<String, Problem>> + Send>> + Send + Sync>;

impl BoardAddress {
    /// An address that `resolve` returns. It is called at first use, until it succeeds, and after an unreachable URL.
    pub fn resolved_by<F>(resolve: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, Problem>> + Send + 'static,
    {
        Self { known: Arc::default(), resolve: Arc::new(move || Box::pin(resolve())) }
    }

    pub(super) async fn url(&self) -> Result<Arc<str>, Problem> {
        let mut known = self.known.lock().await;
        if let Some(url) = known.as_ref() {
            return Ok(url.clone());
        }
        let url: Arc<str> = Arc::from((self.resolve)().await?.trim_end_matches('/'));
        *known = Some(url.clone());
        Ok(url)
    }

    /// Returns `outcome` of a call to `url`; forgets the URL if it is unreachable, because the board may have moved.
    async fn forget_if_unreachable<T>(
        &self,
        url: &Arc<str>,
        outcome: Result<T, Problem>,
    ) -> Result<T, Problem> {
        if outcome.as_ref().is_err_and(is_unreachable) {
            let mut known = self.known.lock().await;
            // Another call may have resolved a new URL already.
            if known.as_ref() == Some(url) {
                *known = None;
            }
        }
        outcome
    }
}

impl From<String> for BoardAddress {
    fn from(url: String) -> Self {
        Self::resolved_by(move || std::future::ready(Ok(url.clone())))
    }
}

#[derive(Clone)]
pub(super) struct RemoteBoard {
    pub(super) base: BoardAddress,
    client_of: Arc<dyn Fn(&Principal) -> HttpClient + Send + Sync>,
    backoff: Backoff,
}

impl RemoteBoard {
    pub(super) fn new(
        base: BoardAddress,
        client_of: impl Fn(&Principal) -> HttpClient + Send + Sync + 'static,
        backoff: Backoff,
    ) -> Self {
        Self { base, client_of: Arc::new(client_of), backoff }
    }

    fn client(&self, by: &Principal) -> HttpClient {
        (self.client_of)(by).with_unreachable_reason(Reason::BlackboardUnavailable)
    }

    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        by: &Principal,
        base: &Arc<str>,
        call: ClientRequest<'_>,
    ) -> Result<T, Problem> {
        let outcome = self.client(by).json(call).await;
        self.base.forget_if_unreachable(base, outcome).await
    }

    /// The bytes of a stream of events.
    pub(super) async fn events(
        &self,
        by: &Principal,
        base: &Arc<str>,
        call: ClientRequest<'_>,
    ) -> Result<impl Stream<Item = Result<Bytes, Problem>> + Send + use<>, Problem> {
        let response = self.client(by).events(call).await;
        self.base.forget_if_unreachable(base, response).await
    }

    /// Performs an operation as the agent `by`.
    pub(super) async fn perform<O: Operation>(
        &self,
        by: &AgentId,
        operation: O,
    ) -> Result<O::Answer, Problem> {
        let base = self.base.url().await?;
        let service = RemoteService::new(&base, RECIPIENT, self.client(&Principal::Agent(by.clone())));
        let outcome = service.call(&Caller::agent(by), operation).await;
        self.base.forget_if_unreachable(&base, outcome).await
    }

    pub(super) async fn publish(&self, by: &Principal, signal: &Signal) -> Result<u64, Problem> {
        let base = self.base.url().await?;
        let url = format!("{base}{}", routes::SIGNALS);
        let body = Bytes::from(crate::signals::json(signal)?);
        let trace = signal.refs.get(TRACEPARENT).and_then(|text| TraceContext::parse(text.as_str()?));
        let call = ClientRequest::post(&url, RECIPIENT, body).message_id(&signal.id).trace(trace);
        Ok(self.json::<PublishAnswer>(by, &base, call).await?.revision)
    }

    /// Publishes the first of the signals that fit into one request, as a JSON array; the answer is an array with the status and
    /// body of each.
    pub(super) async fn publish_all(
        &self,
        by: &Principal,
        signals: &[Signal],
    ) -> Result<Vec<Result<u64, Problem>>, Problem> {
        let (mut bodies, mut bytes) = (Vec::with_capacity(signals.len()), 0);
        for signal in signals {
            let body = crate::signals::json(signal)?;
            bytes += body.len();
            if bytes > MAX_SHARED_BYTES && !bodies.is_empty() {
                break;
            }
            bodies.push(body);
        }
        if let ([_], [signal, ..]) = (bodies.as_slice(), signals) {
            return Ok(vec![Ok(self.publish(by, signal).await?)]);
        }
        let base = self.base.url().await?;
        let url = format!("{base}{}", routes::SIGNALS);
        let body = [b"[".as_slice(), &bodies.join(b",".as_slice()), b"]"].concat();
        let call = ClientRequest::post(&url, RECIPIENT, body.into());
        let answers: Vec<MessageAnswer> = self.json(by, &base, call).await?;
        let revision = |answer: MessageAnswer| {
            let body: PublishAnswer = serde_json::from_value(answer.into_result()?)
                .map_err(|error| Problem::new(Reason::Internal, format!("the board's answer: {error}")))?;
            Ok(body.revision)
        };
        Ok(answers.into_iter().map(revision).collect())
    }

    pub(super) async fn read(
        &self,
        by: &Principal,
        selector: &Selector,
        (after, until): (Option<Cursor>, Option<u64>),
        limit: usize,
    ) -> Result<SignalPage, Problem> {
        let base = self.base.url().await?;
        let mut url = format!("{base}{}?limit={limit}", routes::SIGNALS);
        until.iter().for_each(|until| url.push_str(&format!("&until={until}")));
        push_query(&mut url, selector, after.as_ref())?;
        self.json(by, &base, ClientRequest::get(&url, RECIPIENT)).await
    }

    pub(super) async fn claim(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        holder: &AgentId,
        lease: Duration,
    ) -> Result<ClaimView, Problem> {
        let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let body = json!({ "holder": holder, "leaseMs": lease }).to_string();
        let base = self.base.url().await?;
        let url = claim_url(&base, task, "");
        self.json(by, &base, ClientRequest::post(&url, RECIPIENT, body.into())).await
    }

    pub(super) async fn change(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        verb: &str,
        epoch: u64,
    ) -> Result<ClaimView, Problem> {
        let body = json!({ "epoch": epoch }).to_string();
        let base = self.base.url().await?;
        let url = claim_url(&base, task, verb);
        self.json(by, &base, ClientRequest::post(&url, RECIPIENT, body.into())).await
    }

    pub(super) async fn claim_of(&self, by: &Principal, task: &OpenTaskKey) -> Result<ClaimView, Problem> {
        let base = self.base.url().await?;
        let url = claim_url(&base, task, "");
        self.json(by, &base, ClientRequest::get(&url, RECIPIENT)).await
    }

    /// Reads the board's head first, so that a connection that is lost before the first signal misses none.
    pub(super) async fn subscribe(
        &self,
        by: &Principal,
        selector: Selector,
        after: Option<Cursor>,
    ) -> Result<SignalStream, Problem> {
        crate::signals::check_selector(&selector)?;
        let cursor = match after {
            Some(after) => after,
            None => self.read(by, &selector, (None, None), 0).await?.next,
        };
        let stream = Some(self.connect(by, &selector, &cursor).await?);
        let follower =
            SignalFollower { remote: self.clone(), by: by.clone(), selector, cursor, attempt: 0, stream };
        Ok(Box::pin(stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(posted) => Some((Ok(posted), Some(follower))),
                Err(problem) => Some((Err(problem), None)),
            }
        })))
    }

    async fn connect(
        &self,
        by: &Principal,
        selector: &Selector,
        cursor: &Cursor,
    ) -> Result<RemoteSignals, Problem> {
        let base = self.base.url().await?;
        let mut url = format!("{base}{}/stream?", routes::SIGNALS);
        push_query(&mut url, selector, Some(cursor))?;
        let events = self.events(by, &base, ClientRequest::get(&url, RECIPIENT)).await?.eventsource();
        Ok(Box::pin(events.map(|event| serde_json::from_str(&event.ok()?.data).ok())))
    }
}

type RemoteSignals = Pin<Box<dyn Stream<Item = Option<SignalRecord>> + Send>>;

struct SignalFollower {
    remote: RemoteBoard,
    by: Principal,
    selector: Selector,
    cursor: Cursor,
    attempt: u32,
    stream: Option<RemoteSignals>,
}

impl SignalFollower {
    /// The next signal; reconnects for as long as the board is unreachable.
    async fn next(&mut self) -> Result<SignalRecord, Problem> {
        loop {
            while let Some(stream) = &mut self.stream {
                match stream.next().await {
                    Some(Some(posted)) if posted.revision > self.cursor.revision => {
                        self.cursor.revision = posted.revision;
                        self.attempt = 0;
                        return Ok(posted);
                    }
                    Some(Some(_)) => {}
                    Some(None) | None => self.stream = None,
                }
            }
            tokio::time::sleep(self.remote.backoff.pause(self.attempt)).await;
            self.attempt = self.attempt.saturating_add(1);
            match self.remote.connect(&self.by, &self.selector, &self.cursor).await {
                Ok(stream) => self.stream = Some(stream),
                Err(problem)
                    if is_unreachable(&problem) || matches!(problem.reason.status(), 429 | 500..) =>
                {
                    tracing::debug!(%problem, attempt = self.attempt, "the board is away");
                }
                Err(problem) => return Err(problem),
            }
        }
    }
}

/// The URL of the claim on `task`, for `verb` if there is one.
fn claim_url(base: &str, OpenTaskKey { publisher, task_id }: &OpenTaskKey, verb: &str) -> String {
    let slash = if verb.is_empty() { "" } else { "/" };
    format!("{base}{}/{task_id}{slash}{verb}?publisher={publisher}", routes::CLAIMS)
}

fn push_query(url: &mut String, selector: &Selector, after: Option<&Cursor>) -> Result<(), Problem> {
    crate::signals::check_selector(selector)?;
    selector.types.iter().for_each(|kind| url.push_str(&format!("&type={kind}")));
    selector.capabilities.iter().for_each(|capability| url.push_str(&format!("&capability={capability}")));
    selector.task_id.iter().for_each(|task| url.push_str(&format!("&taskId={task}")));
    after.iter().for_each(|after| url.push_str(&format!("&after={after}")));
    Ok(())
}
