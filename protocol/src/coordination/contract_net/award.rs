//! From the claim to the result: one award at a time, and the next bid when it comes to nothing.

use super::{Award, ContractNet, Stage, record::FateKind};
use crate::{
    artifact::Artifact,
    coordination::{Announcement, Effect, Event, Update, When},
    ids::AgentId,
    message::{self, Epoch, Payload, TaskResponse, TaskUpdate},
    signal::SignalType,
    task::TaskState,
};
use serde_json::{Map, json};

/// The most updates kept that came before their turn.
const MAX_EARLY: usize = 256;

impl ContractNet {
    pub(super) fn claimed(&mut self, holder: &AgentId, epoch: Epoch, event: &Event) -> Vec<Effect> {
        let Stage::Claiming { winner, next } = &mut self.stage else { return Vec::new() };
        if winner != holder {
            return Vec::new();
        }
        let (winner, next) = (winner.clone(), std::mem::take(next));
        if let Some(fate) = self.record.fate(&winner) {
            fate.epoch = Some(epoch);
        }
        let mut task = self.accountable.spec.clone();
        task.path.push(self.me.clone());
        let lease_ms = self.auction.lease_ms;
        let award =
            message::Award { task_id: task.task_id.clone(), epoch, lease_ms, task, extra: Map::new() };
        let mut told = self.tell(format!("award:{winner}:{epoch}"), &winner, Payload::Award(award));
        if let Effect::Tell(tell) = &mut told {
            tell.expires = Some(event.wall.plus(self.auction.accept()));
        }
        let wake =
            Effect::WakeAt { timer: "accept".to_owned(), when: When::Node(event.at + self.auction.accept()) };
        self.stage = Stage::Awarded(Award {
            winner,
            epoch,
            is_accepted: false,
            next,
            applied: 0,
            early: Default::default(),
        });
        vec![told, wake]
    }

    /// The award in force, if `agent` has it under `epoch`; else the message is noted and nothing follows.
    fn in_force(
        &mut self,
        agent: &AgentId,
        epoch: Option<Epoch>,
        kind: &str,
        event: &Event,
    ) -> Option<&mut Award> {
        let why = match &self.stage {
            Stage::Awarded(award) if award.winner != *agent => "it does not have the award",
            Stage::Awarded(award) if Some(award.epoch) != epoch => "fenced: another award is in force",
            Stage::Awarded(_) => "",
            Stage::Opening
            | Stage::Bidding { .. }
            | Stage::Between
            | Stage::Searching
            | Stage::Claiming { .. }
            | Stage::Over => "no award is in force",
        };
        match &mut self.stage {
            Stage::Awarded(award) if why.is_empty() => Some(award),
            _ => {
                self.record.ignore(agent.to_string(), kind, why, event.wall);
                None
            }
        }
    }

    pub(super) fn hear_accept(&mut self, agent: &AgentId, epoch: Epoch, event: &Event) -> Vec<Effect> {
        match self.in_force(agent, Some(epoch), "award-accept", event) {
            Some(award) if !award.is_accepted => {}
            Some(_) | None => return Vec::new(),
        }
        self.accepted(event)
    }

    /// The winner has said, or shown, that it is at it: everyone else hears that it went to another.
    fn accepted(&mut self, event: &Event) -> Vec<Effect> {
        let Stage::Awarded(award) = &mut self.stage else { return Vec::new() };
        award.is_accepted = true;
        let (winner, epoch) = (award.winner.clone(), award.epoch);
        self.record.set(&winner, FateKind::Accepted, None);
        let mut claimed = Announcement::about(SignalType::task_claimed(), &self.accountable.spec.task_id);
        claimed.subject = Some(winner.to_string());
        claimed.capability.clone_from(&self.accountable.spec.capability);
        claimed.refs.insert("epoch".into(), json!(epoch));
        let fates = self.record.rounds.last().map(|round| round.candidates.as_slice()).unwrap_or_default();
        let losers: Vec<_> = fates
            .iter()
            .filter(|fate| matches!(fate.fate, FateKind::Bid | FateKind::Outbid))
            .map(|fate| fate.agent.clone())
            .collect();
        let mut effects = vec![
            Effect::Forget { timer: "accept".to_owned() },
            Effect::Assign { doer: Some(winner.clone()) },
            self.lease(event),
        ];
        effects.extend(self.accountable.status(TaskState::Working, format!("awarded to {winner}")));
        effects.push(Effect::Publish { signal: claimed });
        for loser in losers {
            self.record.set(&loser, FateKind::Outbid, None);
            effects.push(self.reject(&loser, &format!("awarded to {winner}")));
        }
        effects
    }

    fn lease(&self, event: &Event) -> Effect {
        Effect::WakeAt { timer: "lease".to_owned(), when: When::Node(event.at + self.auction.lease()) }
    }

    pub(super) fn hear_decline(
        &mut self,
        agent: &AgentId,
        epoch: Epoch,
        why: &str,
        event: &Event,
    ) -> Vec<Effect> {
        if self.in_force(agent, Some(epoch), "award-decline", event).is_none() {
            return Vec::new();
        }
        self.goes_to_another(FateKind::Declined, format!("{agent} declined: {why}"), event)
    }

    pub(super) fn not_accepted(&mut self, event: &Event) -> Vec<Effect> {
        let Stage::Awarded(award) = &self.stage else { return Vec::new() };
        if award.is_accepted {
            return Vec::new();
        }
        let why = format!("{} did not accept in time", award.winner);
        self.goes_to_another(FateKind::AcceptTimeout, why, event)
    }

    pub(super) fn lease_expired(&mut self, event: &Event) -> Vec<Effect> {
        let Stage::Awarded(award) = &self.stage else { return Vec::new() };
        if !award.is_accepted {
            return Vec::new();
        }
        let why = format!("{} fell silent for {} ms", award.winner, self.auction.lease_ms);
        self.goes_to_another(FateKind::LeaseExpired, why, event)
    }

    pub(super) fn undelivered(&mut self, label: &str, why: &str, event: &Event) -> Vec<Effect> {
        if let Some(Ok(agent)) = label.strip_prefix("cfp:").map(AgentId::parse) {
            return self.passes(&agent, FateKind::Unreachable, why, event);
        }
        let awarded = match &self.stage {
            Stage::Awarded(award) => Some(format!("award:{}:{}", award.winner, award.epoch)),
            _ => None,
        };
        if awarded.as_deref() == Some(label) {
            return self.goes_to_another(
                FateKind::Unreachable,
                format!("the award could not be delivered: {why}"),
                event,
            );
        }
        Vec::new()
    }

    /// The award has come to nothing: the runner-up is next, then another round.
    fn goes_to_another(&mut self, fate: FateKind, why: String, event: &Event) -> Vec<Effect> {
        let Stage::Awarded(award) = std::mem::replace(&mut self.stage, Stage::Between) else {
            return Vec::new();
        };
        self.record.set(&award.winner, fate, Some(why.clone()));
        self.kept_word.entry(award.winner.clone()).or_default().push(false);
        self.accountable.discard_artifacts();
        let mut effects = self.revoke(&award.winner, award.epoch, &why);
        effects.extend(self.accountable.status(TaskState::Working, why.clone()));
        self.last_failure = Some(why);
        effects.extend(self.award_next(award.next, event));
        effects
    }

    pub(super) fn hear_update(&mut self, agent: &AgentId, update: &TaskUpdate, event: &Event) -> Vec<Effect> {
        let Some(award) = self.in_force(agent, update.epoch, "task-update", event) else { return Vec::new() };
        let was_accepted = award.is_accepted;
        let is_new = update.seq > award.applied && !award.early.contains_key(&update.seq);
        if is_new && award.early.len() < MAX_EARLY {
            award.early.insert(update.seq, update.clone());
        }
        let mut in_turn = Vec::new();
        while let Some(next) = award.early.remove(&(award.applied + 1)) {
            award.applied += 1;
            in_turn.push(next);
        }
        let mut effects = if was_accepted { vec![self.lease(event)] } else { self.accepted(event) };
        for update in in_turn {
            if let Some(status) = update.status.filter(|status| !status.state.is_terminal()) {
                effects.extend(self.accountable.update(Update::Status(status)));
            }
            if let Some(artifact) = update.artifact {
                let (append, last_chunk) = (update.append, update.last_chunk);
                effects.extend(self.accountable.update(Update::Artifact { artifact, append, last_chunk }));
            }
        }
        effects
    }

    pub(super) fn hear_response(
        &mut self,
        agent: &AgentId,
        response: &TaskResponse,
        event: &Event,
    ) -> Vec<Effect> {
        if self.in_force(agent, response.epoch, "task-response", event).is_none()
            || !response.state.is_terminal()
        {
            return Vec::new();
        }
        let has_message = response.message.as_ref().is_some_and(|text| !text.trim().is_empty());
        let has_result = has_message || response.artifacts.iter().any(|artifact| !artifact.is_empty());
        if response.state != TaskState::Completed || !has_result {
            let why = response.message.clone().unwrap_or_else(|| match response.state {
                TaskState::Completed => "done without a result".to_owned(),
                other => other.word().to_owned(),
            });
            return self.goes_to_another(FateKind::Failed, format!("{agent} did not manage: {why}"), event);
        }
        let Stage::Awarded(award) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Vec::new();
        };
        let mut effects = if award.is_accepted { Vec::new() } else { self.late_acceptance(&award) };
        self.record.set(agent, FateKind::Completed, None);
        self.kept_word.entry(agent.clone()).or_default().push(true);
        let task = self.accountable.spec.task_id.clone();
        effects.push(Effect::Release { task, epoch: award.epoch });
        effects.extend(self.take_results(&response.artifacts));
        effects.extend(self.finish(TaskState::Completed, response.message.clone()));
        effects
    }

    /// A result that came before its acceptance: the acceptance is shown all the same.
    fn late_acceptance(&mut self, award: &Award) -> Vec<Effect> {
        let mut claimed = Announcement::about(SignalType::task_claimed(), &self.accountable.spec.task_id);
        claimed.subject = Some(award.winner.to_string());
        claimed.capability.clone_from(&self.accountable.spec.capability);
        let losers: Vec<_> = award.next.iter().map(|(agent, _)| agent.clone()).collect();
        let mut effects =
            vec![Effect::Assign { doer: Some(award.winner.clone()) }, Effect::Publish { signal: claimed }];
        for loser in losers {
            self.record.set(&loser, FateKind::Outbid, None);
            effects.push(self.reject(&loser, &format!("awarded to {}", award.winner)));
        }
        effects
    }

    /// The response holds all results; what updates have not shown yet is shown with it.
    fn take_results(&mut self, results: &[Artifact]) -> Vec<Effect> {
        let shown = self.accountable.artifacts().to_vec();
        let is_new = |artifact: &&Artifact| !shown.contains(artifact);
        let new: Vec<_> = results.iter().filter(is_new).cloned().collect();
        let update = |artifact| Update::Artifact { artifact, append: false, last_chunk: true };
        new.into_iter().flat_map(|artifact| self.accountable.update(update(artifact))).collect()
    }

    /// The owner's answer goes to whoever asked: the doer.
    pub(super) fn pass_on_answer(&mut self, text: &str) -> Vec<Effect> {
        let Stage::Awarded(award) = &self.stage else { return Vec::new() };
        let mut extra = Map::new();
        extra.insert("answer".into(), json!(text));
        let update = TaskUpdate {
            task_id: self.accountable.spec.task_id.clone(),
            seq: 0,
            epoch: Some(award.epoch),
            status: None,
            artifact: None,
            append: false,
            last_chunk: false,
            extra,
        };
        let told = self.tell("answer".to_owned(), &award.winner.clone(), Payload::TaskUpdate(update));
        let mut effects = vec![told];
        effects.extend(self.accountable.status(TaskState::Working, "answered"));
        effects
    }
}
