//! The eleven operations and what each is asked with (A2A §3.1, §5.3).

use super::{
    json::{Fields, FromProtoJson, InvalidField},
    limits::MAX_PAGE,
    message::{Message, Role},
    push::PushConfig,
    task::{A2aTask, TaskState, state_if_any},
};
use crate::time::WallTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($request:ty);)*) => {
        /// An operation; its name is the JSON-RPC method and the gRPC one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum A2aOperation { $($(#[$doc])* $name,)* }

        /// What is asked.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Request { $($(#[$doc])* $name($request),)* }

        impl A2aOperation {
            /// Every operation.
            pub const ALL: &'static [A2aOperation] = &[$(A2aOperation::$name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The operation of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $(stringify!($name) => Some(Self::$name),)* _ => None }
            }
        }

        impl Request {
            /// What `params` ask of `operation`, or which member breaks the rules.
            pub fn read(operation: A2aOperation, params: Value) -> Result<Self, InvalidField> {
                Ok(match operation { $(A2aOperation::$name => Self::$name(FromProtoJson::from_proto(params)?),)* })
            }

            /// Which operation it asks for.
            pub fn operation(&self) -> A2aOperation {
                match self { $(Self::$name(_) => A2aOperation::$name,)* }
            }

            /// The tenant it is for.
            pub fn tenant(&self) -> Option<&str> {
                match self { $(Self::$name(request) => request.tenant.as_deref(),)* }
            }
        }
    };
}

operations! {
    /// Send a message, hear the answer.
    SendMessage(SendMessage);
    /// Send a message, hear all that follows.
    SendStreamingMessage(SendMessage);
    /// Look at a task.
    GetTask(GetTask);
    ListTasks(ListTasks);
    CancelTask(CancelTask);
    /// Hear what follows in a task.
    SubscribeToTask(SubscribeToTask);
    /// Add or replace a webhook.
    CreateTaskPushNotificationConfig(PushConfig);
    /// Look at a webhook.
    GetTaskPushNotificationConfig(PushConfigName);
    /// Look at all webhooks of a task.
    ListTaskPushNotificationConfigs(ListPushConfigs);
    DeleteTaskPushNotificationConfig(PushConfigName);
    /// See the card that is not for everyone.
    GetExtendedAgentCard(GetExtendedAgentCard);
}

impl A2aOperation {
    /// Whether it is answered with a stream.
    pub fn streams(self) -> bool {
        matches!(self, Self::SendStreamingMessage | Self::SubscribeToTask)
    }

    /// Whether it processes a message, and so needs the extensions that an agent requires (A2A §3.3.4).
    pub fn sends(self) -> bool {
        matches!(self, Self::SendMessage | Self::SendStreamingMessage)
    }

    /// Whether it is about webhooks.
    pub fn pushes(self) -> bool {
        match self {
            Self::CreateTaskPushNotificationConfig
            | Self::GetTaskPushNotificationConfig
            | Self::ListTaskPushNotificationConfigs
            | Self::DeleteTaskPushNotificationConfig => true,
            Self::SendMessage
            | Self::SendStreamingMessage
            | Self::GetTask
            | Self::ListTasks
            | Self::CancelTask
            | Self::SubscribeToTask
            | Self::GetExtendedAgentCard => false,
        }
    }
}

/// A message for an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// Whom it is for, where several share an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub message: Message,
    /// How the answer is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<SendConfiguration>,
    /// Metadata of the client.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// How an answer is wanted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SendConfiguration {
    /// Media types the client can use; empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted_output_modes: Vec<String>,
    /// A webhook for the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_push_notification_config: Option<PushConfig>,
    /// At most so many messages of history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<usize>,
    /// Answer once the task is there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub return_immediately: bool,
}

/// Which task, and how much of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTask {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub id: String,
    /// At most so many messages of history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_length: Option<usize>,
}

/// Which tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasks {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Those of one context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// Those in one state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskState>,
    /// So many at once, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// Where the page before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_token: Option<String>,
    /// At most so many messages of history, each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<usize>,
    /// Those whose status is from then or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_timestamp_after: Option<WallTime>,
    /// With what they have produced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_artifacts: bool,
}

/// A page of tasks; every member is always there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPage {
    /// The newest status first.
    #[serde(default)]
    pub tasks: Vec<A2aTask>,
    /// What to ask the next page with; empty on the last.
    #[serde(default)]
    pub next_page_token: String,
    /// So many at once.
    #[serde(default)]
    pub page_size: usize,
    /// So many in all.
    #[serde(default)]
    pub total_size: usize,
}

/// Which task is to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CancelTask {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub id: String,
    /// Metadata of the client.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Subscribes to the events of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubscribeToTask {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub id: String,
}

/// Which webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushConfigName {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub task_id: String,
    pub id: String,
}

/// Whose webhooks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPushConfigs {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub task_id: String,
    /// So many at once; 0 means as many as the server likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_token: Option<String>,
}

/// A page of webhooks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfigPage {
    /// In the order of their ids.
    pub configs: Vec<PushConfig>,
    /// What to ask the next page with; empty on the last.
    pub next_page_token: String,
}

/// Whose card.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetExtendedAgentCard {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

fn length(fields: &mut Fields, name: &str) -> Result<Option<usize>, InvalidField> {
    let length = fields.int32(name)?;
    let negative = || InvalidField::new(name, "must not be negative");
    length.map(|length| usize::try_from(length).map_err(|_| negative())).transpose()
}

impl FromProtoJson for SendConfiguration {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            accepted_output_modes: fields.texts("acceptedOutputModes")?,
            task_push_notification_config: fields.message("taskPushNotificationConfig")?,
            history_length: length(&mut fields, "historyLength")?,
            return_immediately: fields.flag("returnImmediately")?.unwrap_or_default(),
        })
    }
}

impl FromProtoJson for SendMessage {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        let message: Message = fields.required("message")?;
        if message.role != Role::User {
            return Err(InvalidField::new("message.role", "must be ROLE_USER: it comes from a client"));
        }
        Ok(Self {
            tenant: fields.text("tenant")?,
            message,
            configuration: fields.message("configuration")?,
            metadata: fields.object("metadata")?,
        })
    }
}

impl FromProtoJson for GetTask {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            tenant: fields.text("tenant")?,
            id: fields.required_text("id")?,
            history_length: length(&mut fields, "historyLength")?,
        })
    }
}

impl FromProtoJson for ListTasks {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        let status = fields.any("status")?.map(|value| state_if_any(&value));
        let page_size = length(&mut fields, "pageSize")?;
        if page_size.is_some_and(|size| !(1..=MAX_PAGE).contains(&size)) {
            return Err(InvalidField::new("pageSize", format!("must be 1 to {MAX_PAGE}")));
        }
        Ok(Self {
            tenant: fields.text("tenant")?,
            context_id: fields.text("contextId")?,
            status: status.transpose().map_err(|invalid| invalid.under("status"))?.flatten(),
            page_size,
            page_token: fields.text("pageToken")?,
            history_length: length(&mut fields, "historyLength")?,
            status_timestamp_after: fields.time_or_later("statusTimestampAfter")?,
            include_artifacts: fields.flag("includeArtifacts")?.unwrap_or_default(),
        })
    }
}

impl FromProtoJson for CancelTask {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            tenant: fields.text("tenant")?,
            id: fields.required_text("id")?,
            metadata: fields.object("metadata")?,
        })
    }
}

impl FromProtoJson for SubscribeToTask {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self { tenant: fields.text("tenant")?, id: fields.required_text("id")? })
    }
}

impl FromProtoJson for PushConfigName {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            tenant: fields.text("tenant")?,
            task_id: fields.required_text("taskId")?,
            id: fields.required_text("id")?,
        })
    }
}

impl FromProtoJson for ListPushConfigs {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            tenant: fields.text("tenant")?,
            task_id: fields.required_text("taskId")?,
            page_size: length(&mut fields, "pageSize")?,
            page_token: fields.text("pageToken")?,
        })
    }
}

impl FromProtoJson for GetExtendedAgentCard {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        Ok(Self { tenant: Fields::of(value)?.text("tenant")? })
    }
}
