//! The thread of an exporter: a runtime of its own, so that a slow backend keeps nothing else waiting.

use std::io;
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// A thread with a runtime. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct ExportThread {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl ExportThread {
    /// Starts the thread `name`.
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, is_over) = oneshot::channel::<()>();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Nothing is sent: it ends with an error when the sender is dropped.
            let _ = runtime.block_on(is_over);
        })?;
        Ok(Self { handle, _end: end })
    }

    /// Its runtime.
    pub(super) fn runtime(&self) -> &Handle {
        &self.handle
    }
}
