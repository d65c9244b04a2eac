//! Following who is there. It costs nothing before it is first asked, and holds no more than the registry's buffer.

use super::{ask, remote::Remote};
use crate::{
    entry::{Entry, News},
    http::Found,
    registrar::{Follow, Keeper},
};
use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures_util::{Stream, StreamExt};
use protocol::problem::{Problem, Reason};
use std::{
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// A follower of the registry: everybody first, then each change.
pub struct Watch(Source);

enum Source {
    Here { registry: Keeper, changes: Option<Receiver<Arc<Entry>>> },
    There { remote: Remote, events: Option<Events>, failures: u32 },
}

type Events = Pin<Box<dyn Stream<Item = Result<Event, Problem>> + Send>>;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl Watch {
    pub(crate) fn here(registry: Keeper) -> Self {
        Self(Source::Here { registry, changes: None })
    }

    pub(super) fn there(remote: Remote) -> Self {
        Self(Source::There { remote, events: None, failures: 0 })
    }

    /// What comes next; an error if the registry cannot be followed at the moment. After an error, and whenever this
    /// follower was too slow, everybody comes anew. Against a remote registry, the call after an error waits a little,
    /// longer each time, before it connects. May be dropped while it waits, nothing is lost.
    pub async fn next(&mut self) -> Result<News, Problem> {
        match &mut self.0 {
            Source::Here { registry, changes } => next_here(registry, changes).await,
            Source::There { remote, events, failures } => next_there(remote, events, failures).await,
        }
    }
}

async fn next_here(registry: &Keeper, changes: &mut Option<Receiver<Arc<Entry>>>) -> Result<News, Problem> {
    if let Some(receiver) = changes {
        match receiver.recv().await {
            Ok(entry) => return Ok(News::Change(entry)),
            Err(RecvError::Lagged(_) | RecvError::Closed) => *changes = None,
        }
    }
    let (everybody, receiver) = ask(registry, Follow).await??;
    *changes = Some(receiver);
    Ok(News::Snapshot(everybody))
}

async fn next_there(
    remote: &Remote,
    events: &mut Option<Events>,
    failures: &mut u32,
) -> Result<News, Problem> {
    let stream = match events {
        Some(stream) => stream,
        None => {
            if *failures > 0 {
                tokio::time::sleep(wait(*failures)).await;
            }
            *failures = failures.saturating_add(1);
            events.insert(connect(remote).await?)
        }
    };
    let heard = match stream.next().await {
        Some(event) => event.and_then(|event| read(&event)),
        None if *failures > 0 => Err(remote.no_registry("its watch ended before it began")),
        None => Err(Problem::new(Reason::RegistryUnavailable, "the registry ended the watch")),
    };
    match &heard {
        Ok(_) => *failures = 0,
        Err(_) => *events = None,
    }
    heard
}

async fn connect(remote: &Remote) -> Result<Events, Problem> {
    let events = remote.events().await?.eventsource();
    let named = |error: EventStreamError<Problem>| match error {
        EventStreamError::Transport(problem) => Problem { reason: Reason::RegistryUnavailable, ..problem },
        EventStreamError::Utf8(error) => unreadable(&error),
        EventStreamError::Parser(error) => unreadable(&error),
    };
    Ok(Box::pin(events.map(move |event| event.map_err(named))))
}

fn read(event: &Event) -> Result<News, Problem> {
    let bytes = event.data.as_str();
    match event.event.as_str() {
        "snapshot" => serde_json::from_str(bytes).map(|Found { agents }| News::Snapshot(agents)),
        _ => serde_json::from_str(bytes).map(|entry| News::Change(Arc::new(entry))),
    }
    .map_err(|error| unreadable(&error))
}

fn unreadable(error: &impl ToString) -> Problem {
    Problem::new(Reason::Internal, format!("the registry's watch cannot be read: {}", error.to_string()))
}

/// Full jitter: a registry that comes back is not met by everybody at once. By hand, as `backon` has no full jitter and its
/// iterator moves on before the sleep: a call that is dropped while it waits would make the next one wait longer.
fn wait(failures: u32) -> Duration {
    let most = FIRST_WAIT.saturating_mul(1 << failures.min(8)).min(LONGEST_WAIT);
    let chance = RandomState::new().hash_one(failures) % 1_000;
    most.mul_f64(0.1 + 0.9 * f64::from(u32::try_from(chance).unwrap_or(0)) / 1_000.0)
}
