//! The signal that the node drains. It ends event streams, which have no end of their own.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};
use tokio::sync::watch;

/// Whether the node drains. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct DrainSignal(watch::Sender<bool>);

impl DrainSignal {
    /// Starts the drain.
    pub fn start(&self) {
        self.0.send_replace(true);
    }

    /// Returns when the drain starts, at once if it has started.
    ///
    /// `watch` wakes its receivers one after the other from another thread. Each poll therefore also reads the current
    /// value: of two futures polled in turn, the second never misses what the first saw. A stream's own end thus comes
    /// before the edge cuts it.
    pub fn started(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.0.subscribe();
        let current = receiver.clone();
        // An error means that every sender is dropped: the node is gone.
        let mut changed = Box::pin(async move { drop(receiver.wait_for(|drains| *drains).await.map(drop)) });
        let either = poll_fn(move |cx| match *current.borrow() {
            true => Poll::Ready(()),
            false => changed.as_mut().poll(cx),
        });
        // A busy stream has used up tokio's cooperative budget and would see the signal later than others.
        tokio::task::unconstrained(either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_poll_sees_the_drain_before_the_wake_up() {
        let drain = DrainSignal::default();
        let mut started = Box::pin(drain.started());
        assert_eq!((&mut started).now_or_never(), None);
        // Sets the value without a notification.
        drain.0.send_if_modified(|drains| {
            *drains = true;
            false
        });
        assert_eq!(started.now_or_never(), Some(()));
        assert_eq!(drain.started().now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn a_waiting_task_is_woken() {
        let drain = DrainSignal::default();
        let waits = tokio::spawn(drain.started());
        tokio::task::yield_now().await;
        drain.start();
        waits.await.unwrap();
        let last = DrainSignal::default();
        let waits = last.started();
        drop(last);
        waits.await;
    }
}
