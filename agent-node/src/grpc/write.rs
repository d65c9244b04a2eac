//! What comes of a call, as protobuf.

mod asked;
mod card;
mod value;

use super::wire;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::{
    a2a::{
        event::{ArtifactUpdate, SendMessageResponse, StatusUpdate, StreamResponse},
        message::{Message, Role},
        part::{Artifact, Content, Part},
        push::{Authentication, PushConfig},
        request::{PushConfigPage, TaskPage},
        task::{Task, TaskState, TaskStatus},
    },
    time::WallTime,
};
use value::{structure, value};

/// What an `int32` can say of `count`.
fn int32(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn all<A, B: From<A>>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(B::from).collect()
}

impl From<SendMessageResponse> for wire::SendMessageResponse {
    fn from(response: SendMessageResponse) -> Self {
        use wire::send_message_response::Payload;
        Self {
            payload: Some(match response {
                SendMessageResponse::Task(task) => Payload::Task((*task).into()),
                SendMessageResponse::Message(message) => Payload::Message((*message).into()),
            }),
        }
    }
}

impl From<StreamResponse> for wire::StreamResponse {
    fn from(event: StreamResponse) -> Self {
        use wire::stream_response::Payload;
        Self {
            payload: Some(match event {
                StreamResponse::Task(task) => Payload::Task((*task).into()),
                StreamResponse::Message(message) => Payload::Message((*message).into()),
                StreamResponse::StatusUpdate(update) => Payload::StatusUpdate((*update).into()),
                StreamResponse::ArtifactUpdate(update) => Payload::ArtifactUpdate((*update).into()),
            }),
        }
    }
}

impl From<StatusUpdate> for wire::TaskStatusUpdateEvent {
    fn from(update: StatusUpdate) -> Self {
        Self {
            task_id: update.task_id,
            context_id: update.context_id,
            status: Some(update.status.into()),
            metadata: structure(update.metadata),
        }
    }
}

impl From<ArtifactUpdate> for wire::TaskArtifactUpdateEvent {
    fn from(update: ArtifactUpdate) -> Self {
        Self {
            task_id: update.task_id,
            context_id: update.context_id,
            artifact: Some(update.artifact.into()),
            append: update.append,
            last_chunk: update.last_chunk,
            metadata: structure(update.metadata),
        }
    }
}

impl From<Task> for wire::Task {
    fn from(task: Task) -> Self {
        Self {
            id: task.id,
            context_id: task.context_id,
            status: Some(task.status.into()),
            artifacts: all(task.artifacts),
            history: all(task.history),
            metadata: structure(task.metadata),
        }
    }
}

impl From<TaskStatus> for wire::TaskStatus {
    fn from(status: TaskStatus) -> Self {
        Self {
            state: wire::TaskState::from(status.state).into(),
            message: status.message.map(Into::into),
            timestamp: status.timestamp.map(timestamp),
        }
    }
}

impl From<TaskState> for wire::TaskState {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Submitted => Self::Submitted,
            TaskState::Working => Self::Working,
            TaskState::Completed => Self::Completed,
            TaskState::Failed => Self::Failed,
            TaskState::Canceled => Self::Canceled,
            TaskState::InputRequired => Self::InputRequired,
            TaskState::Rejected => Self::Rejected,
            TaskState::AuthRequired => Self::AuthRequired,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "less than a thousand")]
fn timestamp(time: WallTime) -> prost_types::Timestamp {
    let nanos = time.0.rem_euclid(1_000) as i32 * 1_000_000;
    prost_types::Timestamp { seconds: time.0.div_euclid(1_000), nanos }
}

impl From<Message> for wire::Message {
    fn from(message: Message) -> Self {
        let role = match message.role {
            Role::User => wire::Role::User,
            Role::Agent => wire::Role::Agent,
        };
        Self {
            message_id: message.message_id,
            context_id: message.context_id.unwrap_or_default(),
            task_id: message.task_id.unwrap_or_default(),
            role: role.into(),
            parts: all(message.parts),
            metadata: structure(message.metadata),
            extensions: message.extensions,
            reference_task_ids: message.reference_task_ids,
        }
    }
}

impl From<Part> for wire::Part {
    fn from(part: Part) -> Self {
        use wire::part::Content as Wire;
        let content = match part.content {
            Content::Text(text) => Wire::Text(text),
            // What is no base64 after all goes as it is, rather than not at all.
            Content::Raw(text) => Wire::Raw(STANDARD.decode(&text).unwrap_or_else(|_| text.into_bytes())),
            Content::Url(url) => Wire::Url(url),
            Content::Data(data) => Wire::Data(value(data)),
        };
        Self {
            content: Some(content),
            filename: part.filename.unwrap_or_default(),
            media_type: part.media_type.unwrap_or_default(),
            metadata: structure(part.metadata),
        }
    }
}

impl From<Artifact> for wire::Artifact {
    fn from(artifact: Artifact) -> Self {
        Self {
            artifact_id: artifact.artifact_id,
            name: artifact.name.unwrap_or_default(),
            description: artifact.description.unwrap_or_default(),
            parts: all(artifact.parts),
            metadata: structure(artifact.metadata),
            extensions: artifact.extensions,
        }
    }
}

impl From<TaskPage> for wire::ListTasksResponse {
    fn from(page: TaskPage) -> Self {
        Self {
            tasks: all(page.tasks),
            next_page_token: page.next_page_token,
            page_size: int32(page.page_size),
            total_size: int32(page.total_size),
        }
    }
}

impl From<PushConfigPage> for wire::ListTaskPushNotificationConfigsResponse {
    fn from(page: PushConfigPage) -> Self {
        Self { configs: all(page.configs), next_page_token: page.next_page_token }
    }
}

impl From<PushConfig> for wire::TaskPushNotificationConfig {
    fn from(config: PushConfig) -> Self {
        Self {
            tenant: config.tenant.unwrap_or_default(),
            id: config.id.unwrap_or_default(),
            task_id: config.task_id.unwrap_or_default(),
            url: config.url,
            token: config.token.unwrap_or_default(),
            authentication: config.authentication.map(Into::into),
        }
    }
}

impl From<Authentication> for wire::AuthenticationInfo {
    fn from(with: Authentication) -> Self {
        Self { scheme: with.scheme, credentials: with.credentials.unwrap_or_default() }
    }
}
