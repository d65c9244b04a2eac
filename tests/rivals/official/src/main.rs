//! An echo agent on the official Rust server with its own in-memory store:
//! `official PORT EVENTS`, where EVENTS is 1 (the finished task at once) or 3 (task, artifact, status; what the mesh's echo says).

use a2a::{
    A2AError, Artifact, Message, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent,
};
use a2a_server::{AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore, jsonrpc::jsonrpc_router};
use futures::stream::BoxStream;
use std::sync::Arc;

struct Echo {
    events: usize,
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus { state, message: None, timestamp: Some(chrono::Utc::now()) }
}

fn answer(message: Option<&Message>) -> Artifact {
    Artifact {
        artifact_id: "result".to_owned(),
        name: Some("result".to_owned()),
        description: None,
        parts: message.map(|message| message.parts.clone()).unwrap_or_else(|| vec![Part::text("")]),
        metadata: None,
        extensions: None,
    }
}

impl AgentExecutor for Echo {
    fn execute(&self, ctx: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        let (task_id, context_id) = ctx.task_info();
        let artifact = answer(ctx.message.as_ref());
        let task = |state, artifacts| Task {
            id: task_id.clone(),
            context_id: context_id.clone(),
            status: status(state),
            artifacts,
            history: ctx.message.clone().map(|message| vec![message]),
            metadata: None,
        };
        let events = match self.events {
            1 => vec![StreamResponse::Task(task(TaskState::Completed, Some(vec![artifact])))],
            _ => vec![
                StreamResponse::Task(task(TaskState::Working, None)),
                StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                    task_id: task_id.clone(),
                    context_id: context_id.clone(),
                    artifact,
                    append: None,
                    last_chunk: Some(true),
                    metadata: None,
                }),
                StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                    task_id: task_id.clone(),
                    context_id: context_id.clone(),
                    status: status(TaskState::Completed),
                    metadata: None,
                }),
            ],
        };
        Box::pin(futures::stream::iter(events.into_iter().map(Ok)))
    }

    fn cancel(&self, _: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        Box::pin(futures::stream::empty())
    }
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().and_then(|port| port.parse().ok()).expect("a port");
    let events = args.next().and_then(|events| events.parse().ok()).unwrap_or(3);
    let handler = DefaultRequestHandler::new(Echo { events }, InMemoryTaskStore::new());
    let router = axum::Router::new().nest("/a2a/rpc", jsonrpc_router(Arc::new(handler)));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    axum::serve(listener, router).await.expect("it serves");
}
