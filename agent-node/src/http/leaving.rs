//! What tells the streams, which have no end of their own, that the node leaves.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};
use tokio::sync::watch;

/// Whether the node leaves. All clones are one.
#[derive(Debug, Clone, Default)]
pub struct Leaving(watch::Sender<bool>);

impl Leaving {
    /// It does.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Returns when it does, at once if it is leaving already.
    ///
    /// Those who wait are told one after the other, by another thread; each looks for itself all the same whenever it is
    /// polled. So of two that are polled in turn the later one knows what the earlier one knew: a stream ends by the word
    /// that its edge would cut it by.
    pub fn begun(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut told = self.0.subscribe();
        let looks = told.clone();
        // Without anybody to tell, there is no node any more.
        let mut waits = Box::pin(async move { drop(told.wait_for(|leaves| *leaves).await.map(drop)) });
        let either = poll_fn(move |cx| match *looks.borrow() {
            true => Poll::Ready(()),
            false => waits.as_mut().poll(cx),
        });
        // A stream that has sent much in one go has no turns left in tokio's budget, and would be told later than others.
        tokio::task::unconstrained(either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn whoever_has_not_been_told_yet_sees_it() {
        let leaving = Leaving::default();
        let mut begun = Box::pin(leaving.begun());
        assert_eq!((&mut begun).now_or_never(), None);
        // As it stands while others are being told.
        leaving.0.send_if_modified(|leaves| {
            *leaves = true;
            false
        });
        assert_eq!(begun.now_or_never(), Some(()));
        assert_eq!(leaving.begun().now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let leaving = Leaving::default();
        let waits = tokio::spawn(leaving.begun());
        tokio::task::yield_now().await;
        leaving.begin();
        waits.await.unwrap();
        let last = Leaving::default();
        let waits = last.begun();
        drop(last);
        waits.await;
    }
}
