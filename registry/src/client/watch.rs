//! A watch of the registry. It connects on the first `next`, and buffers no more than the registry's channel.

use super::{check_registry, not_a_registry};
use crate::{
    entry::{AgentEntry, AgentList, RegistryEvent},
    registrar::{OWNER, SupervisedRegistry, WatchDirectory},
};
use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures_util::{Stream, StreamExt};
use protocol::{
    problem::{Problem, Reason},
    routes,
};
use std::{
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use transport::http_client::ClientRequest;
use transport::operation::RemoteService;

/// A watch of the registry: a snapshot first, then each change.
pub struct RegistryWatch(WatchSource);

enum WatchSource {
    Local { registry: SupervisedRegistry, changes: Option<Receiver<Arc<AgentEntry>>> },
    Remote { remote: RemoteService, events: Option<WatchEvents>, failures: u32 },
}

type WatchEvents = Pin<Box<dyn Stream<Item = Result<Event, Problem>> + Send>>;

const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

impl RegistryWatch {
    pub(crate) fn local(registry: SupervisedRegistry) -> Self {
        Self(WatchSource::Local { registry, changes: None })
    }

    pub(super) fn remote(remote: RemoteService) -> Self {
        Self(WatchSource::Remote { remote, events: None, failures: 0 })
    }

    /// The next event; an error if the registry can't be reached. A snapshot follows after an error or a lag. With a
    /// remote registry, the call after an error waits before it connects, longer each time. Cancel safe.
    pub async fn next(&mut self) -> Result<RegistryEvent, Problem> {
        match &mut self.0 {
            WatchSource::Local { registry, changes } => next_local(registry, changes).await,
            WatchSource::Remote { remote, events, failures } => next_remote(remote, events, failures).await,
        }
    }
}

async fn next_local(
    registry: &SupervisedRegistry,
    changes: &mut Option<Receiver<Arc<AgentEntry>>>,
) -> Result<RegistryEvent, Problem> {
    if let Some(receiver) = changes {
        match receiver.recv().await {
            Ok(entry) => return Ok(RegistryEvent::Change(entry)),
            Err(RecvError::Lagged(_) | RecvError::Closed) => *changes = None,
        }
    }
    let (agents, receiver) = registry.ask(WatchDirectory).await??;
    *changes = Some(receiver);
    Ok(RegistryEvent::Snapshot(agents))
}

async fn next_remote(
    remote: &RemoteService,
    events: &mut Option<WatchEvents>,
    failures: &mut u32,
) -> Result<RegistryEvent, Problem> {
    let stream = match events {
        Some(stream) => stream,
        None => {
            if *failures > 0 {
                tokio::time::sleep(backoff(*failures)).await;
            }
            *failures = failures.saturating_add(1);
            events.insert(connect(remote).await?)
        }
    };
    let next = match stream.next().await {
        Some(event) => event.and_then(|event| read(&event)),
        None if *failures > 0 => Err(not_a_registry(remote, "its watch ended before it began")),
        None => Err(Problem::new(Reason::RegistryUnavailable, "the registry ended the watch")),
    };
    match &next {
        Ok(_) => *failures = 0,
        Err(_) => *events = None,
    }
    next
}

async fn connect(remote: &RemoteService) -> Result<WatchEvents, Problem> {
    let url = format!("{}{}", remote.base(), routes::REGISTRY_WATCH);
    let events = check_registry(remote, remote.wire.events(ClientRequest::get(&url, OWNER)).await)?;
    let events = events.eventsource();
    let problem = |error: EventStreamError<Problem>| match error {
        EventStreamError::Transport(problem) => Problem { reason: Reason::RegistryUnavailable, ..problem },
        EventStreamError::Utf8(error) => unreadable(&error),
        EventStreamError::Parser(error) => unreadable(&error),
    };
    Ok(Box::pin(events.map(move |event| event.map_err(problem))))
}

fn read(event: &Event) -> Result<RegistryEvent, Problem> {
    let bytes = event.data.as_str();
    match event.event.as_str() {
        "snapshot" => serde_json::from_str(bytes).map(|AgentList { agents }| RegistryEvent::Snapshot(agents)),
        _ => serde_json::from_str(bytes).map(|entry| RegistryEvent::Change(Arc::new(entry))),
    }
    .map_err(|error| unreadable(&error))
}

fn unreadable(error: &impl ToString) -> Problem {
    Problem::new(Reason::Internal, format!("the registry's watch cannot be read: {}", error.to_string()))
}

/// A pause with full jitter, so that the clients of a restarted registry don't reconnect at once. Not `backon`: it has no
/// full jitter, and its iterator advances before the sleep, so that a cancelled call would make the next pause longer.
fn backoff(failures: u32) -> Duration {
    let max = MIN_BACKOFF.saturating_mul(1 << failures.min(8)).min(MAX_BACKOFF);
    let random = RandomState::new().hash_one(failures) % 1_000;
    max.mul_f64(0.1 + 0.9 * f64::from(u32::try_from(random).unwrap_or(0)) / 1_000.0)
}
