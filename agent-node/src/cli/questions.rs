//! The questions that a task waits for, and how they are answered.

use super::client::MeshClient;
use crate::answer_command::answer_command;
use protocol::{
    question::{Question, QuestionKind},
    task::EXTENSION,
};
use serde_json::{Value, json};

/// The questions that `task` waits for.
pub(super) fn open_questions(task: &Value) -> Vec<Question> {
    serde_json::from_value(task["metadata"][EXTENSION]["questions"].clone()).unwrap_or_default()
}

/// The command that answers the first open question of `task`.
pub(super) fn how_to_answer(task: &Value, id: &str, at: &str) -> String {
    let questions = open_questions(task);
    let Some(question) = questions.first() else { return format!("`mesh answer {id} TEXT{at}`") };
    let command = answer_command(id, question, questions.len() == 1, at);
    let or_deny = if question.kind == QuestionKind::Approval { ", or `--deny`" } else { "" };
    format!("`{command}`{or_deny}")
}

/// Adds the person's proof to `answer`, if it approves a question of `task`: an agent that passes it on can't prove it.
pub(super) async fn prove(client: &MeshClient, endpoint: &str, task: &Value, answer: &mut Value) {
    if answer["decision"] != "approve" {
        return;
    }
    let questions = open_questions(task);
    let asked = questions.iter().find(|asked| answer["questionId"] == asked.id.as_str());
    if let (Some(asked), Some(key)) = (asked, client.person(endpoint).await) {
        answer["proof"] = json!(key.approve(asked, answer["values"].as_object()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_answers_fits_the_kind_of_the_question() {
        let of = |questions: Value| {
            how_to_answer(&json!({ "metadata": { EXTENSION: { "questions": questions } } }), "t-1", " --at x")
        };
        let approval = json!({ "id": "rm", "kind": "approval", "text": "?" });
        assert_eq!(of(json!([approval])), "`mesh answer t-1 --question rm --approve --at x`, or `--deny`");
        let form = json!({ "id": "f", "kind": "form", "text": "?", "schema": {} });
        let choice = json!({ "id": "c", "kind": "choice", "text": "?", "options": ["s", "very large"] });
        assert_eq!(of(json!([choice])), "`mesh answer t-1 --question c s|'very large' --at x`");
        assert_eq!(of(json!([form])), "`mesh answer t-1 --question f --values JSON --at x`");
        let text = json!({ "id": "q", "text": "?" });
        assert_eq!(of(json!([text])), "`mesh answer t-1 TEXT --at x`");
        assert_eq!(of(json!([text, approval])), "`mesh answer t-1 --question q TEXT --at x`");
        assert_eq!(of(json!([])), "`mesh answer t-1 TEXT --at x`");
    }
}
