//! Sends a batch within a time. A part that the backend finds too large is halved; a single item that is too large is cut.

use super::otlp_client::{ExportFailure, ExportResults, FailureKind};
use opentelemetry_sdk::error::OTelSdkResult;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct BatchResult {
    /// Items that the backend took.
    pub(super) accepted: usize,
    /// Those of them that were cut.
    pub(super) cut: u64,
    /// Why others were not taken.
    pub(super) failure: Option<ExportFailure>,
}

/// Sends `batch` by `export`, which records failures in `results`. `cut` makes an item smaller, or returns false if it is small
/// already. An item that is small and still too large ends the batch: the backend means something else than its size.
pub(super) async fn export_batch<T: Clone>(
    batch: Vec<T>,
    timeout: Duration,
    results: &ExportResults,
    cut: impl Fn(&mut T) -> bool,
    export: impl AsyncFn(Vec<T>) -> OTelSdkResult,
) -> BatchResult {
    let deadline = Instant::now() + timeout;
    let (mut parts, mut result) = (vec![(batch, false)], BatchResult::default());
    while let Some((mut part, is_cut)) = parts.pop() {
        let answer = timeout_at(deadline, export(part.clone())).await;
        let recorded = results.take_failure();
        let failure = match answer {
            Ok(Ok(())) => {
                result.accepted += part.len();
                result.cut += u64::from(is_cut);
                continue;
            }
            Ok(Err(error)) => recorded
                .unwrap_or_else(|| ExportFailure { kind: FailureKind::Other, reason: error.to_string() }),
            Err(_) => {
                let reason =
                    recorded.map_or_else(|| format!("no answer within {timeout:?}"), |last| last.reason);
                result.failure = Some(ExportFailure { kind: FailureKind::Other, reason });
                break;
            }
        };
        match failure.kind {
            FailureKind::TooLarge if part.len() > 1 => {
                let second = part.split_off(part.len() / 2);
                parts.extend([(second, false), (part, false)]);
            }
            FailureKind::TooLarge if part.first_mut().is_some_and(&cut) => parts.push((part, true)),
            FailureKind::TooLarge | FailureKind::SignalNotTaken => {
                result.failure = Some(failure);
                break;
            }
            FailureKind::Other => result.failure = Some(failure),
        }
    }
    result
}
