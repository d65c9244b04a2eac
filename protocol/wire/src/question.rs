//! Questions to a person. One shape for all: the brain asks in it, it is shown in it, and it is answered by its id.

use crate::{ids::AgentId, is_true, time::WallTime, yes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// What kind of answer a question wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// Any text.
    #[default]
    Text,
    /// One of its options.
    Choice,
    /// The values of a form.
    Form,
    /// A decision.
    Approval,
    /// Any text that says that the credential is provided; never the credential.
    Credential,
}

impl QuestionKind {
    /// Its name on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Choice => "choice",
            Self::Form => "form",
            Self::Approval => "approval",
            Self::Credential => "credential",
        }
    }
}

/// What happens when a question is no longer open.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnTimeout {
    /// The next turn begins without an answer: `ok` is false, and an approval is denied.
    #[default]
    Continue,
    /// The task fails.
    Fail,
    /// This text counts as the answer. Only for texts and choices.
    Answer(String),
}

/// A person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Yes.
    Approve,
    /// No.
    Deny,
}

impl Decision {
    /// What was decided, in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approve => "approved",
            Self::Deny => "denied",
        }
    }
}

/// Who asks in a session. The host of the session says so, not who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedBy {
    /// Of a seat the agent that has its turn, at a gate the host. Absent for one that is none of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The stage.
    pub stage: String,
    /// Absent at the gate of the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<String>,
}

impl AskedBy {
    /// The name of the call of a gate.
    pub const GATE: &str = "gate";

    /// The seat, with its agent if that has another name, and the stage; `None` at a gate, whose text says what it is.
    fn speaker(&self) -> Option<String> {
        let Self { agent, stage, seat } = self;
        let seat = seat.as_ref()?;
        let agent = agent.as_ref().filter(|agent| agent.as_str() != seat);
        let agent = agent.map(|agent| format!(" ({agent})")).unwrap_or_default();
        Some(format!("{seat}{agent} in stage {stage}"))
    }
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Question {
    /// Your name for it; its answer has it. From when it is open, one that is unique in the mesh.
    pub id: String,
    /// What kind of answer it wants (`text` if absent).
    #[serde(default)]
    pub kind: QuestionKind,
    /// What is asked.
    pub text: String,
    /// The JSON Schema of a form: an object of simple values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What a choice is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The call that an approval is about: `{"name": …, "args": …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Value>,
    /// Whether a person may approve the call with other arguments: the answer then has them as `values`. A `schema` says what they
    /// must be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub editable: bool,
    /// When it is no longer open (RFC 3339); never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<WallTime>,
    /// What happens then (`continue` if absent). It never approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// Whether the turn ends with it (`true` if absent). With `false` it is asked at once, and the turn goes on.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
    /// Who asks, if a seat of a session or one of its gates does. The mesh says it, not the brain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub asked_by: Option<Box<AskedBy>>,
    /// The task of a foreign agent that asks. The mesh says it, not the brain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub remote: Option<Box<RemoteAsker>>,
}

/// The task of a foreign agent that asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteAsker {
    /// The agent, as its card names it.
    pub name: String,
    /// The task's id there.
    pub task_id: String,
    /// How the task is followed: `sync`, `polling`, `streaming` or `webhook`.
    pub mode: String,
}

impl Question {
    /// A question that any text answers.
    pub fn new(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            kind: QuestionKind::Text,
            text: text.into(),
            schema: None,
            options: Vec::new(),
            call: None,
            editable: false,
            expires_at: None,
            on_timeout: None,
            wait: true,
            asked_by: None,
            remote: None,
        }
    }

    /// A question that one of these options answers.
    pub fn choice(
        id: impl Into<String>,
        text: impl Into<String>,
        options: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let options = options.into_iter().map(Into::into).collect();
        Self { kind: QuestionKind::Choice, options, ..Self::new(id, text) }
    }

    /// A question that the values of a form answer; `schema` is the JSON Schema of the form.
    pub fn form(id: impl Into<String>, text: impl Into<String>, schema: Value) -> Self {
        Self { kind: QuestionKind::Form, schema: Some(schema), ..Self::new(id, text) }
    }

    /// A question whether to make a call: `{"name": …, "args": …}`.
    pub fn approval(id: impl Into<String>, text: impl Into<String>, call: Value) -> Self {
        Self { kind: QuestionKind::Approval, call: Some(call), ..Self::new(id, text) }
    }

    /// A question that asks for a credential.
    pub fn credential(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: QuestionKind::Credential, ..Self::new(id, text) }
    }

    /// What is asked, and by whom if it is known.
    pub fn shown_text(&self) -> Cow<'_, str> {
        let foreign = self.remote.as_ref().map(|remote| remote.name.clone());
        match foreign.or_else(|| self.asked_by.as_ref().and_then(|by| by.speaker())) {
            Some(speaker) => format!("{speaker} asks: {}", self.text).into(),
            None => self.text.as_str().into(),
        }
    }

    /// The call, if a person has to see it to decide. The text of a gate says all that its call does.
    pub fn shown_call(&self) -> Option<&Value> {
        let is_gate = self.asked_by.as_ref().is_some_and(|by| by.seat.is_none());
        self.call.as_ref().filter(|call| !is_gate || call["name"] != AskedBy::GATE)
    }

    /// Whether a text without a question's id may answer it.
    pub fn takes_plain_text(&self) -> bool {
        matches!(self.kind, QuestionKind::Text | QuestionKind::Credential)
    }

    /// Why the question itself is invalid.
    pub fn validate(&self) -> Result<(), String> {
        let is = |kind| self.kind == kind;
        let misplaced = |member: &str, kind: &str| Err(format!("\"{member}\" is for {kind} only"));
        match self {
            _ if self.id.trim().is_empty() => Err("\"id\" must not be blank".to_owned()),
            Self { options, .. } if is(QuestionKind::Choice) && options.is_empty() => {
                Err("a choice needs \"options\"".to_owned())
            }
            Self { options, .. } if !is(QuestionKind::Choice) && !options.is_empty() => {
                misplaced("options", "a choice")
            }
            Self { schema: None, .. } if is(QuestionKind::Form) => {
                Err("a form needs a \"schema\"".to_owned())
            }
            Self { editable: true, call, .. } if !is(QuestionKind::Approval) || call.is_none() => {
                misplaced("editable", "the approval of a call")
            }
            Self { schema: Some(_), editable: false, .. } if !is(QuestionKind::Form) => {
                misplaced("schema", "a form, and an approval that is editable")
            }
            Self { call: Some(_), .. } if !is(QuestionKind::Approval) => misplaced("call", "an approval"),
            // What a person approves is shown by these two.
            Self { call: Some(call), .. } if !is_call(call) => {
                Err("\"call\" is {\"name\", \"args\"} and nothing else".to_owned())
            }
            Self { on_timeout: Some(_), expires_at: None, .. } => {
                Err("\"onTimeout\" needs \"expiresAt\"".to_owned())
            }
            Self { on_timeout: Some(OnTimeout::Answer(text)), .. } => match self.kind {
                QuestionKind::Choice => self.check_option(text),
                QuestionKind::Text => Ok(()),
                QuestionKind::Form | QuestionKind::Approval | QuestionKind::Credential => {
                    misplaced("onTimeout\": {\"answer\"}", "a text or a choice")
                }
            },
            _ => Ok(()),
        }
    }

    /// Fails if `text` is none of the options of a choice, and names them.
    pub fn check_option(&self, text: &str) -> Result<(), String> {
        let is_one = self.options.iter().any(|option| option == text);
        if is_one { Ok(()) } else { Err(self.wanted_option()) }
    }

    /// That an answer to it is one of its options.
    pub fn wanted_option(&self) -> String {
        format!("question {} is a choice: answer one of {}", self.id, self.options.join(", "))
    }
}

fn is_call(call: &Value) -> bool {
    call.as_object().is_some_and(|members| {
        members.get("name").is_some_and(Value::is_string)
            && members.keys().all(|name| ["name", "args"].contains(&name.as_str()))
    })
}
