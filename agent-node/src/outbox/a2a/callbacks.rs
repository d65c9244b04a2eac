//! Push notifications from foreign agents (A2A §4.3.3). Each remote task has its own URL with a random id, and a token.

use dashmap::DashMap;
use protocol::{
    a2a::{event::StreamResponse, push::PushConfig},
    routes,
};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// The most events that wait at one callback. Further ones are dropped; polling finds their result.
const CAPACITY: usize = 64;

/// Tokens and channels by callback id.
type OpenCallbacks = DashMap<String, (String, mpsc::Sender<StreamResponse>)>;

/// The open callbacks of this node.
#[derive(Debug, Clone, Default)]
pub struct CallbackRegistry {
    base_url: Arc<OnceLock<String>>,
    open: Arc<OpenCallbacks>,
}

impl CallbackRegistry {
    /// Sets the URL under which this node is reached.
    pub fn set_base_url(&self, base_url: String) {
        drop(self.base_url.set(base_url));
    }

    /// Whether the base URL is set.
    pub fn is_reachable(&self) -> bool {
        self.base_url.get().is_some()
    }

    /// Opens a callback. It closes when it is dropped.
    pub fn open(&self) -> Callback {
        let (id, token) =
            (uuid::Uuid::new_v4().simple().to_string(), uuid::Uuid::new_v4().simple().to_string());
        let (sender, events) = mpsc::channel(CAPACITY);
        self.open.insert(id.clone(), (token.clone(), sender));
        Callback { id, token, events, registry: self.clone() }
    }

    /// Delivers `event` to the callback `id`. Returns `false` if there is none, or if the token is wrong.
    pub fn deliver(&self, id: &str, token: Option<&str>, event: StreamResponse) -> bool {
        let Some(sender) =
            self.open.get(id).filter(|open| token == Some(open.0.as_str())).map(|open| open.1.clone())
        else {
            return false;
        };
        drop(sender.try_send(event));
        true
    }
}

/// One callback.
#[derive(Debug)]
pub struct Callback {
    id: String,
    token: String,
    events: mpsc::Receiver<StreamResponse>,
    registry: CallbackRegistry,
}

impl Callback {
    /// The push notification configuration for the foreign agent.
    pub fn config(&self) -> PushConfig {
        let base_url = self.registry.base_url.get().map_or("", String::as_str);
        PushConfig {
            tenant: None,
            id: Some(self.id.clone()),
            task_id: None,
            url: format!("{base_url}{}/{}", routes::HOOKS, self.id),
            token: Some(self.token.clone()),
            authentication: None,
        }
    }

    /// The next event.
    pub async fn next(&mut self) -> Option<StreamResponse> {
        self.events.recv().await
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.registry.open.remove(&self.id);
    }
}
