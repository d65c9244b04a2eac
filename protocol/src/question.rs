//! Questions to a person, and their answers. One shape for all: the brain asks in it, it is shown in it, and it is answered by
//! its id. A time-out never approves anything.

use crate::identity::{ApprovalProof, PersonKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use wire::question::{AskedBy, Decision, OnTimeout, Question, QuestionKind, RemoteAsker};

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
        /// The arguments with which the call is approved, if they are others than those of the question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        values: Option<Map<String, Value>>,
        /// Of an approval that goes on to another agent: that a person made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Box<ApprovalProof>>,
    },
}

impl Answer {
    /// A decision.
    pub fn decide(decision: Decision, reason: Option<String>) -> Self {
        Self::Decision { decision, reason, values: None, proof: None }
    }

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

    /// The arguments with which it approves a call, if they are others than those of the question.
    pub fn edited(&self) -> Option<&Map<String, Value>> {
        if let Self::Decision { decision: Decision::Approve, values, .. } = self {
            values.as_ref()
        } else {
            None
        }
    }

    /// Proves that the person with `key` made it, if it approves `question`.
    pub fn prove_by(&mut self, key: &PersonKey, question: &Question) {
        if let Self::Decision { decision: Decision::Approve, values, proof, .. } = self {
            *proof = Some(Box::new(key.approve(question, values.as_ref())));
        }
    }

    /// The proof that a person made it, if it is an approval that has one.
    pub fn proof(&self) -> Option<&ApprovalProof> {
        if let Self::Decision { proof, .. } = self { proof.as_deref() } else { None }
    }

    /// The answer in the member `answer` of a `task-answer`: a text, a form's values, or `{decision, reason, values}`.
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
                let values = members.get("values").map(|values| match values {
                    Value::Object(values) => Ok(values.clone()),
                    other => Err(format!("values must be an object, got {other}")),
                });
                Ok(Self::Decision { decision, reason, values: values.transpose()?, proof })
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
            Self::Decision { decision, reason, values, proof } => {
                let mut members = Map::from_iter([("decision".to_owned(), serde_json::json!(decision))]);
                members.extend(proof.as_ref().map(|proof| ("proof".to_owned(), serde_json::json!(proof))));
                members.extend(reason.clone().map(|reason| ("reason".to_owned(), reason.into())));
                members.extend(values.clone().map(|values| ("values".to_owned(), values.into())));
                Value::Object(members)
            }
        }
    }

    /// The body of `POST /a2a/tasks/{id}/answer` that gives it to the question of this id.
    pub fn body(self, question: &str) -> Value {
        let (members, own) = match self {
            Self::Text(text) => (Map::new(), Some(("text", Value::from(text)))),
            Self::Values(values) => (Map::new(), Some(("values", values.into()))),
            decision @ Self::Decision { .. } => {
                (decision.to_json().as_object().cloned().unwrap_or_default(), None)
            }
        };
        let named = own.into_iter().chain([("questionId", question.into())]);
        Value::Object(
            members.into_iter().chain(named.map(|(name, value)| (name.to_owned(), value))).collect(),
        )
    }

    /// Fails if it is no answer to `question`, and says what is.
    pub fn check(&self, question: &Question) -> Result<(), String> {
        let id = &question.id;
        match (question.kind, self) {
            (_, Self::Decision { decision: Decision::Deny, values: Some(_), .. }) => {
                Err(format!("question {id}: what is denied has no values"))
            }
            (QuestionKind::Approval, Self::Decision { values: Some(_), .. }) if !question.editable => Err(
                format!("question {id} can't be approved with other arguments: approve or deny it as it is"),
            ),
            (QuestionKind::Approval, Self::Decision { values: Some(values), .. }) => {
                check_members(question.schema.as_ref(), values).map_err(|why| format!("question {id}: {why}"))
            }
            (_, Self::Decision { decision: Decision::Deny, .. })
            | (QuestionKind::Approval, Self::Decision { .. })
            | (QuestionKind::Text | QuestionKind::Credential, Self::Text(_)) => Ok(()),
            (QuestionKind::Choice, Self::Text(text)) => question.check_option(text),
            (QuestionKind::Choice, _) => Err(question.wanted_option()),
            (QuestionKind::Form, Self::Values(values)) => {
                check_form(question.schema.as_ref(), values).map_err(|why| format!("question {id}: {why}"))
            }
            (QuestionKind::Form, _) => Err(format!("question {id} is a form: answer with its values")),
            (QuestionKind::Approval, _) => {
                Err(format!("question {id} is an approval: answer it by a decision, approve or deny"))
            }
            (QuestionKind::Text | QuestionKind::Credential, _) => Err(format!("question {id} wants a text")),
        }
    }
}

/// Checks the values of a form against the flat part of its schema: no others than it has, and [`check_members`].
fn check_form(schema: Option<&Value>, values: &Map<String, Value>) -> Result<(), String> {
    if let Some(properties) = schema.and_then(|schema| schema["properties"].as_object())
        && let Some(name) = values.keys().find(|name| !properties.contains_key(*name))
    {
        let known: Vec<_> = properties.keys().map(String::as_str).collect();
        return Err(format!("{name} is unknown; there are {}", known.join(", ")));
    }
    check_members(schema, values)
}

/// Checks values against the flat part of a schema: `required`, and of each property `type` and `enum`.
fn check_members(schema: Option<&Value>, values: &Map<String, Value>) -> Result<(), String> {
    let schema = schema.unwrap_or(&Value::Null);
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| values.get(*name).is_none_or(Value::is_null)) {
        return Err(format!("{missing} is required"));
    }
    for (name, value) in values {
        let property = &schema["properties"][name];
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
            assert!(answer(no).check(&approval).unwrap_err().contains("by a decision"));
        }
        let yes = answer(json!({ "decision": "approve", "reason": "fine" }));
        assert!(yes.check(&approval).is_ok() && yes.decision() == Some(Decision::Approve));
        assert!(yes.check(&Question::new("q", "which?")).is_err(), "a text can't be approved");
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
        assert!(answer(json!("a")).check(&choice).is_ok());
        assert!(answer(json!("c")).check(&choice).unwrap_err().contains("one of a, b"));
        let schema = json!({ "type": "object", "required": ["n"], "properties": {
            "n": { "type": "integer" }, "size": { "type": "string", "enum": ["s", "l"] } } });
        let form = question(json!({ "id": "q", "kind": "form", "text": "?", "schema": schema }));
        assert!(answer(json!({ "n": 1, "size": "s" })).check(&form).is_ok());
        for (values, why) in [
            (json!({}), "n is required"),
            (json!({ "n": "1" }), "of type \"integer\""),
            (json!({ "n": 1, "size": "m" }), "must be one of"),
            (json!({ "n": 1, "color": "red" }), "color is unknown"),
        ] {
            let said = answer(values).check(&form).unwrap_err();
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
