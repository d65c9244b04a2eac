//! The A2A agent card (A2A §4.4, §8). The card for the registry is [`crate::card::Card`].

use super::{
    json::{Fields, FromProtoJson, InvalidField},
    security::{SecurityRequirement, SecurityScheme},
    version::ProtocolVersion,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The binding at [`crate::routes::A2A_RPC`].
pub const JSONRPC: &str = "JSONRPC";
/// The binding at [`crate::routes::A2A_REST`].
pub const HTTP_JSON: &str = "HTTP+JSON";
/// The binding on a port of its own.
pub const GRPC: &str = "GRPC";

/// An agent card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it is reached, the preferred one first.
    pub supported_interfaces: Vec<AgentInterface>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<AgentProvider>,
    /// The version of the agent.
    pub version: String,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// What of the protocol it does.
    pub capabilities: AgentCapabilities,
    /// Ways to prove who calls, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// Which of them are needed: one of the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// Media types it takes.
    pub default_input_modes: Vec<String>,
    /// Media types it answers in.
    pub default_output_modes: Vec<String>,
    /// What it can do.
    pub skills: Vec<AgentSkill>,
    /// Who vouches for all this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<CardSignature>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// One place an agent is reached at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    /// Absolute; for gRPC `host:port`.
    pub url: String,
    /// [`JSONRPC`], [`HTTP_JSON`], [`GRPC`] or a URI.
    pub protocol_binding: String,
    /// What every request there must carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub protocol_version: String,
}

impl AgentInterface {
    /// The version that it speaks, if that is known here.
    pub fn version(&self) -> Option<ProtocolVersion> {
        ProtocolVersion::of_interface(&self.protocol_version)
    }
}

/// Who runs an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AgentProvider {
    /// Their site.
    pub url: String,
    /// Their name.
    pub organization: String,
}

/// What of the protocol an agent does; what is absent it does not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_notifications: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<AgentExtension>,
    /// Whether authenticated callers get an extended card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_agent_card: Option<bool>,
}

/// An extension of A2A.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentExtension {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uri: String,
    /// How this agent uses it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether a client must ask for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// What else there is to know.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
}

/// One thing an agent can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    pub id: String,
    pub name: String,
    pub description: String,
    /// Keywords; at least one.
    pub tags: Vec<String>,
    /// What one may ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Media types it takes, if not the agent's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// Media types it answers in, if not the agent's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// What it needs beyond what the agent needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
}

/// A JWS over the card (A2A §8.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CardSignature {
    /// The protected header, base64url.
    pub protected: String,
    pub signature: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub header: Map<String, Value>,
}

impl FromProtoJson for AgentCard {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            name: fields.required_text("name")?,
            description: fields.required_text("description")?,
            supported_interfaces: fields.some("supportedInterfaces")?,
            provider: fields.message("provider")?,
            version: fields.required_text("version")?,
            documentation_url: fields.text("documentationUrl")?,
            capabilities: fields.required("capabilities")?,
            security_schemes: fields.map("securitySchemes")?,
            security_requirements: fields.list("securityRequirements")?,
            default_input_modes: fields.some("defaultInputModes")?,
            default_output_modes: fields.some("defaultOutputModes")?,
            skills: fields.some("skills")?,
            signatures: fields.list("signatures")?,
            icon_url: fields.text("iconUrl")?,
        })
    }
}

impl FromProtoJson for AgentInterface {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            url: fields.required_text("url")?,
            protocol_binding: fields.required_text("protocolBinding")?,
            tenant: fields.text("tenant")?,
            protocol_version: fields.required_text("protocolVersion")?,
        })
    }
}

impl FromProtoJson for AgentProvider {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self { url: fields.required_text("url")?, organization: fields.required_text("organization")? })
    }
}

impl FromProtoJson for AgentCapabilities {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            streaming: fields.flag("streaming")?,
            push_notifications: fields.flag("pushNotifications")?,
            extensions: fields.list("extensions")?,
            extended_agent_card: fields.flag("extendedAgentCard")?,
        })
    }
}

impl FromProtoJson for AgentExtension {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            uri: fields.text("uri")?.unwrap_or_default(),
            description: fields.text("description")?.unwrap_or_default(),
            required: fields.flag("required")?.unwrap_or_default(),
            params: fields.object("params")?,
        })
    }
}

impl FromProtoJson for AgentSkill {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            id: fields.required_text("id")?,
            name: fields.required_text("name")?,
            description: fields.required_text("description")?,
            tags: fields.some("tags")?,
            examples: fields.texts("examples")?,
            input_modes: fields.texts("inputModes")?,
            output_modes: fields.texts("outputModes")?,
            security_requirements: fields.list("securityRequirements")?,
        })
    }
}

impl FromProtoJson for CardSignature {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            protected: fields.required_text("protected")?,
            signature: fields.required_text("signature")?,
            header: fields.object("header")?,
        })
    }
}
