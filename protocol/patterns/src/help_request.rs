//! One agent asks peers with a capability for their view. It does not block, and an unanswered request expires visibly
//! (RFC-005, pattern 2).

use super::{
    Candidate, ChunkRange, Effect, Event, EventKind, Label, Outcome, OutgoingMessage, Pattern,
    RecordedTurnProgress, Timer, TimerAt, Update, View,
    ownership::{Requester, is_recipient_there},
    turn::{PeerQuestion, TurnSubject},
    work::{
        Doing, WorkLimits,
        doing::lines::{HiddenWork, WorkKind},
    },
};
use protocol::{
    artifact::Artifact,
    ids::{Address, AgentId, Capability, Digest, TaskId},
    message::{self, HelpResponse, MessageKind, Payload},
    principal::Principal,
    task::{Status, TaskState},
    usage::{TaskBounds, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::{collections::BTreeMap, time::Duration};

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
    settled: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_excused_itself: bool,
    /// What the answers have used.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HelpSide {
    /// Answers with its own brain.
    Answering { work: Box<Doing>, produced: Vec<Artifact> },
    /// Asks peers with the capability.
    #[serde(rename_all = "camelCase")]
    Asking { capability: Capability, window: Duration, asked: BTreeMap<AgentId, Option<HelpResponse>> },
}

impl HelpRequest {
    fn new(me: AgentId, request: message::HelpRequest, requester: Option<Requester>, side: HelpSide) -> Self {
        let (path, settled, has_excused_itself, usage) = (Vec::new(), false, false, Usage::default());
        Self { me, request, path, requester, side, settled, has_excused_itself, usage }
    }

    /// `me` answers the requester's question itself, within the bounds of its work. It has one turn.
    pub fn answering(
        me: AgentId,
        request: message::HelpRequest,
        requester: Option<Requester>,
        limits: WorkLimits,
    ) -> Self {
        let digest = Digest::of(request.question.as_bytes()).to_string();
        let about = HiddenWork {
            kind: WorkKind::Answer,
            task_id: TaskId::parse(&format!("answer-{}", &digest[..20]))
                .unwrap_or_else(|_| unreachable!("hexadecimal digits make an id")),
            description: String::new(),
            capability: request.capability.clone(),
            root: request.on_behalf_of.clone().unwrap_or_else(|| Principal::Agent(me.clone())),
            budget: request.budget,
        };
        let work = Box::new(Doing::hidden(me.clone(), about, limits));
        Self::new(me, request, requester, HelpSide::Answering { work, produced: Vec::new() })
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
        Self { path, ..Self::new(me, request, requester, side) }
    }

    fn search(&self, event: &Event) -> Vec<Effect> {
        let HelpSide::Asking { capability, window, .. } = &self.side else { return Vec::new() };
        vec![
            Effect::FindPeers { label: Label::Search(0), capability: capability.clone() },
            Effect::SetTimer { timer: Timer::Window, when: TimerAt::Node(event.at + *window) },
        ]
    }

    /// The effects of the own brain's work on the answer.
    fn answer(&mut self, event: &Event) -> Vec<Effect> {
        let HelpSide::Answering { work, produced } = &mut self.side else { return Vec::new() };
        let mut effects = Vec::new();
        let mut outcome = None;
        for effect in work.on(event) {
            match effect {
                Effect::RunTurn { turn, mut prompt, deadline, input } => {
                    prompt.about = TurnSubject::Help(PeerQuestion {
                        question: self.request.question.clone(),
                        capability: self.request.capability.clone(),
                        artifacts: self.request.inline_artifacts.clone(),
                    });
                    effects.push(Effect::RunTurn { turn, prompt, deadline, input });
                }
                Effect::Update(Update::Artifact { chunk, .. }) => {
                    protocol::artifact::merge(produced, chunk.artifact, chunk.append);
                }
                Effect::Finish(end) => outcome = Some(end),
                other => effects.push(other),
            }
        }
        let Some(Outcome { status, usage, .. }) = outcome else { return effects };
        // What was made so far goes with an end that the brain itself has chosen.
        let artifacts = if work.has_answered() { std::mem::take(produced) } else { Vec::new() };
        self.usage = usage;
        effects.extend(match status.state {
            TaskState::Completed => self.settle(status.message, None, artifacts),
            _ => self.settle(None, status.message, artifacts),
        });
        effects
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
}

impl Pattern for HelpRequest {
    const NAME: &'static str = "help-request";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::HelpRequest];
    const RECEIVES: &'static [MessageKind] = &[MessageKind::HelpResponse];

    fn view(&self) -> View<'_> {
        let HelpSide::Answering { work, produced } = &self.side else { return View::default() };
        let produced_in_log = ChunkRange::default();
        let turn =
            RecordedTurnProgress { produced: produced_in_log, artifacts: produced, ..work.view().turn };
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
        match &event.what {
            _ if matches!(self.side, HelpSide::Answering { .. }) => self.answer(event),
            EventKind::Started => self.search(event),
            EventKind::PeersFound { candidates, nearest, .. } => {
                self.ask(candidates, nearest.as_ref(), event)
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
