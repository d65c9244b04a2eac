//! Publishes stored signals to the board, in order, retrying each until the board accepts it or refuses it for good.

use super::rows;
use crate::config::Config;
use backon::{ExponentialBuilder, Retryable as _};
use protocol::{
    problem::{Problem, Reason},
    signal::Signal,
};
use std::{future::Future, pin::Pin, rc::Rc, sync::Arc, time::Duration};
use store::SharedStore;
use tokio::sync::Notify;

/// Publishes a signal to the board.
pub trait SignalPublisher: Send + Sync {
    /// Resolves once `signal` is durable on the board; a repeat of the same id publishes nothing.
    fn publish(&self, signal: Signal) -> Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>>;
}

const PAGE: usize = 100;

/// Sends the signals that the registry's commits left in the store.
pub(super) struct SignalOutbox {
    pub(super) store: SharedStore,
    pub(super) board: Arc<dyn SignalPublisher>,
    pub(super) backoff: ExponentialBuilder,
    pub(super) wake: Rc<Notify>,
}

impl SignalOutbox {
    pub(super) fn new(store: SharedStore, board: Arc<dyn SignalPublisher>, config: &Config) -> Self {
        let backoff = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(config.retry_ms.max(1)))
            .with_max_delay(Duration::from_millis(config.retry_cap_ms.max(1)))
            .without_max_times();
        Self { store, board, backoff, wake: Rc::new(Notify::new()) }
    }

    /// Publishes waiting and new signals; never returns.
    pub(super) async fn run(self) {
        loop {
            let drained =
                (|| self.drain()).retry(self.backoff).sleep(tokio::time::sleep).notify(|why, wait| {
                    tracing::warn!(%why, wait_ms = wait.as_millis(), "signals wait for the board");
                });
            if drained.await.is_ok() {
                self.wake.notified().await;
            }
        }
    }

    /// Publishes all waiting signals; the error says why the next one failed.
    async fn drain(&self) -> Result<(), String> {
        loop {
            let page = rows::waiting_signals(&self.store, PAGE).map_err(|error| error.to_string())?;
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
                rows::delete_signal(&self.store, &signal).await.map_err(|error| error.to_string())?;
            }
        }
    }
}

/// Whether a retry is pointless. 401 and 403 are retried, as a credential may be fixed.
fn is_final(reason: Reason) -> bool {
    matches!(reason.status(), 400 | 409 | 413 | 415 | 422)
}
