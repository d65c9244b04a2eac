//! Subscribes to the board of this process.

use super::SignalStream;
use crate::{board::Board, feed::FeedSubscription};
use futures_util::{StreamExt, stream};

/// The signals of `subscription`, one by one.
pub(super) fn signals(board: &Board, subscription: FeedSubscription) -> SignalStream {
    let chunk = board.config().chunk_bytes;
    let pages = stream::unfold(Some(subscription), move |subscription| async move {
        let mut subscription = subscription?;
        match subscription.next(chunk).await {
            Ok(events) => {
                let signals: Vec<_> = events.iter().map(|event| Ok(event.posted.clone())).collect();
                Some((signals, Some(subscription)))
            }
            Err(problem) => Some((vec![Err(problem)], None)),
        }
    });
    Box::pin(pages.flat_map(stream::iter))
}
