//! How a tool server is greeted. MCP of 2026-07-28 begins with `server/discover`, older versions with `initialize`. Some older
//! servers end at a message that they do not know, others are silent, and one that starts slowly answers when the next message is
//! under way.

use super::listener::ServerListener;
use rmcp::{
    RoleClient,
    model::{
        ClientNotification, JsonRpcMessage, ProtocolVersion, RequestId, ServerNotification, ServerResult,
    },
    service::{ClientLifecycleMode, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// The message with which a server is greeted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Greeting {
    /// `server/discover`, and `initialize` if the server does not know it.
    #[default]
    Either,
    /// `server/discover` alone.
    Discover,
    /// `initialize` alone.
    Initialize,
}

impl Greeting {
    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Either => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions },
            Self::Initialize => ClientLifecycleMode::Initialize,
        }
    }

    /// The greeting that a server of this version takes.
    pub(super) fn of(version: &ProtocolVersion) -> Self {
        if version.has_initialize() { Self::Initialize } else { Self::Discover }
    }

    /// How a server is greeted once more that has failed to answer. `answers_late`: whether it has answered `server/discover`
    /// after all.
    pub(super) fn after_failure(self, answers_late: bool) -> Self {
        match self {
            Self::Either if answers_late => Self::Discover,
            Self::Either => Self::Initialize,
            Self::Discover | Self::Initialize => Self::Either,
        }
    }
}

/// The greeting that a server has taken last.
#[derive(Debug, Clone, Default)]
pub(super) struct LearntGreeting(Arc<Mutex<Greeting>>);

impl LearntGreeting {
    pub(super) fn get(&self) -> Greeting {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, greeting: Greeting) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = greeting;
    }
}

/// A transport that drops answers to an earlier greeting: the library takes them for a violation of the protocol. It notes a change
/// of the tools before the result that follows it is passed on.
pub(super) struct OneGreeting<T> {
    inner: T,
    listener: ServerListener,
    /// The name of the server, for the log.
    server: String,
    /// The request whose answer is awaited.
    awaited: Option<RequestId>,
    /// Whether the server has been greeted: from then on everything passes.
    is_open: bool,
    /// Whether `server/discover` was answered late.
    answers_late: Arc<AtomicBool>,
}

impl<T> OneGreeting<T> {
    pub(super) fn new(
        inner: T,
        listener: ServerListener,
        server: String,
        answers_late: Arc<AtomicBool>,
    ) -> Self {
        Self { inner, listener, server, awaited: None, is_open: false, answers_late }
    }

    /// Whether `message` answers another request than the one whose answer is awaited.
    fn is_late(&self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        // Some servers write the number of a request as a text.
        matches!((id, &self.awaited), (Some(id), Some(awaited)) if id.to_string() != awaited.to_string())
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for OneGreeting<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Request(request) => self.awaited = Some(request.id.clone()),
            JsonRpcMessage::Notification(notification) => {
                self.is_open |=
                    matches!(notification.notification, ClientNotification::InitializedNotification(_));
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            if let JsonRpcMessage::Notification(notification) = &message
                && matches!(notification.notification, ServerNotification::ToolListChangedNotification(_))
            {
                self.listener.note_other_tools();
            }
            let is_discovered = matches!(&message, JsonRpcMessage::Response(response)
                if matches!(response.result, ServerResult::DiscoverResult(_)));
            if self.is_open || !self.is_late(&message) {
                self.is_open |= is_discovered;
                return Some(message);
            }
            self.answers_late.fetch_or(is_discovered, Ordering::Relaxed);
            tracing::info!(target: "brain", server = self.server, "a late answer to an earlier greeting is dropped");
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
