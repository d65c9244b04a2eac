//! What happens on the way of a task: what its agent asks of other agents, how that ended, the tools that it called, and who
//! answered its questions. Clients of A2A are not shown it.

use crate::telemetry::capture::Capture;
use patterns::{Effect, Event, EventKind, session, turn::Progress};
use protocol::{
    ids::TaskId, message::WorkNotice, principal::Principal, question::Answer, task::Task, time::WallTime,
    usage::ToolUse, words::cut,
};
use serde::Serialize;

const MAX_TEXT: usize = 200;

/// One thing that was done, and when.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Activity {
    timestamp: WallTime,
    #[serde(flatten)]
    what: ActivityKind,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum ActivityKind {
    /// Another agent, or whoever has a capability, was asked.
    Asked {
        to: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        text: String,
    },
    /// It has answered, or a person a question. The state of a help request is `completed` or `declined`, that of a question
    /// `approved`, `denied` or `answered`; the text is what was answered, that of a decision its reason and the arguments that
    /// were put in place of those of the call.
    Answered {
        by: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        state: &'static str,
        #[serde(skip_serializing_if = "String::is_empty")]
        text: String,
    },
    Tool(ToolUse),
    /// The chat goes on with another agent.
    HandedOver {
        to: String,
        text: String,
    },
    /// It goes on with the agent of the task again.
    HandedBack,
}

/// Whether `by` is shown what is done for `task`: a person who has requested it. What a session does is in its view, and what a
/// seat of a sealed stage does is not shown.
pub fn is_shown(task: &Task, by: &Principal) -> bool {
    let is_requester = task.owner == *by || task.spec.root == *by;
    let is_hidden = session::is_session(&task.spec) || session::seat::is_sealed(&task.spec);
    matches!(by, Principal::User(_)) && is_requester && !is_hidden
}

pub(super) fn of_event(event: &Event) -> Vec<Activity> {
    let at = |what| Activity { timestamp: event.wall, what };
    match &event.what {
        EventKind::TurnProgress { updates, .. } | EventKind::TurnEnded { updates, .. } => {
            let tools = updates.iter().filter_map(|update| match update {
                Progress::Tool(call) => Some(at(ActivityKind::Tool(call.clone()))),
                _ => None,
            });
            tools.collect()
        }
        EventKind::MessageReceived { by: Principal::Agent(by), envelope, .. } => {
            let notice = envelope.payload.work_notice();
            let Some(WorkNotice { task, end: Some(state), text }) = notice else { return Vec::new() };
            let (by, task_id, text) = (by.to_string(), task.cloned(), shown(text));
            vec![at(ActivityKind::Answered { by, task_id, state, text })]
        }
        // Any other answer may be a credential.
        EventKind::Answered { by, question: Some(_), answer, .. } => {
            let (state, said) = match answer {
                Answer::Decision { decision, reason, values, .. } => {
                    let values = values.as_ref().map(|values| format!("with {}", without_secrets(values)));
                    let said = [reason.clone(), values].into_iter().flatten().collect::<Vec<_>>();
                    (decision.word(), said.join(" "))
                }
                Answer::Text(text) => ("answered", text.clone()),
                Answer::Values(values) => ("answered", without_secrets(values)),
            };
            let (by, text) = (by.to_string(), shown(&said));
            vec![at(ActivityKind::Answered { by, task_id: None, state, text })]
        }
        _ => Vec::new(),
    }
}

pub(super) fn of_effect(effect: &Effect, timestamp: WallTime) -> Option<Activity> {
    if let Effect::HandOver { handover, .. } = effect {
        let what = handover.as_ref().map_or(ActivityKind::HandedBack, |handover| ActivityKind::HandedOver {
            to: handover.to.to_string(),
            text: shown(&handover.reason),
        });
        return Some(Activity { timestamp, what });
    }
    let Effect::Send(message) = effect else { return None };
    let WorkNotice { task, end: None, text } = message.payload.work_notice()? else { return None };
    let (to, task_id, text) = (message.to.to_string(), task.cloned(), shown(text));
    Some(Activity { timestamp, what: ActivityKind::Asked { to, task_id, text } })
}

/// As JSON, the values of members whose names are secret masked.
fn without_secrets(values: &impl Serialize) -> String {
    let values = serde_json::to_value(values).unwrap_or_default();
    Capture::default().masked(&values).to_string()
}

fn shown(text: &str) -> String {
    cut(text.trim(), MAX_TEXT)
}
