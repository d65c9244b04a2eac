//! Keeps what a process knows about keys in step with the registry: certificates, resets, and the registry's own key.
//!
//! A process with agents reads the records. A board knows no registry, so the registry tells it. Whoever has restarted begins
//! anew: a cursor is of one life of the registry, and a board that has forgotten its cursor says so.

use crate::{
    key_records::{ToldCursor, take},
    services::{ServiceLocation, ServiceLocator},
};
use bytes::Bytes;
use protocol::{problem::Problem, routes};
use registry::{client::Registry, registrar::ReadKeyRecords};
use reqwest::Method;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};
use transport::http_client::{ClientRequest, HttpClient};
use transport::key_ring::KeyRing;

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// The pause between two looks of a process at the registry's records. Those of present agents also come with the directory.
const READ: Duration = Duration::from_secs(10);
/// The pause between two looks of the registry at its own records.
const LOOK: Duration = Duration::from_millis(250);
/// How often the registry calls the board without a new record, in case the board has restarted.
const TELL: Duration = Duration::from_secs(2);

/// Follows the records of a registry in another process. `wake` has it read them now.
pub(super) fn follow_registry(registry: Registry, keys: KeyRing, wake: Arc<Notify>) {
    actix::spawn(async move {
        let mut cursor = None;
        loop {
            let page = registry.read(ReadKeyRecords::after(cursor.clone())).await;
            let taken = page.and_then(|page| take(&keys, &page).map(|()| page));
            let pause = match taken {
                Ok(page) => {
                    cursor = Some(page.cursor);
                    if page.has_more { Duration::ZERO } else { READ }
                }
                Err(problem) => {
                    tracing::debug!(%problem, "the key records of the registry are not read");
                    RETRY
                }
            };
            drop(tokio::time::timeout(pause, wake.notified()).await);
        }
    });
}

/// Tells the board in another process the records of the registry here; `wire` signs as the registry.
fn tell_board(locator: Arc<ServiceLocator>, registry: Registry, wire: HttpClient) {
    actix::spawn(async move {
        let Some(board) = locator.board_url() else { return };
        let to = format!("{board}{}", routes::BOARD_KEY_RECORDS);
        let (mut cursor, mut told_at) = (None, None::<Instant>);
        loop {
            let told = async {
                let page = registry.read(ReadKeyRecords::after(cursor.clone())).await?;
                if page.records.is_empty() && told_at.is_some_and(|at| at.elapsed() < TELL) {
                    return Ok(None);
                }
                let body = serde_json::to_vec(&page)
                    .map_err(|error| Problem::new(protocol::problem::Reason::Internal, error.to_string()))?;
                let call = ClientRequest::new(Method::PUT, &to, "board").body(Bytes::from(body));
                wire.json::<ToldCursor>(call).await.map(Some)
            };
            let pause = match told.await {
                Ok(None) => LOOK,
                Ok(Some(told)) => {
                    told_at = Some(Instant::now());
                    match std::mem::replace(&mut cursor, told.cursor) == cursor {
                        true => LOOK,
                        false => Duration::ZERO,
                    }
                }
                Err(problem) => {
                    tracing::debug!(%problem, "the board does not know the key records");
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    });
}

/// Whether a process reads, tells, or has both services. `registry` is its client, `as_registry` signs as the registry. Returns
/// what has it read now.
pub(super) fn start(
    (location, registry): (Option<&ServiceLocation>, Option<Registry>),
    locator: &Arc<ServiceLocator>,
    as_registry: HttpClient,
    keys: &KeyRing,
) -> Arc<Notify> {
    let wake = Arc::new(Notify::new());
    match (location, registry) {
        (Some(ServiceLocation::Remote(_)), Some(registry)) => {
            follow_registry(registry, keys.clone(), wake.clone());
        }
        (Some(ServiceLocation::Local), Some(registry)) => tell_board(locator.clone(), registry, as_registry),
        (_, _) => {}
    }
    wake
}
