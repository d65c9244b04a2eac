//! Whether a registration is one: who asks, and whether the card holds water.

use protocol::{
    card::{Card, MAX_MODE, MAX_PER_SKILL, MAX_SKILLS, MAX_TEXT},
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What an agent sends to be registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// What it says of itself.
    pub card: Arc<Card>,
    /// Which process it is: random, minted at its start. A repeat with the same one changes nothing.
    pub instance: String,
}

const MAX_INSTANCE: usize = 128;

impl Application {
    /// Whether everything in it is within its limits.
    pub fn check(&self) -> Result<(), Problem> {
        let Self { card, instance } = self;
        let refuse = |what: String| Err(Problem::new(Reason::InvalidField, what));
        if instance.is_empty() || instance.len() > MAX_INSTANCE {
            return refuse(format!("instance must have 1 to {MAX_INSTANCE} bytes"));
        }
        if card.agent_id.is_reserved() {
            return refuse(format!("card.agentId: {} is a service's name", card.agent_id));
        }
        let texts = [&card.description, &card.version].into_iter();
        let said = card
            .skills
            .iter()
            .flat_map(|skill| [&skill.name, &skill.description].into_iter().chain(&skill.examples));
        if texts.chain(said).any(|text| text.len() > MAX_TEXT) {
            return refuse(format!(
                "card: a description, version, name or example may have {MAX_TEXT} bytes"
            ));
        }
        if card.skills.len() > MAX_SKILLS {
            return refuse(format!("card.skills may have {MAX_SKILLS} members"));
        }
        let crowded = |skill: &protocol::card::Skill| {
            [skill.tags.len(), skill.examples.len(), skill.output_modes.len()]
                .iter()
                .any(|count| *count > MAX_PER_SKILL)
                || skill.output_modes.iter().any(|mode| mode.len() > MAX_MODE)
        };
        if let Some(skill) = card.skills.iter().find(|skill| crowded(skill)) {
            return refuse(format!(
                "card.skills: {} may have {MAX_PER_SKILL} tags, examples and outputModes of {MAX_MODE} bytes",
                skill.id
            ));
        }
        if !is_endpoint(&card.endpoint) {
            return refuse(format!(
                "card.endpoint must be a base URL such as http://127.0.0.1:8001, got {:?}",
                card.endpoint.chars().take(80).collect::<String>()
            ));
        }
        Ok(())
    }
}

fn is_endpoint(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    text.len() <= 2_048
        && matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

/// Whether `principal` may speak for `id`: only that agent itself.
pub fn may_speak_for(principal: &Principal, id: &AgentId, taken: bool) -> Result<(), Problem> {
    match principal {
        Principal::Agent(agent) if agent == id => Ok(()),
        Principal::Agent(agent) if taken => {
            let message = format!("the id {id} belongs to another agent; you have proven to be {agent}");
            Err(Problem::new(Reason::AgentIdTaken, message))
        }
        Principal::Agent(agent) => {
            let message = format!("only {id} itself may register as {id}; you have proven to be {agent}");
            Err(Problem::new(Reason::SenderNotProven, message))
        }
        Principal::User(_) => {
            Err(Problem::new(Reason::Forbidden, "agents register themselves; a user may only read"))
        }
    }
}
