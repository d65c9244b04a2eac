//! The board of another process, over HTTP.

use super::Signals;
use crate::{
    board::Page,
    claims::Claim,
    wire::{Call, Wire, is_unreachable},
};
use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt, stream};
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    routes,
    signal::{Selector, Signal, SignalRecord},
    trace::{TRACEPARENT, TraceContext},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::{
    future::Future,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Mutex;

/// The name of the board, as a recipient of signed requests.
const RECIPIENT: &str = "board";

/// How long a lost stream waits before it asks again: full jitter, doubling from `first` to `most`. By hand, as `backon` has
/// no full jitter and its iterator moves on before the sleep, though `Follower::next` may be dropped within it.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The first wait is at most this.
    pub first: Duration,
    /// Every wait is at most this.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(200), most: Duration::from_secs(10) }
    }
}

impl Backoff {
    fn wait(&self, attempt: u32) -> Duration {
        let ceiling = self.first.saturating_mul(1 << attempt.min(16)).min(self.most);
        let chance = RandomState::new().hash_one(attempt) % 1_024;
        ceiling.mul_f64(chance as f64 / 1_024.0)
    }
}

/// Where a board is: known from the start, or found out when it is first needed, and again once it is not there any more.
#[derive(Clone)]
pub struct Base {
    known: Arc<Mutex<Option<Arc<str>>>>,
    find: Find,
}

type Find = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<String, Problem>> + Send>> + Send + Sync>;

impl Base {
    /// Wherever `find` says. It is asked until it knows, and again when nothing answers there.
    pub fn found_by<F>(find: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, Problem>> + Send + 'static,
    {
        Self { known: Arc::default(), find: Arc::new(move || Box::pin(find())) }
    }

    async fn url(&self) -> Result<Arc<str>, Problem> {
        let mut known = self.known.lock().await;
        if let Some(url) = known.as_ref() {
            return Ok(url.clone());
        }
        let found: Arc<str> = Arc::from((self.find)().await?.trim_end_matches('/'));
        *known = Some(found.clone());
        Ok(found)
    }

    /// What came of a call to `url`; if nothing answers there, the board may have moved.
    async fn learn<T>(&self, url: &Arc<str>, outcome: Result<T, Problem>) -> Result<T, Problem> {
        if outcome.as_ref().is_err_and(is_unreachable) {
            let mut known = self.known.lock().await;
            // Another call may have found the new place already.
            if known.as_ref() == Some(url) {
                *known = None;
            }
        }
        outcome
    }
}

impl From<String> for Base {
    fn from(url: String) -> Self {
        Self::found_by(move || std::future::ready(Ok(url.clone())))
    }
}

#[derive(Clone)]
pub(super) struct Remote {
    base: Base,
    wire_of: Arc<dyn Fn(&Principal) -> Wire + Send + Sync>,
    backoff: Backoff,
}

impl Remote {
    pub(super) fn new(
        base: Base,
        wire_of: impl Fn(&Principal) -> Wire + Send + Sync + 'static,
        backoff: Backoff,
    ) -> Self {
        Self { base, wire_of: Arc::new(wire_of), backoff }
    }

    fn wire(&self, by: &Principal) -> Wire {
        (self.wire_of)(by).unreachable_is(Reason::BlackboardUnavailable)
    }

    async fn json<T: DeserializeOwned>(
        &self,
        by: &Principal,
        base: &Arc<str>,
        call: Call<'_>,
    ) -> Result<T, Problem> {
        let outcome = self.wire(by).json(call).await;
        self.base.learn(base, outcome).await
    }

    pub(super) async fn publish(&self, by: &Principal, signal: &Signal) -> Result<u64, Problem> {
        #[derive(serde::Deserialize)]
        struct Answer {
            revision: u64,
        }
        let base = self.base.url().await?;
        let url = format!("{base}{}", routes::SIGNALS);
        let body = Bytes::from(crate::signals::json(signal)?);
        let trace = signal.refs.get(TRACEPARENT).and_then(|text| TraceContext::parse(text.as_str()?));
        let call = Call::post(&url, RECIPIENT, body).message_id(&signal.id).trace(trace);
        Ok(self.json::<Answer>(by, &base, call).await?.revision)
    }

    pub(super) async fn read(
        &self,
        by: &Principal,
        selector: &Selector,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Page, Problem> {
        let base = self.base.url().await?;
        let mut url = format!("{base}{}?limit={limit}", routes::SIGNALS);
        push(&mut url, selector, after)?;
        self.json(by, &base, Call::get(&url, RECIPIENT)).await
    }

    pub(super) async fn claim(
        &self,
        by: &Principal,
        task: &TaskId,
        holder: &AgentId,
        lease: Duration,
    ) -> Result<Claim, Problem> {
        let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let body = json!({ "holder": holder, "leaseMs": lease }).to_string();
        let base = self.base.url().await?;
        let url = format!("{base}{}/{task}", routes::CLAIMS);
        self.json(by, &base, Call::post(&url, RECIPIENT, body.into())).await
    }

    pub(super) async fn change(
        &self,
        by: &Principal,
        task: &TaskId,
        verb: &str,
        epoch: u64,
    ) -> Result<Claim, Problem> {
        let body = json!({ "epoch": epoch }).to_string();
        let base = self.base.url().await?;
        let url = format!("{base}{}/{task}/{verb}", routes::CLAIMS);
        self.json(by, &base, Call::post(&url, RECIPIENT, body.into())).await
    }

    pub(super) async fn look(&self, by: &Principal, task: &TaskId) -> Result<Claim, Problem> {
        let base = self.base.url().await?;
        let url = format!("{base}{}/{task}", routes::CLAIMS);
        self.json(by, &base, Call::get(&url, RECIPIENT)).await
    }

    /// Asks where the board stands first, so that a connection that is lost before the first signal misses none.
    pub(super) async fn subscribe(
        &self,
        by: &Principal,
        selector: Selector,
        after: Option<u64>,
    ) -> Result<Signals, Problem> {
        crate::signals::check(&selector)?;
        let cursor = match after {
            Some(after) => after,
            None => self.read(by, &selector, None, 0).await?.next,
        };
        let open = Some(self.connect(by, &selector, cursor).await?);
        let follower = Follower { remote: self.clone(), by: by.clone(), selector, cursor, attempt: 0, open };
        Ok(Box::pin(stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(posted) => Some((Ok(posted), Some(follower))),
                Err(problem) => Some((Err(problem), None)),
            }
        })))
    }

    async fn connect(&self, by: &Principal, selector: &Selector, cursor: u64) -> Result<Events, Problem> {
        let base = self.base.url().await?;
        let mut url = format!("{base}{}/stream?", routes::SIGNALS);
        push(&mut url, selector, Some(cursor))?;
        let opened = self.wire(by).events(Call::get(&url, RECIPIENT)).await;
        let events = self.base.learn(&base, opened).await?.eventsource();
        Ok(Box::pin(events.map(|event| serde_json::from_str(&event.ok()?.data).ok())))
    }
}

type Events = Pin<Box<dyn Stream<Item = Option<SignalRecord>> + Send>>;

struct Follower {
    remote: Remote,
    by: Principal,
    selector: Selector,
    cursor: u64,
    attempt: u32,
    open: Option<Events>,
}

impl Follower {
    /// The next signal; asks again for as long as the board is away.
    async fn next(&mut self) -> Result<SignalRecord, Problem> {
        loop {
            while let Some(open) = &mut self.open {
                match open.next().await {
                    Some(Some(posted)) if posted.revision > self.cursor => {
                        self.cursor = posted.revision;
                        self.attempt = 0;
                        return Ok(posted);
                    }
                    Some(Some(_)) => {}
                    Some(None) | None => self.open = None,
                }
            }
            tokio::time::sleep(self.remote.backoff.wait(self.attempt)).await;
            self.attempt = self.attempt.saturating_add(1);
            match self.remote.connect(&self.by, &self.selector, self.cursor).await {
                Ok(open) => self.open = Some(open),
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

fn push(url: &mut String, selector: &Selector, after: Option<u64>) -> Result<(), Problem> {
    crate::signals::check(selector)?;
    selector.types.iter().for_each(|kind| url.push_str(&format!("&type={kind}")));
    selector.capabilities.iter().for_each(|capability| url.push_str(&format!("&capability={capability}")));
    selector.task_id.iter().for_each(|task| url.push_str(&format!("&taskId={task}")));
    after.iter().for_each(|after| url.push_str(&format!("&after={after}")));
    Ok(())
}
