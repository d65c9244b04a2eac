//! The tools: their names, descriptions and schemas, and which function performs them.

mod agents;
mod artifacts;
mod claims;
mod signals;
mod spaces;
mod tasks;

use super::{
    api::MeshApi,
    task_output::TaskOutput,
    tool_call::{McpToolCall, ToolOutcome},
};
use protocol::{
    a2a::task::A2aTask,
    problem::{Problem, Reason},
};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// What a call of a tool does, for clients that ask before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolEffect {
    Reads,
    Adds,
    Ends,
}

pub(super) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    use ToolEffect::{Adds, Ends, Reads};
    vec![
        tool::<agents::ListAgentsArguments, agents::AgentListOutput>(
            "list_agents",
            Reads,
            "Lists the agents of the mesh with their skills.",
        ),
        tool::<tasks::SendTaskArguments, TaskOutput>(
            "send_task",
            Adds,
            "Gives a task to an agent, or to whoever has a capability, and waits for the result. If it is not done in time, \
             the result has the task's id for get_task.",
        ),
        tool::<tasks::GetTaskArguments, TaskOutput>(
            "get_task",
            Reads,
            "Shows a task, or waits until it ends or asks a question.",
        ),
        tool::<tasks::ListTasksArguments, tasks::TaskList>(
            "list_tasks",
            Reads,
            "Lists your tasks, the newest first.",
        ),
        tool::<tasks::CancelTaskArguments, TaskOutput>(
            "cancel_task",
            Ends,
            "Ends a task at every agent that works on it.",
        ),
        tool::<tasks::Inbox, tasks::InboxList>(
            "inbox",
            Reads,
            "Lists the questions of your tasks that wait for an answer.",
        ),
        tool::<tasks::AnswerQuestionArguments, TaskOutput>(
            "answer_question",
            Adds,
            "Answers a question of a task. To approve something, the person is asked first.",
        ),
        tool::<signals::ReadSignals, signals::SignalList>(
            "read_signals",
            Reads,
            "Reads signals of the blackboard, or waits for new ones. task.available offers an open task.",
        ),
        tool::<signals::PublishSignal, signals::PublishedSignalOutput>(
            "publish_signal",
            Adds,
            "Publishes a signal on the blackboard. With type task.available it offers an open task to every agent.",
        ),
        tool::<claims::ClaimOpenTask, claims::ClaimOutput>(
            "claim_open_task",
            Adds,
            "Claims an open task of the blackboard for you. Renew it before its lease is over.",
        ),
        tool::<claims::UpdateClaim, claims::ClaimOutput>(
            "update_claim",
            Adds,
            "Renews, completes, fails or releases your claim on an open task.",
        ),
        tool::<artifacts::ReadArtifact, artifacts::ArtifactPiece>(
            "read_artifact",
            Reads,
            "Reads a piece of an artifact, of a task or by its digest.",
        ),
        tool::<artifacts::PutArtifact, artifacts::StoredContent>(
            "put_artifact",
            Adds,
            "Stores content and returns its digest, by which a task may refer to it.",
        ),
        tool::<spaces::ListEntries, spaces::EntryListOutput>(
            "list_entries",
            Reads,
            "Lists findings, proposals, decisions and memory of a space that you may read, the newest first. Active decisions \
             bind the team.",
        ),
        tool::<spaces::ReadEntry, spaces::EntryOutput>(
            "read_entry",
            Reads,
            "Reads one entry of a space with its whole content.",
        ),
        tool::<spaces::PostEntry, spaces::PostedEntryOutput>(
            "post_entry",
            Adds,
            "Posts a finding or a memory to a space, or proposes something to decide or to remember.",
        ),
    ]
});

/// Performs the tool `name`; `None` if there is none.
pub(super) async fn perform(
    name: &str,
    arguments: Option<JsonObject>,
    call: &mut McpToolCall<'_>,
) -> Option<Result<ToolOutcome, Problem>> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    macro_rules! run {
        ($function:path) => {
            match parse(arguments) {
                Ok(arguments) => $function(call, arguments).await,
                Err(problem) => Err(problem),
            }
        };
    }
    Some(match name {
        "list_agents" => run!(agents::list),
        "send_task" => run!(tasks::send),
        "get_task" => run!(tasks::get),
        "list_tasks" => run!(tasks::list),
        "cancel_task" => run!(tasks::cancel),
        "inbox" => run!(tasks::inbox),
        "answer_question" => run!(tasks::answer),
        "read_signals" => run!(signals::read),
        "publish_signal" => run!(signals::publish),
        "claim_open_task" => run!(claims::claim),
        "update_claim" => run!(claims::update),
        "read_artifact" => run!(artifacts::read),
        "put_artifact" => run!(artifacts::put),
        "list_entries" => run!(spaces::list),
        "read_entry" => run!(spaces::read),
        "post_entry" => run!(spaces::post),
        _ => return None,
    })
}

pub(super) async fn cancel_task(api: &MeshApi, task: &str) -> Result<A2aTask, Problem> {
    tasks::cancel_task(api, task, None).await
}

/// The arguments of a tool. A problem names the wrong one.
fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        let message = match path.as_str() {
            "." => error.inner().to_string(),
            path => format!("{path}: {}", error.inner()),
        };
        invalid(message)
    })
}

fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(Reason::InvalidField, message)
}

fn tool<A: JsonSchema, O: JsonSchema>(
    name: &'static str,
    effect: ToolEffect,
    description: &'static str,
) -> Tool {
    let input = schema::<A>(SchemaSettings::draft2020_12());
    let mut tool = Tool::new(name, description, input);
    tool.output_schema = Some(schema::<O>(SchemaSettings::draft2020_12().for_serialize()));
    let annotations = ToolAnnotations::new().read_only(effect == ToolEffect::Reads);
    tool.annotations = Some(match effect {
        ToolEffect::Reads => annotations,
        ToolEffect::Adds | ToolEffect::Ends => annotations.destructive(effect == ToolEffect::Ends),
    });
    tool
}

/// The schema of `T`, with subschemas inlined.
fn schema<T: JsonSchema>(settings: SchemaSettings) -> Arc<JsonObject> {
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let object = schema.ensure_object();
    object.remove("title");
    object.remove("description");
    object.remove("$schema");
    Arc::new(std::mem::take(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_short_description_and_typed_schemas() {
        for tool in TOOLS.iter() {
            let description = tool.description.as_deref().unwrap();
            assert!(description.len() < 220 && description.ends_with('.'), "{}: {description}", tool.name);
            let input = &tool.input_schema;
            assert_eq!(
                (&input["type"], &input["additionalProperties"]),
                (&"object".into(), &false.into()),
                "{input:?}"
            );
            let properties = input.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                assert!(property["description"].is_string(), "{}.{name} has no description", tool.name);
            }
            assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "object", "{}", tool.name);
        }
    }
}
