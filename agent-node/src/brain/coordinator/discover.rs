//! Who there is: peers by the registry, foreign agents by the cards or hosts that the request names.

use super::CoordinatorTurn;
use crate::{
    brain::PeerSummary,
    outbox::a2a::{RemoteAgent, card_fetch},
};
use blackboard::http_client::redact_url;
use futures_util::future::join_all;
use protocol::{
    a2a::card_validation::ValidatedCard,
    patterns::joint::{Advertised, CAPABILITY, Discovery},
    words::counted,
};
use serde_json::{Value, json};

/// One agent that may be asked.
pub(super) enum DiscoveredAgent {
    Peer(PeerSummary),
    Foreign(Box<RemoteAgent>),
}

impl DiscoveredAgent {
    pub(super) fn advertised(&self) -> Vec<Advertised> {
        match self {
            Self::Peer(peer) => peer
                .skills
                .iter()
                .filter(|skill| skill.id.as_str() != CAPABILITY)
                .map(|skill| Advertised {
                    agent: peer.agent_id.to_string(),
                    skill: skill.id.to_string(),
                    name: match skill.name.is_empty() {
                        true => skill.id.as_str().replace(['-', '_'], " "),
                        false => skill.name.clone(),
                    },
                    description: skill.description.clone(),
                    tags: skill.tags.iter().map(ToString::to_string).collect(),
                    examples: skill.examples.clone(),
                })
                .collect(),
            Self::Foreign(remote) => {
                let card = &remote.card().card;
                let one = |skill: &protocol::a2a::card::AgentSkill| Advertised {
                    agent: card.name.clone(),
                    skill: skill.id.clone(),
                    name: skill.name.clone(),
                    description: skill.description.clone(),
                    tags: skill.tags.clone(),
                    examples: skill.examples.clone(),
                };
                card.skills.iter().map(one).collect()
            }
        }
    }
}

impl CoordinatorTurn<'_> {
    /// Looks for agents as the request says, and keeps those whose card can be used.
    pub(super) async fn discover(&mut self) {
        let how = self.terms.discovery();
        self.record.discovery_mode = how.word().to_owned();
        let cards: Vec<(String, Result<card_fetch::FetchedCard, String>)> = match how {
            Discovery::Registry => {
                let me = self.coordinator.me.get();
                let all = self.request.peers.iter().chain([me.as_ref()]);
                for peer in all.filter(|peer| !peer.skills.is_empty()) {
                    let card = json!(peer);
                    self.record.agent_cards.insert(peer.agent_id.to_string(), card.clone());
                    self.record.validated_agent_cards.insert(peer.agent_id.to_string(), card);
                    self.record.remote_agents.insert(peer.agent_id.to_string(), json!({ "kind": "mesh" }));
                    self.found.insert(peer.agent_id.to_string(), DiscoveredAgent::Peer(peer.clone()));
                }
                Vec::new()
            }
            Discovery::DirectConfig => join_all(self.terms.cards.iter().map(|card| self.given(card))).await,
            Discovery::WellKnownUri => {
                join_all(self.terms.hosts.iter().map(|host| self.fetch_host(host))).await
            }
        };
        for (place, card) in cards {
            match card {
                Ok(found) => self.meet(&place, found),
                Err(why) => self.reject(&place, &[why]),
            }
        }
        let count = self.found.len();
        self.record.audit(
            "discover_agent_cards",
            how.word(),
            format!("{} can be asked", counted(count, "agent", "agents")),
        );
    }

    async fn given(&self, given: &Value) -> (String, Result<card_fetch::FetchedCard, String>) {
        let outside = &self.coordinator.outside;
        match given.as_str() {
            Some(url) => (url.to_owned(), card_fetch::fetch(outside, url).await),
            None => {
                let place = given["name"].as_str().unwrap_or("a card without a name").to_owned();
                (place, Ok(card_fetch::inline_card(outside, given.clone()).await))
            }
        }
    }

    async fn fetch_host(&self, host: &str) -> (String, Result<card_fetch::FetchedCard, String>) {
        (host.to_owned(), card_fetch::fetch_from_host(&self.coordinator.outside, host).await)
    }

    fn reject(&mut self, place: &str, why: &[String]) {
        let (place, why) = (redact_url(place), why.join("; "));
        self.record.errors.push(format!("the card of {place} is rejected: {why}"));
        self.record.audit("validate_agent_cards", "rejected", format!("{place}: {why}"));
    }

    fn meet(&mut self, place: &str, found: card_fetch::FetchedCard) {
        let raw = found.raw.clone();
        let name = raw["name"].as_str().unwrap_or(place).to_owned();
        self.record.agent_cards.insert(name.clone(), raw.clone());
        match found.validate(&self.coordinator.outside) {
            Err(why) => self.reject(place, &why),
            Ok(_) if self.found.contains_key(&name) => {
                self.reject(place, &[format!("another agent is called {name:?} too")]);
            }
            Ok(vetted) => {
                let what = format!("{place}: {}", found.signature);
                self.record.audit("validate_agent_cards", "accepted", what);
                let url = vetted.interfaces.first().map(|interface| interface.url.clone());
                self.record.remote_agents.insert(name.clone(), json!({ "kind": "a2a", "url": url }));
                self.record.validated_agent_cards.insert(name.clone(), raw);
                self.found.insert(name, DiscoveredAgent::Foreign(Box::new(self.remote(vetted))));
            }
        }
    }

    /// The foreign agents of an earlier turn, by the cards that were taken then.
    pub(super) fn rediscover(&mut self) {
        for (name, raw) in self.record.validated_agent_cards.clone() {
            if let Ok(vetted) = card_fetch::validate_card(&raw, &self.coordinator.outside) {
                let remote = self.remote(vetted);
                self.found.insert(name, DiscoveredAgent::Foreign(Box::new(remote)));
            }
        }
    }

    fn remote(&self, vetted: ValidatedCard) -> RemoteAgent {
        let credentials = self.coordinator.keyring.for_agent(&vetted);
        RemoteAgent::new(self.coordinator.outside.clone(), vetted, credentials)
            .with_trace(self.request.trace.clone())
    }
}
