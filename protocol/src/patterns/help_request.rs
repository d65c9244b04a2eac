//! One agent asks peers with a capability for their view. It does not block, and an unanswered request expires visibly
//! (RFC-005, pattern 2).

use super::{
    Candidate, ChunkRange, Effect, Event, EventKind, Label, Outcome, OutgoingMessage, Pattern,
    RecordedTurnProgress, Timer, TimerAt, View,
    delegation::WorkLimits,
    ownership::{Requester, is_recipient_there},
    turn::{PeerQuestion, Progress, Prompt, TurnEnd, TurnSubject, pause_length},
    turn_log::TurnLog,
};
use crate::{
    artifact::Artifact,
    budget::Budget,
    ids::{Address, AgentId, Capability},
    message::{self, HelpResponse, MessageKind, Payload},
    task::{Status, TaskState},
    usage::{BudgetVerdict, ModelUsage, TaskBounds, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::{collections::BTreeMap, time::Duration};

/// The longest that an answering brain may pause in all.
const MAX_PAUSES: Duration = Duration::from_secs(120);

/// The most peers asked at once.
pub const FANOUT: usize = 3;

/// One help request, from either side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HelpRequest {
    me: AgentId,
    request: message::HelpRequest,
    path: Vec<AgentId>,
    requester: Option<Requester>,
    side: HelpSide,
    produced: Vec<Artifact>,
    settled: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_excused_itself: bool,
    #[serde(default, skip_serializing_if = "TurnLog::is_empty")]
    log: TurnLog,
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    usage: Usage,
    /// The length of all pauses.
    #[serde(default)]
    paused: Duration,
    /// What an answer may use, beside the budget of the question.
    #[serde(default, skip_serializing_if = "TaskBounds::is_default")]
    bounds: TaskBounds,
    /// Whether the answering brain does not say what it uses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_unmetered: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HelpSide {
    /// Answers with its own brain.
    Responder,
    /// Asks peers with the capability.
    #[serde(rename_all = "camelCase")]
    Asking { capability: Capability, window: Duration, asked: BTreeMap<AgentId, Option<HelpResponse>> },
}

impl HelpRequest {
    /// `me` answers the requester's question itself.
    pub fn answering(me: AgentId, request: message::HelpRequest, requester: Option<Requester>) -> Self {
        Self {
            me,
            request,
            path: Vec::new(),
            requester,
            side: HelpSide::Responder,
            produced: Vec::new(),
            settled: false,
            has_excused_itself: false,
            log: TurnLog::default(),
            usage: Usage::default(),
            paused: Duration::ZERO,
            bounds: TaskBounds::default(),
            is_unmetered: false,
        }
    }

    /// Its answer keeps the bounds of its work. It has one turn.
    #[must_use]
    pub fn within(mut self, limits: &WorkLimits) -> Self {
        self.bounds = TaskBounds { turns: None, ..limits.bounds };
        self.is_unmetered = limits.is_unmetered;
        self
    }

    /// `me` asks peers that have `capability`, for at most `window`, and returns their answers to the requester.
    pub fn asking(
        me: AgentId,
        request: message::HelpRequest,
        requester: Option<Requester>,
        path: Vec<AgentId>,
        capability: Capability,
        window: Duration,
    ) -> Self {
        let side = HelpSide::Asking { capability, window, asked: BTreeMap::new() };
        Self {
            me,
            request,
            path,
            requester,
            side,
            produced: Vec::new(),
            settled: false,
            has_excused_itself: false,
            log: TurnLog::default(),
            usage: Usage::default(),
            paused: Duration::ZERO,
            bounds: TaskBounds::default(),
            is_unmetered: false,
        }
    }

    fn start(&mut self, event: &Event) -> Vec<Effect> {
        match &self.side {
            HelpSide::Responder => {
                let about = TurnSubject::Help(PeerQuestion {
                    question: self.request.question.clone(),
                    capability: self.request.capability.clone(),
                    artifacts: self.request.inline_artifacts.clone(),
                });
                let (turn, prompt, deadline) = (1, Box::new(Prompt::new(1, about)), None);
                vec![Effect::RunTurn { turn, prompt, deadline, input: Default::default() }]
            }
            HelpSide::Asking { capability, window, .. } => vec![
                Effect::FindPeers { label: Label::Search(0), capability: capability.clone() },
                Effect::SetTimer { timer: Timer::Window, when: TimerAt::Node(event.at + *window) },
            ],
        }
    }

    fn ask(&mut self, candidates: &[Candidate], nearest: Option<&Capability>, event: &Event) -> Vec<Effect> {
        let HelpSide::Asking { capability, window, asked } = &mut self.side else { return Vec::new() };
        if !asked.is_empty() {
            return Vec::new();
        }
        let excluded = std::mem::take(&mut self.request.exclude);
        let fits = |peer: &&Candidate| {
            let id = &peer.agent;
            let asks =
                *id == self.me || self.requester.as_ref().is_some_and(|requester| requester.agent == *id);
            peer.is_alive && peer.support > 0.0 && !asks && !excluded.contains(id)
        };
        let mut peers: Vec<_> = candidates.iter().filter(fits).collect();
        let rank = |peer: &Candidate| (peer.support, -f64::from(peer.running), peer.track_record);
        peers.sort_by(|a, b| {
            rank(b)
                .partial_cmp(&rank(a))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then_with(|| a.agent.cmp(&b.agent))
        });
        peers.truncate(FANOUT);
        if peers.is_empty() {
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            let why = format!("nobody else who is there has the capability {capability}{hint}");
            return self.settle(None, Some(why), Vec::new());
        }
        let budget = self.request.budget.part(u32::try_from(peers.len()).unwrap_or(u32::MAX));
        let mut effects = Vec::new();
        for peer in peers {
            let id = peer.agent.clone();
            let (to, question) = (
                Address::Agent(id.clone()),
                Payload::HelpRequest(message::HelpRequest { budget, ..self.request.clone() }),
            );
            effects.push(Effect::Send(OutgoingMessage {
                path: self.path.clone(),
                expires: Some(event.wall.plus(*window)),
                ..OutgoingMessage::new(Label::Question, to, question)
            }));
            asked.insert(id, None);
        }
        effects
    }

    fn receive_response(&mut self, from: &AgentId, response: HelpResponse) -> Vec<Effect> {
        let HelpSide::Asking { asked, .. } = &mut self.side else { return Vec::new() };
        match asked.get_mut(from) {
            Some(slot @ None) => {
                self.usage = self.usage.plus(&response.usage);
                *slot = Some(response);
            }
            Some(Some(_)) | None => return Vec::new(),
        }
        if asked.values().all(Option::is_some) { self.conclude() } else { Vec::new() }
    }

    fn conclude(&mut self) -> Vec<Effect> {
        let HelpSide::Asking { asked, .. } = &self.side else { return Vec::new() };
        // Who is silent is charged all that it could use.
        let share = self.request.budget.part(u32::try_from(asked.len()).unwrap_or(u32::MAX)).charged_whole();
        let silent = asked.values().filter(|slot| slot.is_none());
        self.usage = silent.fold(self.usage, |sum, _| sum.plus(&share));
        let answered: Vec<_> = asked.iter().filter_map(|(id, slot)| Some((id, slot.as_ref()?))).collect();
        let answers: Vec<_> =
            answered.iter().filter_map(|(id, response)| Some((*id, response.answer.clone()?))).collect();
        let artifacts: Vec<_> =
            answered.iter().flat_map(|(_, response)| response.artifacts.clone()).collect();
        let unknown: Vec<_> = answered
            .iter()
            .filter_map(|(id, response)| {
                let what = format!("the work of {id}");
                TaskBounds::default().unknown_cost(self.request.budget, &response.usage, &what)
            })
            .collect();
        let text = match answers.as_slice() {
            _ if !unknown.is_empty() => None,
            [] => None,
            [(_, only)] => Some(only.clone()),
            several => Some(
                several.iter().map(|(id, text)| format!("{id}: {text}")).collect::<Vec<_>>().join("\n\n"),
            ),
        };
        let declined = || {
            if !unknown.is_empty() {
                return unknown.join("; ");
            }
            let reasons = asked.iter().map(|(id, slot)| {
                match slot.as_ref().and_then(|response| response.declined.clone()) {
                    Some(reason) => format!("{id}: {reason}"),
                    None => format!("{id}: no answer in time"),
                }
            });
            let reasons: Vec<_> = reasons.collect();
            if reasons.is_empty() { "no answer in time".to_owned() } else { reasons.join("; ") }
        };
        let declined = text.is_none().then(declined);
        self.settle(text, declined, artifacts)
    }

    fn settle(
        &mut self,
        answer: Option<String>,
        declined: Option<String>,
        artifacts: Vec<Artifact>,
    ) -> Vec<Effect> {
        self.settled = true;
        if self.is_unmetered && matches!(self.side, HelpSide::Responder) {
            let unknown = match self.request.budget {
                budget if budget.is_none() => Usage { unknown: 1, ..Usage::default() },
                budget => budget.left(&self.usage, Budget::default()).charged_whole(),
            };
            self.usage = self.usage.plus(&unknown);
        }
        let state = if answer.is_some() { TaskState::Completed } else { TaskState::Failed };
        let status = Status { message: answer.clone().or_else(|| declined.clone()), ..Status::of(state) };
        let mut effects = Vec::new();
        let response = HelpResponse {
            answer,
            declined,
            artifacts: artifacts.clone(),
            usage: self.usage,
            extra: Map::new(),
        };
        effects.extend(self.respond(response));
        effects.push(Effect::Finish(Outcome { artifacts, ..Outcome::new(status) }));
        effects
    }

    fn respond(&self, response: HelpResponse) -> Option<Effect> {
        let requester = self.requester.as_ref()?;
        Some(Effect::Send(requester.reply(Label::Answer, Payload::HelpResponse(response))))
    }

    /// The answer was refused for good: the requester gets a decline instead, once.
    fn excuse_itself(&mut self, why: &str) -> Vec<Effect> {
        if std::mem::replace(&mut self.has_excused_itself, true) {
            return Vec::new();
        }
        let declined = Some(format!("the answer could not be handed over: {why}"));
        let response = HelpResponse {
            answer: None,
            declined,
            artifacts: Vec::new(),
            usage: self.usage,
            extra: Map::new(),
        };
        self.respond(response).into_iter().collect()
    }

    /// Why the turn ends with `call`, if a bound, its own or the budget of the question, is used up or can't be kept.
    fn why_bound_is_broken(&self, call: &ModelUsage) -> Option<String> {
        let (budget, none) = (self.request.budget, Budget::default());
        match self.bounds.judge(budget, &self.usage, &self.usage, none) {
            BudgetVerdict::UsedUp(figures) => Some(figures),
            BudgetVerdict::Fine | BudgetVerdict::NearlyUsed(_) => {
                self.bounds.unknown_cost(budget, &call.into(), &format!("{} at {}", call.model, self.me))
            }
        }
    }

    /// Takes the reports of the turn. Returns the records of its checkpoints.
    fn keep(&mut self, updates: &[Progress]) -> Vec<Effect> {
        let mut records = Vec::new();
        for update in updates {
            match update {
                Progress::Artifact { artifact, append, .. } => {
                    crate::artifact::merge(&mut self.produced, artifact.clone(), *append);
                }
                Progress::Usage(call) => {
                    self.usage = self.usage.plus(&call.into());
                    if let Some(why) = self.why_bound_is_broken(call) {
                        records.push(Effect::StopTurn);
                        records.extend(self.settle(None, Some(why), Vec::new()));
                        return records;
                    }
                }
                Progress::Checkpoint(checkpoint) => match self.log.checkpoint(checkpoint) {
                    Ok(record) => records.push(record),
                    Err(why) => {
                        records.push(Effect::StopTurn);
                        records.extend(self.settle(None, Some(why), Vec::new()));
                        return records;
                    }
                },
                _ => {}
            }
        }
        records
    }

    /// The turn goes on after a pause, if the requester still waits then.
    fn pause(&mut self, after_ms: u64, reason: &str, event: &Event) -> Vec<Effect> {
        let after = pause_length(after_ms);
        self.paused = self.paused.saturating_add(after);
        if self.paused > MAX_PAUSES {
            return self.settle(None, Some(reason.to_owned()), Vec::new());
        }
        let when = TimerAt::Wall(event.wall.plus(after));
        vec![Effect::SetTimer { timer: Timer::Resume, when }]
    }

    fn thought(&mut self, updates: &[Progress], end: &TurnEnd, event: &Event) -> Vec<Effect> {
        let mut effects = self.keep(updates);
        if self.settled {
            return effects;
        }
        if let TurnEnd::Pause { after_ms, reason } = end {
            effects.extend(self.pause(*after_ms, reason, event));
            return effects;
        }
        let artifacts = std::mem::take(&mut self.produced);
        effects.extend(match end {
            TurnEnd::Done { message } if message.is_some() || !artifacts.is_empty() => {
                let answer = message.clone().unwrap_or_else(|| "see the artifacts".to_owned());
                self.settle(Some(answer), None, artifacts)
            }
            TurnEnd::Done { .. } | TurnEnd::Seat { message: None, .. } => {
                self.settle(None, Some("done without an answer".to_owned()), Vec::new())
            }
            TurnEnd::Seat { message: Some(text), .. } | TurnEnd::Message { text } => {
                self.settle(Some(text.clone()), None, artifacts)
            }
            TurnEnd::Failed { reason } | TurnEnd::Rejected { reason } => {
                self.settle(None, Some(reason.clone()), artifacts)
            }
            TurnEnd::Waiting | TurnEnd::Pause { .. } => {
                self.settle(None, Some("answering may not ask others".to_owned()), artifacts)
            }
        });
        effects
    }
}

impl Pattern for HelpRequest {
    const NAME: &'static str = "help-request";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::HelpRequest];
    const RECEIVES: &'static [MessageKind] = &[MessageKind::HelpResponse];

    fn view(&self) -> View<'_> {
        let bounds = self.bounds.within(self.request.budget);
        let turn = RecordedTurnProgress {
            produced: ChunkRange::default(),
            artifacts: &self.produced,
            checkpoints: self.log.checkpoints(),
            used: self.usage,
            remaining: bounds.remaining(1, &self.usage, Budget::default()),
        };
        View { turn, ..View::default() }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        if self.settled {
            return match &event.what {
                EventKind::Undelivered { label: Label::Answer, reason, message, .. }
                    if is_recipient_there(reason) =>
                {
                    self.excuse_itself(message)
                }
                _ => Vec::new(),
            };
        }
        let is_responder = matches!(self.side, HelpSide::Responder);
        match &event.what {
            EventKind::Started => self.start(event),
            EventKind::PeersFound { candidates, nearest, .. } => {
                self.ask(candidates, nearest.as_ref(), event)
            }
            EventKind::TurnProgress { turn: 1, updates } if is_responder => self.keep(updates),
            EventKind::TurnEnded { turn: 1, updates, end } if is_responder => {
                self.thought(updates, end, event)
            }
            EventKind::TimerFired { timer: Timer::Resume } if is_responder => self.start(event),
            EventKind::TurnFailed { reason, .. } if is_responder => {
                self.settle(None, Some(reason.clone()), Vec::new())
            }
            EventKind::MessageReceived { by, envelope, .. } => match (&envelope.payload, by.agent()) {
                (Payload::HelpResponse(response), Some(agent)) => {
                    self.receive_response(agent, response.clone())
                }
                _ => Vec::new(),
            },
            EventKind::Undelivered { label: Label::Question, to, message, .. } => {
                let declined = HelpResponse {
                    answer: None,
                    declined: Some(message.clone()),
                    artifacts: Vec::new(),
                    usage: Usage::default(),
                    extra: Map::new(),
                };
                self.receive_response(to, declined)
            }
            EventKind::TimerFired { timer: Timer::Window } => self.conclude(),
            EventKind::Cancelled { reason, .. } => self.settle(None, Some(reason.clone()), Vec::new()),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
