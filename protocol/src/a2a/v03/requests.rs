//! What is asked: methods and paths, and the parameters of every operation.

use super::{
    V03Form, change,
    content::{message_to_v1, message_to_v03},
    events::webhook_to_v03,
    rename, take, within,
};
use crate::a2a::{
    error::{A2aError, A2aErrorKind},
    request::A2aOperation,
    route::{self, Route, encoded},
};
use serde_json::{Map, Value, json};

const METHODS: &[(&str, A2aOperation)] = &[
    ("message/send", A2aOperation::SendMessage),
    ("message/stream", A2aOperation::SendStreamingMessage),
    ("tasks/get", A2aOperation::GetTask),
    ("tasks/cancel", A2aOperation::CancelTask),
    ("tasks/resubscribe", A2aOperation::SubscribeToTask),
    ("tasks/pushNotificationConfig/set", A2aOperation::CreateTaskPushNotificationConfig),
    ("tasks/pushNotificationConfig/get", A2aOperation::GetTaskPushNotificationConfig),
    ("tasks/pushNotificationConfig/list", A2aOperation::ListTaskPushNotificationConfigs),
    ("tasks/pushNotificationConfig/delete", A2aOperation::DeleteTaskPushNotificationConfig),
    ("agent/getAuthenticatedExtendedCard", A2aOperation::GetExtendedAgentCard),
];

/// The operation that a JSON-RPC method of 0.3 names.
pub fn operation(method: &str) -> Option<A2aOperation> {
    METHODS.iter().find(|(name, _)| *name == method).map(|(_, operation)| *operation)
}

/// The JSON-RPC method of an operation, if 0.3 has it.
pub fn method(operation: A2aOperation) -> Option<&'static str> {
    METHODS.iter().find(|(_, named)| *named == operation).map(|(name, _)| *name)
}

/// The HTTP method and path, below the URL of an agent's interface, of an operation on `task`.
pub fn path(operation: A2aOperation, task: &str) -> (&'static str, String) {
    if operation == A2aOperation::GetExtendedAgentCard {
        return ("GET", "v1/card".to_owned());
    }
    let (method, path) = route::template(operation);
    let task = encoded(task);
    (method, format!("v1/{}", path.replace("{id}", &task).replace("{taskId}", &task)))
}

/// The route of `method` at `path`, which begins behind `/v1`.
///
/// # Errors
/// There is none in 0.3.
pub fn find_route(method: &str, path: &str) -> Result<Route, A2aError> {
    if method == "GET" && path.trim_matches('/') == "card" {
        return Ok(Route { operation: A2aOperation::GetExtendedAgentCard, named: Map::new() });
    }
    let found = route::find(method, path)?;
    if matches!(found.operation, A2aOperation::ListTasks | A2aOperation::GetExtendedAgentCard) {
        let message = format!("A2A 0.3 has no {method} {path}; 1.0 has: send the header A2A-Version: 1.0");
        return Err(A2aError::new(A2aErrorKind::VersionNotSupported, message));
    }
    Ok(found)
}

/// Whether a message is one of 1.0: its parts don't say what they are.
pub fn is_v1_message(params: &Value) -> bool {
    let message = &params["message"];
    let is_unnamed =
        |part: &Value| part.is_object() && part.get("kind").is_none() && part.get("file").is_none();
    message.get("kind").is_none()
        && message["parts"].as_array().is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_unnamed))
}

/// Whether the request is for the only webhook of a task, which 0.3 needs no id for.
pub fn takes_first_config(operation: A2aOperation, params: &Value) -> bool {
    operation == A2aOperation::GetTaskPushNotificationConfig
        && params.get("pushNotificationConfigId").is_none_or(Value::is_null)
        && params.get("taskId").is_none_or(Value::is_null)
}

/// The parameters of an operation of 0.3 as those of 1.0. Those of a path, `id` and `taskId`, may be among them.
pub fn params_to_v1(operation: A2aOperation, params: Value) -> Value {
    within(params, |params| match operation {
        A2aOperation::SendMessage | A2aOperation::SendStreamingMessage => {
            rename(params, "request", "message");
            let is_proto = params.get("message").is_some_and(|message| message.get("content").is_some());
            change(params, "message", message_to_v1);
            change(params, "configuration", |wishes| configuration_to_v1(wishes, is_proto));
        }
        A2aOperation::GetTask => {
            params.remove("name");
            no_zero(params);
        }
        A2aOperation::CancelTask | A2aOperation::SubscribeToTask => drop(params.remove("name")),
        A2aOperation::CreateTaskPushNotificationConfig => set_to_v1(params),
        A2aOperation::GetTaskPushNotificationConfig | A2aOperation::DeleteTaskPushNotificationConfig => {
            if !params.contains_key("taskId") {
                rename(params, "id", "taskId");
                rename(params, "pushNotificationConfigId", "id");
            }
        }
        A2aOperation::ListTaskPushNotificationConfigs => rename(params, "id", "taskId"),
        A2aOperation::ListTasks | A2aOperation::GetExtendedAgentCard => {}
    })
}

/// 0.3 takes a length of 0 for "all".
fn no_zero(params: &mut Map<String, Value>) {
    if params.get("historyLength").is_some_and(|length| *length == 0 || *length == "0") {
        params.remove("historyLength");
    }
}

/// In ProtoJSON a `blocking` that is missing is false.
fn configuration_to_v1(wishes: Value, is_proto: bool) -> Value {
    within(wishes, |wishes| {
        for name in ["pushNotificationConfig", "pushNotification"] {
            rename(wishes, name, "taskPushNotificationConfig");
        }
        change(wishes, "taskPushNotificationConfig", webhook_to_v1);
        no_zero(wishes);
        let blocking = take(wishes, "blocking").unwrap_or((!is_proto).into());
        let returns = blocking.as_bool().map_or(blocking, |blocking| (!blocking).into());
        wishes.insert("returnImmediately".to_owned(), returns);
    })
}

fn webhook_to_v1(webhook: Value) -> Value {
    within(webhook, |webhook| {
        change(webhook, "authentication", |how| {
            within(how, |how| {
                if let Some(Value::Array(schemes)) = take(how, "schemes") {
                    how.extend(schemes.into_iter().next().map(|scheme| ("scheme".to_owned(), scheme)));
                }
            })
        });
    })
}

/// `{taskId, pushNotificationConfig}`, or in ProtoJSON `{parent, configId, config: {name, pushNotificationConfig}}`.
fn set_to_v1(params: &mut Map<String, Value>) {
    params.remove("parent");
    let id = take(params, "configId").filter(|id| id != "");
    if let Some(Value::Object(mut config)) = take(params, "config") {
        for name in ["taskId", "pushNotificationConfig"] {
            if let Some(value) = take(&mut config, name) {
                params.entry(name).or_insert(value);
            }
        }
    }
    if let Some(Value::Object(webhook)) = take(params, "pushNotificationConfig").map(webhook_to_v1) {
        params.extend(webhook.into_iter().filter(|(_, value)| !value.is_null()));
    }
    if let Some(id) = id {
        params.entry("id").or_insert(id);
    }
}

/// The parameters of an operation of 1.0 as those of 0.3. Over HTTP+JSON, what the path names is left to it.
pub fn params_to_v03(operation: A2aOperation, params: Value, form: V03Form) -> Value {
    within(params, |params| {
        params.remove("tenant");
        match operation {
            A2aOperation::SendMessage | A2aOperation::SendStreamingMessage => {
                change(params, "message", |message| message_to_v03(message, form));
                change(params, "configuration", |wishes| configuration_to_v03(wishes, form));
            }
            A2aOperation::GetTask => no_zero(params),
            A2aOperation::CancelTask
            | A2aOperation::SubscribeToTask
            | A2aOperation::ListTasks
            | A2aOperation::GetExtendedAgentCard
            | A2aOperation::CreateTaskPushNotificationConfig
            | A2aOperation::GetTaskPushNotificationConfig
            | A2aOperation::ListTaskPushNotificationConfigs
            | A2aOperation::DeleteTaskPushNotificationConfig => {}
        }
    })
}

fn configuration_to_v03(wishes: Value, form: V03Form) -> Value {
    within(wishes, |wishes| {
        let returns = take(wishes, "returnImmediately").unwrap_or(false.into());
        wishes.insert("blocking".to_owned(), json!(returns != true));
        no_zero(wishes);
        let name = match form {
            V03Form::Schema => "pushNotificationConfig",
            V03Form::Proto => "pushNotification",
        };
        if let Some(webhook) = take(wishes, "taskPushNotificationConfig") {
            wishes.insert(name.to_owned(), webhook_to_v03(webhook));
        }
    })
}
