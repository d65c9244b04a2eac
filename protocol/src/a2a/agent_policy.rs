//! What an agent offers to A2A clients, and its A2A card.

mod task_metadata;

pub use task_metadata::{TaskMetadata, data_of};

use super::{
    card::{
        AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentProvider, AgentSkill, HTTP_JSON,
        JSONRPC,
    },
    error::{A2aError, A2aErrorKind},
    hitl::HITL_EXTENSION,
    limits,
    message::Message,
    request::A2aOperation,
    security::{ApiKey, HttpAuth, Scopes, SecurityRequirement, SecurityScheme},
    version::VERSION,
};
use crate::{
    card::{Card, Skill},
    routes,
    task::EXTENSION,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The header an API key is in.
pub const API_KEY_HEADER: &str = "x-api-key";
const API_KEY: &str = "apiKey";
const BEARER: &str = "bearer";

/// What an agent offers to A2A clients. A member is the key `a2a` of its YAML, and its doc comment the description in the published JSON
/// Schema.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AgentPolicy {
    /// Whether it streams.
    pub streaming: bool,
    /// Whether it calls webhooks.
    pub push_notifications: bool,
    /// Whether callers with a credential see a card that says more.
    pub extended_card: bool,
    /// URIs of extensions without which it takes no message.
    pub requires: Vec<String>,
    /// Whether its brain may answer with a message and make no task of it. Its clients then hear nothing before the brain's first word.
    pub direct: bool,
    /// Media types it takes, each whole or as `text/*`; if absent all, without images and PDFs if it is an `llm` brain no model of which sees them.
    pub input_modes: Vec<String>,
    /// Media types it answers in.
    pub output_modes: Vec<String>,
    /// Who runs it.
    pub provider: Option<AgentProvider>,
    /// Where to read more.
    pub documentation_url: Option<String>,
    /// A picture.
    pub icon_url: Option<String>,
    /// The URL under which clients outside the mesh reach it through a proxy, such as `https://mesh.example.com/planner`; that of
    /// `--public-url` if absent. Peers never use it: they sign the path that they call.
    pub public_url: Option<String>,
}

impl Default for AgentPolicy {
    fn default() -> Self {
        let modes = |modes: &[&str]| modes.iter().map(|mode| (*mode).to_owned()).collect();
        Self {
            streaming: true,
            push_notifications: true,
            extended_card: true,
            requires: Vec::new(),
            direct: false,
            input_modes: modes(&[
                "text/plain",
                "text/*",
                "application/json",
                "application/octet-stream",
                "application/pdf",
                "image/*",
                "audio/*",
                "video/*",
            ]),
            output_modes: modes(&["text/plain", "application/json"]),
            provider: None,
            documentation_url: None,
            icon_url: None,
            public_url: None,
        }
    }
}

/// Which schemes prove who calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallerSchemes {
    /// A key in [`API_KEY_HEADER`].
    pub api_key: bool,
    /// A token in `Authorization`.
    pub bearer: bool,
    /// Whether a credential is required.
    pub needed: bool,
}

impl CallerSchemes {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.api_key || self.bearer
    }
}

impl AgentPolicy {
    /// The base of every URL that clients are told of the agent with this card.
    pub fn base_url<'a>(&'a self, card: &'a Card) -> &'a str {
        self.public_url.as_deref().unwrap_or(&card.endpoint)
    }

    /// Whether there is an extended card; it needs an authenticated caller.
    pub fn has_extended_card(&self, schemes: CallerSchemes) -> bool {
        self.extended_card && schemes.any()
    }

    /// Refuses what this agent does not offer (A2A §3.3.4).
    pub fn check(
        &self,
        operation: A2aOperation,
        wanted: &[String],
        schemes: CallerSchemes,
    ) -> Result<(), A2aError> {
        if operation.streams() && !self.streaming {
            return Err(A2aError::new(A2aErrorKind::UnsupportedOperation, "this agent does not stream"));
        }
        if operation.pushes() && !self.push_notifications {
            return Err(A2aError::new(
                A2aErrorKind::PushNotificationNotSupported,
                "this agent calls no webhooks",
            ));
        }
        if operation == A2aOperation::GetExtendedAgentCard && !self.has_extended_card(schemes) {
            return Err(A2aError::new(A2aErrorKind::UnsupportedOperation, "this agent has no extended card"));
        }
        let missing = self.requires.iter().find(|uri| !wanted.contains(uri));
        match missing.filter(|_| operation.sends()) {
            Some(uri) => {
                let message = format!(
                    "this agent takes messages with the extension {uri} only: name it in A2A-Extensions"
                );
                Err(A2aError::new(A2aErrorKind::ExtensionSupportRequired, message).with("extension", uri))
            }
            None => Ok(()),
        }
    }

    /// Refuses a message with a part of a type that this agent does not take.
    pub fn check_modes(&self, message: &Message) -> Result<(), A2aError> {
        let foreign =
            message.parts.iter().filter_map(|part| part.media_type.as_deref()).find(|mode| !self.takes(mode));
        match foreign {
            None => Ok(()),
            Some(mode) => {
                let mode: String = mode.chars().take(80).collect();
                let message = format!("{mode:?} is not taken; {} are", self.input_modes.join(", "));
                Err(A2aError::new(A2aErrorKind::ContentTypeNotSupported, message)
                    .with("mediaType", mode)
                    .with("supported", self.input_modes.join(",")))
            }
        }
    }

    fn takes(&self, mode: &str) -> bool {
        let essence = mode.split(';').next().unwrap_or_default().trim();
        self.input_modes.iter().any(|taken| match taken.strip_suffix('*') {
            Some(family) => essence.to_ascii_lowercase().starts_with(&family.to_ascii_lowercase()),
            None => essence.eq_ignore_ascii_case(taken),
        })
    }

    /// The card at `endpoint`, unsigned. `grpc` is where that binding listens; `is_extended` adds what only known
    /// callers see.
    pub fn card(
        &self,
        card: &Card,
        schemes: CallerSchemes,
        grpc: Option<&AgentInterface>,
        is_extended: bool,
    ) -> AgentCard {
        let interface = |url: String, binding: &str| AgentInterface {
            url,
            protocol_binding: binding.to_owned(),
            tenant: None,
            protocol_version: VERSION.to_owned(),
        };
        let base = self.base_url(card);
        let mut interfaces = vec![
            interface(format!("{base}{}", routes::A2A_RPC), JSONRPC),
            interface(format!("{base}{}", routes::A2A_REST), HTTP_JSON),
        ];
        interfaces.extend(grpc.cloned());
        let described = if card.description.is_empty() { card.agent_id.as_str() } else { &card.description };
        AgentCard {
            name: card.agent_id.to_string(),
            description: described.to_owned(),
            supported_interfaces: interfaces,
            provider: self.provider.clone(),
            version: if card.version.is_empty() { "0".to_owned() } else { card.version.clone() },
            documentation_url: self.documentation_url.clone(),
            capabilities: AgentCapabilities {
                streaming: Some(self.streaming),
                push_notifications: Some(self.push_notifications),
                extensions: self.extensions(card, is_extended),
                extended_agent_card: Some(self.has_extended_card(schemes)),
            },
            security_schemes: declared(schemes),
            security_requirements: if schemes.needed { requirements(schemes) } else { Vec::new() },
            default_input_modes: self.input_modes.clone(),
            default_output_modes: self.output_modes.clone(),
            skills: skills(card),
            signatures: Vec::new(),
            icon_url: self.icon_url.clone(),
        }
    }

    fn extensions(&self, card: &Card, is_extended: bool) -> Vec<AgentExtension> {
        let mut params = Map::new();
        params.insert("limits".into(), json!(card.limits));
        params.insert("a2aLimits".into(), Value::Object(limits::declared(&card.limits)));
        params.insert("open".into(), json!(card.open));
        if is_extended {
            params.insert("terms".into(), json!(card.terms));
        }
        let ours = AgentExtension {
            uri: EXTENSION.to_owned(),
            description: "Choose a skill, a deadline or an input with metadata of a message; see path, doer and award \
                          in metadata of a task. Whoever asks for it may repeat a message under its id: it runs once."
                .to_owned(),
            required: self.requires.iter().any(|uri| uri == EXTENSION),
            params,
        };
        let approvals = AgentExtension {
            uri: HITL_EXTENSION.to_owned(),
            description: "Shows open approvals and questions in metadata of the status message, and takes decisions by id."
                .to_owned(),
            required: self.requires.iter().any(|uri| uri == HITL_EXTENSION),
            ..Default::default()
        };
        let known = [EXTENSION, HITL_EXTENSION];
        let others = self.requires.iter().filter(|uri| !known.contains(&uri.as_str()));
        let required =
            others.map(|uri| AgentExtension { uri: uri.clone(), required: true, ..Default::default() });
        [ours, approvals].into_iter().chain(required).collect()
    }
}

fn declared(schemes: CallerSchemes) -> BTreeMap<String, SecurityScheme> {
    let key = SecurityScheme::ApiKey(ApiKey {
        description: None,
        location: "header".to_owned(),
        name: API_KEY_HEADER.to_owned(),
    });
    let bearer = SecurityScheme::HttpAuth(HttpAuth {
        description: None,
        scheme: "Bearer".to_owned(),
        bearer_format: None,
    });
    let all = [(schemes.api_key, API_KEY, key), (schemes.bearer, BEARER, bearer)];
    all.into_iter()
        .filter(|(is_there, ..)| *is_there)
        .map(|(_, name, scheme)| (name.to_owned(), scheme))
        .collect()
}

/// Any one of the schemes.
fn requirements(schemes: CallerSchemes) -> Vec<SecurityRequirement> {
    let alone = |name: &String| SecurityRequirement { schemes: [(name.clone(), Scopes::default())].into() };
    declared(schemes).keys().map(alone).collect()
}

/// The skill that the card of an agent without any names.
pub const ANY: &str = "any";

/// An agent without skills still does something: what it is asked.
fn skills(card: &Card) -> Vec<AgentSkill> {
    let skill = |skill: &Skill| {
        let described = if skill.description.is_empty() { skill.id.as_str() } else { &skill.description };
        let tags: Vec<_> = skill.tags.iter().map(ToString::to_string).collect();
        AgentSkill {
            id: skill.id.to_string(),
            name: if skill.name.is_empty() { skill.id.to_string() } else { skill.name.clone() },
            description: described.to_owned(),
            tags: if tags.is_empty() { vec![skill.id.to_string()] } else { tags },
            examples: skill.examples.clone(),
            input_modes: Vec::new(),
            output_modes: skill.output_modes.clone(),
            security_requirements: Vec::new(),
        }
    };
    let mut skills: Vec<_> = card.skills.iter().map(skill).collect();
    if skills.is_empty() {
        skills.push(AgentSkill {
            id: ANY.to_owned(),
            name: ANY.to_owned(),
            description: "Does what it is asked, or finds who can.".to_owned(),
            tags: vec![ANY.to_owned()],
            examples: Vec::new(),
            input_modes: Vec::new(),
            output_modes: Vec::new(),
            security_requirements: Vec::new(),
        });
    }
    skills
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{a2a::json::FromProtoJson, ids::AgentId};

    fn card() -> Card {
        let json =
            json!({ "agentId": "a-1", "endpoint": "http://127.0.0.1:8001", "skills": [{ "id": "plan" }] });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_card_is_one_that_any_client_takes() {
        let schemes = CallerSchemes { api_key: true, bearer: true, needed: true };
        for (card, schemes) in [
            (card(), CallerSchemes::default()),
            (Card { skills: Vec::new(), agent_id: AgentId::parse("b").unwrap(), ..card() }, schemes),
        ] {
            let grpc = AgentInterface {
                url: "127.0.0.1:9000".to_owned(),
                protocol_binding: crate::a2a::card::GRPC.to_owned(),
                tenant: Some("a".to_owned()),
                protocol_version: VERSION.to_owned(),
            };
            let made = AgentPolicy::default().card(&card, schemes, Some(&grpc), true);
            assert_eq!(made.supported_interfaces.last(), Some(&grpc));
            let json = serde_json::to_value(&made).unwrap();
            assert_eq!(AgentCard::from_proto(json).unwrap(), made);
            assert_eq!(made.capabilities.extended_agent_card, Some(schemes.any()));
            assert_eq!(made.security_requirements.len(), if schemes.needed { 2 } else { 0 });
        }
    }

    #[test]
    fn what_is_not_offered_is_refused_by_its_own_error() {
        let terms = AgentPolicy {
            streaming: false,
            push_notifications: false,
            extended_card: false,
            requires: vec!["urn:x".to_owned()],
            ..AgentPolicy::default()
        };
        for operation in A2aOperation::ALL {
            let refused =
                terms.check(*operation, &[], CallerSchemes::default()).err().map(|error| error.kind);
            let expected = match operation {
                A2aOperation::SendMessage => Some(A2aErrorKind::ExtensionSupportRequired),
                A2aOperation::GetTask | A2aOperation::ListTasks | A2aOperation::CancelTask => None,
                A2aOperation::SendStreamingMessage
                | A2aOperation::SubscribeToTask
                | A2aOperation::GetExtendedAgentCard => Some(A2aErrorKind::UnsupportedOperation),
                A2aOperation::CreateTaskPushNotificationConfig
                | A2aOperation::GetTaskPushNotificationConfig
                | A2aOperation::ListTaskPushNotificationConfigs
                | A2aOperation::DeleteTaskPushNotificationConfig => {
                    Some(A2aErrorKind::PushNotificationNotSupported)
                }
            };
            assert_eq!(refused, expected, "{operation:?}");
        }
        assert!(
            terms.check(A2aOperation::SendMessage, &["urn:x".to_owned()], CallerSchemes::default()).is_ok()
        );
    }

    #[test]
    fn a_type_is_taken_by_its_family() {
        let terms = AgentPolicy::default();
        for (mode, is_taken) in [
            ("text/plain; charset=utf-8", true),
            ("IMAGE/png", true),
            ("application/json", true),
            ("application/x-unsupported", false),
            ("", false),
        ] {
            assert_eq!(terms.takes(mode), is_taken, "{mode}");
        }
    }
}
