//! One turn of a conversation between a client and an agent (A2A §4.1.4).

use super::{
    json::{Fields, FromProtoJson, InvalidField, choice},
    part::{Part, PartContent},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its sender's name for it.
    pub message_id: String,
    /// The context it belongs to; always set by a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub role: Role,
    /// The content; at least one part.
    pub parts: Vec<Part>,
    /// Metadata of the sender, and of extensions under their URIs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// URIs of the extensions that take part in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Other tasks it speaks of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

impl Message {
    /// A message of one text.
    pub fn text(message_id: impl Into<String>, role: Role, text: impl Into<String>) -> Self {
        Self {
            message_id: message_id.into(),
            context_id: None,
            task_id: None,
            role,
            parts: vec![Part::new(PartContent::Text(text.into()))],
            metadata: Map::new(),
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// All its text parts, a line each.
    pub fn as_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.content {
            PartContent::Text(text) => Some(text.as_str()),
            PartContent::Data(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

const ROLES: &[(&str, Option<Role>)] =
    &[("ROLE_UNSPECIFIED", None), ("ROLE_USER", Some(Role::User)), ("ROLE_AGENT", Some(Role::Agent))];

impl FromProtoJson for Role {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        choice(&value, ROLES)?.ok_or_else(|| InvalidField::new("", "is required, is ROLE_UNSPECIFIED"))
    }
}

impl FromProtoJson for Message {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            message_id: fields.required_text("messageId")?,
            context_id: fields.text("contextId")?,
            task_id: fields.text("taskId")?,
            role: fields.required("role")?,
            parts: fields.some("parts")?,
            metadata: fields.object("metadata")?,
            extensions: fields.texts("extensions")?,
            reference_task_ids: fields.texts("referenceTaskIds")?,
        })
    }
}
