//! Questions to a person, and their answers. One shape for all: the brain asks in it, it is shown in it, and it is answered by
//! its id. A time-out never approves anything.

use crate::{
    identity::{ApprovalProof, PersonKey},
    ids::AgentId,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What kind of answer a question wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    #[default]
    Text,
    /// One of its options.
    Choice,
    /// The values of a form.
    Form,
    /// The decision on a call or a plan.
    Approval,
    /// That a credential was provided. The answer never contains the credential.
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

/// What happens at a question's `expiresAt`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnTimeout {
    /// The brain goes on without an answer: `ok` is false, and an approval is denied.
    #[default]
    Continue,
    Fail,
    /// This text counts as the answer. Only for texts and choices.
    Answer(String),
}

/// Who asks in a session. The host of the session says so, not who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedBy {
    /// The agent: of a seat the one that has its turn, at a gate the host. Absent for one that is none of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    pub stage: String,
    /// The seat; absent at the gate of the stage.
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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Question {
    /// Its id: the brain's own name for it, and from when it is open, one that is unique in the mesh.
    pub id: String,
    /// What kind of answer it wants.
    #[serde(default)]
    pub kind: QuestionKind,
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
    /// When it is no longer open; never, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<WallTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// Whether the turn that asks ends with it.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
    /// Who asks, if a seat of a session or one of its gates does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Box<AskedBy>>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

/// A person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Approve,
    Deny,
}

impl Decision {
    /// What was decided, in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approve => Answer::APPROVED,
            Self::Deny => Answer::DENIED,
        }
    }
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// A text, or one of the options.
    Text(String),
    /// The values of a form.
    Values(Map<String, Value>),
    /// A decision. A denial answers a question of any kind.
    #[serde(rename_all = "camelCase")]
    Decision {
        decision: Decision,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Of an approval that goes on to another agent: that a person made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Box<ApprovalProof>>,
    },
}

impl Answer {
    /// An approval without a reason, as text.
    pub const APPROVED: &str = "approved";
    /// A denial without a reason, as text.
    pub const DENIED: &str = "denied";

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The answer as text.
    pub fn words(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Values(values) => Value::Object(values.clone()).to_string(),
            Self::Decision { reason: Some(reason), .. } => reason.clone(),
            Self::Decision { decision, reason: None, .. } => decision.word().to_owned(),
        }
    }

    /// Its decision, if it is one.
    pub fn decision(&self) -> Option<Decision> {
        if let Self::Decision { decision, .. } = self { Some(*decision) } else { None }
    }

    /// Proves that the person with `key` made it, if it approves `question`.
    pub fn prove_by(&mut self, key: &PersonKey, question: &Question) {
        if let Self::Decision { decision: Decision::Approve, proof, .. } = self {
            *proof = Some(Box::new(key.approve(question)));
        }
    }

    /// The proof that a person made it, if it is an approval that has one.
    pub fn proof(&self) -> Option<&ApprovalProof> {
        if let Self::Decision { proof, .. } = self { proof.as_deref() } else { None }
    }

    /// The answer in the member `answer` of a `task-answer`: a text, a form's values, or `{decision, reason}`.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self::Text(text.clone())),
            Value::Object(members) if members.contains_key("decision") => {
                let decision = members.get("decision").and_then(Value::as_str);
                let decision = match decision {
                    Some("approve") => Decision::Approve,
                    Some("deny") => Decision::Deny,
                    _ => return Err("decision must be \"approve\" or \"deny\"".to_owned()),
                };
                let reason = members.get("reason").and_then(Value::as_str).map(str::to_owned);
                let proof = members.get("proof").map(ApprovalProof::deserialize).transpose();
                let proof = proof.map_err(|error| format!("proof: {error}"))?.map(Box::new);
                Ok(Self::Decision { decision, reason, proof })
            }
            Value::Object(members) => Ok(Self::Values(members.clone())),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                Ok(Self::Text(other.to_string()))
            }
        }
    }

    /// The inverse of [`Self::from_json`].
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => text.clone().into(),
            Self::Values(values) => Value::Object(values.clone()),
            Self::Decision { decision, reason, proof } => {
                let mut members = Map::from_iter([("decision".to_owned(), serde_json::json!(decision))]);
                members.extend(proof.as_ref().map(|proof| ("proof".to_owned(), serde_json::json!(proof))));
                members.extend(reason.clone().map(|reason| ("reason".to_owned(), reason.into())));
                Value::Object(members)
            }
        }
    }
}

impl Question {
    /// A question for a text.
    pub fn text(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            kind: QuestionKind::Text,
            text: text.into(),
            schema: None,
            options: Vec::new(),
            call: None,
            expires_at: None,
            on_timeout: None,
            wait: true,
            asked_by: None,
        }
    }

    /// A question that asks for a credential.
    pub fn credential(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: QuestionKind::Credential, ..Self::text(id, text) }
    }

    /// What is asked, and by whom if it is known.
    pub fn shown_text(&self) -> Cow<'_, str> {
        match self.asked_by.as_ref().and_then(|by| by.speaker()) {
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
            Self { schema: Some(_), .. } if !is(QuestionKind::Form) => misplaced("schema", "a form"),
            Self { call: Some(_), .. } if !is(QuestionKind::Approval) => misplaced("call", "an approval"),
            // What a person approves is shown by these two.
            Self { call: Some(call), .. } if !is_call(call) => {
                Err("\"call\" is {\"name\", \"args\"} and nothing else".to_owned())
            }
            Self { on_timeout: Some(_), expires_at: None, .. } => {
                Err("\"onTimeout\" needs \"expiresAt\"".to_owned())
            }
            Self { on_timeout: Some(OnTimeout::Answer(text)), .. } => {
                let may = matches!(self.kind, QuestionKind::Text | QuestionKind::Choice);
                match may {
                    true => self.check(&Answer::text(text.clone())),
                    false => misplaced("onTimeout\": {\"answer\"}", "a text or a choice"),
                }
            }
            _ => Ok(()),
        }
    }

    /// Fails if `answer` is no answer to it, and says what is.
    pub fn check(&self, answer: &Answer) -> Result<(), String> {
        let id = &self.id;
        match (self.kind, answer) {
            (_, Answer::Decision { decision: Decision::Deny, .. })
            | (QuestionKind::Approval, Answer::Decision { .. })
            | (QuestionKind::Text | QuestionKind::Credential, Answer::Text(_)) => Ok(()),
            (QuestionKind::Choice, Answer::Text(text)) if self.options.contains(text) => Ok(()),
            (QuestionKind::Choice, _) => {
                Err(format!("question {id} is a choice: answer one of {}", self.options.join(", ")))
            }
            (QuestionKind::Form, Answer::Values(values)) => {
                check_form(self.schema.as_ref(), values).map_err(|why| format!("question {id}: {why}"))
            }
            (QuestionKind::Form, _) => Err(format!("question {id} is a form: answer with its values")),
            (QuestionKind::Approval, _) => {
                Err(format!("question {id} is an approval: answer it by a decision, approve or deny"))
            }
            (QuestionKind::Text | QuestionKind::Credential, _) => Err(format!("question {id} wants a text")),
        }
    }
}

fn is_call(call: &Value) -> bool {
    call.as_object().is_some_and(|members| {
        members.get("name").is_some_and(Value::is_string)
            && members.keys().all(|name| ["name", "args"].contains(&name.as_str()))
    })
}

/// Checks the values of a form against the flat part of its schema: `required`, and of each property `type` and `enum`.
fn check_form(schema: Option<&Value>, values: &Map<String, Value>) -> Result<(), String> {
    let schema = schema.unwrap_or(&Value::Null);
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| values.get(*name).is_none_or(Value::is_null)) {
        return Err(format!("{missing} is required"));
    }
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    for (name, value) in values {
        let Some(property) = properties.get(name) else {
            let known: Vec<_> = properties.keys().map(String::as_str).collect();
            return Err(format!("{name} is unknown; there are {}", known.join(", ")));
        };
        let is_of_type = match property["type"].as_str() {
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            _ => true,
        };
        if !is_of_type {
            return Err(format!("{name} must be of type {}, got {value}", property["type"]));
        }
        if property["enum"].as_array().is_some_and(|options| !options.contains(value)) {
            return Err(format!("{name} must be one of {}, got {value}", property["enum"]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(json: Value) -> Question {
        serde_json::from_value(json).unwrap()
    }

    fn answer(json: Value) -> Answer {
        Answer::from_json(&json).unwrap()
    }

    #[test]
    fn only_a_decision_approves() {
        let approval =
            question(json!({ "id": "q", "kind": "approval", "text": "delete?", "call": { "name": "rm" } }));
        approval.validate().unwrap();
        for no in [json!("approve"), json!("yes"), json!({ "decide": "approve" })] {
            assert!(approval.check(&answer(no)).unwrap_err().contains("by a decision"));
        }
        let yes = answer(json!({ "decision": "approve", "reason": "fine" }));
        assert!(approval.check(&yes).is_ok() && yes.decision() == Some(Decision::Approve));
        assert!(Question::text("q", "which?").check(&yes).is_err(), "a text can't be approved");
        assert!(Answer::from_json(&json!({ "decision": "maybe" })).is_err());
        for value in [json!("x"), json!({ "a": 1 }), json!({ "decision": "deny", "reason": "no" })] {
            assert_eq!(answer(value.clone()).to_json(), value);
        }
    }

    #[test]
    fn a_question_says_which_seat_asks_and_only_a_gate_hides_its_call() {
        let of = |more: Value| {
            let mut asked =
                json!({ "id": "q", "kind": "approval", "text": "which?", "call": { "name": "gate" } });
            asked.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            question(asked)
        };
        let by = |agent: &str, seat: Value| {
            of(json!({ "askedBy": { "agent": agent, "stage": "table", "seat": seat } }))
        };
        let (own, named) = (by("critic-01", json!("critic-01")), by("critic-01", json!("skeptic")));
        assert_eq!(own.shown_text(), "critic-01 in stage table asks: which?");
        assert_eq!(named.shown_text(), "skeptic (critic-01) in stage table asks: which?");
        let (gate, tool) = (by("host-01", Value::Null), of(json!({})));
        assert_eq!((gate.shown_text(), tool.shown_text()), ("which?".into(), "which?".into()));
        assert_eq!([&own, &gate, &tool].map(|asked| asked.shown_call().is_some()), [true, false, true]);
        let other = Question { call: Some(json!({ "name": "rm" })), ..gate };
        assert!(other.shown_call().is_some());
    }

    #[test]
    fn a_choice_takes_an_option_and_a_form_its_values() {
        let choice = question(json!({ "id": "q", "kind": "choice", "text": "?", "options": ["a", "b"] }));
        assert!(choice.check(&answer(json!("a"))).is_ok());
        assert!(choice.check(&answer(json!("c"))).unwrap_err().contains("one of a, b"));
        let schema = json!({ "type": "object", "required": ["n"], "properties": {
            "n": { "type": "integer" }, "size": { "type": "string", "enum": ["s", "l"] } } });
        let form = question(json!({ "id": "q", "kind": "form", "text": "?", "schema": schema }));
        assert!(form.check(&answer(json!({ "n": 1, "size": "s" }))).is_ok());
        for (values, why) in [
            (json!({}), "n is required"),
            (json!({ "n": "1" }), "of type \"integer\""),
            (json!({ "n": 1, "size": "m" }), "must be one of"),
            (json!({ "n": 1, "color": "red" }), "color is unknown"),
        ] {
            let said = form.check(&answer(values)).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn an_invalid_question_is_refused() {
        for (json, why) in [
            (json!({ "id": "q", "kind": "choice", "text": "?" }), "options"),
            (json!({ "id": "q", "kind": "form", "text": "?" }), "schema"),
            (json!({ "id": "q", "text": "?", "options": ["a"] }), "for a choice only"),
            (
                json!({ "id": "q", "kind": "approval", "text": "?", "call": { "name": "rm", "arguments": {} } }),
                "args",
            ),
            (json!({ "id": "q", "kind": "approval", "text": "?", "call": "rm" }), "args"),
            (json!({ "id": " ", "text": "?" }), "blank"),
            (json!({ "id": "q", "text": "?", "onTimeout": "fail" }), "expiresAt"),
            (
                json!({ "id": "q", "kind": "approval", "text": "?", "expiresAt": "2026-01-01T00:00:00Z",
                    "onTimeout": { "answer": "approve" } }),
                "for a text or a choice only",
            ),
        ] {
            let said = question(json).validate().unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
