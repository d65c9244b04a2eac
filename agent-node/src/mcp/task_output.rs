//! A task as a tool shows it: bounded, with references to what does not fit.

use protocol::{
    a2a::task::A2aTask,
    artifact::{Artifact, PartContent},
    question::Question,
    task::EXTENSION,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

pub(super) const MAX_ARTIFACT_BYTES: usize = 16 * 1024;

/// The most bytes of all artifacts in a result.
const MAX_TOTAL_BYTES: usize = 48 * 1024;

const MAX_ARTIFACTS: usize = 64;

/// The most bytes of a status message in a result.
const MAX_MESSAGE_BYTES: usize = 8 * 1024;

/// A task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskOutput {
    /// The task's id.
    pub(super) task_id: String,
    /// submitted, working, input-required, auth-required, completed, failed, canceled or rejected.
    pub(super) state: String,
    /// Whether it has ended.
    pub(super) ended: bool,
    /// The latest message of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// What it has produced so far.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) artifacts: Vec<ArtifactOutput>,
    /// Open questions; answer them with `answer_question`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) questions: Vec<QuestionOutput>,
    /// What to know besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

/// One artifact of a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactOutput {
    /// Its id in the task.
    id: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The size of its text or data in bytes.
    bytes: usize,
    /// Its text, or its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Whether it goes on: `read_artifact` with `taskId` and `artifact` reads the rest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// An open question.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuestionOutput {
    /// Its id.
    id: String,
    /// text, choice, form, approval or credential.
    kind: String,
    /// What is asked.
    text: String,
    /// The options of a choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
    /// The JSON Schema of a form.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
    /// The call that an approval is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Value>,
    /// Until when it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl From<&Question> for QuestionOutput {
    fn from(question: &Question) -> Self {
        Self {
            id: question.id.clone(),
            kind: question.kind.word().to_owned(),
            text: question.text.clone(),
            options: question.options.clone(),
            schema: question.schema.clone(),
            call: question.call.clone(),
            expires_at: question.expires_at.map(|at| at.to_string()),
        }
    }
}

pub(super) fn open_questions(task: &A2aTask) -> Vec<Question> {
    let listed = task.metadata.get(EXTENSION).and_then(|ours| ours.get("questions"));
    listed.and_then(|listed| serde_json::from_value(listed.clone()).ok()).unwrap_or_default()
}

/// The text of an artifact: its texts and data, and base64 for binary parts.
pub(super) fn artifact_text(artifact: &Artifact) -> String {
    let parts = artifact.parts.iter().map(|part| match &part.content {
        PartContent::Text(text) | PartContent::Raw(text) | PartContent::Url(text) => text.clone(),
        PartContent::Data(data) => data.to_string(),
    });
    parts.collect()
}

/// The first `max` bytes of a text, up to a character's end.
pub(super) fn beginning(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

impl TaskOutput {
    pub(super) fn of(task: &A2aTask) -> Self {
        let state = task.status.state;
        let message = task.status.message.as_ref().map(|message| message.as_text());
        let mut left = MAX_TOTAL_BYTES;
        let mut notes = Vec::new();
        let artifacts = task.artifacts.iter().take(MAX_ARTIFACTS).map(|artifact| {
            let text = artifact_text(artifact);
            let shown = beginning(&text, left.min(MAX_ARTIFACT_BYTES)).to_owned();
            left -= shown.len();
            ArtifactOutput {
                id: artifact.artifact_id.clone(),
                name: artifact.name.clone(),
                bytes: text.len(),
                cut: shown.len() < text.len(),
                text: (!shown.is_empty()).then_some(shown),
            }
        });
        let artifacts = artifacts.collect();
        if let more @ 1.. = task.artifacts.len().saturating_sub(MAX_ARTIFACTS) {
            notes.push(format!("{more} more artifacts are not listed"));
        }
        Self {
            task_id: task.id.clone(),
            state: state.word().to_owned(),
            ended: state.is_terminal(),
            message: message.map(|text| beginning(&text, MAX_MESSAGE_BYTES).to_owned()),
            artifacts,
            questions: open_questions(task).iter().map(QuestionOutput::from).collect(),
            notes,
        }
    }

    /// The same for a model that reads text: the state, the message, the questions, then each artifact.
    pub(super) fn to_text(&self) -> String {
        let mut lines = vec![match &self.message {
            Some(message) => format!("task {}: {}: {message}", self.task_id, self.state),
            None => format!("task {}: {}", self.task_id, self.state),
        }];
        lines.extend(
            self.questions
                .iter()
                .map(|question| format!("question {} ({}): {}", question.id, question.kind, json!(question))),
        );
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        for artifact in &self.artifacts {
            let name = artifact.name.as_deref().unwrap_or(&artifact.id);
            lines.push(format!("artifact {name} ({}, {} bytes):", artifact.id, artifact.bytes));
            lines.extend(artifact.text.clone());
            if artifact.cut {
                lines.push("[it goes on: read_artifact reads the rest]".to_owned());
            }
        }
        lines.join("\n")
    }
}
