//! The human-in-the-loop extension of kagent: open questions as requests in the metadata of a task's status message, and the
//! decisions of a client as responses in the metadata of its message. Each decision names what it decides by its id.

use super::message::{Message, Role};
use crate::question::{Answer, Decision, Question, QuestionKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeMap};

/// The extension's URI: what a client activates, and the key of the payloads.
pub const HITL_EXTENSION: &str = "https://kagent.dev/extensions/hitl/v1";

/// The separator of the ids of questions that one request asks.
const SEPARATOR: &str = ",";

/// What an agent asks for.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum HitlRequest<'a> {
    ToolApprovalRequest { hint: String, tools: Vec<HitlTool<'a>> },
    AskUserRequest { id: String, questions: Vec<HitlQuestion<'a>> },
}

/// A call that waits for its approval.
#[derive(Debug, Serialize)]
struct HitlTool<'a> {
    id: &'a str,
    call_id: &'a str,
    name: &'a str,
    args: Value,
}

/// A question for a text or a choice.
#[derive(Debug, Serialize)]
struct HitlQuestion<'a> {
    question: Cow<'a, str>,
    choices: &'a [String],
    multiple: bool,
}

/// What a client answers.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum HitlResponse {
    ToolApprovalResponse { approvals: Vec<HitlApproval> },
    AskUserResponse { id: String, answers: Vec<HitlAnswer> },
}

#[derive(Debug, Deserialize)]
struct HitlApproval {
    id: String,
    approved: bool,
    #[serde(default)]
    rejection_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct HitlAnswer {
    answer: Vec<String>,
}

fn approvals(questions: &[Question]) -> Vec<&Question> {
    questions.iter().filter(|question| question.kind == QuestionKind::Approval).collect()
}

/// Questions that a text answers. A form has no shape in this extension, and a credential is never asked for.
fn texts(questions: &[Question]) -> Vec<&Question> {
    let is_text = |question: &&Question| matches!(question.kind, QuestionKind::Text | QuestionKind::Choice);
    questions.iter().filter(is_text).collect()
}

fn request_id(asked: &[&Question]) -> String {
    asked.iter().map(|question| question.id.as_str()).collect::<Vec<_>>().join(SEPARATOR)
}

/// The request for these open questions: the approvals, and once there are none, the others. `None` if it can ask nothing.
pub fn request(questions: &[Question]) -> Option<Value> {
    let approvals = approvals(questions);
    let request = if approvals.is_empty() {
        let asked = texts(questions);
        let shown = asked.iter().map(|question| HitlQuestion {
            question: question.shown_text(),
            choices: &question.options,
            multiple: false,
        });
        let questions: Vec<_> = shown.collect();
        if questions.is_empty() {
            return None;
        }
        HitlRequest::AskUserRequest { id: request_id(&asked), questions }
    } else {
        let hint = approvals.iter().map(|question| question.shown_text()).collect::<Vec<_>>().join("\n");
        let args = |question: &Question| {
            let args = question.call.as_ref().and_then(|call| call.get("args"));
            args.cloned().unwrap_or_else(|| json!({}))
        };
        let tools = approvals.iter().map(|question| HitlTool {
            id: &question.id,
            call_id: &question.id,
            name: question.call.as_ref().and_then(|call| call["name"].as_str()).unwrap_or("approval"),
            args: args(question),
        });
        HitlRequest::ToolApprovalRequest { hint, tools: tools.collect() }
    };
    serde_json::to_value(request).ok()
}

/// Adds the request for these questions to a status message, which is made if there is none.
pub fn attach(message: &mut Option<Message>, task: &str, questions: &[Question]) {
    let Some(request) = request(questions) else { return };
    let message = message
        .get_or_insert_with(|| Message::text(format!("{task}.hitl"), Role::Agent, "An answer is needed."));
    message.metadata.insert(HITL_EXTENSION.to_owned(), request);
    if !message.extensions.iter().any(|uri| uri == HITL_EXTENSION) {
        message.extensions.push(HITL_EXTENSION.to_owned());
    }
}

/// The response in a client's message; `None` if it has none. A payload counts only if the message lists the extension.
pub fn response_of(message: &Message) -> Option<&Value> {
    let is_listed = message.extensions.iter().any(|uri| uri == HITL_EXTENSION);
    message.metadata.get(HITL_EXTENSION).filter(|_| is_listed)
}

/// The answers of a response, each with its question's id. Fails if it does not decide exactly what `questions` ask.
pub fn answers(response: &Value, questions: &[Question]) -> Result<Vec<(String, Answer)>, String> {
    let response: HitlResponse =
        Deserialize::deserialize(response).map_err(|error| format!("no response: {error}"))?;
    match response {
        HitlResponse::ToolApprovalResponse { approvals: decided } => {
            decisions(decided, &approvals(questions))
        }
        HitlResponse::AskUserResponse { id, answers } => {
            let asked = texts(questions);
            if asked.is_empty() || id != request_id(&asked) {
                return Err(format!("request {id:.80} is not open"));
            }
            if answers.len() != asked.len() {
                return Err(format!("{} answers for {} questions", answers.len(), asked.len()));
            }
            let one = |(question, HitlAnswer { answer }): (&&Question, HitlAnswer)| {
                let [text] = <[String; 1]>::try_from(answer).map_err(|given| {
                    format!("question {} has {} answers, it takes one", question.id, given.len())
                })?;
                let answer = Answer::Text(text);
                answer.check(question)?;
                Ok((question.id.clone(), answer))
            };
            asked.iter().zip(answers).map(one).collect()
        }
    }
}

fn decisions(decided: Vec<HitlApproval>, asked: &[&Question]) -> Result<Vec<(String, Answer)>, String> {
    let mut by_id = BTreeMap::new();
    for HitlApproval { id, approved, rejection_reason } in decided {
        if !asked.iter().any(|question| question.id == id) {
            return Err(format!("approval {id:.80} is not asked for"));
        }
        let decision = if approved { Decision::Approve } else { Decision::Deny };
        let reason = rejection_reason.filter(|reason| !approved && !reason.trim().is_empty());
        if by_id.insert(id.clone(), Answer::decide(decision, reason)).is_some() {
            return Err(format!("approval {id:.80} is decided twice"));
        }
    }
    match asked.iter().find(|question| !by_id.contains_key(&question.id)) {
        Some(missing) => Err(format!("approval {} is not decided", missing.id)),
        None if asked.is_empty() => Err("no approval is asked for".to_owned()),
        None => Ok(by_id.into_iter().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions(list: Value) -> Vec<Question> {
        serde_json::from_value(list).unwrap()
    }

    fn approvals_and_a_choice() -> Vec<Question> {
        questions(json!([
            { "id": "rm", "kind": "approval", "text": "delete?", "call": { "name": "rm", "args": { "path": "/x" } } },
            { "id": "mv", "kind": "approval", "text": "move?" },
            { "id": "size", "kind": "choice", "text": "which?", "options": ["s", "l"] },
            { "id": "key", "kind": "credential", "text": "key?" },
        ]))
    }

    #[test]
    fn approvals_are_asked_first_and_each_is_decided_once() {
        let asked = approvals_and_a_choice();
        let shown = request(&asked).unwrap();
        assert_eq!(shown["type"], "tool_approval_request");
        assert_eq!(
            shown["tools"][0],
            json!({ "id": "rm", "call_id": "rm", "name": "rm", "args": { "path": "/x" } })
        );
        let yes = json!({ "id": "rm", "approved": true });
        let no = json!({ "id": "mv", "approved": false, "rejection_reason": "why" });
        let of = |list: &[&Value]| {
            answers(&json!({ "type": "tool_approval_response", "approvals": list }), &asked)
        };
        let decided = of(&[&yes, &no]).unwrap();
        assert_eq!(decided[1].1, Answer::decide(Decision::Approve, None));
        assert_eq!(decided[0].1, Answer::decide(Decision::Deny, Some("why".to_owned())));
        for (list, why) in [
            (vec![&yes], "mv is not decided"),
            (vec![&yes, &yes, &no], "decided twice"),
            (vec![&yes, &no, &json!({ "id": "size", "approved": true })], "not asked for"),
        ] {
            assert!(of(&list).unwrap_err().contains(why), "{list:?}");
        }
    }

    #[test]
    fn questions_are_answered_in_order_and_a_credential_is_never_asked_for() {
        let asked = approvals_and_a_choice().split_off(2);
        let shown = request(&asked).unwrap();
        assert_eq!(
            shown["questions"],
            json!([{ "question": "which?", "choices": ["s", "l"], "multiple": false }])
        );
        let of = |id: &str, list: Value| {
            answers(&json!({ "type": "ask_user_response", "id": id, "answers": list }), &asked)
        };
        assert_eq!(
            of("size", json!([{ "answer": ["l"] }])).unwrap(),
            [("size".to_owned(), Answer::text("l"))]
        );
        for (id, list) in [
            ("other", json!([{ "answer": ["l"] }])),
            ("size", json!([])),
            ("size", json!([{ "answer": ["s", "l"] }])),
            ("size", json!([{ "answer": ["m"] }])),
        ] {
            assert!(of(id, list.clone()).is_err(), "{id} {list}");
        }
        assert_eq!(request(&asked[1..]), None);
    }

    #[test]
    fn a_response_counts_only_if_the_message_lists_the_extension() {
        let mut message = Message::text("m", Role::User, "yes");
        message.metadata.insert(HITL_EXTENSION.to_owned(), json!({ "type": "ask_user_response" }));
        assert_eq!(response_of(&message), None);
        message.extensions.push(HITL_EXTENSION.to_owned());
        assert!(response_of(&message).is_some());
    }
}
