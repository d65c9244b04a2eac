//! The shutdown of a process (RELIABILITY §1.11): it accepts no new work, finishes or hands back running work, flushes
//! messages, and deregisters. It takes at most the grace period and [`SHUTDOWN_MARGIN`].

use super::RunningNode;
use crate::{
    agent::{HandBackTasks, IsIdle},
    outbox::webhooks::HasTold,
};
use futures_util::future::{join, join_all};
use std::{future::Future, time::Duration};
use tokio::time::Instant;

/// How long messages and signals may take to be delivered; the rest is sent at the next start.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// How long webhooks may take to be notified, if the grace period does not end before.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(8);
/// How long requests and streams may take to end. An endless stream is ended once everything was sent.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the export of traces may take.
const TRACE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a shutdown may take beside the grace period: all of the above, and deregistering.
pub(super) const SHUTDOWN_MARGIN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl RunningNode {
    /// Stops the process; work that is not finished within `grace` is handed back, or resumes at the next start.
    pub async fn stop(self, grace: Duration) {
        let started = Instant::now();
        self.statuses.iter().for_each(|status| status.drain());
        self.registrations.iter().for_each(|registration| registration.wake());
        let is_done =
            until(grace, async || self.statuses.iter().all(|status| status.unfinished() == 0)).await;
        if !is_done {
            let running: u32 = self.statuses.iter().map(|status| status.unfinished()).sum();
            tracing::warn!(
                running,
                ?grace,
                "the grace period has ended; work that others can do is handed back"
            );
            for actor in &self.actors {
                if actor.send(HandBackTasks).await.is_err() {
                    tracing::debug!("an agent has stopped already; its open work is in the store");
                }
            }
        }
        let left = grace.saturating_sub(started.elapsed()).clamp(FLUSH_TIMEOUT, WEBHOOK_TIMEOUT);
        let are_notified = until(left, async || {
            for pusher in &self.pushers {
                if pusher.send(HasTold).await == Ok(false) {
                    return false;
                }
            }
            true
        });
        let is_sent = until(FLUSH_TIMEOUT, async || {
            for actor in &self.actors {
                if actor.send(IsIdle).await == Ok(false) {
                    return false;
                }
            }
            true
        });
        let (is_sent, are_notified) = join(is_sent, are_notified).await;
        if !is_sent || !are_notified {
            tracing::warn!("not everything could be sent; the rest is sent at the next start");
        }
        join_all(self.registrations.into_iter().map(super::registration::RegistrationTask::deregister)).await;
        let grpc_server = async {
            if let Some(server) = self.grpc_server {
                server.stop(RESPONSE_TIMEOUT).await;
            }
        };
        let stopped = self.handle.stop(true);
        self.drain.start();
        join(stopped, grpc_server).await;
        drop(self.server.await);
        self.arbiters.stop().await;
        self.telemetry.flush(TRACE_TIMEOUT).await;
    }
}

/// Polls `is_done` until it returns true or `timeout` ends; polls at least once.
async fn until<F: Future<Output = bool>>(timeout: Duration, is_done: impl Fn() -> F) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if is_done().await {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
