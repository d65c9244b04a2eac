//! The parts that foreign agents do: checked before anything is sent, all at the same time, each to its own end.

use super::{CoordinatorTurn, discover::DiscoveredAgent};
use crate::outbox::a2a::{RemoteAgent, remote_task_runner::run};
use futures_util::future::join_all;
use protocol::{
    a2a::{
        card_validation::fits,
        credential::{CredentialStatus, standing},
        interaction::InteractionMode,
        message::{Message, Role},
        remote_task::{RemoteTask, RemoteTaskEnd, RemoteTaskEvent, RemoteTaskOutcome},
    },
    artifact::{Artifact, merge},
    patterns::{joint::Item, turn::Progress},
};
use serde_json::json;
use tokio::sync::mpsc;

/// What came of one part.
struct ItemResult {
    item: Item,
    polls: u32,
    events: Vec<serde_json::Value>,
    artifacts: Vec<Artifact>,
    end: RemoteTaskEnd,
}

impl CoordinatorTurn<'_> {
    /// The parts of the plan that foreign agents do, none of them begun.
    pub(super) fn fresh(&self) -> Vec<(String, Option<String>)> {
        let is_foreign =
            |item: &&Item| matches!(self.found.get(&item.agent), Some(DiscoveredAgent::Foreign(_)));
        self.record.delegation_plan.iter().filter(is_foreign).map(|item| (item.alias.clone(), None)).collect()
    }

    /// Calls for these parts at the same time; an answer goes to the task that asked.
    pub(super) async fn call_foreign(&mut self, parts: Vec<(String, Option<String>)>) {
        let mut errands = Vec::new();
        for (alias, answer) in parts {
            let Some(item) = self.record.delegation_plan.iter().find(|item| item.alias == alias).cloned()
            else {
                continue;
            };
            let Some(DiscoveredAgent::Foreign(remote)) = self.found.get(&item.agent) else { continue };
            let remote = remote.as_ref().clone();
            match self.prepare(&item, &remote, answer) {
                Ok(errand) => errands.push((item, remote, errand)),
                Err((status, why)) => self.record.failed(&item, status, &why),
            }
        }
        let stories =
            join_all(errands.into_iter().map(|(item, remote, errand)| self.pursue(item, remote, errand)))
                .await;
        for story in stories {
            self.settle(story);
        }
    }

    /// What is sent for `item`, or why nothing is.
    fn prepare(
        &mut self,
        item: &Item,
        remote: &RemoteAgent,
        answer: Option<String>,
    ) -> Result<RemoteTask, (&'static str, String)> {
        let vetted = remote.card();
        let skill = vetted.skill(&item.skill);
        let standing = standing(&vetted.card, skill, &remote.schemes());
        self.record.credential_status.insert(item.agent.clone(), standing.word().to_owned());
        if !vetted.card.security_requirements.is_empty() {
            self.record
                .auth_requirements
                .insert(item.agent.clone(), json!(vetted.card.security_requirements));
        }
        if let CredentialStatus::Missing { schemes } = standing {
            return Err(("auth_failed", format!("no credential for {}", schemes.join(", "))));
        }
        if !fits("text/plain", vetted.input_modes(skill)) {
            return Err(("unsupported", "it does not take text/plain".to_owned()));
        }
        let accepted = &self.terms.accepted_modes;
        let offered = vetted.output_modes(skill);
        let usable = ["text/plain".to_owned(), "application/json".to_owned()];
        let wanted: &[String] = if accepted.is_empty() { &usable } else { accepted };
        if !wanted.iter().any(|mode| fits(mode, offered)) {
            return Err((
                "unsupported",
                format!("it answers in {}, and {} is wanted", offered.join(", "), wanted.join(", ")),
            ));
        }
        let can_be_called = self.coordinator.hooks.is_reachable();
        let mode =
            InteractionMode::choose(item.mode.or(self.terms.mode), &vetted.card.capabilities, can_be_called)
                .map_err(|why| ("unsupported", why))?;
        let text = answer.unwrap_or_else(|| item.text.clone());
        let mut message = Message::text(format!("{}:{}", self.request.key, item.alias), Role::User, text);
        message.task_id = self.record.task_ids.get(&item.alias).cloned();
        let ours = json!({ "capability": item.skill, "skillId": item.skill, "sessionId": self.record.session_id, "alias": item.alias });
        message.metadata.insert(protocol::task::EXTENSION.to_owned(), ours);
        let method = if mode == InteractionMode::Streaming { "SendStreamingMessage" } else { "SendMessage" };
        self.record.sent(item, mode.word(), json!({
            "method": method, "agent": item.agent, "skill": item.skill, "session_id": self.record.session_id,
            "message": message, "accepted_output_modes": wanted,
        }));
        let bounds = self.terms.bounds.unwrap_or_default();
        Ok(RemoteTask { message, accepted_modes: wanted.to_vec(), mode, bounds, has_runner_up: false })
    }

    async fn pursue(&self, item: Item, remote: RemoteAgent, errand: RemoteTask) -> ItemResult {
        let (heard, mut news) = mpsc::channel(64);
        let key = format!("{}:{}", self.request.key, item.alias);
        let hooks = Some(self.coordinator.hooks.clone());
        let (mut polls, mut events, mut artifacts) = (0, Vec::new(), Vec::new());
        let listen = async {
            while let Some(news) = news.recv().await {
                match &news {
                    RemoteTaskEvent::Polled => polls += 1,
                    RemoteTaskEvent::Artifact { artifact, append, .. } => {
                        merge(&mut artifacts, artifact.clone(), *append)
                    }
                    RemoteTaskEvent::Began { .. } => {}
                    RemoteTaskEvent::Status { state, text } => {
                        let text = text.as_deref().unwrap_or(state.word());
                        let message = format!("{}: {text}", item.agent);
                        self.report.send(Progress::Status { message }).await;
                    }
                }
                if news != RemoteTaskEvent::Polled {
                    events.push(json!(news));
                }
            }
        };
        let (end, ()) = tokio::join!(run(remote, key, errand, self.notes(), hooks, heard), listen);
        ItemResult { item, polls, events, artifacts, end }
    }

    fn settle(&mut self, story: ItemResult) {
        let ItemResult { item, polls, events, artifacts, end } = story;
        if polls > 0 {
            *self.record.poll_attempts.entry(item.alias.clone()).or_default() += polls;
        }
        events.into_iter().for_each(|event| self.record.heard(&item.alias, event));
        if let Some(task) = &end.task_id {
            self.record.task_ids.insert(item.alias.clone(), task.clone());
        }
        self.record.context_id = end.context_id.clone().or_else(|| self.record.context_id.take());
        let text = end.text.clone().unwrap_or_default();
        match end.how {
            RemoteTaskOutcome::Completed => self.record.done(&item, &artifacts, &self.terms.accepted_modes),
            how @ (RemoteTaskOutcome::InputRequired | RemoteTaskOutcome::AuthRequired) => {
                self.record.asks(&item, how.word(), &text)
            }
            RemoteTaskOutcome::Unauthenticated => {
                self.record.credential_status.insert(item.agent.clone(), "invalid".to_owned());
                self.record.failed(&item, end.how.word(), &text);
            }
            how @ (RemoteTaskOutcome::Failed
            | RemoteTaskOutcome::Rejected
            | RemoteTaskOutcome::Canceled
            | RemoteTaskOutcome::Timeout
            | RemoteTaskOutcome::Unreachable
            | RemoteTaskOutcome::Refused
            | RemoteTaskOutcome::TooLarge
            | RemoteTaskOutcome::Malformed) => self.record.failed(&item, how.word(), &text),
        }
    }
}
