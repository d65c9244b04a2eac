//! Validation of a registration request: its limits, and whether the principal may register the agent.

use crate::entry::LeaseGrant;
use protocol::{
    card::{Card, MAX_MODE, MAX_PER_SKILL, MAX_SKILLS, MAX_TEXT},
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use transport::operation::{Operation, OperationInfo};

/// Registers the agent of a card. A repeat gets the first answer. A new process of the same agent supersedes the old one, which is then
/// refused with `stale_incarnation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegistrationRequest {
    pub card: Arc<Card>,
    /// A random id of the agent's process, minted at its start. A repeat with the same id changes nothing.
    pub instance: String,
}

impl Operation for RegistrationRequest {
    type Answer = LeaseGrant;
    const INFO: OperationInfo = OperationInfo::agents("POST", routes::AGENTS).status(201);
}

const MAX_INSTANCE: usize = 128;

impl RegistrationRequest {
    /// Checks every field against its limits; the error names the field.
    pub fn check(&self) -> Result<(), Problem> {
        let Self { card, instance } = self;
        let refuse = |what: String| Err(Problem::new(Reason::InvalidField, what));
        if instance.is_empty() || instance.len() > MAX_INSTANCE {
            return refuse(format!("instance must have 1 to {MAX_INSTANCE} bytes"));
        }
        check_card(card)
    }
}

/// Checks every field of a card against its limits; the error names the field.
pub fn check_card(card: &Card) -> Result<(), Problem> {
    let refuse = |what: String| Err(Problem::new(Reason::InvalidField, what));
    if card.agent_id.is_reserved() {
        return refuse(format!("card.agentId: {} is a service's name", card.agent_id));
    }
    let texts = [&card.description, &card.version].into_iter();
    let skill_texts = card
        .skills
        .iter()
        .flat_map(|skill| [&skill.name, &skill.description].into_iter().chain(&skill.examples));
    if texts.chain(skill_texts).any(|text| text.len() > MAX_TEXT) {
        return refuse(format!("card: a description, version, name or example may have {MAX_TEXT} bytes"));
    }
    if card.skills.len() > MAX_SKILLS {
        return refuse(format!("card.skills may have {MAX_SKILLS} members"));
    }
    let exceeds_limits = |skill: &protocol::card::Skill| {
        [skill.tags.len(), skill.examples.len(), skill.output_modes.len()]
            .iter()
            .any(|count| *count > MAX_PER_SKILL)
            || skill.output_modes.iter().any(|mode| mode.len() > MAX_MODE)
    };
    if let Some(skill) = card.skills.iter().find(|skill| exceeds_limits(skill)) {
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

/// Checks that `principal` is the agent `id` itself. `taken` (another agent has the id) only selects the error.
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
        Principal::User(_) | Principal::Service(_) | Principal::Brain(_) => {
            Err(Problem::new(Reason::Forbidden, "agents register themselves; a user may only read"))
        }
    }
}
