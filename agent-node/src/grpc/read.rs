//! What a call asks, as the ProtoJSON of the same message: so that all bindings read, check and refuse alike.

mod heard;
mod value;

use super::wire;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::a2a::json::Invalid;
use serde_json::Value;
use value::{structure, timestamp};

/// A message that ProtoJSON can hold.
pub(crate) trait Read {
    /// The same as JSON; refused is only what JSON can't say.
    fn read(self) -> Result<Value, Invalid>;
}

/// A member, if it is there.
type Member = (&'static str, Option<Value>);

fn object(members: impl IntoIterator<Item = Member>) -> Value {
    let there = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect())
}

fn text(name: &'static str, text: String) -> Member {
    (name, Some(text).filter(|text| !text.is_empty()).map(Value::String))
}

fn texts(name: &'static str, texts: Vec<String>) -> Member {
    (name, Some(texts.into()))
}

fn number(name: &'static str, number: Option<i32>) -> Member {
    (name, number.map(Value::from))
}

fn message<T: Read>(name: &'static str, message: Option<T>) -> Result<Member, Invalid> {
    let read = message.map(T::read).transpose();
    Ok((name, read.map_err(|invalid| invalid.under(name))?))
}

fn list<T: Read>(name: &'static str, items: Vec<T>) -> Result<Member, Invalid> {
    let read =
        |(at, item): (usize, T)| item.read().map_err(|invalid| invalid.under(&format!("{name}[{at}]")));
    let items: Result<Vec<_>, _> = items.into_iter().enumerate().map(read).collect();
    Ok((name, Some(Value::Array(items?))))
}

impl Read for wire::SendMessageRequest {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("tenant", self.tenant),
            message("message", self.message)?,
            message("configuration", self.configuration)?,
            structure("metadata", self.metadata)?,
        ]))
    }
}

impl Read for wire::SendMessageConfiguration {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            texts("acceptedOutputModes", self.accepted_output_modes),
            message("taskPushNotificationConfig", self.task_push_notification_config)?,
            number("historyLength", self.history_length),
            ("returnImmediately", Some(self.return_immediately.into())),
        ]))
    }
}

impl Read for wire::Message {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("messageId", self.message_id),
            text("contextId", self.context_id),
            text("taskId", self.task_id),
            number("role", Some(self.role)),
            list("parts", self.parts)?,
            structure("metadata", self.metadata)?,
            texts("extensions", self.extensions),
            texts("referenceTaskIds", self.reference_task_ids),
        ]))
    }
}

impl Read for wire::Part {
    fn read(self) -> Result<Value, Invalid> {
        use wire::part::Content;
        let content = match self.content {
            None => ("text", None),
            Some(Content::Text(text)) => ("text", Some(text.into())),
            Some(Content::Raw(bytes)) => ("raw", Some(STANDARD.encode(bytes).into())),
            Some(Content::Url(url)) => ("url", Some(url.into())),
            Some(Content::Data(data)) => {
                ("data", Some(value::json(data).map_err(|invalid| invalid.under("data"))?))
            }
        };
        Ok(object([
            content,
            text("filename", self.filename),
            text("mediaType", self.media_type),
            structure("metadata", self.metadata)?,
        ]))
    }
}

impl Read for wire::GetTaskRequest {
    fn read(self) -> Result<Value, Invalid> {
        let length = number("historyLength", self.history_length);
        Ok(object([text("tenant", self.tenant), text("id", self.id), length]))
    }
}

impl Read for wire::ListTasksRequest {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("tenant", self.tenant),
            text("contextId", self.context_id),
            number("status", Some(self.status)),
            number("pageSize", self.page_size),
            text("pageToken", self.page_token),
            number("historyLength", self.history_length),
            timestamp("statusTimestampAfter", self.status_timestamp_after)?,
            ("includeArtifacts", self.include_artifacts.map(Value::from)),
        ]))
    }
}

impl Read for wire::CancelTaskRequest {
    fn read(self) -> Result<Value, Invalid> {
        let metadata = structure("metadata", self.metadata)?;
        Ok(object([text("tenant", self.tenant), text("id", self.id), metadata]))
    }
}

impl Read for wire::SubscribeToTaskRequest {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([text("tenant", self.tenant), text("id", self.id)]))
    }
}

impl Read for wire::TaskPushNotificationConfig {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("tenant", self.tenant),
            text("id", self.id),
            text("taskId", self.task_id),
            text("url", self.url),
            text("token", self.token),
            message("authentication", self.authentication)?,
        ]))
    }
}

impl Read for wire::AuthenticationInfo {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([text("scheme", self.scheme), text("credentials", self.credentials)]))
    }
}

impl Read for wire::GetTaskPushNotificationConfigRequest {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([text("tenant", self.tenant), text("taskId", self.task_id), text("id", self.id)]))
    }
}

impl Read for wire::DeleteTaskPushNotificationConfigRequest {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([text("tenant", self.tenant), text("taskId", self.task_id), text("id", self.id)]))
    }
}

impl Read for wire::ListTaskPushNotificationConfigsRequest {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("tenant", self.tenant),
            text("taskId", self.task_id),
            number("pageSize", Some(self.page_size)),
            text("pageToken", self.page_token),
        ]))
    }
}

impl Read for wire::GetExtendedAgentCardRequest {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([text("tenant", self.tenant)]))
    }
}
