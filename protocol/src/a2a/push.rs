//! Where a task's events are pushed to (A2A §4.3).

use super::json::{Fields, FromProtoJson, InvalidField};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The header with the token of a push notification (A2A §4.3.3).
pub const NOTIFICATION_TOKEN: &str = "x-a2a-notification-token";

/// One webhook of one task.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushConfig {
    /// The tenant it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Its name among the task's; made by the server if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The task; unset in a message that begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Where events are posted.
    pub url: String,
    /// What the receiver recognises the sender by (`X-A2A-Notification-Token`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The credentials for `Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// How a webhook is shown who posts.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// A scheme of the IANA registry: `Bearer`, `Basic`, …
    pub scheme: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

impl fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushConfig")
            .field("id", &self.id)
            .field("taskId", &self.task_id)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl FromProtoJson for Authentication {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self { scheme: fields.required_text("scheme")?, credentials: fields.text("credentials")? })
    }
}

impl FromProtoJson for PushConfig {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            tenant: fields.text("tenant")?,
            id: fields.text("id")?,
            task_id: fields.text("taskId")?,
            url: fields.required_text("url")?,
            token: fields.text("token")?,
            authentication: fields.message("authentication")?,
        })
    }
}
