//! A manager gives a task to the best bidder (FIPA contract net; RFC-005, pattern 4).
//!
//! Peers that could do it → `cfp` → bids until the deadline or until all have answered → score → claim → `award` →
//! `award-accept`, else the next bid → result checked → finish. At most one award is out at any time; whatever happens
//! to bidders, the manager stays accountable, and every announced task ends visibly.

pub mod auction;
pub mod bidding;
pub mod record;
pub mod track_record;

mod award;
mod call;
mod eligible;
mod score;

pub use auction::{Auction, Strategy, Weights};

use super::{Candidate, Effect, Event, Pattern, Tell, What, When, accountable::Accountable};
use crate::{
    envelope::Envelope,
    ids::{Address, AgentId},
    message::{Epoch, Payload, Reject, Seq, TaskCancel, TaskUpdate},
    principal::Principal,
    task::TaskState,
    time::NodeTime,
};
use eligible::Contender;
use record::{AwardRecord, FateKind};
use score::Standing;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::collections::BTreeMap;

/// The manager's side of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractNet {
    me: AgentId,
    accountable: Accountable,
    auction: Auction,
    round: u32,
    stage: Stage,
    record: AwardRecord,
    kept_word: BTreeMap<AgentId, Vec<bool>>,
    last_failure: Option<String>,
    /// What those said who were awarded the work and would not do it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rejections: BTreeMap<AgentId, String>,
    /// Whether an award came to nothing in any other way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    was_tried: bool,
    /// The last award's; the next one's is greater.
    last_epoch: Epoch,
    /// The peers known at the start; empty from the first round on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stage {
    /// Nothing has happened.
    Opening,
    /// Proposals have been called for.
    #[serde(rename_all = "camelCase")]
    Bidding {
        asked: BTreeMap<AgentId, Contender>,
        answers: BTreeMap<AgentId, Option<Standing>>,
        closes: NodeTime,
    },
    /// Nobody to ask, or nobody would; another round follows.
    #[serde(rename_all = "camelCase")]
    Between { until: NodeTime },
    /// The next round looks for peers.
    Searching,
    /// A claim is being written.
    #[serde(rename_all = "camelCase")]
    Claiming {
        winner: AgentId,
        next: Vec<(AgentId, Standing)>,
        /// The task was ended meanwhile; the claim must come back before it can be freed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        called_off: Option<(TaskState, String)>,
    },
    /// Somebody has the award.
    Awarded(Award),
    /// It is over.
    Over,
}

/// The one award that is out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Award {
    winner: AgentId,
    epoch: Epoch,
    is_accepted: bool,
    next: Vec<(AgentId, Standing)>,
    /// When patience ends: with its acceptance first, with its silence then.
    patience_ends: NodeTime,
    applied: Seq,
    /// Updates that came before their turn, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    early: Vec<TaskUpdate>,
}

impl ContractNet {
    /// `me` finds the doer among `candidates`, and stays accountable.
    pub fn new(me: AgentId, accountable: Accountable, auction: Auction, candidates: Vec<Candidate>) -> Self {
        let record = AwardRecord {
            task: accountable.spec.task_id.clone(),
            capability: accountable.spec.capability.clone(),
            strategy: auction.strategy,
            weights: auction.weights,
            rounds: Vec::new(),
            ignored: Vec::new(),
            outcome: None,
        };
        let (stage, kept_word) = (Stage::Opening, BTreeMap::new());
        Self {
            me,
            accountable,
            auction,
            round: 0,
            stage,
            record,
            kept_word,
            last_failure: None,
            rejections: BTreeMap::new(),
            was_tried: false,
            last_epoch: 0,
            candidates,
        }
    }

    /// Every candidate's fate so far.
    pub fn record(&self) -> &AwardRecord {
        &self.record
    }

    fn start(&mut self, event: &Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(deadline) = self.accountable.spec.deadline {
            effects.push(Effect::WakeAt { timer: "deadline".to_owned(), when: When::Wall(deadline) });
        }
        let candidates = std::mem::take(&mut self.candidates);
        effects.extend(self.call(&candidates, event));
        effects
    }

    fn heard(&mut self, by: &Principal, envelope: &Envelope, event: &Event) -> Vec<Effect> {
        let kind = envelope.kind();
        let is_this_task = envelope.payload.task_id() == Some(&self.accountable.spec.task_id);
        let Some(agent) = by.agent() else {
            self.record.ignore(
                by.to_string(),
                kind.wire(),
                "only agents take part in an auction",
                event.wall,
            );
            return Vec::new();
        };
        if !is_this_task {
            return self.ignore(agent, envelope, "it is about another task", event);
        }
        match &envelope.payload {
            Payload::Bid(bid) => self.hear_bid(agent, bid, event),
            Payload::NoBid(no_bid) => self.hear_no_bid(agent, &no_bid.reason, event),
            Payload::AwardAccept(accept) => self.hear_accept(agent, accept.epoch, event),
            Payload::AwardDecline(decline) => self.hear_decline(agent, decline.epoch, &decline.reason, event),
            Payload::TaskUpdate(update) => {
                let answer = update.extra.get("answer").and_then(|answer| answer.as_str());
                let is_asker = self.accountable.asker.as_ref().is_some_and(|asker| asker.agent == *agent);
                match answer.filter(|_| is_asker) {
                    Some(text) => {
                        let said = update.extra.get("message").cloned();
                        let said = said.and_then(|said| serde_json::from_value(said).ok());
                        self.pass_on_answer(text, said.as_ref())
                    }
                    None => self.hear_update(agent, update, event),
                }
            }
            Payload::TaskResponse(response) => self.hear_response(agent, response, event),
            Payload::TaskCancel(cancel) => {
                let is_asker = self.accountable.asker.as_ref().is_some_and(|asker| {
                    asker.agent == *agent && (cancel.epoch.is_none() || cancel.epoch == asker.epoch)
                });
                if is_asker {
                    let reason = cancel.reason.clone().unwrap_or_else(|| "the asker cancelled it".to_owned());
                    return self.call_off(TaskState::Canceled, reason);
                }
                self.ignore(agent, envelope, "it is not the asker's, or ends another award", event)
            }
            Payload::TaskRequest(_)
            | Payload::HelpRequest(_)
            | Payload::HelpResponse(_)
            | Payload::Broadcast(_)
            | Payload::Cfp(_)
            | Payload::Award(_)
            | Payload::Reject(_) => self.ignore(agent, envelope, "it has no place in an auction", event),
        }
    }

    fn ignore(&mut self, agent: &AgentId, envelope: &Envelope, why: &str, event: &Event) -> Vec<Effect> {
        self.record.ignore(agent.to_string(), envelope.kind().wire(), why, event.wall);
        Vec::new()
    }

    /// Ends the task before anybody has done it: whoever is involved is told.
    fn call_off(&mut self, state: TaskState, reason: String) -> Vec<Effect> {
        let mut effects = Vec::new();
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Awarded(award) => {
                self.record.set(&award.winner, FateKind::Cancelled, Some(reason.clone()));
                effects.extend(self.revoke(&award.winner, award.epoch, &reason));
                effects.extend(self.reject_losers(&reason));
            }
            Stage::Bidding { asked, answers, .. } => {
                let waiting = asked.keys().filter(|agent| !matches!(answers.get(agent), Some(None)));
                effects.extend(waiting.map(|agent| self.reject(agent, &reason)));
            }
            Stage::Claiming { winner, next, called_off } => {
                let called_off = called_off.or(Some((state, reason)));
                self.stage = Stage::Claiming { winner, next, called_off };
                return Vec::new();
            }
            Stage::Opening | Stage::Between { .. } | Stage::Searching | Stage::Over => {}
        }
        effects.extend(self.finish(state, Some(reason)));
        effects
    }

    fn finish(&mut self, state: TaskState, message: Option<String>) -> Vec<Effect> {
        self.stage = Stage::Over;
        let said = message.clone().unwrap_or_default();
        self.record.outcome =
            Some(format!("{}{}{said}", state.word(), if said.is_empty() { "" } else { ": " }));
        let kept_word = std::mem::take(&mut self.kept_word);
        self.accountable.finish(state, message, kept_word)
    }

    /// Takes an award back: the winner is told, the claim is freed.
    fn revoke(&self, winner: &AgentId, epoch: Epoch, reason: &str) -> Vec<Effect> {
        let task_id = self.accountable.spec.task_id.clone();
        let cancel = TaskCancel {
            task_id: task_id.clone(),
            reason: Some(reason.to_owned()),
            epoch: Some(epoch),
            extra: Map::new(),
        };
        let forget = |timer: &str| Effect::Forget { timer: timer.to_owned() };
        vec![
            self.tell(format!("revoke:{winner}"), winner, Payload::TaskCancel(cancel)),
            Effect::Release { task: task_id, epoch },
            Effect::Assign { doer: None },
            forget("accept"),
            forget("lease"),
        ]
    }

    /// Tells every bidder that has not been told yet.
    fn reject_losers(&mut self, reason: &str) -> Vec<Effect> {
        let fates = self.record.rounds.last().map(|round| round.candidates.as_slice()).unwrap_or_default();
        let losers = fates.iter().filter(|fate| fate.fate == FateKind::Bid).map(|fate| fate.agent.clone());
        let losers: Vec<_> = losers.collect();
        losers.iter().for_each(|loser| self.record.set(loser, FateKind::Outbid, None));
        losers.iter().map(|loser| self.reject(loser, reason)).collect()
    }

    fn reject(&self, agent: &AgentId, reason: &str) -> Effect {
        let task_id = self.accountable.spec.task_id.clone();
        let reject = Reject { task_id, reason: reason.to_owned(), extra: Map::new() };
        self.tell(format!("reject:{agent}"), agent, Payload::Reject(reject))
    }

    fn tell(&self, label: String, to: &AgentId, payload: Payload) -> Effect {
        let path = self.accountable.spec.path.clone();
        let to = Address::Agent(to.clone());
        Effect::Tell(Tell { label, to, conversation: None, in_reply_to: None, path, expires: None, payload })
    }
}

impl Pattern for ContractNet {
    fn on(&mut self, event: &Event) -> Vec<Effect> {
        if let What::Undelivered { label, reason, message } = &event.what
            && self.accountable.has_ended()
        {
            return self.accountable.undelivered(label, reason, message);
        }
        if self.accountable.has_ended() {
            return Vec::new();
        }
        match &event.what {
            What::Started if self.stage == Stage::Opening => self.start(event),
            What::Heard { by, envelope, .. } => self.heard(by, envelope, event),
            What::PeersFound { label, candidates }
                if *label == self.search() && self.stage == Stage::Searching =>
            {
                self.call(candidates, event)
            }
            What::Claimed { holder, epoch } => self.claimed(holder, *epoch, event),
            What::Undelivered { label, message, .. } => self.undelivered(label, message, event),
            What::Woke { timer } => match timer.as_str() {
                "bids" => self.window_ends(event),
                "round" => self.pause_ends(event),
                "accept" | "lease" => self.patience_ends(event),
                "deadline" => self.call_off(TaskState::Failed, "its deadline passed".to_owned()),
                _ => Vec::new(),
            },
            What::Cancelled { reason, .. } => self.call_off(TaskState::Canceled, reason.clone()),
            What::Answered { text, message, .. } => self.pass_on_answer(text, message.as_deref()),
            What::ClaimLost { holder } => self.claim_lost(holder.as_ref(), event),
            What::Started
            | What::Progress { .. }
            | What::Thought { .. }
            | What::ThoughtFailed { .. }
            | What::ClaimExpired { .. }
            | What::ClaimEnded { .. }
            | What::Told { .. }
            | What::Published { .. }
            | What::PeersFound { .. }
            | What::Leaving { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
