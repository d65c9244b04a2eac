//! Being told to stop while a task is waited for: the task is the mesh's, and whoever waited for it hears how to go on.

use super::exit::{Exit, Failure};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM, from the moment on that something would be left behind.
pub(super) struct Stops(Signal, Signal);

impl Stops {
    /// Hears them from here on.
    pub(super) fn listen() -> Result<Self, Failure> {
        let hear = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Exit::Failed, format!("signals can't be heard: {error}")))
        };
        Ok(Self(hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?))
    }

    /// Waits for one; the code that shells expect after it.
    pub(super) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.0.recv() => Exit::Interrupted,
            _ = self.1.recv() => Exit::Terminated,
        }
    }

    /// From here on one ends the process at once, whatever it waits for: tokio never gives back a signal it has listened to.
    pub(super) fn end_at_once(mut self) {
        std::thread::spawn(move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                std::process::exit(runtime.block_on(self.next()) as i32)
            }
        });
    }
}
