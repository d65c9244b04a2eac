//! Performs a request of any binding: each operation, and the form of its result.

use super::{
    call::A2aCall, facade::AgentFacade, files, send, stream::TaskEventStream, task_operations, webhooks,
};
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        event::SendMessageResponse,
        hitl::HITL_EXTENSION,
        push::PushConfig,
        request::{A2aOperation, PushConfigPage, Request, TaskPage},
        task::A2aTask,
    },
    principal::Principal,
    task::EXTENSION,
};
use serde::Serialize;
use serde_json::Value;

/// The successful result of a request.
pub(crate) enum A2aResponse {
    Single(Box<OperationResult>),
    Stream(Box<TaskEventStream>),
}

/// The result of a unary operation, which serializes to its JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum OperationResult {
    Message(SendMessageResponse),
    Task(A2aTask),
    Tasks(TaskPage),
    Webhook(PushConfig),
    Webhooks(PushConfigPage),
    Card(Value),
    Done {},
}

impl A2aCall {
    /// Performs `operation`. Returns the result and the value of the extensions header.
    pub(crate) async fn perform(
        mut self,
        operation: A2aOperation,
        params: Value,
    ) -> Result<(A2aResponse, Option<String>), A2aError> {
        // The tenant decides which agent's policy applies.
        self.select_tenant(params.get("tenant").and_then(Value::as_str).filter(|tenant| !tenant.is_empty()))?;
        let facade = self.local.facade.get();
        facade.policy.check(operation, &self.extensions, facade.schemes)?;
        let activated_extensions = activated_extensions(&self.extensions, &facade);
        if !matches!(operation, A2aOperation::SendMessage | A2aOperation::SendStreamingMessage) {
            files::check_left(&self)?;
        }
        Ok((self.answer(Request::read(operation, params)?).await?, activated_extensions))
    }

    async fn answer(self, request: Request) -> Result<A2aResponse, A2aError> {
        let shown = self.local.shown_files();
        let answer = match request {
            Request::SendMessage(request) => {
                let mut answer = send::send(&self, request).await?;
                shown.show_answer(&mut answer).await;
                OperationResult::Message(answer)
            }
            Request::SendStreamingMessage(request) => {
                return Ok(A2aResponse::Stream(Box::new(send::stream(&self, request).await?)));
            }
            Request::GetTask(request) => {
                let mut task = task_operations::get(&self, &request)?;
                shown.show_task(&mut task).await;
                OperationResult::Task(task)
            }
            Request::ListTasks(request) => {
                let mut page = task_operations::list(&self, request).await?;
                page.tasks.iter_mut().for_each(|task| shown.link_task(task));
                OperationResult::Tasks(page)
            }
            Request::CancelTask(request) => {
                let mut task = task_operations::cancel(&self, request).await?;
                shown.show_task(&mut task).await;
                OperationResult::Task(task)
            }
            Request::SubscribeToTask(request) => {
                return Ok(A2aResponse::Stream(Box::new(task_operations::subscribe(&self, &request)?)));
            }
            Request::CreateTaskPushNotificationConfig(config) => {
                OperationResult::Webhook(webhooks::create(&self, config).await?)
            }
            Request::GetTaskPushNotificationConfig(name) => {
                OperationResult::Webhook(webhooks::get(&self, &name)?)
            }
            Request::ListTaskPushNotificationConfigs(request) => {
                OperationResult::Webhooks(webhooks::list(&self, &request)?)
            }
            Request::DeleteTaskPushNotificationConfig(name) => {
                webhooks::delete(&self, name).await?;
                OperationResult::Done {}
            }
            Request::GetExtendedAgentCard(_) => {
                if self.by == Principal::local_user() {
                    let message = "the extended card is for callers with a credential of a declared scheme";
                    return Err(A2aError::new(A2aErrorKind::Unauthenticated, message));
                }
                OperationResult::Card(self.local.facade.get().extended.clone())
            }
        };
        Ok(A2aResponse::Single(Box::new(answer)))
    }
}

/// The requested extensions that this agent supports, for the response header.
fn activated_extensions(extensions: &[String], facade: &AgentFacade) -> Option<String> {
    let is_spoken = |uri: &&String| {
        [EXTENSION, HITL_EXTENSION].contains(&uri.as_str()) || facade.policy.requires.contains(uri)
    };
    let activated_extensions: Vec<_> = extensions.iter().filter(is_spoken).map(String::as_str).collect();
    (!activated_extensions.is_empty()).then(|| activated_extensions.join(", "))
}
