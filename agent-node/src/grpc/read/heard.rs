//! What a foreign agent answers, as ProtoJSON.

use super::{Member, Read, list, message, number, object, structure, text, texts, timestamp};
use crate::grpc::wire;
use protocol::a2a::json::Invalid;
use serde_json::Value;

fn flag(name: &'static str, flag: bool) -> Member {
    (name, Some(flag.into()))
}

impl Read for wire::SendMessageResponse {
    fn read(self) -> Result<Value, Invalid> {
        use wire::send_message_response::Payload;
        Ok(object([match self.payload {
            None => ("task", None),
            Some(Payload::Task(task)) => message("task", Some(task))?,
            Some(Payload::Message(said)) => message("message", Some(said))?,
        }]))
    }
}

impl Read for wire::StreamResponse {
    fn read(self) -> Result<Value, Invalid> {
        use wire::stream_response::Payload;
        Ok(object([match self.payload {
            None => ("task", None),
            Some(Payload::Task(task)) => message("task", Some(task))?,
            Some(Payload::Message(said)) => message("message", Some(said))?,
            Some(Payload::StatusUpdate(update)) => message("statusUpdate", Some(update))?,
            Some(Payload::ArtifactUpdate(update)) => message("artifactUpdate", Some(update))?,
        }]))
    }
}

impl Read for wire::Task {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("id", self.id),
            text("contextId", self.context_id),
            message("status", self.status)?,
            list("artifacts", self.artifacts)?,
            list("history", self.history)?,
            structure("metadata", self.metadata)?,
        ]))
    }
}

impl Read for wire::TaskStatus {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            number("state", Some(self.state)),
            message("message", self.message)?,
            timestamp("timestamp", self.timestamp)?,
        ]))
    }
}

impl Read for wire::Artifact {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("artifactId", self.artifact_id),
            text("name", self.name),
            text("description", self.description),
            list("parts", self.parts)?,
            structure("metadata", self.metadata)?,
            texts("extensions", self.extensions),
        ]))
    }
}

impl Read for wire::TaskStatusUpdateEvent {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("taskId", self.task_id),
            text("contextId", self.context_id),
            message("status", self.status)?,
            structure("metadata", self.metadata)?,
        ]))
    }
}

impl Read for wire::TaskArtifactUpdateEvent {
    fn read(self) -> Result<Value, Invalid> {
        Ok(object([
            text("taskId", self.task_id),
            text("contextId", self.context_id),
            message("artifact", self.artifact)?,
            flag("append", self.append),
            flag("lastChunk", self.last_chunk),
            structure("metadata", self.metadata)?,
        ]))
    }
}
