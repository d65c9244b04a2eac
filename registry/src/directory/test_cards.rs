//! Cards for tests.

use protocol::{
    card::{BidTerms, Card, Skill},
    ids::{AgentId, Capability},
    limits::Limits,
};
use std::sync::Arc;

pub(crate) fn card(id: &str, skills: &[&str]) -> Arc<Card> {
    let skill = |id: &&str| Skill {
        id: Capability::parse(id).unwrap(),
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
        subscribe: Vec::new(),
        terms: BidTerms::default(),
        limits: Limits::default(),
        waits_for: None,
    })
}

pub(crate) fn with_endpoint(id: &str, endpoint: &str) -> Arc<Card> {
    Arc::new(Card { endpoint: endpoint.into(), ..Arc::unwrap_or_clone(card(id, &[])) })
}
