//! Builders of agent cards for the registry's tests.

use protocol::{
    card::{BidTerms, Card, Skill},
    ids::{AgentId, Capability},
    limits::Limits,
};
use std::sync::Arc;

/// The card of agent `id` with these skills, all other fields empty or default.
pub(crate) fn card(id: &str, skills: &[&str]) -> Arc<Card> {
    let skill = |capability: &&str| Skill {
        id: Capability::parse(capability).unwrap(),
        name: String::new(),
        description: String::new(),
        examples: Vec::new(),
        tags: Vec::new(),
        output_modes: Vec::new(),
    };
    Arc::new(Card {
        agent_id: AgentId::parse(id).unwrap(),
        description: String::new(),
        endpoint: "http://127.0.0.1:8001".into(),
        version: String::new(),
        skills: skills.iter().map(skill).collect(),
        open: false,
        entrance: false,
        role: None,
        subscribe: Vec::new(),
        terms: BidTerms::default(),
        comes_back_in: None,
        limits: Limits::default(),
        waits_for: None,
    })
}

/// The card of agent `id` without skills at `endpoint`.
pub(crate) fn card_with_endpoint(id: &str, endpoint: &str) -> Arc<Card> {
    Arc::new(Card { endpoint: endpoint.into(), ..Arc::unwrap_or_clone(card(id, &[])) })
}
