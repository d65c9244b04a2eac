//! How a coordinated request stands while peers of the mesh still work for it: a question of one of them is shown with all
//! that is known so far, as a foreign agent's is.

use super::{OUTPUT, RECORD, Terms, record::JointRecord};
use crate::{
    artifact::{Artifact, Part, PartContent},
    patterns::turn::RequestResult,
};
use serde_json::Value;

/// How something that a coordinator asked for stands.
#[derive(Debug, Clone, PartialEq)]
pub enum JointStanding {
    /// It came back; it counts for what is shown, and is taken when the next turn begins.
    Answered(RequestResult),
    /// It is not done, and asks nothing.
    Working {
        /// The item.
        id: String,
    },
    /// It asks.
    Asks {
        /// The item.
        id: String,
        /// Its task.
        task: String,
        /// What it wants to know.
        question: String,
        /// Whether it is a credential that it wants.
        auth: bool,
    },
}

/// The record among what was produced.
pub fn kept(produced: &[Artifact]) -> Option<JointRecord> {
    read(produced.iter().rev().find(|artifact| artifact.artifact_id == RECORD)?)
}

fn read(artifact: &Artifact) -> Option<JointRecord> {
    artifact.parts.iter().find_map(|part| match &part.content {
        PartContent::Data(data) => serde_json::from_value(data.clone()).ok(),
        PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
    })
}

/// An artifact of JSON.
pub fn artifact(name: &str, data: Value) -> Artifact {
    let part = Part { media_type: Some("application/json".to_owned()), ..Part::new(PartContent::Data(data)) };
    Artifact { parts: vec![part], ..Artifact::text(name, "application/json", "") }
}

/// The output so far and the next record, as artifacts that replace those there are; none before there is a record.
pub fn shown(record: Option<&Artifact>, terms: &Terms, standings: &[JointStanding]) -> Vec<Artifact> {
    let Some(mut record) = record.and_then(read) else { return Vec::new() };
    for standing in standings {
        match standing {
            JointStanding::Answered(_) => {}
            JointStanding::Working { id } => record.works_again(id),
            JointStanding::Asks { id, task, question, auth } => record.peer_asks(id, task, question, *auth),
        }
    }
    let mut view = record.clone();
    for standing in standings {
        if let JointStanding::Answered(reply) = standing {
            view.take(reply, &terms.accepted_modes);
        }
    }
    let output = view.finish(terms);
    record.pending_user_questions = view.pending_user_questions;
    record.final_output = Some(output.clone());
    let record = serde_json::to_value(&record).unwrap_or_default();
    vec![artifact(OUTPUT, output), artifact(RECORD, record)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::joint::Item;
    use serde_json::json;

    fn item(alias: &str) -> Item {
        Item {
            alias: alias.to_owned(),
            agent: format!("{alias}-01"),
            skill: alias.to_owned(),
            text: "x".to_owned(),
            mode: None,
            score: 1.0,
            reason: String::new(),
        }
    }

    fn begun() -> Vec<Artifact> {
        let mut record = JointRecord::default();
        record.validated_agent_cards.insert("a-01".to_owned(), json!({}));
        record.delegation_plan = vec![item("a"), item("b")];
        for item in record.delegation_plan.clone() {
            record.sent(&item, "mesh", json!({}));
        }
        vec![artifact(RECORD, json!(record))]
    }

    fn asks() -> JointStanding {
        let (id, task, question) = ("a".to_owned(), "sub-1".to_owned(), "which day?".to_owned());
        JointStanding::Asks { id, task, question, auth: false }
    }

    #[test]
    fn a_question_is_shown_with_what_has_come_back_meanwhile_and_nothing_counts_twice() {
        let reply = RequestResult {
            id: "b".to_owned(),
            ok: false,
            from: None,
            text: "no satellite".to_owned(),
            artifacts: Vec::new(),
            ..RequestResult::default()
        };
        let standings = [asks(), JointStanding::Answered(reply.clone())];
        let first = shown(begun().last(), &Terms::default(), &standings);
        let again = shown(first.last(), &Terms::default(), &standings);
        for artifacts in [&first, &again] {
            let PartContent::Data(output) = &artifacts[0].parts[0].content else { panic!("no data") };
            assert_eq!(output["status"], "input_required");
            assert_eq!(output["pending_user_questions"], json!(["which day?"]));
            assert_eq!(output["agents_used"][0]["task_id"], "sub-1");
            assert_eq!(output["agents_used"][0]["status"], "input-required");
            assert_eq!(output["agents_used"][1]["status"], "failed");
            assert_eq!(output["errors"].as_array().unwrap().len(), 1);
        }
        let record = kept(&again).unwrap();
        assert_eq!(record.audit_log.iter().filter(|audit| audit.step == "handle_input_required").count(), 1);
        assert_eq!(record.task_statuses["b"], "submitted", "it is taken when the next turn begins");
    }

    #[test]
    fn an_answered_question_is_asked_no_longer() {
        let asked = shown(begun().last(), &Terms::default(), &[asks()]);
        let working = JointStanding::Working { id: "a".to_owned() };
        let record = kept(&shown(asked.last(), &Terms::default(), &[working])).unwrap();
        assert!(record.questions.is_empty() && record.pending_user_questions.is_empty());
        assert_eq!(record.task_statuses["a"], "working");
        assert!(shown(None, &Terms::default(), &[asks()]).is_empty(), "there is no record yet");
    }
}
