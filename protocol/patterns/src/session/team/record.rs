//! All that is known of one coordinated request, under the names of the seed, and the one answer made of it.

use super::{SkillCandidate, TeamItem, TeamPlan, UnmatchedPart, results};
use crate::session::graph::TeamTerms;
use protocol::{a2a::remote_task::RemoteTaskOutcome, artifact::Artifact, words::counted};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The state of a coordinated request. It never holds a secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DelegationRecord {
    pub input: String,
    pub normalized_input: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    pub session_id: String,
    pub context_id: Option<String>,
    pub discovery_mode: String,
    pub agent_cards: BTreeMap<String, Value>,
    pub validated_agent_cards: BTreeMap<String, Value>,
    pub remote_agents: BTreeMap<String, Value>,
    pub candidate_skills: Vec<SkillCandidate>,
    pub delegation_plan: Vec<TeamItem>,
    pub unmatched: Vec<UnmatchedPart>,
    pub auth_requirements: BTreeMap<String, Value>,
    pub credential_status: BTreeMap<String, String>,
    pub a2a_tasks: BTreeMap<String, Value>,
    pub task_ids: BTreeMap<String, String>,
    pub task_statuses: BTreeMap<String, String>,
    pub task_messages: BTreeMap<String, Vec<Value>>,
    pub remote_artifacts: BTreeMap<String, Value>,
    pub artifact_summary: BTreeMap<String, String>,
    pub interaction_modes: BTreeMap<String, String>,
    pub poll_attempts: BTreeMap<String, u32>,
    pub stream_events: BTreeMap<String, Vec<Value>>,
    pub questions: BTreeMap<String, String>,
    pub pending_user_questions: Vec<String>,
    pub aggregation_result: Option<Value>,
    pub audit_log: Vec<AuditEvent>,
    pub errors: Vec<String>,
    /// Why items have failed, by their aliases.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, String>,
    pub final_output: Option<Value>,
}

/// One thing that happened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditEvent {
    pub step: String,
    pub event: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub detail: String,
}

impl DelegationRecord {
    /// Notes what happened.
    pub fn audit(&mut self, step: &str, event: &str, detail: impl Into<String>) {
        let (step, event) = (step.to_owned(), event.to_owned());
        self.audit_log.push(AuditEvent { step, event, detail: detail.into(), ..AuditEvent::default() });
    }

    /// Takes the plan.
    pub fn planned(&mut self, plan: TeamPlan) {
        for item in &plan.items {
            let detail = format!("{}: {}", item.skill, item.reason);
            self.about(item, "plan_remote_delegation", "matched", detail);
            self.task_statuses.insert(item.alias.clone(), "planned".to_owned());
        }
        for missing in &plan.unmatched {
            self.audit(
                "plan_remote_delegation",
                "unmatched",
                format!("{:?}: {}", missing.text, missing.reason),
            );
            self.errors.push(format!("nobody advertises a skill for {:?}: {}", missing.text, missing.reason));
        }
        self.candidate_skills = plan.candidates;
        self.delegation_plan = plan.items;
        self.unmatched = plan.unmatched;
    }

    fn about(&mut self, item: &TeamItem, step: &str, event: &str, detail: String) {
        let status = self.task_statuses.get(&item.alias).cloned();
        let task_id = self.task_ids.get(&item.alias).cloned();
        let (step, event, agent_id) = (step.to_owned(), event.to_owned(), Some(item.agent.clone()));
        self.audit_log.push(AuditEvent { step, event, agent_id, task_id, status, detail });
    }

    /// An item was sent to whoever does it.
    pub fn sent(&mut self, item: &TeamItem, mode: &str, request: Value) {
        self.interaction_modes.insert(item.alias.clone(), mode.to_owned());
        if let Some(message) = request.get("message") {
            self.task_messages.entry(item.alias.clone()).or_default().push(message.clone());
        }
        self.a2a_tasks.insert(item.alias.clone(), request);
        self.task_statuses.insert(item.alias.clone(), "submitted".to_owned());
        self.about(item, "build_a2a_tasks", "sent", format!("by {mode}"));
    }

    /// An item was not even sent, or came to nothing: `status` says how, `why` in words.
    pub fn failed(&mut self, item: &TeamItem, status: &str, why: &str) {
        self.task_statuses.insert(item.alias.clone(), status.to_owned());
        self.questions.remove(&item.alias);
        let task = self.task_ids.get(&item.alias).map(|task| format!(" task {task}")).unwrap_or_default();
        self.errors.push(format!("{} ({}){task} {status}: {why}", item.agent, item.skill));
        self.failures.insert(item.alias.clone(), why.to_owned());
        self.about(item, "handle_task_failure", status, why.to_owned());
    }

    /// An item asks something of the user.
    pub fn asks(&mut self, item: &TeamItem, status: &str, question: &str) {
        self.task_statuses.insert(item.alias.clone(), status.to_owned());
        self.questions.insert(item.alias.clone(), question.to_owned());
        self.about(item, "handle_input_required", status, question.to_owned());
    }

    /// An item is done with these artifacts, if they can be used.
    pub fn done(&mut self, item: &TeamItem, artifacts: &[Artifact], accepted: &[String]) {
        if let Some(why) = results::why_not(artifacts, accepted) {
            return self.failed(item, RemoteTaskOutcome::Malformed.word(), &why);
        }
        self.questions.remove(&item.alias);
        self.task_statuses.insert(item.alias.clone(), RemoteTaskOutcome::Completed.word().to_owned());
        self.remote_artifacts.insert(item.alias.clone(), results::normalised(artifacts));
        let shared = self.delegation_plan.iter().filter(|other| other.agent == item.agent).count() > 1;
        let name = if shared { format!("{}: {}", item.agent, item.skill) } else { item.agent.clone() };
        self.artifact_summary.insert(name, results::summary(artifacts));
        self.about(
            item,
            "process_remote_artifacts",
            "accepted",
            counted(artifacts.len(), "artifact", "artifacts"),
        );
    }

    /// Makes the one answer of it.
    pub fn finish(&mut self, terms: &TeamTerms) -> Value {
        let is =
            |item: &&TeamItem, word: &str| self.task_statuses.get(&item.alias).is_some_and(|is| is == word);
        let items = &self.delegation_plan;
        let done: Vec<_> = items.iter().filter(|item| is(item, "completed")).collect();
        let missing: Vec<_> = items.iter().filter(|item| !is(item, "completed")).collect();
        let all_are = |word: &str| !items.is_empty() && items.iter().all(|item| is(&item, word));
        self.pending_user_questions = self.questions.values().cloned().collect();
        let is_whole = missing.is_empty() && self.unmatched.is_empty();
        let status = if self.refusal.is_some() {
            "failed"
        } else if !self.questions.is_empty() {
            "input_required"
        } else if self.validated_agent_cards.is_empty() {
            "no_agents_available"
        } else if items.is_empty() {
            "no_matching_skill"
        } else if is_whole {
            "ok"
        } else if all_are("auth_failed") {
            "auth_failed"
        } else if all_are("unsupported") {
            "unsupported"
        } else if done.is_empty() || terms.all_or_nothing {
            "failed"
        } else {
            "partial"
        };
        let said = self.artifact_summary.iter().map(|(name, summary)| format!("{name}: {summary}"));
        let said: Vec<String> = said.collect();
        let mut lacks: Vec<String> = Vec::new();
        for item in &missing {
            let how = self.task_statuses.get(&item.alias).map(String::as_str).unwrap_or("unknown");
            match self.questions.get(&item.alias) {
                Some(question) => lacks.push(format!("{} asks: {question}", item.agent)),
                None => {
                    let why =
                        self.failures.get(&item.alias).map(|why| format!(": {why}")).unwrap_or_default();
                    lacks.push(format!("{} for {:?} is missing: {how}{why}", item.agent, item.text));
                }
            }
        }
        lacks.extend(self.unmatched.iter().map(|part| format!("nobody does {:?}", part.text)));
        let answer = match (&self.refusal, status) {
            (Some(why), _) => why.clone(),
            (None, "no_agents_available") => {
                "No agent is available: none was found whose card can be used.".to_owned()
            }
            (None, "no_matching_skill") => {
                "No suitable agent is available: no advertised skill fits the request.".to_owned()
            }
            (None, "ok") => said.join("\n"),
            (None, "partial") => {
                format!("{}\nThis is only a part of the answer: {}.", said.join("\n"), lacks.join("; "))
            }
            (None, _) => said.iter().chain(&lacks).cloned().collect::<Vec<_>>().join("\n"),
        };
        let agents: Vec<Value> = items.iter().map(|item| self.used(item)).collect();
        let steps: Vec<String> =
            self.audit_log.iter().map(|audit| format!("{}: {}", audit.step, audit.event)).collect();
        let output = json!({
            "status": status,
            "answer": answer,
            "agents_used": agents,
            "artifact_summary": self.artifact_summary,
            "pending_user_questions": self.pending_user_questions,
            "missing": lacks,
            "errors": self.errors,
            "audit_summary": steps,
        });
        if !done.is_empty() {
            self.aggregation_result =
                Some(json!({ "answer": answer, "parts": self.remote_artifacts, "is_whole": is_whole }));
        }
        self.audit("finalize_response", status, "");
        self.final_output = Some(output.clone());
        output
    }

    /// The request can't be taken up.
    pub fn refuse(&mut self, why: &str) {
        self.refusal = Some(why.to_owned());
        self.errors.push(why.to_owned());
        self.audit("preprocess_request", "refused", why);
    }

    fn used(&self, item: &TeamItem) -> Value {
        json!({
            "name": item.agent,
            "skill": item.skill,
            "task_id": self.task_ids.get(&item.alias),
            "mode": self.interaction_modes.get(&item.alias),
            "status": self.task_statuses.get(&item.alias),
            "reason": item.reason,
        })
    }
}
