//! Takes signals from the store to the board, in order, until each is accepted. While the board is away they wait.

use super::rows;
use crate::config::Config;
use backon::{ExponentialBuilder, Retryable as _};
use blackboard::store::SharedStore;
use protocol::{
    problem::{Problem, Reason},
    signal::Signal,
};
use std::{future::Future, pin::Pin, rc::Rc, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Where signals go. The composition root puts the board here.
pub trait Publish: Send + Sync {
    /// Resolves once `signal` is durable on the board; a repeat of the same id is no second signal.
    fn publish(&self, signal: Signal) -> Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>>;
}

const PAGE: usize = 100;

/// The registry's outbox: the store holds it, this empties it.
pub(super) struct Outbox {
    pub(super) store: SharedStore,
    pub(super) board: Arc<dyn Publish>,
    pub(super) pauses: ExponentialBuilder,
    pub(super) more: Rc<Notify>,
}

impl Outbox {
    pub(super) fn new(store: SharedStore, board: Arc<dyn Publish>, config: &Config) -> Self {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(config.retry_ms.max(1)))
            .with_max_delay(Duration::from_millis(config.retry_cap_ms.max(1)))
            .without_max_times();
        Self { store, board, pauses, more: Rc::new(Notify::new()) }
    }

    /// Publishes what waits, then what comes; never ends.
    pub(super) async fn run(self) {
        loop {
            let drained =
                (|| self.drain()).retry(self.pauses).sleep(tokio::time::sleep).notify(|why, wait| {
                    tracing::warn!(%why, wait_ms = wait.as_millis(), "signals wait for the board");
                });
            if drained.await.is_ok() {
                self.more.notified().await;
            }
        }
    }

    /// Publishes everything that waits, or says why the next one could not be.
    async fn drain(&self) -> Result<(), String> {
        loop {
            let page = rows::waiting(&self.store, PAGE).map_err(|error| error.to_string())?;
            if page.is_empty() {
                return Ok(());
            }
            for signal in page {
                match self.board.publish(signal.clone()).await {
                    Ok(()) => {}
                    Err(problem) if is_final(problem.reason) => {
                        tracing::error!(signal = %signal.id, %problem, "the board refuses a signal for good");
                    }
                    Err(problem) => return Err(problem.to_string()),
                }
                rows::strike(&self.store, &signal).await.map_err(|error| error.to_string())?;
            }
        }
    }
}

/// Whether offering it again is of no use. A credential may be mended, so 401 and 403 are offered again.
fn is_final(reason: Reason) -> bool {
    matches!(reason.status(), 400 | 409 | 413 | 415 | 422)
}
