//! One agent asks peers with a capability for their view. It does not block, and an unanswered request expires visibly
//! (RFC-005, pattern 2).
//!
//! Who answers works as on a task: it posts in the space of the asker, asks peers that are not on the path of the question, and
//! asks the owner of the asker's work. While it waits for others, signs of life extend the time in which its answer is awaited.

use super::{
    Candidate, ChunkRange, Effect, Event, EventKind, Label, Outcome, OutgoingMessage, Pattern,
    RecordedTurnProgress, Timer, TimerAt, Update, View,
    helper_questions::HelperQuestions,
    ownership::{Requester, is_recipient_there},
    turn::{PeerQuestion, TurnSubject},
    work::{Doing, WorkLimits},
};
use protocol::{
    artifact::{Artifact, ArtifactChunk},
    envelope::Envelope,
    ids::{Address, AgentId, Capability, Digest, SpaceId, TaskId},
    message::{self, HelpResponse, MessageKind, Payload, TaskUpdate},
    principal::{Principal, TaskRoot},
    question::Question,
    spaces::request::SpaceAnswer,
    task::{Status, TaskSpec, TaskState, TaskTerms},
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
    /// The space of the asker's work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    space: Option<SpaceId>,
    /// The questions to a person that the requester was told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    questions: Vec<Question>,
    /// What the space has refused, for the requester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HelpSide {
    /// Answers with its own brain.
    Answering { work: Box<Doing>, produced: Vec<Artifact> },
    /// Asks peers with the capability.
    #[serde(rename_all = "camelCase")]
    Asking {
        capability: Capability,
        window: Duration,
        asked: BTreeMap<AgentId, Option<HelpResponse>>,
        /// What the peers ask a person.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        helpers: Vec<HelperQuestions>,
    },
}

/// A question that has come, and from where.
#[derive(Debug, Clone)]
pub struct AskedQuestion {
    pub request: message::HelpRequest,
    /// The agent that asks; `None` for a user.
    pub requester: Option<Requester>,
    /// The agents through which the question has come, the requester included.
    pub path: Vec<AgentId>,
    /// The space of the work that it belongs to.
    pub space: Option<SpaceId>,
}

impl HelpRequest {
    fn new(me: AgentId, asked: AskedQuestion, side: HelpSide) -> Self {
        let AskedQuestion { request, requester, path, space } = asked;
        Self {
            me,
            request,
            path,
            requester,
            side,
            settled: false,
            has_excused_itself: false,
            usage: Usage::default(),
            space,
            questions: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// `me` answers the requester's question itself, within the bounds of its work.
    pub fn answering(me: AgentId, asked: AskedQuestion, limits: WorkLimits) -> Self {
        let AskedQuestion { request, requester, path, space } = &asked;
        let terms =
            TaskTerms { capability: request.capability.clone(), ..TaskTerms::new(request.question.clone()) };
        let named = request.on_behalf_of.clone();
        let named = named.map(|principal| TaskRoot { principal, proof: request.root_proof });
        let TaskRoot { principal: root, proof } = named.unwrap_or_else(|| TaskRoot::agent(&me));
        let spec = TaskSpec {
            artifacts: request.inline_artifacts.clone(),
            path: path.clone(),
            parent: request.task_id.clone(),
            root_proof: proof,
            budget: request.budget,
            space: space.clone(),
            session: request.session.clone(),
            run: request.run.clone().filter(|_| requester.is_some()),
            exclude: request.exclude.clone(),
            ..TaskSpec::new(work_id(&request.question), terms, root)
        };
        let work = Box::new(Doing::answering(me.clone(), spec, requester.clone(), limits));
        Self::new(me, asked, HelpSide::Answering { work, produced: Vec::new() })
    }

    /// `me` asks peers that have `capability`, for at most `window`, and returns their answers to the requester.
    pub fn asking(me: AgentId, asked: AskedQuestion, capability: Capability, window: Duration) -> Self {
        let side = HelpSide::Asking { capability, window, asked: BTreeMap::new(), helpers: Vec::new() };
        Self::new(me, asked, side)
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
        if let EventKind::SpaceAnswered {
            label: Label::Space,
            answer: SpaceAnswer::Refused { message, .. },
        } = &event.what
        {
            self.refused.push(message.clone());
        }
        let mut effects = Vec::new();
        let mut outcome = None;
        for effect in work.on(event) {
            match effect {
                Effect::RunTurn { turn, mut prompt, deadline, input } => {
                    prompt.about = TurnSubject::Help(PeerQuestion {
                        question: self.request.question.clone(),
                        from: self.requester.as_ref().map(|requester| requester.agent.clone()),
                        capability: self.request.capability.clone(),
                        path: self.path.clone(),
                        artifacts: self.request.inline_artifacts.clone(),
                    });
                    effects.push(Effect::RunTurn { turn, prompt, deadline, input });
                }
                Effect::Update(Update::Artifact { chunk, .. }) => {
                    protocol::artifact::merge_joined(produced, chunk.artifact, chunk.append);
                }
                Effect::Send(message) => {
                    let message = of_asker(message, &self.request, produced);
                    effects.extend(reported(message, &mut self.questions).map(Effect::Send));
                }
                Effect::Publish { mut signal } => {
                    signal.task_id.clone_from(&self.request.task_id);
                    effects.push(Effect::Publish { signal });
                }
                Effect::Finish(end) => outcome = Some(end),
                // Nobody sees it as a task.
                Effect::Update(_) => {}
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
        let HelpSide::Asking { capability, window, asked, .. } = &mut self.side else { return Vec::new() };
        if !asked.is_empty() {
            return Vec::new();
        }
        let excluded = &self.request.exclude;
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

    /// A peer reports on its work: it goes on, and may ask a person.
    fn receive_report(&mut self, by: &Principal, envelope: &Envelope, event: &Event) -> Vec<Effect> {
        let HelpSide::Asking { window, asked, helpers, .. } = &mut self.side else { return Vec::new() };
        if !by.agent().is_some_and(|agent| asked.get(agent).is_some_and(Option::is_none)) {
            return Vec::new();
        }
        let when = TimerAt::Node(event.at + *window);
        let mut effects = vec![Effect::SetTimer { timer: Timer::Window, when }];
        let said = HelperQuestions::read(by, envelope);
        let questions = said.map(|said| {
            helpers.retain(|helper| helper.agent != said.agent);
            helpers.push(said);
            helpers.iter().flat_map(|helper| helper.open.clone()).collect()
        });
        effects.extend(self.report(questions));
        effects
    }

    /// Tells the requester that the work goes on, and what is asked if that has changed.
    fn report(&mut self, questions: Option<Vec<Question>>) -> Option<Effect> {
        let requester = self.requester.as_ref()?;
        let mut update = TaskUpdate::new(work_id(&self.request.question), 0, None);
        if let Some(questions) = questions {
            update.status = Some(Status { questions, ..Status::of(TaskState::InputRequired) });
        }
        Some(Effect::Send(requester.reply(Label::Update, Payload::TaskUpdate(update))))
    }

    /// Passes an answer of the asker's owner on to the peer that has asked.
    fn pass_on(&mut self, by: &Principal, answer: &message::TaskAnswer) -> Vec<Effect> {
        let is_requester =
            self.requester.as_ref().zip(by.agent()).is_some_and(|(asker, by)| asker.agent == *by);
        let HelpSide::Asking { helpers, .. } = &mut self.side else { return Vec::new() };
        let Some(question) = answer.question_id.as_ref().filter(|_| is_requester) else { return Vec::new() };
        let passed = helpers.iter_mut().find_map(|helper| helper.answer(question, answer.clone()));
        passed.into_iter().collect()
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

    /// A peer has not taken an answer: its questions are open again.
    fn reopen(&mut self, peer: &AgentId) -> Vec<Effect> {
        let HelpSide::Asking { helpers, .. } = &mut self.side else { return Vec::new() };
        let is_open =
            helpers.iter_mut().find(|helper| helper.agent == *peer).is_some_and(HelperQuestions::reopen);
        let questions = helpers.iter().flat_map(|helper| helper.open.clone()).collect();
        self.report(Some(questions).filter(|_| is_open)).filter(|_| is_open).into_iter().collect()
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
        let refused = self.refused.iter().map(|why| format!("\n\n[The space refused an entry: {why}]"));
        let refused: String = refused.collect();
        let answer = answer.map(|answer| answer + &refused);
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
    const RECEIVES: &'static [MessageKind] = &[
        MessageKind::HelpResponse,
        MessageKind::TaskUpdate,
        MessageKind::TaskResponse,
        MessageKind::TaskAnswer,
    ];

    fn view(&self) -> View<'_> {
        let view = View {
            space: self.space.as_ref(),
            path: &self.path,
            questions: &self.questions,
            ..View::default()
        };
        let HelpSide::Answering { work, produced } = &self.side else { return view };
        let produced_in_log = ChunkRange::default();
        let work = work.view();
        let turn = RecordedTurnProgress { produced: produced_in_log, artifacts: produced, ..work.turn };
        View { turn, root: work.root, ..view }
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
                (Payload::TaskUpdate(_), Some(_)) => self.receive_report(by, envelope, event),
                (Payload::TaskAnswer(answer), Some(_)) => self.pass_on(by, answer),
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
            EventKind::Undelivered { label: Label::Answer, to, .. } => self.reopen(to),
            EventKind::TimerFired { timer: Timer::Window } => self.conclude(),
            EventKind::Cancelled { reason, .. } => self.settle(None, Some(reason.clone()), Vec::new()),
            _ => Vec::new(),
        }
    }
}

/// The name of the work on an answer. No visible task has it.
fn work_id(question: &str) -> TaskId {
    let digest = Digest::of(question.as_bytes()).to_string();
    TaskId::parse(&format!("answer-{}", &digest[..20]))
        .unwrap_or_else(|_| unreachable!("hexadecimal digits make an id"))
}

/// A message of the work, as one of the asker's work: it is for the same task, and what was produced goes with it, which is in no
/// log.
fn of_asker(
    mut message: OutgoingMessage,
    request: &message::HelpRequest,
    produced: &[Artifact],
) -> OutgoingMessage {
    match &mut message.payload {
        Payload::HelpRequest(asked) => asked.task_id.clone_from(&request.task_id),
        Payload::TaskRequest(asked) => asked.parent_task_id.clone_from(&request.task_id),
        _ => {}
    }
    if let Some(recorded) = message.recorded.take() {
        let chunks = produced.iter().cloned().map(ArtifactChunk::whole).collect();
        message.payload.add_chunks(chunks, &recorded.only);
    }
    message
}

/// The message, unless it is a report that the asker has no use for: it is told of signs of life and of questions, and gets the
/// answer at the end.
fn reported(message: OutgoingMessage, questions: &mut Vec<Question>) -> Option<OutgoingMessage> {
    match &message.payload {
        Payload::TaskResponse(_) => None,
        Payload::TaskUpdate(TaskUpdate { status: Some(status), .. }) if status.questions == *questions => {
            None
        }
        Payload::TaskUpdate(TaskUpdate { status: Some(status), .. }) => {
            questions.clone_from(&status.questions);
            Some(message)
        }
        _ => Some(message),
    }
}

#[cfg(test)]
mod tests;
