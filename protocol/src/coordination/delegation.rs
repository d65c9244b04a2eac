//! One agent does a task: it thinks, asks others when it must, thinks again with what came back, and ends it once
//! (RFC-005, pattern 1).
//!
//! The asker is a user, a peer that delegates, or a manager that awarded the task; under an award every report names
//! the award's epoch, and a sign of life keeps the lease.

mod asked;

use super::{
    Announcement, Effect, Event, Pattern, What, When, accountable::Accountable, broadcast::ON_BEHALF_OF,
    thought,
};
use crate::{
    a2a::message::Message,
    ids::AgentId,
    message::{AwardAccept, AwardDecline, Payload},
    principal::Principal,
    task::TaskState,
};
use asked::Asked;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use thought::{About, Progress, Prompt, TurnEnd};

/// How long an agent waits for what it asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Patience {
    /// For an answer to a help request.
    pub help: Duration,
    /// For the result of a delegated task.
    pub delegate: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { help: Duration::from_secs(120), delegate: Duration::from_secs(3_600) }
    }
}

/// The most turns one task may take; a brain that asks for ever is a failure.
pub const MAX_TURNS: u32 = 64;

/// The doer's side of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delegation {
    me: AgentId,
    pub(super) accountable: Accountable,
    lease: Option<Duration>,
    patience: Patience,
    turn: u32,
    is_thinking: bool,
    asked: Asked,
    declines: Option<String>,
    /// The owner's newest words, if there were any after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Box<Message>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_reported: bool,
}

impl Delegation {
    /// `me` does it. `lease` is the award's, if it is done under one.
    pub fn new(me: AgentId, accountable: Accountable, lease: Option<Duration>, patience: Patience) -> Self {
        Self {
            me,
            accountable,
            lease,
            patience,
            turn: 0,
            is_thinking: false,
            asked: Asked::default(),
            declines: None,
            said: None,
            has_reported: false,
        }
    }

    /// `me` hands the award back, and says why.
    pub fn declining(me: AgentId, accountable: Accountable, why: String) -> Self {
        Self { declines: Some(why), ..Self::new(me, accountable, None, Patience::default()) }
    }

    /// Whether it is being done, and not handed back.
    pub fn is_work(&self) -> bool {
        self.declines.is_none() && !self.accountable.has_ended()
    }

    fn decline(&mut self, why: String) -> Vec<Effect> {
        let task_id = self.accountable.spec.task_id.clone();
        let told = self.accountable.asker.clone().map(|asker| {
            let epoch = asker.epoch.unwrap_or_default();
            let decline = AwardDecline { task_id, epoch, reason: why.clone(), extra: Default::default() };
            Effect::Tell(super::Tell {
                label: "decline".to_owned(),
                to: crate::ids::Address::Agent(asker.agent),
                conversation: asker.conversation,
                in_reply_to: Some(asker.message),
                path: Vec::new(),
                expires: None,
                payload: Payload::AwardDecline(decline),
            })
        });
        self.accountable.asker = None;
        self.accountable.announces = false;
        let ended = self.accountable.finish(TaskState::Rejected, Some(why), BTreeMap::new());
        told.into_iter().chain(ended).collect()
    }

    fn start(&mut self, event: &Event) -> Vec<Effect> {
        if let Some(why) = self.declines.clone() {
            return self.decline(why);
        }
        let mut effects = Vec::new();
        if let Some((asker, epoch)) =
            self.accountable.asker.as_ref().and_then(|asker| Some((asker, asker.epoch?)))
        {
            let accept = AwardAccept {
                task_id: self.accountable.spec.task_id.clone(),
                epoch,
                extra: Default::default(),
            };
            effects.push(Effect::Tell(super::Tell {
                label: "accept".to_owned(),
                to: crate::ids::Address::Agent(asker.agent.clone()),
                conversation: asker.conversation.clone(),
                in_reply_to: Some(asker.message.clone()),
                path: Vec::new(),
                expires: None,
                payload: Payload::AwardAccept(accept),
            }));
        }
        effects.extend(self.renew(event));
        if let Some(deadline) = self.accountable.spec.deadline {
            effects.push(Effect::WakeAt { timer: "deadline".to_owned(), when: When::Wall(deadline) });
        }
        effects.extend(self.accountable.status(TaskState::Working, format!("{} is at it", self.me)));
        effects.push(self.think());
        effects
    }

    fn renew(&self, event: &Event) -> Option<Effect> {
        let lease = self.lease?;
        Some(Effect::WakeAt { timer: "renew".to_owned(), when: When::Node(event.at + lease / 3) })
    }

    fn think(&mut self) -> Effect {
        self.turn += 1;
        self.is_thinking = true;
        let spec = &self.accountable.spec;
        let about = About::Task {
            task_id: spec.task_id.clone(),
            description: spec.description.clone(),
            capability: spec.capability.clone(),
            input: spec.input.clone(),
            artifacts: spec.artifacts.clone(),
            deadline: spec.deadline,
            accepted_modes: spec.accepted_modes.clone(),
        };
        let produced = self.accountable.artifacts().to_vec();
        let first = || spec.contact.as_ref().map(|contact| Box::new(contact.message.clone()));
        let message = self.said.clone().or_else(first);
        let answers = self.asked.take_replies();
        let prompt = Prompt { turn: self.turn, about, produced, answers, message };
        Effect::Think { turn: self.turn, prompt: Box::new(prompt), deadline: spec.deadline }
    }

    fn report(&mut self, updates: &[Progress]) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.has_reported |= !updates.is_empty();
        for update in updates {
            match update.clone() {
                Progress::Status { message } => {
                    effects.extend(self.accountable.status(TaskState::Working, message))
                }
                Progress::Artifact { artifact, append, last_chunk } => {
                    let update = super::Update::Artifact { artifact, append, last_chunk };
                    effects.extend(self.accountable.update(update));
                }
                Progress::Signal { signal, subject, capability, mut refs } => {
                    refs.remove(ON_BEHALF_OF);
                    let task_id = Some(self.accountable.spec.task_id.clone());
                    let signal = Announcement { kind: signal, subject, task_id, capability, refs };
                    effects.push(Effect::Publish { signal });
                }
                ask @ (Progress::Help { .. } | Progress::Delegate { .. } | Progress::Question { .. }) => {
                    self.asked.note(ask);
                }
            }
        }
        effects
    }

    fn end_turn(&mut self, end: &TurnEnd, event: &Event) -> Vec<Effect> {
        self.is_thinking = false;
        match end {
            TurnEnd::Done { message } => {
                let has_message = message.as_ref().is_some_and(|text| !text.trim().is_empty());
                let has_artifact = self.accountable.artifacts().iter().any(|artifact| !artifact.is_empty());
                if has_message || has_artifact {
                    self.finish(TaskState::Completed, message.clone())
                } else {
                    self.fail("done without a result: no artifact and no message".to_owned())
                }
            }
            TurnEnd::Failed { reason } => self.fail(reason.clone()),
            TurnEnd::Rejected { reason } => self.finish(TaskState::Rejected, Some(reason.clone())),
            TurnEnd::Message { text } if self.may_just_answer() => self.just_answer(text),
            TurnEnd::Message { text } => self.end_turn(&TurnEnd::Done { message: Some(text.clone()) }, event),
            TurnEnd::Waiting if self.turn >= MAX_TURNS => {
                self.fail(format!("asked for more than {MAX_TURNS} turns"))
            }
            TurnEnd::Waiting if self.asked.is_too_much() => {
                self.fail(format!("asked more than {} things in one turn", asked::MAX_ASKS))
            }
            TurnEnd::Waiting => {
                let mut asks = self.asked.send(&self.accountable, &self.me, self.turn, &self.patience, event);
                let question = asks.iter().find_map(|ask| {
                    if let Effect::AskHuman { question, auth } = ask {
                        Some((question.clone(), *auth))
                    } else {
                        None
                    }
                });
                if let Some((question, auth)) = question {
                    let waits_for = if auth { TaskState::AuthRequired } else { TaskState::InputRequired };
                    asks.extend(self.accountable.status(waits_for, question));
                }
                if self.asked.is_waiting() {
                    return asks;
                }
                self.fail("the turn ended without a result and without a question".to_owned())
            }
        }
    }

    /// Whether a message is an answer to who asked: an A2A client that has seen nothing of a task yet.
    fn may_just_answer(&self) -> bool {
        let is_its_own = self.accountable.asker.is_none() && self.accountable.claim.is_none();
        is_its_own && self.accountable.spec.contact.is_some() && self.turn == 1 && !self.has_reported
    }

    fn just_answer(&mut self, text: &str) -> Vec<Effect> {
        self.accountable.announces = false;
        let mut effects = self.finish(TaskState::Completed, Some(text.to_owned()));
        for effect in &mut effects {
            if let Effect::Finish(outcome) = effect {
                outcome.is_message = true;
            }
        }
        effects
    }

    fn go_on(&mut self) -> Vec<Effect> {
        if self.is_thinking || self.asked.is_waiting() || self.accountable.has_ended() {
            return Vec::new();
        }
        let mut effects =
            self.accountable.status(TaskState::Working, format!("{} goes on with what came back", self.me));
        effects.push(self.think());
        effects
    }

    /// The owner's answer: to this agent's own questions, and to those of the agents that work for it.
    fn answered(&mut self, text: &str, message: Option<&Message>) -> Vec<Effect> {
        self.said = message.cloned().map(Box::new).or_else(|| self.said.take());
        let was_asked = self.asked.answer(text);
        let mut effects = self.asked.pass_on(text, message);
        if !was_asked && effects.is_empty() {
            return effects;
        }
        if self.asked.is_waiting() {
            effects.extend(self.accountable.status(TaskState::Working, "answered"));
        } else {
            effects.extend(self.go_on());
        }
        effects
    }

    fn fail(&mut self, reason: String) -> Vec<Effect> {
        self.finish(TaskState::Failed, Some(reason))
    }

    fn finish(&mut self, state: TaskState, message: Option<String>) -> Vec<Effect> {
        if self.accountable.has_ended() {
            return Vec::new();
        }
        let mut effects = self.stop(message.as_deref().unwrap_or("no longer needed"));
        effects.extend(self.accountable.finish(state, message, BTreeMap::new()));
        effects
    }

    /// Hands an award back, so that the next best does it. What only this agent can do waits for its return.
    fn hand_back(&mut self, why: &str) -> Vec<Effect> {
        if !self.accountable.is_awarded() {
            return Vec::new();
        }
        let mut effects = self.stop(why);
        effects.extend(self.decline(why.to_owned()));
        effects
    }

    /// Ends the turn that is being thought, and withdraws what was asked of others.
    fn stop(&mut self, why: &str) -> Vec<Effect> {
        let stopped = std::mem::take(&mut self.is_thinking).then_some(Effect::StopThinking);
        stopped.into_iter().chain(self.asked.withdraw(why)).collect()
    }

    fn heard(&mut self, by: &Principal, answers: Option<&str>, payload: &Payload) -> Vec<Effect> {
        if let Payload::TaskCancel(cancel) = payload {
            let asker = self.accountable.asker.as_ref();
            let is_asker = asker.is_some_and(|asker| by.agent() == Some(&asker.agent));
            let is_this_award = cancel.epoch.is_none() || cancel.epoch == asker.and_then(|asker| asker.epoch);
            if is_asker && is_this_award {
                let reason = cancel.reason.clone().unwrap_or_else(|| "the asker cancelled it".to_owned());
                return self.finish(TaskState::Canceled, Some(reason));
            }
            return Vec::new();
        }
        if let Payload::TaskUpdate(update) = payload {
            let is_asker =
                self.accountable.asker.as_ref().is_some_and(|asker| by.agent() == Some(&asker.agent));
            let answer = update.extra.get("answer").and_then(|answer| answer.as_str());
            if let (true, Some(text)) = (is_asker, answer) {
                let said = update.extra.get("message").cloned();
                let said = said.and_then(|said| serde_json::from_value(said).ok());
                return self.answered(text, said.as_ref());
            }
            let Some(status) = self.asked.hear_status(by, update) else { return Vec::new() };
            let mut effects = self.asked.show(&mut self.accountable);
            effects.extend(self.accountable.update(super::Update::Status(status)));
            return effects;
        }
        if !self.asked.hear(by, answers, payload) {
            return Vec::new();
        }
        if self.asked.has_question() { self.asked.show(&mut self.accountable) } else { self.go_on() }
    }
}

impl Pattern for Delegation {
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
            What::Started if self.turn == 0 => self.start(event),
            What::Progress { turn, updates } if *turn == self.turn && self.is_thinking => {
                self.report(updates)
            }
            What::Thought { turn, updates, end } if *turn == self.turn && self.is_thinking => {
                let mut effects = self.report(updates);
                effects.extend(self.end_turn(end, event));
                effects
            }
            What::ThoughtFailed { turn, reason } if *turn == self.turn && self.is_thinking => {
                self.is_thinking = false;
                self.fail(reason.clone())
            }
            What::Heard { by, answers, envelope } => self.heard(by, answers.as_deref(), &envelope.payload),
            What::Undelivered { label, message, .. } if self.asked.give_up(label, message) => self.go_on(),
            What::Answered { text, message, .. } => self.answered(text, message.as_deref()),
            What::Woke { timer } if timer == "renew" => {
                let mut effects = self.accountable.sign_of_life();
                effects.extend(self.renew(event));
                effects
            }
            What::Woke { timer } if timer == "deadline" => self.fail("its deadline passed".to_owned()),
            What::Woke { timer } if self.asked.give_up(timer, "no answer in time") => self.go_on(),
            What::Cancelled { reason, .. } => self.finish(TaskState::Canceled, Some(reason.clone())),
            What::Leaving { reason } => self.hand_back(reason),
            What::Started
            | What::Progress { .. }
            | What::Thought { .. }
            | What::ThoughtFailed { .. }
            | What::Claimed { .. }
            | What::ClaimLost { .. }
            | What::ClaimExpired { .. }
            | What::ClaimEnded { .. }
            | What::Woke { .. }
            | What::Told { .. }
            | What::Undelivered { .. }
            | What::Published { .. }
            | What::PeersFound { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
