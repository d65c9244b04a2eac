//! What a result must pass before it counts: the rules of an agent, the demands of a request, and the record of each check.

use crate::{
    artifact::{Artifact, PartContent},
    ids::{AgentId, Capability, Digest, TaskId},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use wire::answer::ResultRevision;

/// What a request demands of its result (`task-request.accept`). It names no command: a request must not run one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptanceDemand {
    /// The JSON Schema of the last artifact, or of the message if there is no artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The capability of the agent that reviews it, found by contract net.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<Capability>,
}

/// What an agent demands of the results that it is accountable for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AcceptanceRule {
    /// The capabilities of the tasks that it is for; all, if empty.
    pub capabilities: Vec<Capability>,
    /// Whether the node has a check of its own for them: a schema or a command.
    pub is_checked_here: bool,
    /// The capability of the agent that reviews them.
    pub reviewer: Option<Capability>,
}

impl AcceptanceRule {
    fn applies_to(&self, capability: Option<&Capability>) -> bool {
        self.capabilities.is_empty() || capability.is_some_and(|named| self.capabilities.contains(named))
    }
}

/// The checks that the results of one task pass, in this order: those of the node, then the reviewers one after the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptanceTerms {
    /// Whether the node has checks of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_checked_here: bool,
    /// The schema of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The capabilities of the reviewers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<Capability>,
}

impl AcceptanceTerms {
    /// The terms of a task with `capability` under `rules` and the demand of its request.
    pub fn of(
        rules: &[AcceptanceRule],
        capability: Option<&Capability>,
        demand: Option<AcceptanceDemand>,
    ) -> Self {
        let mut terms = Self::default();
        let mut add = |reviewer: Option<Capability>| {
            terms.reviewers.extend(reviewer.filter(|reviewer| !terms.reviewers.contains(reviewer)));
        };
        let demand = demand.unwrap_or_default();
        let applying: Vec<_> = rules.iter().filter(|rule| rule.applies_to(capability)).collect();
        applying.iter().for_each(|rule| add(rule.reviewer.clone()));
        add(demand.reviewer);
        terms.is_checked_here = applying.iter().any(|rule| rule.is_checked_here);
        terms.schema = demand.schema;
        terms
    }

    /// Whether nothing is checked.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the node checks something itself.
    pub fn has_own_check(&self) -> bool {
        self.is_checked_here || self.schema.is_some()
    }
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    Accepted,
    Refused,
    /// The check itself failed, and says nothing about the result.
    Failed,
}

/// The record of one check of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultCheck {
    /// What checked it: `node` for its schemas and commands, or `capability:NAME` for a reviewer.
    pub by: String,
    /// The task of the review, at the agent that had it reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<TaskId>,
    /// The agent whose result it is.
    pub doer: AgentId,
    pub verdict: CheckVerdict,
    /// What was checked, what is wrong with the result, or why the check failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub findings: String,
    /// The digest of the result: of the ids and digests of its first artifacts, and its message.
    pub sha256: Digest,
    pub at: WallTime,
}

/// The most checks that a task's record keeps, the newest.
pub const MAX_CHECKS: usize = 32;
/// The most bytes of findings.
pub const MAX_FINDINGS: usize = 8 << 10;

/// The beginning of `text`, at most [`MAX_FINDINGS`] bytes.
pub fn clip_findings(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_FINDINGS)].to_owned()
}

/// The JSON Schema of a reviewer's answer.
pub fn verdict_schema() -> Value {
    json!({
        "type": "object",
        "required": ["accepted"],
        "properties": {
            "accepted": { "type": "boolean" },
            "findings": { "type": "string", "description": "What is wrong, if it is not accepted." },
        },
    })
}

/// Whether a task with this input is a review: the answer that it asks for is a verdict.
pub fn is_review_input(input: Option<&Value>) -> bool {
    input.and_then(|input| input.get("answer")).is_some_and(|answer| *answer == verdict_schema())
}

/// The JSON that an artifact holds: its data, or its text if that is JSON.
pub fn json_of(artifact: &Artifact) -> Option<Value> {
    let data = artifact.parts.iter().find_map(|part| match &part.content {
        PartContent::Data(data) => Some(data.clone()),
        PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
    });
    data.or_else(|| json_in(&artifact.as_text()))
}

/// The JSON in a text, with or without a code fence around it.
pub fn json_in(text: &str) -> Option<Value> {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let body = inner.and_then(|inner| inner.split_once('\n')).map_or(text, |(_, body)| body.trim());
    crate::json::parse(body.as_bytes(), crate::json::MAX_DEPTH - 4).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(name: &str) -> Capability {
        Capability::parse(name).unwrap()
    }

    #[test]
    fn the_terms_of_a_task_come_from_the_rules_for_its_capability_and_from_its_request() {
        let rules = [
            AcceptanceRule { capabilities: vec![capability("build")], is_checked_here: true, reviewer: None },
            AcceptanceRule { reviewer: Some(capability("review")), ..AcceptanceRule::default() },
        ];
        let terms = AcceptanceTerms::of(&rules, Some(&capability("build")), None);
        assert!(terms.is_checked_here && terms.reviewers == [capability("review")]);
        let demand = AcceptanceDemand { schema: Some(json!({})), reviewer: Some(capability("review")) };
        let terms = AcceptanceTerms::of(&rules, None, Some(demand));
        assert!(!terms.is_checked_here && terms.has_own_check());
        assert_eq!(terms.reviewers.len(), 1, "the same reviewer is asked once");
        assert!(AcceptanceTerms::of(&[], None, None).is_default());
    }

    #[test]
    fn a_request_can_demand_no_command() {
        let demand = serde_json::from_value::<AcceptanceDemand>(json!({ "exec": ["rm"] }));
        assert!(demand.unwrap_err().to_string().contains("unknown field `exec`"));
    }
}
