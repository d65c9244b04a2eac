//! Where foreign agents call back (A2A §4.3.3): each errand has a place of its own, which nobody can guess, and a token.

use dashmap::DashMap;
use protocol::{
    a2a::{event::StreamResponse, push::PushConfig},
    routes,
};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// News that wait at one place; more are lost, and looking finds them.
const WAITING: usize = 64;

type Places = DashMap<String, (String, mpsc::Sender<StreamResponse>)>;

/// The places of this node.
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    base: Arc<OnceLock<String>>,
    places: Arc<Places>,
}

impl Hooks {
    /// Says where this node is reached; until then nobody can call it back.
    pub fn listen_at(&self, base: String) {
        drop(self.base.set(base));
    }

    /// Whether somebody could call.
    pub fn can_be_called(&self) -> bool {
        self.base.get().is_some()
    }

    /// A place of its own, until it is dropped.
    pub fn open(&self) -> Hook {
        let (id, token) =
            (uuid::Uuid::new_v4().simple().to_string(), uuid::Uuid::new_v4().simple().to_string());
        let (heard, news) = mpsc::channel(WAITING);
        self.places.insert(id.clone(), (token.clone(), heard));
        Hook { id, token, news, hooks: self.clone() }
    }

    /// Takes what was called back to the place `id`; `false` if there is none, or not under that token.
    pub fn take(&self, id: &str, token: Option<&str>, event: StreamResponse) -> bool {
        let Some(heard) =
            self.places.get(id).filter(|place| token == Some(place.0.as_str())).map(|p| p.1.clone())
        else {
            return false;
        };
        drop(heard.try_send(event));
        true
    }
}

/// One place.
#[derive(Debug)]
pub struct Hook {
    id: String,
    token: String,
    news: mpsc::Receiver<StreamResponse>,
    hooks: Hooks,
}

impl Hook {
    /// What tells the other side where to call.
    pub fn config(&self) -> PushConfig {
        PushConfig {
            tenant: None,
            id: Some(self.id.clone()),
            task_id: None,
            url: format!("{}{}/{}", self.hooks.base.get().map_or("", String::as_str), routes::HOOKS, self.id),
            token: Some(self.token.clone()),
            authentication: None,
        }
    }

    /// The next call back.
    pub async fn next(&mut self) -> Option<StreamResponse> {
        self.news.recv().await
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.hooks.places.remove(&self.id);
    }
}
