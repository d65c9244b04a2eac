//! How a process leaves (RELIABILITY §1.11): nothing new, what runs is finished or handed back, what is on its way is
//! sent, then goodbye. It takes the grace it is given, and a few seconds.

use super::Running;
use crate::{
    agent::{HandBackTasks, IsIdle},
    outbox::webhooks::HasTold,
};
use futures_util::future::{join, join_all};
use std::{future::Future, time::Duration};
use tokio::time::Instant;

/// How long messages and signals may still take to where they go; what does not get there goes at the next start.
const FLUSH: Duration = Duration::from_secs(3);
/// How long webhooks may still be told of what has happened, if the grace is not over before.
const WEBHOOKS: Duration = Duration::from_secs(8);
/// How long requests and streams may still take. A stream has no end of its own: it is ended when all there is was sent.
pub(super) const ANSWERS: Duration = Duration::from_secs(2);
/// How long the traces may still take to be taken.
const TRACES: Duration = Duration::from_secs(3);
/// How long leaving may take beside the grace: all of the above, and goodbye to the registry.
pub(super) const GOODBYES: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Running {
    /// Leaves; what is not done within `grace` is handed back, or waits for the next start.
    pub async fn stop(self, grace: Duration) {
        let begun = Instant::now();
        self.statuses.iter().for_each(|status| status.drain());
        self.presences.iter().for_each(|presence| presence.hurry());
        let is_done = until(grace, async || self.statuses.iter().all(|status| status.running() == 0)).await;
        if !is_done {
            let running: u32 = self.statuses.iter().map(|status| status.running()).sum();
            tracing::warn!(running, ?grace, "the grace is over: what others can do is handed back");
            for actor in &self.actors {
                if actor.send(HandBackTasks).await.is_err() {
                    tracing::debug!("an agent is gone already; its store knows what is open");
                }
            }
        }
        let left = grace.saturating_sub(begun.elapsed()).clamp(FLUSH, WEBHOOKS);
        let are_told = until(left, async || {
            for pusher in &self.pushers {
                if pusher.send(HasTold).await == Ok(false) {
                    return false;
                }
            }
            true
        });
        let is_sent = until(FLUSH, async || {
            for actor in &self.actors {
                if actor.send(IsIdle).await == Ok(false) {
                    return false;
                }
            }
            true
        });
        let (is_sent, are_told) = join(is_sent, are_told).await;
        if !is_sent || !are_told {
            tracing::warn!("not everything could be sent; what is left goes at the next start");
        }
        join_all(self.presences.into_iter().map(super::presence::Presence::leave)).await;
        let calls = async {
            if let Some(calls) = self.calls {
                calls.stop(ANSWERS).await;
            }
        };
        let stopped = self.handle.stop(true);
        self.leaving.begin();
        join(stopped, calls).await;
        drop(self.ended.await);
        self.telemetry.flush(TRACES).await;
    }
}

/// Whether `look` has found what it looks for within `patience`; it looks once at least.
async fn until<F: Future<Output = bool>>(patience: Duration, look: impl Fn() -> F) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if look().await {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
