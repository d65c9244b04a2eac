//! What the tasks of a team are given and hand back, as artifacts of JSON.

use super::{OUTPUT, RECORD, TeamItem, record::DelegationRecord};
use crate::session::{graph::TeamTerms, names::SESSION};
use protocol::{
    a2a::remote_task::{RemoteTaskLimits, RemoteTaskOutcome},
    artifact::{Artifact, Part, PartContent},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// The artifact in which an item reports.
pub const REPORT: &str = "delegation_item";

/// One item, as the task that does it is given it. The artifact is called as the item's alias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemOrder {
    /// What is to be done, and by whom.
    pub item: TeamItem,
    /// The card of the agent; absent for an agent of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Value>,
    /// The session's name in requests.
    pub session_id: String,
    /// Media types the result may have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_modes: Vec<String>,
    /// How long its work is pursued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<RemoteTaskLimits>,
}

/// How an item has gone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ItemReport {
    /// One word: `completed`, `failed`, `auth_failed`, …
    pub status: String,
    /// Why, if it is not completed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// How its work was followed; `mesh` for an agent of the mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The requests that were sent, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Value>,
    /// Whether there is a credential for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// What its card asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_requirements: Option<Value>,
    /// How often its task was looked at.
    pub polls: u32,
    /// The events of its task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Value>,
    /// Its task at the agent that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The context of that task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// How the seat of an item stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemState {
    pub alias: String,
    /// Why it has failed, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it asks, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<ItemQuestion>,
}

/// A question of an item to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemQuestion {
    /// The task that asks.
    pub task: String,
    /// How it is followed, if it is that of a foreign agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    pub text: String,
    /// Whether it wants a credential.
    #[serde(default)]
    pub auth: bool,
}

/// An artifact of JSON.
pub fn artifact(name: &str, data: Value) -> Artifact {
    let part = Part { media_type: Some("application/json".to_owned()), ..Part::new(PartContent::Data(data)) };
    Artifact { parts: vec![part], ..Artifact::text(name, "application/json", "") }
}

/// What the newest artifact with this name holds. In a session the name stands behind that of the stage.
pub fn find<T: DeserializeOwned>(artifacts: &[Artifact], name: &str) -> Option<T> {
    read(artifacts.iter().rev().find(|artifact| is_named(artifact, name))?)
}

fn is_named(artifact: &Artifact, name: &str) -> bool {
    let id = artifact.artifact_id.as_str();
    id.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn read<T: DeserializeOwned>(artifact: &Artifact) -> Option<T> {
    artifact.parts.iter().find_map(|part| match &part.content {
        PartContent::Data(data) => serde_json::from_value(data.clone()).ok(),
        PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
    })
}

/// The answer made of what the artifacts of a session hold, and the record that says everything.
pub fn aggregate(
    artifacts: &[Artifact],
    terms: &TeamTerms,
    states: &[ItemState],
) -> Result<(Value, DelegationRecord), String> {
    let mut record: DelegationRecord = find(artifacts, RECORD).ok_or("there is no plan")?;
    for item in record.delegation_plan.clone() {
        let of_item = |artifact: &&Artifact| {
            let from = artifact.metadata.get(SESSION).and_then(|about| about.get("from"));
            is_named(artifact, REPORT) && from.and_then(Value::as_str) == Some(&item.alias)
        };
        let report: Option<ItemReport> = artifacts.iter().rev().find(of_item).and_then(read);
        let state = states.iter().find(|state| state.alias == item.alias);
        record.take(&item, report, state, &terms.accepted_modes);
    }
    let output = record.finish(terms);
    Ok((output, record))
}

/// The artifacts of an answer.
pub fn answer(output: &Value, record: &DelegationRecord) -> [Artifact; 2] {
    [artifact(OUTPUT, output.clone()), artifact(RECORD, json!(record))]
}

impl DelegationRecord {
    /// Takes what is known of an item.
    fn take(
        &mut self,
        item: &TeamItem,
        report: Option<ItemReport>,
        state: Option<&ItemState>,
        accepted: &[String],
    ) {
        let alias = &item.alias;
        let report = report.unwrap_or_default();
        let is_peer = self.remote_agents.get(&item.agent).is_some_and(|agent| agent["kind"] == "mesh");
        self.task_ids.extend(report.task_id.clone().map(|task| (alias.clone(), task)));
        self.context_id = report.context_id.clone().or_else(|| self.context_id.take());
        self.credential_status.extend(report.credential.clone().map(|status| (item.agent.clone(), status)));
        self.auth_requirements
            .extend(report.auth_requirements.clone().map(|asked| (item.agent.clone(), asked)));
        if report.polls > 0 {
            self.poll_attempts.insert(alias.clone(), report.polls);
        }
        for request in report.requests {
            self.sent(item, report.mode.as_deref().unwrap_or_default(), request);
        }
        if !report.events.is_empty() {
            self.stream_events.insert(alias.clone(), report.events);
        }
        let asks = state.and_then(|state| state.asks.as_ref());
        match (report.status.as_str(), asks, state.and_then(|state| state.why.as_deref())) {
            (_, Some(asks), _) => {
                self.task_ids.insert(alias.clone(), asks.task.clone());
                let mode = asks.mode.clone().or_else(|| is_peer.then(|| "mesh".to_owned()));
                self.interaction_modes.extend(mode.map(|mode| (alias.clone(), mode)));
                let how = match asks.auth {
                    true => RemoteTaskOutcome::AuthRequired,
                    false => RemoteTaskOutcome::InputRequired,
                };
                self.asks(item, how.word(), &asks.text);
            }
            ("", None, Some(why)) => self.failed(item, RemoteTaskOutcome::Failed.word(), why),
            ("", None, None) => drop(self.task_statuses.insert(alias.clone(), "working".to_owned())),
            ("completed", None, _) => self.done(item, &report.artifacts, accepted),
            (status, None, _) => self.failed(item, status, &report.why),
        }
    }
}
