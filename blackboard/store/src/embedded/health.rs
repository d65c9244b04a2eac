//! What the writer knows about the device.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The failures of a store's writer.
pub(super) struct WriterHealth {
    refused: AtomicU64,
    failure: watch::Sender<Option<String>>,
}

impl WriterHealth {
    pub(super) fn new() -> Self {
        Self { refused: AtomicU64::new(0), failure: watch::Sender::new(None) }
    }

    /// Notes that the device took no write.
    pub(super) fn note_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the writer has stopped for good.
    pub(super) fn fail(&self, why: &str) {
        self.note_refusal();
        self.failure.send_replace(Some(why.to_owned()));
    }

    /// The number of transactions that the device did not take.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Waits until the writer has failed for good; returns why.
    pub(super) async fn failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(why) = failure.borrow_and_update().clone() {
                return why;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
