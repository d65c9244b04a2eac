//! The signals that an agent reacts to.

use protocol::{
    ids::{TaskId, ThreadId},
    signal::{PARENT_TASK, Signal, THREAD, fits},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// Which signals an agent reacts to. All conditions hold at once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub struct SignalFilter {
    /// Its type, exact or ending in `*`.
    #[serde(rename = "type", default = "any")]
    pub kind: String,
    /// The task that it is about.
    #[schemars(with = "Option<String>")]
    pub task: Option<TaskId>,
    /// The collaboration that its task belongs to: the `threadId` of the request, or else the id of the task at its root.
    #[schemars(with = "Option<String>")]
    pub conversation: Option<ThreadId>,
    /// The task for which its task is done.
    #[schemars(with = "Option<String>")]
    pub parent: Option<TaskId>,
}

fn any() -> String {
    "*".to_owned()
}

impl From<&str> for SignalFilter {
    fn from(kind: &str) -> Self {
        Self { kind: kind.to_owned(), task: None, conversation: None, parent: None }
    }
}

impl SignalFilter {
    /// Whether it lets `signal` through.
    pub fn admits(&self, signal: &Signal) -> bool {
        let refers = |name: &str, wanted: Option<&str>| {
            wanted.is_none_or(|wanted| signal.refs.get(name).is_some_and(|given| given == wanted))
        };
        fits(&self.kind, signal.kind.as_str())
            && self.task.as_ref().is_none_or(|task| signal.task_id.as_ref() == Some(task))
            && refers(THREAD, self.conversation.as_ref().map(ThreadId::as_str))
            && refers(PARENT_TASK, self.parent.as_ref().map(TaskId::as_str))
    }
}

/// The forms of a filter in a file: a type, or a map.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(super) enum FilterForms {
    Type(String),
    Filter(SignalFilter),
}

/// Reads the filters of a file.
pub(super) fn filters<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SignalFilter>, D::Error> {
    let forms = Vec::<FilterForms>::deserialize(from)?;
    let filter = |form| match form {
        FilterForms::Type(kind) => SignalFilter::from(kind.as_str()),
        FilterForms::Filter(filter) => filter,
    };
    Ok(forms.into_iter().map(filter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_filter_lets_through_what_it_names() {
        let signal: Signal = from_value(json!({
            "id": "s-1", "type": "task.complete", "from": "a", "taskId": "t-2", "at": "2026-11-28T08:00:00.000Z",
            "refs": { "parentTaskId": "t-1", "threadId": "t-0" },
        }))
        .unwrap();
        let cases = [
            (json!("task.complete"), true),
            (json!("task.*"), true),
            (json!("task.failed"), false),
            (json!({ "type": "task.complete", "task": "t-2" }), true),
            (json!({ "task": "t-3" }), false),
            (json!({ "parent": "t-1" }), true),
            (json!({ "parent": "t-2" }), false),
            (json!({ "conversation": "t-0", "parent": "t-1" }), true),
            (json!({ "conversation": "t-1", "parent": "t-1" }), false),
        ];
        for (form, is_admitted) in cases {
            let [filter] = &filters(json!([form])).unwrap()[..] else { panic!("{form}") };
            assert_eq!(filter.admits(&signal), is_admitted, "{form}");
        }
        assert!(filters(json!([{ "tsk": "t-1" }])).is_err());
    }
}
