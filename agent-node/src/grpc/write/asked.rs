//! What is asked of a foreign agent, as protobuf.

use super::{int32, structure, wire};
use protocol::a2a::request::{CancelTask, Configuration, GetTask, SendMessage, SubscribeToTask};

impl From<SendMessage> for wire::SendMessageRequest {
    fn from(request: SendMessage) -> Self {
        Self {
            tenant: request.tenant.unwrap_or_default(),
            message: Some(request.message.into()),
            configuration: request.configuration.map(Into::into),
            metadata: structure(request.metadata),
        }
    }
}

impl From<Configuration> for wire::SendMessageConfiguration {
    fn from(configuration: Configuration) -> Self {
        Self {
            accepted_output_modes: configuration.accepted_output_modes,
            task_push_notification_config: configuration.task_push_notification_config.map(Into::into),
            history_length: configuration.history_length.map(int32),
            return_immediately: configuration.return_immediately,
        }
    }
}

impl From<GetTask> for wire::GetTaskRequest {
    fn from(request: GetTask) -> Self {
        Self {
            tenant: request.tenant.unwrap_or_default(),
            id: request.id,
            history_length: request.history_length.map(int32),
        }
    }
}

impl From<CancelTask> for wire::CancelTaskRequest {
    fn from(request: CancelTask) -> Self {
        Self {
            tenant: request.tenant.unwrap_or_default(),
            id: request.id,
            metadata: structure(request.metadata),
        }
    }
}

impl From<SubscribeToTask> for wire::SubscribeToTaskRequest {
    fn from(request: SubscribeToTask) -> Self {
        Self { tenant: request.tenant.unwrap_or_default(), id: request.id }
    }
}
