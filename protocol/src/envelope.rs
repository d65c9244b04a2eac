//! RFC-005's envelope (seed 002): what `POST /a2a/messages` takes.

use crate::{
    ids::{Address, AgentId, ConversationId, Digest, MessageId, SpaceId, ThreadId},
    message::{self, MessageKind, Payload, PayloadContent},
    problem::{Problem, Reason},
    time::WallTime,
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Map, Value};

/// One message between agents, or from a user to an agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The sender's name for it.
    pub message_id: MessageId,
    /// The sender's id; an agent proves it by its signature.
    pub from_agent_id: AgentId,
    pub to_agent_id: Address,
    #[serde(flatten)]
    pub payload: Payload,
    /// When the sender wrote it; informational.
    #[serde(default)]
    pub timestamp: Option<WallTime>,
    /// The recipient's conversation it belongs to.
    #[serde(default)]
    pub conversation_id: Option<ConversationId>,
    /// The collaboration it belongs to, across agents: names the root task's.
    #[serde(default)]
    pub thread_id: Option<ThreadId>,
    /// The space of the board that its work belongs to; `default` if absent.
    #[serde(default)]
    pub space_id: Option<SpaceId>,
    /// The message it answers.
    #[serde(default)]
    pub in_reply_to: Option<MessageId>,
    /// The sender's conversation, which an answer should name as its `conversationId`.
    #[serde(default)]
    pub reply_conversation_id: Option<ConversationId>,
    /// The URL for the answer.
    #[serde(default)]
    pub reply_to: Option<String>,
    #[serde(default)]
    pub expires_at: Option<WallTime>,
    /// The agents on its path, oldest first.
    #[serde(default)]
    pub path: Vec<AgentId>,
    /// Unknown members, kept unchanged.
    #[serde(default, rename = "$extra")]
    pub extra: Map<String, Value>,
}

/// How far two clocks may lie apart to count as one, milliseconds. A signature's time has full seconds.
const CLOCKS_AGREE_MS: i64 = 2_000;

/// Written by hand: a journal writes every message, and what serde makes of a flattened member takes twice as long.
impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fn given<S: SerializeStruct, T: Serialize>(
            to: &mut S,
            name: &'static str,
            member: Option<&T>,
        ) -> Result<(), S::Error> {
            member.map_or(Ok(()), |member| to.serialize_field(name, member))
        }
        let mut members = to.serialize_struct("Envelope", 14)?;
        members.serialize_field("messageId", &self.message_id)?;
        members.serialize_field("fromAgentId", &self.from_agent_id)?;
        members.serialize_field("toAgentId", &self.to_agent_id)?;
        members.serialize_field("type", &self.kind())?;
        members.serialize_field("payload", &PayloadContent(&self.payload))?;
        given(&mut members, "timestamp", self.timestamp.as_ref())?;
        given(&mut members, "conversationId", self.conversation_id.as_ref())?;
        given(&mut members, "threadId", self.thread_id.as_ref())?;
        given(&mut members, "spaceId", self.space_id.as_ref())?;
        given(&mut members, "inReplyTo", self.in_reply_to.as_ref())?;
        given(&mut members, "replyConversationId", self.reply_conversation_id.as_ref())?;
        given(&mut members, "replyTo", self.reply_to.as_ref())?;
        given(&mut members, "expiresAt", self.expires_at.as_ref())?;
        given(&mut members, "path", Some(&self.path).filter(|path| !path.is_empty()))?;
        given(&mut members, "$extra", Some(&self.extra).filter(|extra| !extra.is_empty()))?;
        members.end()
    }
}

/// The member of a message of an agent's process that names the turn of which the message is a part.
pub const TURN_KEY: &str = "key";

/// The member that replaces `payload` in a message between agents whose payload is too large to be posted: the
/// digest under which the sender has put it at the recipient.
pub const PAYLOAD_REF: &str = "payloadRef";

/// The digest that replaces a parsed body's payload, if one does.
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
        Self::read(body, minted, |_| Ok(()))
    }

    /// The same of what a person has written: bounds and demands with unknown members are refused, too.
    pub fn from_hand_written_json(body: Value, minted: impl FnOnce() -> MessageId) -> Result<Self, Problem> {
        Self::read(body, minted, message::check_hand_written)
    }

    fn read(
        body: Value,
        minted: impl FnOnce() -> MessageId,
        check_payload: impl FnOnce(&Map<String, Value>) -> Result<(), Problem>,
    ) -> Result<Self, Problem> {
        let Value::Object(members) = body else {
            return Err(Problem::new(Reason::InvalidField, "the body must be a JSON object"));
        };
        let members = EnvelopeMembers::of(members);
        let kind = MessageKind::parse(&required::<String>(members.kind, "type")?)?;
        let content = match members.payload {
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
        check_payload(&content)?;
        let reply_to = optional(members.reply_to, "replyTo")?;
        let reply_to = match (reply_to, content.get("replyTo")) {
            (None, Some(Value::String(url))) => Some(url.clone()),
            (given, _) => given,
        };
        Ok(Self {
            message_id: optional(members.message_id, "messageId")?.unwrap_or_else(minted),
            from_agent_id: required(members.from_agent_id, "fromAgentId")?,
            to_agent_id: required(members.to_agent_id, "toAgentId")?,
            payload: Payload::parse(kind, content)?,
            timestamp: optional(members.timestamp, "timestamp")?,
            conversation_id: optional(members.conversation_id, "conversationId")?,
            thread_id: optional(members.thread_id, "threadId")?,
            space_id: optional(members.space_id, "spaceId")?,
            in_reply_to: optional(members.in_reply_to, "inReplyTo")?,
            reply_conversation_id: optional(members.reply_conversation_id, "replyConversationId")?,
            reply_to,
            expires_at: optional(members.expires_at, "expiresAt")?,
            path: optional(members.path, "path")?.unwrap_or_default(),
            extra: members.extra,
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

    /// Reads the times until which the sender waits (`expiresAt`, `deadline`, `bidBy`) by the clock of the recipient: as far from
    /// `now` as they were from `signed_at` (Unix seconds) by the sender's clock. Clocks that agree within [`CLOCKS_AGREE_MS`]
    /// count as one, so that a deadline does not move from agent to agent.
    pub fn read_times_by(&mut self, signed_at: u64, now: WallTime) {
        let signed_at = i64::try_from(signed_at.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let offset = now.0.saturating_sub(signed_at);
        if offset.saturating_abs() <= CLOCKS_AGREE_MS {
            return;
        }
        let own = |at: WallTime| WallTime(at.0.saturating_add(offset));
        self.expires_at = self.expires_at.map(own);
        match &mut self.payload {
            Payload::TaskRequest(request) => request.terms.deadline = request.terms.deadline.map(own),
            Payload::Award(award) => award.task.terms.deadline = award.task.terms.deadline.map(own),
            Payload::Cfp(cfp) => {
                cfp.bid_by = own(cfp.bid_by);
                let deadline = cfp.constraints.get_mut("deadline");
                if let Some((deadline, at)) =
                    deadline.and_then(|text| Some((WallTime::parse(text.as_str()?).ok()?, text)))
                {
                    *at = Value::String(own(deadline).to_string());
                }
            }
            _ => {}
        }
    }

    /// Which kind of message this is.
    pub fn kind(&self) -> MessageKind {
        self.payload.kind()
    }

    /// The agents that its work has passed through: an award carries them with its task.
    pub fn agents_on_path(&self) -> &[AgentId] {
        if let Payload::Award(award) = &self.payload { &award.task.path } else { &self.path }
    }

    /// The bytes for the wire.
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

/// The known members of a body.
#[derive(Default)]
struct EnvelopeMembers {
    kind: Option<Value>,
    payload: Option<Value>,
    message_id: Option<Value>,
    from_agent_id: Option<Value>,
    to_agent_id: Option<Value>,
    timestamp: Option<Value>,
    conversation_id: Option<Value>,
    thread_id: Option<Value>,
    space_id: Option<Value>,
    in_reply_to: Option<Value>,
    reply_conversation_id: Option<Value>,
    reply_to: Option<Value>,
    expires_at: Option<Value>,
    path: Option<Value>,
    extra: Map<String, Value>,
}

impl EnvelopeMembers {
    /// Every message passes here: one walk over what it has costs less than a search for each member that it may have.
    fn of(body: Map<String, Value>) -> Self {
        let mut members = Self::default();
        for (name, value) in body {
            let place = match name.as_str() {
                "type" => &mut members.kind,
                "payload" => &mut members.payload,
                "messageId" => &mut members.message_id,
                "fromAgentId" => &mut members.from_agent_id,
                "toAgentId" => &mut members.to_agent_id,
                "timestamp" => &mut members.timestamp,
                "conversationId" => &mut members.conversation_id,
                "threadId" => &mut members.thread_id,
                "spaceId" => &mut members.space_id,
                "inReplyTo" => &mut members.in_reply_to,
                "replyConversationId" => &mut members.reply_conversation_id,
                "replyTo" => &mut members.reply_to,
                "expiresAt" => &mut members.expires_at,
                "path" => &mut members.path,
                _ => {
                    members.extra.insert(name, value);
                    continue;
                }
            };
            *place = Some(value);
        }
        members
    }
}

fn optional<T: serde::de::DeserializeOwned>(member: Option<Value>, name: &str) -> Result<Option<T>, Problem> {
    match member {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value)
            .map(Some)
            .map_err(|error| invalid(name, format!("is invalid: {error}"))),
    }
}

fn required<T: serde::de::DeserializeOwned>(member: Option<Value>, name: &str) -> Result<T, Problem> {
    optional(member, name)?.ok_or_else(|| invalid(name, "is required"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &Value) -> Result<Envelope, Problem> {
        Envelope::from_json(body.clone(), || MessageId::parse("minted").unwrap())
    }

    #[test]
    fn a_bound_of_a_later_version_is_read_from_agents_and_refused_from_people() {
        let payload = json!({ "description": "d", "budget": { "tokens": 5, "seconds": 5 } });
        let body =
            json!({ "fromAgentId": "a-1", "toAgentId": "b-1", "type": "task-request", "payload": payload });
        let Payload::TaskRequest(request) = read(&body).unwrap().payload else { panic!("a task-request") };
        assert_eq!(request.budget, crate::budget::Budget::tokens(5));
        let minted = || MessageId::parse("minted").unwrap();
        let refused = Envelope::from_hand_written_json(body, minted).unwrap_err();
        assert!(refused.message.starts_with("payload.budget.seconds: unknown field"), "{}", refused.message);
    }

    #[test]
    fn every_member_is_read_and_written_where_it_stands() {
        let body = json!({
            "messageId": "m-1", "fromAgentId": "a-1", "toAgentId": "b-1", "type": "task-cancel",
            "payload": { "taskId": "t-1", "reason": "late", "x-why": [1] },
            "timestamp": "2026-11-21T08:00:00.000Z", "conversationId": "c-1", "threadId": "t-0", "spaceId": "s-1", "inReplyTo": "m-0",
            "replyConversationId": "c-2", "replyTo": "http://127.0.0.1:1/a2a/messages",
            "expiresAt": "2026-11-21T09:00:00.000Z", "path": ["a-0", "a-1"], "x-trace": { "deep": null },
        });
        let envelope = read(&body).unwrap();
        assert_eq!(envelope.to_json(), body);
        // Our own records keep unknown members separately.
        let kept = serde_json::to_value(&envelope).unwrap();
        assert_eq!(kept["$extra"], json!({ "x-trace": { "deep": null } }));
        assert_eq!(serde_json::from_value::<Envelope>(kept).unwrap(), envelope);
    }

    #[test]
    fn members_that_are_not_there_are_not_written_and_the_name_is_minted() {
        let body = json!({
            "fromAgentId": "a-1", "toAgentId": "b-1", "type": "task-cancel", "payload": { "taskId": "t-1" },
            "timestamp": null, "path": null,
        });
        let envelope = read(&body).unwrap();
        let written = json!({
            "messageId": "minted", "fromAgentId": "a-1", "toAgentId": "b-1", "type": "task-cancel",
            "payload": { "taskId": "t-1" },
        });
        assert_eq!(envelope.to_json(), written);
        assert_eq!(serde_json::to_value(&envelope).unwrap(), written);
    }

    #[test]
    fn what_is_missing_or_of_a_wrong_type_is_named() {
        let whole = json!({
            "fromAgentId": "a-1", "toAgentId": "b-1", "type": "task-cancel", "payload": { "taskId": "t-1" },
        });
        for member in ["fromAgentId", "toAgentId", "type", "payload"] {
            let mut body = whole.clone();
            body.as_object_mut().unwrap().remove(member);
            let problem = read(&body).unwrap_err();
            assert_eq!(
                (problem.reason, problem.message),
                (Reason::InvalidField, format!("{member} is required"))
            );
        }
        let part = json!({ "taskId": "t", "seq": 1, "artifact": { "parts": [] } });
        for (kind, payload, field) in [
            ("task-request", json!({}), "payload.description"),
            ("task-cancel", json!({ "reason": "missing field `x`" }), "payload.taskId"),
            ("task-update", part, "payload.artifact.artifactId"),
        ] {
            let mut body = whole.clone();
            (body["type"], body["payload"]) = (json!(kind), payload.clone());
            for payload in [payload.clone(), Value::String(payload.to_string())] {
                body["payload"] = payload;
                let problem = read(&body).unwrap_err();
                assert_eq!(problem.message, format!("{field} is required"));
                assert!(problem.metadata.contains(&("field", field.to_owned())), "{problem:?}");
            }
        }
        for member in [
            "messageId",
            "timestamp",
            "conversationId",
            "threadId",
            "inReplyTo",
            "replyTo",
            "expiresAt",
            "path",
        ] {
            let mut body = whole.clone();
            body[member] = json!(7);
            let problem = read(&body).unwrap_err();
            assert!(problem.message.starts_with(&format!("{member} is invalid")), "{}", problem.message);
        }
    }
}
