//! RFC-005's envelope (seed 002): what `POST /a2a/messages` takes.

use crate::{
    ids::{Address, AgentId, ConversationId, Digest, MessageId},
    message::{Kind, Payload},
    problem::{Problem, Reason},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message between agents, or from a user to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The sender's name for it.
    pub message_id: MessageId,
    /// Who says it is speaking; proven by the signature if it is an agent.
    pub from_agent_id: AgentId,
    /// Whom it is for.
    pub to_agent_id: Address,
    /// `type` and `payload`.
    #[serde(flatten)]
    pub payload: Payload,
    /// When the sender wrote it; informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<WallTime>,
    /// The recipient's conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// The message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MessageId>,
    /// The sender's conversation, which an answer should name as its `conversationId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_conversation_id: Option<ConversationId>,
    /// Where the answer goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// When it is of no use any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<WallTime>,
    /// The agents it came through, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<AgentId>,
    /// Members nobody here knows, kept as they came.
    #[serde(default, skip_serializing_if = "Map::is_empty", rename = "$extra")]
    pub extra: Map<String, Value>,
}

/// The member that stands in for `payload` in a message between agents whose payload is too large to be posted: the
/// digest under which the sender has put it at the recipient.
pub const PAYLOAD_REF: &str = "payloadRef";

/// The digest that stands in for a parsed body's payload, if one does.
pub fn payload_ref(body: &Value) -> Result<Option<Digest>, Problem> {
    match (body.get(PAYLOAD_REF), body.get("payload")) {
        (None | Some(Value::Null), _) => Ok(None),
        (Some(_), Some(_)) => Err(invalid(PAYLOAD_REF, "and payload exclude each other")),
        (Some(reference), None) => {
            let digest = reference.as_str().and_then(|text| Digest::parse(text).ok());
            digest.map(Some).ok_or_else(|| invalid(PAYLOAD_REF, "must be a SHA-256 digest in lower-case hex"))
        }
    }
}

impl Envelope {
    /// The envelope a parsed body holds. `minted` names the message if its sender did not.
    /// The problem names the member that is wrong.
    pub fn from_json(body: Value, minted: impl FnOnce() -> MessageId) -> Result<Self, Problem> {
        let Value::Object(mut members) = body else {
            return Err(Problem::new(Reason::InvalidField, "the body must be a JSON object"));
        };
        let kind = Kind::parse(&required::<String>(&mut members, "type")?)?;
        let content = match members.remove("payload") {
            Some(Value::Object(content)) => content,
            Some(Value::String(text)) => {
                let held =
                    crate::json::parse(text.as_bytes(), crate::json::MAX_DEPTH).map_err(|problem| {
                        Problem { message: format!("payload: {}", problem.message), ..problem }
                    })?;
                let Value::Object(content) = held else {
                    return Err(invalid("payload", "must hold a JSON object"));
                };
                content
            }
            Some(_) => return Err(invalid("payload", "must be an object, or a string that holds one")),
            None => return Err(invalid("payload", "is required")),
        };
        let reply_to = optional(&mut members, "replyTo")?;
        let reply_to = match (reply_to, content.get("replyTo")) {
            (None, Some(Value::String(url))) => Some(url.clone()),
            (given, _) => given,
        };
        Ok(Self {
            message_id: optional(&mut members, "messageId")?.unwrap_or_else(minted),
            from_agent_id: required(&mut members, "fromAgentId")?,
            to_agent_id: required(&mut members, "toAgentId")?,
            payload: Payload::parse(kind, content)?,
            timestamp: optional(&mut members, "timestamp")?,
            conversation_id: optional(&mut members, "conversationId")?,
            in_reply_to: optional(&mut members, "inReplyTo")?,
            reply_conversation_id: optional(&mut members, "replyConversationId")?,
            reply_to,
            expires_at: optional(&mut members, "expiresAt")?,
            path: optional(&mut members, "path")?.unwrap_or_default(),
            extra: members,
        })
    }

    /// The message without its payload, which it names by digest ([`PAYLOAD_REF`]), and that payload: for a message too
    /// large to be posted. The same message is the same bytes again.
    pub fn by_reference(&self) -> serde_json::Result<(Vec<u8>, Vec<u8>)> {
        let mut json = self.to_json();
        let payload = json.as_object_mut().and_then(|members| members.remove("payload")).unwrap_or_default();
        let payload = serde_json::to_vec(&payload)?;
        json[PAYLOAD_REF] = Value::String(Digest::of(&payload).to_string());
        Ok((serde_json::to_vec(&json)?, payload))
    }

    /// Which kind of message this is.
    pub fn kind(&self) -> Kind {
        self.payload.kind()
    }

    /// What goes over the wire.
    pub fn to_json(&self) -> Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        if let Some(members) = json.as_object_mut()
            && let Some(Value::Object(extra)) = members.remove("$extra")
        {
            for (name, value) in extra {
                members.entry(name).or_insert(value);
            }
        }
        json
    }
}

fn invalid(member: &str, what: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::InvalidField, format!("{member} {what}")).with("field", member)
}

fn optional<T: serde::de::DeserializeOwned>(
    members: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, Problem> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value)
            .map(Some)
            .map_err(|error| invalid(name, format!("is invalid: {error}"))),
    }
}

fn required<T: serde::de::DeserializeOwned>(
    members: &mut Map<String, Value>,
    name: &str,
) -> Result<T, Problem> {
    optional(members, name)?.ok_or_else(|| invalid(name, "is required"))
}
