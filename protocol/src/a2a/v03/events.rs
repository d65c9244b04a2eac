//! What is answered: results, the events of streams, errors.

use super::{
    V03Form, change,
    content::{
        artifact_to_v1, artifact_to_v03, message_to_v1, message_to_v03, name_kind, status_to_v1,
        status_to_v03, task_to_v1, task_to_v03,
    },
    to_hybrid_card, within,
};
use crate::a2a::{
    error::{A2aError, A2aErrorKind},
    request::A2aOperation,
    route::encoded,
};
use serde_json::{Map, Value, json};

/// States after which a stream of 0.3 ends: it is told so by its last event.
const FINAL: [&str; 6] = [
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_AUTH_REQUIRED",
];

/// An event, or the answer to a message, of 1.0 as one of 0.3.
pub fn event_to_v03(event: Value, form: V03Form) -> Value {
    let Value::Object(event) = event else { return event };
    let Some((name, value)) = event.into_iter().next() else { return Value::Null };
    let value = match name.as_str() {
        "task" => task_to_v03(value, form),
        "message" => message_to_v03(value, form),
        "statusUpdate" => within(value, |update| {
            let state = update.get("status").and_then(|status| status["state"].as_str());
            let is_final = state.is_some_and(|state| FINAL.contains(&state));
            change(update, "status", |status| status_to_v03(status, form));
            update.insert("final".to_owned(), is_final.into());
            name_kind(update, "status-update", form);
        }),
        "artifactUpdate" => within(value, |update| {
            change(update, "artifact", |artifact| artifact_to_v03(artifact, form));
            name_kind(update, "artifact-update", form);
        }),
        _ => value,
    };
    match form {
        V03Form::Schema => value,
        V03Form::Proto => Value::Object(Map::from_iter([(name, value)])),
    }
}

/// An event, or the answer to a message, of 0.3 as one of 1.0. One without a `kind` is known by its other members.
pub fn event_to_v1(event: Value) -> Value {
    let Value::Object(mut members) = event else { return event };
    let wrappers = ["task", "message", "msg", "statusUpdate", "artifactUpdate"];
    let wrapper = wrappers.into_iter().find(|name| members.get(*name).is_some_and(Value::is_object));
    let (name, value) = match wrapper {
        Some(name) => (name, members.remove(name).unwrap_or_default()),
        None => (kind(&members), Value::Object(members)),
    };
    match name {
        "task" => json!({ "task": task_to_v1(value) }),
        "message" | "msg" => json!({ "message": message_to_v1(value) }),
        "statusUpdate" => json!({ "statusUpdate": within(value, |update| {
            update.remove("kind");
            update.remove("final");
            change(update, "status", status_to_v1);
        })}),
        "artifactUpdate" => json!({ "artifactUpdate": within(value, |update| {
            update.remove("kind");
            change(update, "artifact", artifact_to_v1);
        })}),
        _ => value,
    }
}

/// The name in 1.0 of what an object of the schema is.
fn kind(members: &Map<String, Value>) -> &'static str {
    let has = |name: &str| members.get(name).is_some_and(|value| !value.is_null());
    match members.get("kind").and_then(Value::as_str) {
        Some("task") => "task",
        Some("message") => "message",
        Some("status-update") => "statusUpdate",
        Some("artifact-update") => "artifactUpdate",
        _ if has("artifact") => "artifactUpdate",
        _ if has("parts") || has("content") => "message",
        _ if has("status") && has("id") => "task",
        _ if has("status") => "statusUpdate",
        _ => "",
    }
}

/// The result of an operation as that of 0.3. `is_first` asks for the first of a list of webhooks.
///
/// # Errors
/// Task not found, if the first of an empty list is asked for.
pub fn result_to_v03(
    operation: A2aOperation,
    result: Value,
    form: V03Form,
    is_first: bool,
) -> Result<Value, A2aError> {
    Ok(match operation {
        A2aOperation::SendMessage | A2aOperation::SendStreamingMessage | A2aOperation::SubscribeToTask => {
            event_to_v03(result, form)
        }
        A2aOperation::GetTask | A2aOperation::CancelTask => task_to_v03(result, form),
        A2aOperation::CreateTaskPushNotificationConfig | A2aOperation::GetTaskPushNotificationConfig => {
            config_to_v03(result, form)
        }
        A2aOperation::ListTaskPushNotificationConfigs => {
            let Value::Array(configs) = result["configs"].clone() else { return Ok(result) };
            let mut configs = configs.into_iter().map(|config| config_to_v03(config, form));
            let none = || A2aError::new(A2aErrorKind::TaskNotFound, "the task has no webhook");
            match form {
                _ if is_first => configs.next().ok_or_else(none)?,
                V03Form::Schema => configs.collect(),
                V03Form::Proto => json!({ "configs": configs.collect::<Value>() }),
            }
        }
        A2aOperation::DeleteTaskPushNotificationConfig if form == V03Form::Schema => Value::Null,
        A2aOperation::GetExtendedAgentCard => to_hybrid_card(result),
        A2aOperation::DeleteTaskPushNotificationConfig | A2aOperation::ListTasks => result,
    })
}

/// A webhook of 1.0 as one of 0.3.
fn config_to_v03(config: Value, form: V03Form) -> Value {
    let text = |name: &str| config[name].as_str().unwrap_or_default().to_owned();
    let (task, id) = (text("taskId"), text("id"));
    let webhook = webhook_to_v03(config);
    match form {
        V03Form::Schema => json!({ "taskId": task, "pushNotificationConfig": webhook }),
        V03Form::Proto => {
            let name = format!("tasks/{}/pushNotificationConfigs/{}", encoded(&task), encoded(&id));
            json!({ "name": name, "pushNotificationConfig": webhook })
        }
    }
}

/// A webhook of 1.0 as the inner object of 0.3, without its task.
pub(super) fn webhook_to_v03(config: Value) -> Value {
    within(config, |config| {
        config.remove("taskId");
        config.remove("tenant");
        change(config, "authentication", |how| {
            within(how, |how| {
                let scheme = how.remove("scheme");
                how.insert("schemes".to_owned(), scheme.into_iter().collect());
            })
        });
    })
}

/// An error as 0.3 has it: an extended card that there is not has an error of its own.
pub fn error_to_v03(operation: Option<A2aOperation>, error: A2aError) -> A2aError {
    match (operation, error.kind) {
        (Some(A2aOperation::GetExtendedAgentCard), A2aErrorKind::UnsupportedOperation) => {
            A2aError { kind: A2aErrorKind::ExtendedAgentCardNotConfigured, ..error }
        }
        _ => error,
    }
}

/// The HTTP status of an error over HTTP+JSON, as the SDKs of 0.3 have it.
pub fn http_status(kind: A2aErrorKind) -> u16 {
    match kind {
        A2aErrorKind::TaskNotCancelable => 409,
        A2aErrorKind::PushNotificationNotSupported | A2aErrorKind::UnsupportedOperation => 501,
        A2aErrorKind::ContentTypeNotSupported => 415,
        A2aErrorKind::InvalidAgentResponse => 502,
        A2aErrorKind::ExtendedAgentCardNotConfigured => 404,
        A2aErrorKind::TaskNotFound
        | A2aErrorKind::ExtensionSupportRequired
        | A2aErrorKind::VersionNotSupported
        | A2aErrorKind::Parse
        | A2aErrorKind::InvalidRequest
        | A2aErrorKind::MethodNotFound
        | A2aErrorKind::MethodNotAllowed
        | A2aErrorKind::InvalidParams
        | A2aErrorKind::Internal
        | A2aErrorKind::Unauthenticated
        | A2aErrorKind::Forbidden
        | A2aErrorKind::Unavailable
        | A2aErrorKind::RateLimited
        | A2aErrorKind::TooLarge => kind.http_status(),
    }
}
