//! An agent whose process speaks for itself over HTTP ([`crate::brain::peer`]): its registration, and what its card shows of it.

use super::running_card::RunningCard;
use crate::{
    brain::peer::{PeerBrain, process::PeerProcess},
    config::PeerRegistration,
};
use engine::settings::AgentSettings;
use protocol::{
    card::Card,
    problem::{Problem, Reason},
};
use registry::registration_request::check_card;
use reqwest::Url;
use std::{net::IpAddr, sync::Arc};
use tokio::sync::Mutex;

/// The process of an agent of this node, as its routes see it.
pub struct HostedPeer {
    brain: Arc<PeerBrain>,
    /// What the file says.
    file: AgentSettings,
    card: RunningCard,
    /// What the process has said over the file.
    said: Mutex<AgentSettings>,
}

impl HostedPeer {
    /// Shows in the card whether the process of `brain` is there, until the agent stops.
    pub(crate) fn start(brain: Arc<PeerBrain>, file: AgentSettings, card: RunningCard) -> Arc<Self> {
        let said = Mutex::new(file.clone());
        let peer = Arc::new(Self { brain, file, card, said });
        let watched = peer.clone();
        actix::spawn(async move {
            while watched.card.actor.connected() {
                let shown = watched.card.status.waits_for();
                watched.process().watch(&shown).await;
                watched.show(&*watched.said.lock().await).await;
            }
        });
        peer
    }

    /// Whether it is there, and its turns.
    pub fn process(&self) -> &PeerProcess {
        &self.brain.process
    }

    /// Registers the process and returns the agent's card. A repeat changes what differs.
    pub async fn register(&self, mut registration: PeerRegistration) -> Result<Arc<Card>, Problem> {
        let endpoint = registration.endpoint.take();
        if let Some(endpoint) = &endpoint {
            let refused = |why: String| {
                let message = format!("endpoint: {why}");
                Problem::new(Reason::InvalidField, message).with("field", "endpoint")
            };
            check_loopback(endpoint).map_err(refused)?;
            self.brain.check_endpoint(endpoint).await.map_err(refused)?;
        }
        let settings = registration.over(&self.file);
        check_card(&self.card.of(&settings, None))?;
        let mut said = self.said.lock().await;
        *said = settings;
        self.brain.register(endpoint);
        self.show(&said).await;
        Ok(self.card.card.get())
    }

    /// The process takes no turns until it registers again.
    pub async fn leave(&self, why: &str) {
        self.process().leave(why);
        self.show(&*self.said.lock().await).await;
    }

    async fn show(&self, settings: &AgentSettings) {
        let agent = &self.card.card.get().agent_id;
        let absence = self.process().absence();
        if self.card.status.waits_for() != absence {
            match &absence {
                Some(why) => tracing::warn!(%agent, why, "it takes no work"),
                None => tracing::info!(%agent, "its peer is there; it takes work"),
            }
        }
        if let Err(error) = self.card.show(settings, absence).await {
            tracing::warn!(%agent, %error, "the card could not be passed to the agent");
        }
    }
}

/// Fails unless `url` is that of a loopback address: a process of this machine.
fn check_loopback(url: &str) -> Result<(), String> {
    let parsed = Url::parse(url).map_err(|error| format!("is no URL: {error}"))?;
    let host = parsed.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        true => Ok(()),
        false => Err(format!(
            "{host} is no loopback address: a peer runs on the machine of its node; `brain: {{ http: … }}` is for a service elsewhere"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::check_loopback;

    #[test]
    fn an_endpoint_is_on_this_machine() {
        for url in ["http://127.0.0.1:9000/turns", "http://[::1]:9000/", "http://localhost:9000"] {
            assert_eq!(check_loopback(url), Ok(()), "{url}");
        }
        for url in [
            "http://10.0.0.1:9000/",
            "http://example.org/",
            "http://127.0.0.1.example.org/",
            "turns",
            "http://0.0.0.0:1/",
        ] {
            assert!(check_loopback(url).is_err(), "{url}");
        }
    }
}
