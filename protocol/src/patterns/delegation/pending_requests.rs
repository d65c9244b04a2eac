//! The requests of a turn to other agents and the owner, and their results.

use super::labels::{
    DelegationEffect, DelegationEvent, DelegationLabel, DelegationTimer, RequestKey, Timeouts,
};
use crate::{
    a2a::message::Message,
    artifact::{Artifact, ArtifactChunk},
    ids::{Address, AgentId, Digest, TaskId},
    message::{HelpRequest, Payload, TaskAnswer, TaskCancel, TaskRequest, TaskUpdate},
    patterns::{
        OutgoingMessage, OutgoingSignal, RecordedArtifacts, TimerAt,
        joint::{self, so_far, so_far::JointStanding},
        ownership::TaskOwnership,
        turn::{Progress, RequestResult},
    },
    principal::Principal,
    signal::SignalType,
    task::{Status, TaskState},
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::time::Duration;

/// The most requests of one turn; a turn with more fails.
pub(super) const MAX_ASKS: usize = 32;

/// The requests of a turn, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingRequests {
    noted: Vec<Progress>,
    open: Vec<PendingRequest>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PendingRequest {
    id: String,
    key: RequestKey,
    kind: RequestKind,
    reply: Option<RequestResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RequestKind {
    Help,
    #[serde(rename_all = "camelCase")]
    Delegate {
        task: TaskId,
        to: AgentId,
        /// The question of the doer, for the owner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// Whether it asks for a credential.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        auth: bool,
    },
    Question,
}

impl PendingRequests {
    /// Notes a request until the turn ends.
    pub(super) fn note(&mut self, ask: Progress) {
        if self.noted.len() <= MAX_ASKS {
            self.noted.push(ask);
        }
    }

    /// Whether the turn has too many requests.
    pub(super) fn is_too_much(&self) -> bool {
        self.noted.len() > MAX_ASKS
    }

    /// Whether a request is open.
    pub(super) fn is_waiting(&self) -> bool {
        self.open.iter().any(|ask| ask.reply.is_none())
    }

    /// Whether an open request can only go on with a person's answer: a question of this agent or of a doer.
    pub(super) fn waits_for_person(&self) -> bool {
        let mut open = self.open.iter().filter(|ask| ask.reply.is_none());
        open.any(|ask| {
            matches!(ask.kind, RequestKind::Question | RequestKind::Delegate { question: Some(_), .. })
        })
    }

    /// Takes the results, for the next turn.
    pub(super) fn take_results(&mut self) -> Vec<RequestResult> {
        self.noted.clear();
        std::mem::take(&mut self.open).into_iter().filter_map(|ask| ask.reply).collect()
    }

    /// Sends the noted requests.
    pub(super) fn send(
        &mut self,
        ownership: &TaskOwnership,
        me: &AgentId,
        turn: u32,
        timeouts: &Timeouts,
        event: &DelegationEvent,
    ) -> Vec<DelegationEffect> {
        self.open.clear();
        let mut effects = Vec::new();
        let (mut questions, mut asks_for_credential) = (Vec::new(), false);
        for (index, ask) in (0..).zip(std::mem::take(&mut self.noted)) {
            let key = RequestKey(turn, index);
            let mut send_request = |to: Address, payload, artifacts: Vec<String>, wait: Duration| {
                let chunks = ownership.produced();
                let has_chosen = !artifacts.is_empty() && !chunks.is_empty();
                effects.push(DelegationEffect::Send(OutgoingMessage {
                    recorded: has_chosen.then_some(RecordedArtifacts { chunks, only: artifacts }),
                    path: ownership.spec.path.clone(),
                    expires: Some(event.wall.plus(wait)),
                    ..OutgoingMessage::new(DelegationLabel::Request(key), to, payload)
                }));
                let when = TimerAt::Node(event.at + wait);
                effects.push(DelegationEffect::SetTimer { timer: DelegationTimer::Request(key), when });
            };
            let (id, kind) = match ask {
                Progress::Help { id, capability, question, artifacts } => {
                    let mut needed =
                        OutgoingSignal::about(SignalType::help_needed(), &ownership.spec.task_id);
                    needed.capability = Some(capability.clone());
                    let request = HelpRequest {
                        question,
                        capability: Some(capability.clone()),
                        artifacts: Vec::new(),
                        inline_artifacts: chosen(ownership, &artifacts),
                        task_id: Some(ownership.spec.task_id.clone()),
                        on_behalf_of: Some(ownership.spec.root.clone()),
                        extra: Map::new(),
                    };
                    send_request(
                        Address::Capability(capability),
                        Payload::HelpRequest(request),
                        artifacts,
                        timeouts.help,
                    );
                    effects.push(DelegationEffect::Publish { signal: needed });
                    (id, RequestKind::Help)
                }
                Progress::Delegate { id, to, capability, description, input, artifacts } => {
                    let task = child_id(ownership, me, key);
                    let wait = ownership.spec.deadline.map_or(timeouts.delegate, |deadline| {
                        event.wall.until(deadline).min(timeouts.delegate)
                    });
                    let (doer, capability) = match &to {
                        Address::Agent(agent) => (agent.clone(), capability),
                        Address::Capability(capability) => (me.clone(), Some(capability.clone())),
                    };
                    let request = TaskRequest {
                        description,
                        task_id: Some(task.clone()),
                        capability,
                        input,
                        artifacts: Vec::new(),
                        inline_artifacts: chosen(ownership, &artifacts),
                        deadline: Some(event.wall.plus(wait)),
                        accepted_modes: Vec::new(),
                        reply_to: None,
                        on_behalf_of: Some(ownership.spec.root.clone()),
                        parent_task_id: Some(ownership.spec.task_id.clone()),
                        extra: Map::new(),
                    };
                    send_request(to, Payload::TaskRequest(request), artifacts, wait);
                    (id, RequestKind::Delegate { task, to: doer, question: None, auth: false })
                }
                Progress::Question { id, text, auth } => {
                    questions.push(text);
                    asks_for_credential |= auth;
                    (id, RequestKind::Question)
                }
                Progress::Status { .. } | Progress::Artifact { .. } | Progress::Signal { .. } => continue,
            };
            self.open.push(PendingRequest { id, key, kind, reply: None });
        }
        if !questions.is_empty() {
            effects.push(DelegationEffect::AskPerson {
                question: questions.join("\n"),
                auth: asks_for_credential,
            });
        }
        effects
    }

    /// Takes a peer's answer; returns whether it was awaited.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other message answers anything")]
    pub(super) fn take_answer(
        &mut self,
        by: &Principal,
        answers: Option<DelegationLabel>,
        payload: &Payload,
    ) -> bool {
        let Some(agent) = by.agent() else { return false };
        match payload {
            Payload::HelpResponse(response) => {
                let is_it = |ask: &PendingRequest| {
                    matches!(ask.kind, RequestKind::Help)
                        && answers == Some(DelegationLabel::Request(ask.key))
                };
                let text = response.answer.clone().or_else(|| response.declined.clone()).unwrap_or_default();
                let reply =
                    (response.answer.is_some(), Some(agent.clone()), text, response.artifacts.clone());
                self.settle(is_it, reply)
            }
            Payload::TaskResponse(response) => {
                let is_it = |ask: &PendingRequest| match &ask.kind {
                    RequestKind::Delegate { task, to, .. } => *task == response.task_id && to == agent,
                    RequestKind::Help | RequestKind::Question => false,
                };
                let text = response.message.clone().unwrap_or_else(|| response.state.word().to_owned());
                let reply = (
                    response.state == TaskState::Completed,
                    Some(agent.clone()),
                    text,
                    response.artifacts.clone(),
                );
                self.settle(is_it, reply)
            }
            _ => false,
        }
    }

    /// Takes a status of a doer and returns the new status of this task, if any: a doer's question goes to the owner.
    pub(super) fn take_status(&mut self, by: &Principal, update: &TaskUpdate) -> Option<Status> {
        let (status, agent) = (update.status.as_ref()?, by.agent()?);
        let open = self.open.iter_mut().filter(|ask| ask.reply.is_none());
        let (question, auth) = open.map(|ask| &mut ask.kind).find_map(|kind| match kind {
            RequestKind::Delegate { task, to, question, auth } if *task == update.task_id && to == agent => {
                Some((question, auth))
            }
            RequestKind::Delegate { .. } | RequestKind::Help | RequestKind::Question => None,
        })?;
        if status.state.is_interrupted() {
            *question = Some(status.message.clone().unwrap_or_default());
            *auth = status.state == TaskState::AuthRequired;
            return Some(status.clone());
        }
        question.take().map(|_| Status::new(TaskState::Working, "answered"))
    }

    /// Whether a doer has an open question.
    pub(super) fn has_question(&self) -> bool {
        self.states().iter().any(|standing| matches!(standing, JointStanding::Asks { .. }))
    }

    /// The interim record of a coordinated request, shown while one of its agents asks a question.
    pub(super) fn show(&self, ownership: &mut TaskOwnership) -> Vec<DelegationEffect> {
        let spec = &ownership.spec;
        if spec.capability.as_ref().is_none_or(|capability| capability.as_str() != joint::CAPABILITY) {
            return Vec::new();
        }
        let Ok(terms) = joint::Terms::read(spec.input.as_ref()) else { return Vec::new() };
        let shown = so_far::shown(ownership.record(), &terms, &self.states());
        let mut effects: Vec<_> = shown
            .into_iter()
            .filter_map(|artifact| ownership.produce(ArtifactChunk::whole(artifact)))
            .collect();
        effects.extend(ownership.report_chunks(false));
        effects
    }

    /// The status of all requests to other agents.
    fn states(&self) -> Vec<JointStanding> {
        let standing = |ask: &PendingRequest| match (&ask.reply, &ask.kind) {
            (Some(reply), _) => Some(JointStanding::Answered(reply.clone())),
            (None, RequestKind::Delegate { task, question: Some(question), auth, .. }) => {
                Some(JointStanding::Asks {
                    id: ask.id.clone(),
                    task: task.to_string(),
                    question: question.clone(),
                    auth: *auth,
                })
            }
            (None, RequestKind::Delegate { .. }) => Some(JointStanding::Working { id: ask.id.clone() }),
            (None, RequestKind::Help | RequestKind::Question) => None,
        };
        self.open.iter().filter_map(standing).collect()
    }

    /// Passes the owner's answer on to every doer that has a question.
    pub(super) fn pass_on(&mut self, text: &str, message: Option<&Message>) -> Vec<DelegationEffect> {
        let open = self.open.iter_mut().filter(|ask| ask.reply.is_none());
        let asking = open.filter_map(|ask| match &mut ask.kind {
            RequestKind::Delegate { task, to, question, .. } => {
                question.take().map(|_| (task.clone(), to.clone()))
            }
            RequestKind::Help | RequestKind::Question => None,
        });
        asking.map(|(task, to)| answer_to(task, to, text, message)).collect()
    }

    /// Takes the owner's answer for every open question.
    pub(super) fn answer(&mut self, text: &str) -> bool {
        let mut any = false;
        while self.settle(
            |ask| matches!(ask.kind, RequestKind::Question),
            (true, None, text.to_owned(), Vec::new()),
        ) {
            any = true;
        }
        any
    }

    /// Fails the request `key`.
    pub(super) fn give_up(&mut self, key: RequestKey, why: &str) -> bool {
        self.settle(|ask| ask.key == key, (false, None, why.to_owned(), Vec::new()))
    }

    fn settle(
        &mut self,
        is_it: impl Fn(&PendingRequest) -> bool,
        reply: (bool, Option<AgentId>, String, Vec<Artifact>),
    ) -> bool {
        let (ok, from, text, artifacts) = reply;
        let Some(ask) = self.open.iter_mut().find(|ask| ask.reply.is_none() && is_it(ask)) else {
            return false;
        };
        let task_id = match &ask.kind {
            RequestKind::Delegate { task, .. } => Some(task.clone()),
            RequestKind::Help | RequestKind::Question => None,
        };
        ask.reply = Some(RequestResult { id: ask.id.clone(), ok, from, text, artifacts, task_id });
        true
    }

    /// Cancels the open requests at the agents that still work on them.
    pub(super) fn withdraw(&mut self, reason: &str) -> Vec<DelegationEffect> {
        let open = std::mem::take(&mut self.open);
        let children = open.into_iter().filter(|ask| ask.reply.is_none()).filter_map(|ask| match ask.kind {
            RequestKind::Delegate { task, to, .. } => Some((task, to)),
            RequestKind::Help | RequestKind::Question => None,
        });
        children
            .map(|(task_id, to)| {
                let cancel =
                    TaskCancel { task_id, reason: Some(reason.to_owned()), epoch: None, extra: Map::new() };
                let to = Address::Agent(to);
                DelegationEffect::Send(OutgoingMessage::new(
                    DelegationLabel::Withdraw,
                    to,
                    Payload::TaskCancel(cancel),
                ))
            })
            .collect()
    }
}

fn answer_to(task_id: TaskId, to: AgentId, text: &str, message: Option<&Message>) -> DelegationEffect {
    let answer = Payload::TaskAnswer(TaskAnswer::text(task_id, None, text, message));
    DelegationEffect::Send(OutgoingMessage::new(DelegationLabel::Answer, Address::Agent(to), answer))
}

/// The artifacts of the task that a brain refers to. Those that it has produced are added when the message is sent.
fn chosen(ownership: &TaskOwnership, names: &[String]) -> Vec<Artifact> {
    let all = ownership.spec.artifacts.iter();
    let named = |artifact: &&Artifact| names.contains(&artifact.artifact_id);
    all.filter(named).cloned().collect()
}

/// A unique id for a child task; the same request gets the same id.
fn child_id(ownership: &TaskOwnership, me: &AgentId, key: RequestKey) -> TaskId {
    let spec = &ownership.spec;
    let epoch = ownership.requester.as_ref().and_then(|requester| requester.epoch).or(ownership.claim);
    let requester =
        ownership.requester.as_ref().map(|requester| requester.message.as_str()).unwrap_or_default();
    let RequestKey(turn, index) = key;
    let seed =
        format!("{}|{me}|{}|{epoch:?}|{requester}|{:?}|{turn}:{index}", spec.root, spec.task_id, spec.path);
    let digest = Digest::of(seed.as_bytes()).to_string();
    TaskId::parse(&format!("sub-{}", &digest[..20])).unwrap_or_else(|_| spec.task_id.clone())
}
