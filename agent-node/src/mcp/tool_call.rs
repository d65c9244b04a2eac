//! A call of a tool, and what comes of it.

use super::{api::MeshApi, task_output::TaskOutput};
use protocol::problem::{Problem, Reason};
use rmcp::{
    RoleServer,
    model::{CallToolResponse, CallToolResult, ContentBlock, InputRequiredResult, InputResponses},
    service::RequestContext,
};
use serde::Serialize;
use serde_json::Value;
use transport::http_client::is_unreachable;

pub(super) struct McpToolCall<'a> {
    pub(super) api: &'a MeshApi,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// The client's answers, if it repeats a call that asked for them.
    pub(super) input_responses: Option<InputResponses>,
    /// What the result that asked for them said.
    pub(super) request_state: Option<String>,
    /// How many progress notifications were sent.
    pub(super) progress: f64,
}

pub(super) enum ToolOutcome {
    /// A JSON object that fits the tool's output schema.
    Data(Value),
    Task(Box<TaskOutput>),
    /// It needs answers of the person.
    InputRequired(InputRequiredResult),
    /// The handle of a task, for a client of the tasks extension.
    Created(rmcp::model::Task),
}

impl ToolOutcome {
    pub(super) fn data(value: &impl Serialize) -> Result<Self, Problem> {
        let invalid = |error: serde_json::Error| {
            Problem::new(Reason::Internal, format!("a result can't be written: {error}"))
        };
        serde_json::to_value(value).map(Self::Data).map_err(invalid)
    }
}

pub(super) fn response(outcome: Result<ToolOutcome, Problem>) -> CallToolResponse {
    match outcome {
        Ok(ToolOutcome::Data(value)) => CallToolResult::structured(value).into(),
        Ok(ToolOutcome::Task(task)) => task_result(&task).into(),
        Ok(ToolOutcome::InputRequired(result)) => result.into(),
        Ok(ToolOutcome::Created(task)) => rmcp::model::CreateTaskResult::new(task).into(),
        Err(problem) => {
            let hint = match is_unreachable(&problem) {
                true => "; is the mesh running? `mesh up` starts one, --url (MESH_URL) says where it is",
                false => "",
            };
            let text = format!("{} ({}){hint}", problem.message, problem.reason.code());
            CallToolResult::error(vec![ContentBlock::text(text)]).into()
        }
    }
}

/// A task as the result of a tool; an error if the task has failed.
pub(super) fn task_result(task: &TaskOutput) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(task.to_text())]);
    result.structured_content = serde_json::to_value(task).ok();
    result.is_error = Some(["failed", "rejected"].contains(&task.state.as_str()));
    result
}
