//! Ctrl-C and SIGTERM while a verb waits for a task: the task goes on, and the verb says how to follow it.

use super::exit::{CliError, Exit};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) struct InterruptSignals(Signal, Signal);

impl InterruptSignals {
    /// Installs the listeners; from then on the signals no longer end the process.
    pub(super) fn listen() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| CliError::new(Exit::Failed, format!("signals can't be heard: {error}")))
        };
        Ok(Self(listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?))
    }

    /// Waits for a signal; returns its exit code.
    pub(super) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.0.recv() => Exit::Interrupted,
            _ = self.1.recv() => Exit::Terminated,
        }
    }

    /// Ends the process at the next signal. Needed as tokio never restores the default handler of a signal.
    pub(super) fn exit_on_next(mut self) {
        std::thread::spawn(move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                std::process::exit(runtime.block_on(self.next()) as i32)
            }
        });
    }
}
