//! What a tool server tells without being asked: progress of calls, and that its tools have changed.

use rmcp::{
    ClientHandler, RoleClient,
    model::{ClientConfig, Implementation, ProgressNotificationParam},
    service::NotificationContext,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::watch;

/// How much is shown of a report, characters.
const MAX_SHOWN: usize = 300;

/// The listener of a connection.
#[derive(Debug, Clone)]
pub(super) struct ServerListener {
    progress: watch::Sender<String>,
    has_other_tools: Arc<AtomicBool>,
}

impl ServerListener {
    pub(super) fn new() -> Self {
        Self { progress: watch::Sender::new(String::new()), has_other_tools: Arc::default() }
    }

    /// The last report of progress, in words for people; it changes with every report.
    pub(super) fn progress(&self) -> watch::Receiver<String> {
        self.progress.subscribe()
    }

    /// Notes that the tools of the server have changed.
    pub(super) fn note_other_tools(&self) {
        self.has_other_tools.store(true, Ordering::Relaxed);
    }

    /// Whether the tools of the server have changed since the last such question.
    pub(super) fn take_has_other_tools(&self) -> bool {
        self.has_other_tools.swap(false, Ordering::Relaxed)
    }
}

impl ClientHandler for ServerListener {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.client_info = Implementation::new("agent-mesh", env!("CARGO_PKG_VERSION"));
        config
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let ProgressNotificationParam { progress, total, message, .. } = report;
        let done = total.map_or_else(|| format!("{progress}"), |total| format!("{progress} of {total}"));
        let text = message.filter(|message| !message.is_empty()).unwrap_or(done);
        self.progress.send_replace(text.chars().take(MAX_SHOWN).collect());
    }
}
