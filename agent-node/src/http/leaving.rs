//! What tells the streams, which have no end of their own, that the node leaves.

use std::future::Future;
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
    pub fn begun(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut told = self.0.subscribe();
        // A stream that has sent much in one go has no turns left in tokio's budget, and would be told later than others.
        tokio::task::unconstrained(async move {
            // Without anybody to tell, there is no node any more.
            let _ = told.wait_for(|leaves| *leaves).await;
        })
    }
}
