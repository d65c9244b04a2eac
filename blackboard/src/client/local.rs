//! Follows the board of this process.

use super::Signals;
use crate::{board::Board, feed::Subscription};
use futures_util::{StreamExt, stream};

/// What `subscription` brings, one by one.
pub(super) fn signals(board: &Board, subscription: Subscription) -> Signals {
    let chunk = board.config().chunk_bytes;
    let pages = stream::unfold(Some(subscription), move |place| async move {
        let mut subscription = place?;
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
