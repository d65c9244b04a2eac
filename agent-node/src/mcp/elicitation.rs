//! Questions as MCP elicitations, and what a person answered. Pure.

use protocol::question::{Question, QuestionKind};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Value, json};

/// The most characters of a call in the message of an approval.
const MAX_CALL: usize = 4_000;

#[derive(Debug, PartialEq)]
pub(super) enum ElicitationOutcome {
    /// They answered or declined: the body of `POST /a2a/tasks/{id}/answer`.
    Answer(Value),
    /// They did neither. The question stays open.
    LeftOpen(String),
}

/// The elicitation of a question. `None` if it can't be a form: a credential never is one, and neither is a nested schema.
pub(super) fn request(question: &Question) -> Option<ElicitRequestParams> {
    let schema = |properties: Value, required: &str| json!({ "type": "object", "properties": properties, "required": [required] });
    let mut message = question.shown_text().into_owned();
    let schema = match question.kind {
        QuestionKind::Text => schema(json!({ "answer": { "type": "string" } }), "answer"),
        QuestionKind::Choice => {
            schema(json!({ "answer": { "type": "string", "enum": question.options } }), "answer")
        }
        QuestionKind::Approval => {
            if let Some(call) = question.shown_call() {
                let call = call.to_string();
                // Nobody approves what is not shown.
                if call.chars().count() > MAX_CALL {
                    return None;
                }
                message = format!("{message}\n{call}");
            }
            let decision = json!({ "type": "string", "enum": ["approve", "deny"] });
            schema(json!({ "decision": decision, "reason": { "type": "string" } }), "decision")
        }
        QuestionKind::Form => question.schema.clone()?,
        QuestionKind::Credential => return None,
    };
    serde_json::from_value(json!({ "mode": "form", "message": message, "requestedSchema": schema })).ok()
}

/// What `result` says to `question`.
pub(super) fn outcome(question: &Question, result: &ElicitResult) -> ElicitationOutcome {
    let body = |name: &str, value: &Value| json!({ "questionId": question.id, name: value });
    let content = result.content.as_ref().unwrap_or(&Value::Null);
    if result.action == ElicitationAction::Decline {
        return ElicitationOutcome::Answer(
            json!({ "questionId": question.id, "decision": "deny", "reason": "declined by the person" }),
        );
    }
    if result.action != ElicitationAction::Accept {
        return ElicitationOutcome::LeftOpen(format!(
            "question {} was cancelled; it stays open",
            question.id
        ));
    }
    match question.kind {
        QuestionKind::Form => ElicitationOutcome::Answer(body("values", content)),
        QuestionKind::Text | QuestionKind::Choice => {
            ElicitationOutcome::Answer(body("text", &content["answer"]))
        }
        QuestionKind::Approval => {
            let mut answer = body("decision", &content["decision"]);
            if let Some(reason) = content["reason"].as_str().filter(|reason| !reason.trim().is_empty()) {
                answer["reason"] = reason.into();
            }
            ElicitationOutcome::Answer(answer)
        }
        QuestionKind::Credential => ElicitationOutcome::LeftOpen(format!(
            "question {} asks for a credential, which is not given by a form",
            question.id
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(json: Value) -> Question {
        serde_json::from_value(json).unwrap()
    }

    fn result(json: Value) -> ElicitResult {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn each_kind_has_its_form_and_a_credential_none() {
        let schema = |json: Value| {
            request(&question(json))
                .map(|params| serde_json::to_value(params).unwrap()["requestedSchema"].clone())
        };
        let text = schema(json!({ "id": "q", "text": "?" })).unwrap();
        assert_eq!(text["properties"]["answer"]["type"], "string");
        let choice =
            schema(json!({ "id": "q", "kind": "choice", "text": "?", "options": ["a", "b"] })).unwrap();
        assert_eq!(choice["properties"]["answer"]["enum"], json!(["a", "b"]));
        let approval = json!({ "id": "q", "kind": "approval", "text": "ok?", "call": { "name": "rm" } });
        assert_eq!(schema(approval.clone()).unwrap()["required"], json!(["decision"]));
        let shown = serde_json::to_value(request(&question(approval)).unwrap()).unwrap();
        assert!(shown["message"].as_str().unwrap().contains(r#""name":"rm""#), "{shown}");
        let form = json!({ "id": "q", "kind": "form", "text": "?",
            "schema": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } } });
        assert_eq!(schema(form).unwrap()["properties"]["n"]["type"], "integer");
        let nested = json!({ "id": "q", "kind": "form", "text": "?", "schema": { "type": "object",
            "properties": { "n": { "type": "object", "properties": { "x": { "type": "string" } } } } } });
        assert_eq!(schema(nested), None, "a form is flat");
        assert_eq!(schema(json!({ "id": "q", "kind": "credential", "text": "key?" })), None);
    }

    #[test]
    fn an_accepted_form_answers_a_declined_one_denies_and_a_cancelled_one_leaves_the_question_open() {
        let ask = question(json!({ "id": "q", "kind": "approval", "text": "ok?" }));
        let accepted =
            result(json!({ "action": "accept", "content": { "decision": "approve", "reason": "fine" } }));
        assert_eq!(
            outcome(&ask, &accepted),
            ElicitationOutcome::Answer(json!({ "questionId": "q", "decision": "approve", "reason": "fine" }))
        );
        // Accepting the form says nothing: the decision does.
        let empty = result(json!({ "action": "accept", "content": {} }));
        let ElicitationOutcome::Answer(body) = outcome(&ask, &empty) else { panic!() };
        assert_eq!(body["decision"], Value::Null);
        let ElicitationOutcome::Answer(body) = outcome(&ask, &result(json!({ "action": "decline" }))) else {
            panic!()
        };
        assert_eq!(body["decision"], "deny");
        let cancelled = outcome(&ask, &result(json!({ "action": "cancel" })));
        assert!(matches!(cancelled, ElicitationOutcome::LeftOpen(_)), "{cancelled:?}");
    }
}
