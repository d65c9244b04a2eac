//! The requests of a turn to other agents and the owner, and their results.

use super::{
    WorkLimits,
    doing::lines::{LineFate, TurnKind},
};
use crate::{
    Effect, Event, Label, OutgoingMessage, OutgoingSignal, RecordedArtifacts, RequestKey, Timer, TimerAt,
    helper_questions::HelperQuestions,
    ownership::{TaskOwnership, may_have_arrived},
    session::{routing, seat, team::report::ItemQuestion},
    turn::{Delegate, HandoffRequest, Help, Progress, RequestResult},
};
use protocol::{
    a2a::message::Message,
    artifact::Artifact,
    budget::{Budget, BudgetShares},
    envelope::Envelope,
    handoff::HandedChat,
    ids::{Address, AgentId, Digest, QuestionId, TaskId},
    message::{HelpRequest, Payload, TaskAnswer, TaskCancel, TaskRequest, TaskUpdate},
    principal::Principal,
    problem::Reason,
    question::{Answer, AskedBy, Decision, OnTimeout, Question, QuestionKind},
    signal::{Cursor, SignalType},
    spaces::request::{EntrySearch, SpaceAction, SpaceAnswer, SpaceRequest},
    task::{TaskSpec, TaskState, TaskTerms},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::{collections::BTreeMap, time::Duration};

/// The most requests of one turn; a turn with more fails.
pub const MAX_REQUESTS: usize = 32;

/// The most open requests of a task.
const MAX_OPEN: usize = 128;

/// How often a task that nobody knows is looked for: its first signal may be on its way.
const LOOKS_FOR_UNKNOWN: u32 = 2;
/// The pause before a task is looked at again; it doubles.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// The longest such pause.
const LAST_LOOK: Duration = Duration::from_secs(15);

/// The requests of a turn, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingRequests {
    /// Those that are sent when the turn ends.
    noted: Vec<Progress>,
    open: Vec<PendingRequest>,
    /// How many the turn has sent.
    #[serde(default)]
    sent: u32,
    /// The requests whose answers a turn was given, by their ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    answered: BTreeMap<String, UsedId>,
    /// One of them, to an agent, that the turn has repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeated: Option<String>,
    /// What was reserved for agents that will not say what they have used, until it is charged.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    lost: Budget,
}

/// What a request id stands for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct UsedId {
    /// The turn that sent the request.
    turn: u32,
    content: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PendingRequest {
    id: String,
    key: RequestKey,
    kind: RequestKind,
    #[serde(default)]
    content: u64,
    /// Whether the turn ended with it.
    #[serde(default)]
    waits: bool,
    reply: Option<RequestResult>,
    /// What its doer may use.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    budget: Budget,
    /// What the agent that helps asks the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    helper: Option<HelperQuestions>,
}

impl PendingRequest {
    fn new(
        (id, key): (String, RequestKey),
        kind: RequestKind,
        content: u64,
        waits: bool,
        budget: Budget,
    ) -> Self {
        Self { id, key, kind, content, waits, reply: None, budget, helper: None }
    }

    fn is_open(&self) -> bool {
        self.reply.is_none()
    }

    /// The open questions to the owner.
    fn questions(&self) -> &[Question] {
        match (&self.kind, &self.helper) {
            (RequestKind::Question(question), _) => std::slice::from_ref(question.as_ref()),
            (RequestKind::Delegate { questions, .. }, _) => questions,
            (RequestKind::Help, Some(helper)) => &helper.open,
            (RequestKind::Help, None) | (RequestKind::Find | RequestKind::Task { .. }, _) => &[],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RequestKind {
    Help,
    #[serde(rename_all = "camelCase")]
    Delegate {
        task: TaskId,
        to: AgentId,
        /// The open questions of the doer, for the owner.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<Question>,
        /// Those whose answers are on their way to the doer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answered: Vec<Question>,
    },
    Question(Box<Question>),
    Find,
    /// The end of a task of anybody's.
    #[serde(rename_all = "camelCase")]
    Task {
        /// Up to where its signals were looked for; `None` until one was found.
        after: Option<Cursor>,
        /// How often they were looked for.
        looks: u32,
    },
}

/// The task and turn whose requests are sent.
#[derive(Clone, Copy)]
pub(super) struct RequestSender<'a> {
    pub(super) ownership: &'a TaskOwnership,
    pub(super) me: &'a AgentId,
    pub(super) turn: u32,
    pub(super) limits: &'a WorkLimits,
    /// What the task may use in all.
    pub(super) bounds: Budget,
    pub(super) kind: TurnKind,
    pub(super) event: &'a Event,
}

/// What follows when the time for a request is over.
pub(super) enum Expiry {
    /// Nothing: its result is there.
    Late,
    /// It is awaited anew.
    Extended,
    /// A request to another agent has failed.
    Request,
    /// A question is no longer open.
    Question,
    Fails(String),
}

impl PendingRequests {
    /// Whether `ask` of turn number `turn` is to be sent; not if the same was asked under its id and has its answer, or is noted.
    /// Fails if the task has used its id for another request. A turn that runs again after a crash may repeat its requests, and a
    /// later turn may hand the chat to the same agent again.
    pub(super) fn check_id(&mut self, ask: &Progress, turn: u32) -> Result<bool, String> {
        let (Some(id), Some(content)) = (ask.request_id(), ask.request_content()) else { return Ok(true) };
        let noted = self.noted.iter().find(|noted| noted.request_id() == Some(id));
        let noted = noted.and_then(Progress::request_content).map(|content| UsedId { turn, content });
        let open = self.open.iter().find(|open| open.id == *id);
        let open = open.map(|open| UsedId { turn: open.key.0, content: open.content });
        let used = noted.or(open).or_else(|| self.answered.get(id).copied());
        match used.filter(|used| used.turn == turn || !matches!(ask, Progress::Handoff(_))) {
            Some(used) if used.content != content => Err(format!(
                "request id {id:?}: turn {} has used it for another request; each request needs an id of its own",
                used.turn
            )),
            Some(_) if noted.is_some() => Ok(false),
            Some(_) if open.is_none() && is_to_agent(ask) => {
                self.repeated = Some(id.clone());
                Ok(false)
            }
            Some(_) | None => Ok(true),
        }
    }

    /// Why a turn that asks nothing new fails.
    pub(super) fn why_nothing_is_asked(&self) -> String {
        match &self.repeated {
            Some(id) => format!(
                "the turn asked only what was answered before: request {id:?} has its answer in `answers`, and another request needs another id"
            ),
            None => "the turn ended without a result and without a question".to_owned(),
        }
    }

    /// Notes a request until the turn ends.
    pub(super) fn note(&mut self, ask: Progress) {
        if self.noted.len() <= MAX_REQUESTS {
            self.noted.push(ask);
        }
    }

    /// Takes the handovers that were noted.
    pub(super) fn take_handoffs(&mut self) -> Vec<HandoffRequest> {
        let mut handoffs = Vec::new();
        self.noted.retain(|noted| {
            let Progress::Handoff(asked) = noted else { return true };
            handoffs.push(asked.clone());
            false
        });
        handoffs
    }

    /// Whether anything is asked that has no answer.
    pub(super) fn is_asking(&self) -> bool {
        !self.noted.is_empty() || self.open.iter().any(PendingRequest::is_open)
    }

    /// A handover that `turn` asks for can't be: the next turn is told why.
    pub(super) fn refuse_handoff(&mut self, asked: HandoffRequest, turn: u32, why: String) {
        let content = Progress::Handoff(asked.clone()).request_content().unwrap_or_default();
        let reply = RequestResult { id: asked.id.clone(), ..result(false, None, why, Vec::new()) };
        let key = RequestKey(turn, self.sent);
        self.sent += 1;
        let refused =
            PendingRequest::new((asked.id, key), RequestKind::Help, content, true, Budget::default());
        self.open.push(PendingRequest { reply: Some(reply), ..refused });
    }

    /// Passes the message of a chat on to the agent with which the chat goes on, with all that the task may still use. `handed` is
    /// given the id of the task there.
    pub(super) fn pass_on(
        &mut self,
        (id, to): (&str, &AgentId),
        handed: impl FnOnce(&TaskId) -> HandedChat,
        sender: RequestSender<'_>,
    ) -> Vec<Effect> {
        let RequestSender { ownership, me, turn, limits, event, .. } = sender;
        let key = RequestKey(turn, self.sent);
        self.sent += 1;
        let (task, spec) = (child_id(ownership, me, key), &ownership.spec);
        let wait =
            spec.deadline.map_or(limits.delegate, |deadline| event.wall.until(deadline).min(limits.delegate));
        let budget = self.free(sender);
        let request = TaskRequest {
            task_id: Some(task.clone()),
            inline_artifacts: spec.artifacts.clone(),
            on_behalf_of: Some(spec.root.clone()),
            root_proof: spec.root_proof,
            parent_task_id: Some(spec.task_id.clone()),
            run: Some(ownership.run(me)),
            budget,
            handed: Some(Box::new(handed(&task))),
            ..TaskRequest::new(TaskTerms {
                capability: None,
                deadline: Some(event.wall.plus(wait)),
                ..spec.terms.clone()
            })
        };
        let message = OutgoingMessage {
            path: spec.path.clone(),
            expires: Some(event.wall.plus(wait)),
            ..OutgoingMessage::new(
                Label::Request(key),
                Address::Agent(to.clone()),
                Payload::TaskRequest(request),
            )
        };
        let kind =
            RequestKind::Delegate { task, to: to.clone(), questions: Vec::new(), answered: Vec::new() };
        self.open.push(PendingRequest::new((id.to_owned(), key), kind, 0, true, budget));
        let when = TimerAt::Node(event.at + wait);
        vec![Effect::Send(message), Effect::SetTimer { timer: Timer::Request(key), when }]
    }

    /// Why the request `id` has no result, if it has failed.
    pub(super) fn why_unanswered(&self, id: &str) -> Option<String> {
        let reply = self.open.iter().find(|ask| ask.id == id)?.reply.as_ref()?;
        Some(reply.text.clone())
    }

    /// The task as which another agent has been passed on this one.
    pub(super) fn passed_on(&self) -> Option<(&TaskId, &AgentId)> {
        self.open.iter().filter(|ask| ask.is_open()).find_map(|ask| match &ask.kind {
            RequestKind::Delegate { task, to, .. } => Some((task, to)),
            RequestKind::Help | RequestKind::Question(_) | RequestKind::Find | RequestKind::Task { .. } => {
                None
            }
        })
    }

    /// Whether the turn has too many requests, those included that were sent before.
    pub(super) fn is_too_much(&self) -> bool {
        let sent = usize::try_from(self.sent).unwrap_or(usize::MAX);
        self.noted.len().saturating_add(sent) > MAX_REQUESTS || self.open.len() > MAX_OPEN
    }

    /// Whether the next turn must wait: for the results of all requests that ended a turn, or else for the first of the others.
    pub(super) fn is_waiting(&self) -> bool {
        let is_open = |ask: &&PendingRequest| ask.reply.is_none();
        self.open.iter().filter(is_open).any(|ask| ask.waits)
            || !self.open.is_empty() && self.open.iter().all(|ask| ask.reply.is_none())
    }

    /// Whether results have come that no turn was given.
    pub(super) fn has_results(&self) -> bool {
        self.open.iter().any(|ask| ask.reply.is_some())
    }

    /// The open questions of this agent and of those that work for it.
    pub(super) fn questions(&self) -> Vec<Question> {
        let open = self.open.iter().filter(|ask| ask.is_open());
        open.flat_map(|ask| ask.questions().iter().cloned()).collect()
    }

    /// Whether an open request can only go on with a person's answer: a question of this agent or of a doer.
    pub(super) fn waits_for_person(&self) -> bool {
        self.open.iter().any(|ask| ask.is_open() && !ask.questions().is_empty())
    }

    /// The task is done: if it is done again, all ids may be used again.
    pub(super) fn forget_ids(&mut self) {
        self.answered.clear();
    }

    /// The requests, for the agent when it is awarded the task again: questions to a person stay open, and whoever else was asked
    /// has been told that it is no longer needed. A turn that has not ended notes its requests again.
    pub(super) fn so_far(&self, is_thinking: bool) -> Self {
        let mut kept = self.clone();
        if is_thinking {
            kept.noted.clear();
        }
        kept.lost = Budget::default();
        for ask in kept.open.iter_mut().filter(|ask| ask.reply.is_none()) {
            if !matches!(ask.kind, RequestKind::Question(_)) {
                let why = "it was withdrawn, because the work was given to another agent meanwhile; ask again if you need it";
                ask.reply = Some(RequestResult {
                    id: ask.id.clone(),
                    ..result(false, None, why.to_owned(), Vec::new())
                });
            }
        }
        kept
    }

    /// The timers of the open questions.
    pub(super) fn timers(&self) -> Vec<Effect> {
        let open = self.open.iter().filter(|ask| ask.reply.is_none());
        let due = open.filter_map(|ask| match &ask.kind {
            RequestKind::Question(question) => {
                let when = TimerAt::Wall(question.expires_at?);
                Some(Effect::SetTimer { timer: Timer::Request(ask.key), when })
            }
            _ => None,
        });
        due.collect()
    }

    /// Takes the results, for the next turn. The open requests stay.
    pub(super) fn take_results(&mut self) -> Vec<RequestResult> {
        self.noted.clear();
        let (done, open) = std::mem::take(&mut self.open).into_iter().partition(|ask| ask.reply.is_some());
        self.open = open;
        let done: Vec<PendingRequest> = done;
        for ask in &done {
            self.answered.insert(ask.id.clone(), UsedId { turn: ask.key.0, content: ask.content });
        }
        done.into_iter().filter_map(|ask| ask.reply).collect()
    }

    /// A new turn begins: its requests are numbered from 0.
    pub(super) fn begin_turn(&mut self) {
        self.sent = 0;
        self.repeated = None;
    }

    /// What is reserved for the open requests.
    pub(super) fn reserved(&self) -> Budget {
        let open = self.open.iter().filter(|ask| ask.reply.is_none());
        open.fold(Budget::default(), |sum, ask| sum.plus(ask.budget))
    }

    /// Takes what has to be charged although nobody said that it was used.
    pub(super) fn take_lost(&mut self) -> Budget {
        std::mem::take(&mut self.lost)
    }

    /// Sends the noted requests.
    pub(super) fn send(&mut self, sender: RequestSender<'_>) -> Vec<Effect> {
        let noted = std::mem::take(&mut self.noted);
        let shares = self.shares(&noted, sender);
        noted.into_iter().flat_map(|ask| self.send_one(ask, shares, sender)).collect()
    }

    /// Sends one request while the turn goes on.
    pub(super) fn send_at_once(&mut self, ask: Progress, sender: RequestSender<'_>) -> Vec<Effect> {
        let shares = self.shares(std::slice::from_ref(&ask), sender);
        self.send_one(ask, shares, sender)
    }

    fn free(&self, RequestSender { ownership, bounds, .. }: RequestSender<'_>) -> Budget {
        bounds.left(ownership.usage(), self.reserved())
    }

    fn shares(&self, asks: &[Progress], sender: RequestSender<'_>) -> BudgetShares {
        let is_new = |ask: &&Progress| self.open.iter().all(|open| ask.request_id() != Some(&open.id));
        let wanted: Vec<_> = asks.iter().filter(is_new).filter_map(wanted).collect();
        BudgetShares::of(self.free(sender), &wanted)
    }

    fn send_one(&mut self, ask: Progress, shares: BudgetShares, sender: RequestSender<'_>) -> Vec<Effect> {
        let RequestSender { ownership, me, turn, limits: work_limits, event, .. } = sender;
        let mut effects = Vec::new();
        let key = RequestKey(turn, self.sent);
        self.sent += 1;
        let waits = ask.waits().unwrap_or_default();
        let content = ask.request_content().unwrap_or_default();
        // A brain that runs again from its start sends again what has no answer yet.
        if let Some(open) = self.open.iter_mut().find(|open| ask.request_id() == Some(&open.id)) {
            open.waits |= waits;
            return Vec::new();
        }
        let siblings = match sender.kind {
            TurnKind::Answer { .. } => ownership.spec.exclude.clone(),
            _ => routing::siblings(&ownership.spec),
        };
        let asked = addressed(&ask).and_then(|agent| siblings.iter().find(|sibling| *sibling == agent));
        let refusal = match sender.kind.fate(&ask) {
            LineFate::Refused(why) => Some(why.to_owned()),
            _ => asked.map(routing::why_sibling_is_refused),
        };
        let given = match (refusal, wanted(&ask)) {
            (Some(why), _) => Err(why),
            (None, Some(wanted)) => shares.give(wanted, self.free(sender)),
            (None, None) => Ok(Budget::default()),
        };
        let budget = match given {
            Ok(budget) => budget,
            Err(why) => {
                let id = ask.request_id().cloned().unwrap_or_default();
                let reply = RequestResult { id: id.clone(), ..result(false, None, why, Vec::new()) };
                let (kind, budget) = (RequestKind::Help, Budget::default());
                self.open.push(PendingRequest {
                    reply: Some(reply),
                    ..PendingRequest::new((id, key), kind, content, waits, budget)
                });
                return effects;
            }
        };
        let mut send_request = |to: Address, payload, artifacts: Vec<String>, wait: Duration| {
            let chunks = ownership.produced();
            let has_chosen = !artifacts.is_empty() && !chunks.is_empty();
            effects.push(Effect::Send(OutgoingMessage {
                recorded: has_chosen.then_some(RecordedArtifacts { chunks, only: artifacts }),
                path: ownership.spec.path.clone(),
                expires: Some(event.wall.plus(wait)),
                ..OutgoingMessage::new(Label::Request(key), to, payload)
            }));
            let when = TimerAt::Node(event.at + wait);
            effects.push(Effect::SetTimer { timer: Timer::Request(key), when });
        };
        let (id, kind) = match ask {
            Progress::Help(Help { id, to, question, artifacts, .. }) => {
                let capability = match &to {
                    Address::Capability(capability) => Some(capability.clone()),
                    Address::Agent(_) => None,
                };
                let mut needed = OutgoingSignal::about(SignalType::help_needed(), &ownership.spec.task_id);
                needed.capability.clone_from(&capability);
                let is_published = capability.is_some();
                let request = HelpRequest {
                    question,
                    capability,
                    artifacts: Vec::new(),
                    inline_artifacts: chosen(ownership, &artifacts),
                    task_id: Some(ownership.spec.task_id.clone()),
                    on_behalf_of: Some(ownership.spec.root.clone()),
                    budget,
                    root_proof: ownership.spec.root_proof,
                    session: seat::session_of_findings(&ownership.spec),
                    run: Some(ownership.run(me)),
                    exclude: siblings,
                    extra: Map::new(),
                };
                send_request(to, Payload::HelpRequest(request), artifacts, work_limits.help);
                // A question to one agent is not for others.
                effects.extend(is_published.then_some(Effect::Publish { signal: needed }));
                (id, RequestKind::Help)
            }
            Progress::Delegate(Delegate {
                id,
                to,
                capability,
                description,
                input,
                artifacts,
                hand_on,
                ..
            }) => {
                let task = child_id(ownership, me, key);
                let wait = ownership.spec.deadline.map_or(work_limits.delegate, |deadline| {
                    event.wall.until(deadline).min(work_limits.delegate)
                });
                let (doer, capability) = match &to {
                    Address::Agent(agent) => (agent.clone(), capability),
                    Address::Capability(capability) => (me.clone(), Some(capability.clone())),
                };
                let deadline = Some(event.wall.plus(wait));
                let request = TaskRequest {
                    task_id: Some(task.clone()),
                    inline_artifacts: chosen(ownership, &artifacts),
                    on_behalf_of: Some(ownership.spec.root.clone()),
                    root_proof: ownership.spec.root_proof,
                    parent_task_id: Some(ownership.spec.task_id.clone()),
                    session: seat::session_of_findings(&ownership.spec),
                    run: Some(ownership.run(me)),
                    budget,
                    hand_on,
                    exclude: if doer == *me { siblings } else { Vec::new() },
                    ..TaskRequest::new(TaskTerms {
                        capability,
                        input,
                        deadline,
                        ..TaskTerms::new(description)
                    })
                };
                send_request(to, Payload::TaskRequest(request), artifacts, wait);
                (id, RequestKind::Delegate { task, to: doer, questions: Vec::new(), answered: Vec::new() })
            }
            Progress::Question(asked) => {
                let id = asked.id.clone();
                // The asker of an answer may end, and its owner with it.
                let is_answer = matches!(sender.kind, TurnKind::Answer { .. });
                let latest = is_answer.then(|| event.wall.plus(work_limits.delegate));
                let question = Box::new(Question {
                    id: question_id((ownership, me), key, &id, event.wall),
                    wait: true,
                    expires_at: asked.expires_at.or(latest),
                    ..asked
                });
                effects.push(Effect::AskPerson { question: question.clone() });
                effects.extend(
                    question
                        .expires_at
                        .map(|at| Effect::SetTimer { timer: Timer::Request(key), when: TimerAt::Wall(at) }),
                );
                (id, RequestKind::Question(question))
            }
            Progress::Find { id, query, .. } => {
                let of_others = seat::kinds_of_others(ownership.spec.input.as_ref());
                let session = seat::session_of_findings(&ownership.spec);
                let scope = seat::scope(session, ownership.spec.input.as_ref());
                let action = SpaceAction::Find(EntrySearch { of_others, scope, ..query });
                let root = Some(ownership.spec.task_root());
                let request = Box::new(SpaceRequest { space: ownership.spec.space(), root, action });
                effects.push(Effect::AskSpace { label: Label::Request(key), request });
                let when = TimerAt::Node(event.at + work_limits.help);
                effects.push(Effect::SetTimer { timer: Timer::Request(key), when });
                (id, RequestKind::Find)
            }
            Progress::AwaitTask { id, task } => {
                let action = SpaceAction::AwaitTask { task, after: None };
                let root = Some(ownership.spec.task_root());
                let request = Box::new(SpaceRequest { space: ownership.spec.space(), root, action });
                effects.push(Effect::AskSpace { label: Label::Request(key), request });
                let when = TimerAt::Node(event.at + work_limits.delegate);
                effects.push(Effect::SetTimer { timer: Timer::Request(key), when });
                (id, RequestKind::Task { after: None, looks: 0 })
            }
            _ => return effects,
        };
        self.open.push(PendingRequest::new((id, key), kind, content, waits, budget));
        effects
    }

    /// Takes a peer's answer. If it was awaited, returns its text, as an error if it is a failure or a refusal.
    pub(super) fn take_answer(
        &mut self,
        by: &Principal,
        answers: Option<Label>,
        payload: &Payload,
    ) -> Option<Result<String, String>> {
        let agent = by.agent()?;
        let (is_known, is_done, text) = match payload {
            Payload::HelpResponse(response) => {
                let is_it = |ask: &PendingRequest| {
                    matches!(ask.kind, RequestKind::Help) && answers == Some(Label::Request(ask.key))
                };
                let text = response.answer.clone().or_else(|| response.declined.clone()).unwrap_or_default();
                let artifacts = response.artifacts.clone();
                let is_answered = response.answer.is_some();
                let answer = result(is_answered, Some(agent), text.clone(), artifacts);
                (self.settle(is_it, answer), is_answered, text)
            }
            Payload::TaskResponse(response) => {
                let is_it = |ask: &PendingRequest| match &ask.kind {
                    RequestKind::Delegate { task, to, .. } => *task == response.task_id && to == agent,
                    RequestKind::Help
                    | RequestKind::Question(_)
                    | RequestKind::Find
                    | RequestKind::Task { .. } => false,
                };
                let is_done = response.state == TaskState::Completed;
                let seat = response.seat.clone();
                // A seat that ends without a word has said nothing.
                let word = if is_done && seat.is_some() { "" } else { response.state.word() };
                let text = response.message.clone().unwrap_or_else(|| word.to_owned());
                let doer = response.doer.as_ref().filter(|doer| *doer != agent);
                let answer =
                    result(is_done, Some(doer.unwrap_or(agent)), text.clone(), response.artifacts.clone());
                let through = doer.map(|_| agent.clone());
                (self.settle(is_it, RequestResult { seat, through, ..answer }), is_done, text)
            }
            _ => return None,
        };
        is_known.then_some(if is_done { Ok(text) } else { Err(text) })
    }

    /// Takes the result of a search; returns whether it was awaited.
    pub(super) fn take_found(&mut self, key: RequestKey, answer: &SpaceAnswer) -> bool {
        let (ok, text) = match answer {
            SpaceAnswer::Found { text, .. } => (true, text),
            SpaceAnswer::Refused { reason, .. } if self.may_come(key, reason) => return false,
            SpaceAnswer::Refused { message, .. } => (false, message),
            SpaceAnswer::TaskEnded { state, by, text } => {
                let answer = result(*state == TaskState::Completed, Some(by), text.clone(), Vec::new());
                return self.settle(|ask| ask.key == key, answer);
            }
            SpaceAnswer::TaskOpen { .. }
            | SpaceAnswer::Posted { .. }
            | SpaceAnswer::Curated { .. }
            | SpaceAnswer::Released { .. } => return false,
        };
        self.settle(|ask| ask.key == key, result(ok, None, text.clone(), Vec::new()))
    }

    /// Whether the request `key` is for a task that nobody knows, whose first signal may be on its way.
    fn may_come(&self, key: RequestKey, reason: &str) -> bool {
        let is_it = |ask: &&PendingRequest| ask.key == key && ask.is_open();
        self.open.iter().find(is_it).is_some_and(|ask| {
            let RequestKind::Task { after: None, looks } = &ask.kind else { return false };
            *looks < LOOKS_FOR_UNKNOWN && reason == Reason::TaskNotFound.code()
        })
    }

    /// A task that is awaited has not ended: it is looked at again later.
    pub(super) fn look_later(
        &mut self,
        key: RequestKey,
        answer: &SpaceAnswer,
        event: &Event,
    ) -> Option<Effect> {
        let ask = self.open.iter_mut().find(|ask| ask.key == key && ask.is_open())?;
        let RequestKind::Task { after, looks } = &mut ask.kind else { return None };
        if let SpaceAnswer::TaskOpen { after: seen } = answer {
            *after = Some(seen.clone());
        }
        let pause = FIRST_LOOK.saturating_mul(1 << (*looks).min(8)).min(LAST_LOOK);
        *looks += 1;
        Some(Effect::SetTimer { timer: Timer::Look(key), when: TimerAt::Node(event.at + pause) })
    }

    /// Looks at a task that is awaited.
    pub(super) fn look(&self, key: RequestKey, spec: &TaskSpec) -> Option<Effect> {
        let ask = self.open.iter().find(|ask| ask.key == key && ask.is_open())?;
        let RequestKind::Task { after, .. } = &ask.kind else { return None };
        let task = TaskId::parse(&ask.id).ok()?;
        let action = SpaceAction::AwaitTask { task, after: after.clone() };
        let request = SpaceRequest { space: spec.space(), root: Some(spec.task_root()), action };
        Some(Effect::AskSpace { label: Label::Request(key), request: Box::new(request) })
    }

    /// The id of the open request on which `by` works as the task `task`.
    pub(super) fn request_of(&self, by: &Principal, task: &TaskId) -> Option<&str> {
        let mut open = self.open.iter().filter(|ask| ask.reply.is_none());
        let is_it = |kind: &RequestKind| match kind {
            RequestKind::Delegate { task: known, to, .. } => known == task && Some(to) == by.agent(),
            RequestKind::Help | RequestKind::Question(_) | RequestKind::Find | RequestKind::Task { .. } => {
                false
            }
        };
        open.find(|ask| is_it(&ask.kind)).map(|ask| ask.id.as_str())
    }

    /// Takes the open questions of a doer from its status, in a session with the seat that asks; returns whether they have
    /// changed.
    pub(super) fn take_questions(
        &mut self,
        by: &Principal,
        update: &TaskUpdate,
        asker: Option<&AskedBy>,
    ) -> bool {
        let (Some(status), Some(agent)) = (update.status.as_ref(), by.agent()) else { return false };
        let open = self.open.iter_mut().filter(|ask| ask.reply.is_none());
        let asked = open.map(|ask| &mut ask.kind).find_map(|kind| match kind {
            RequestKind::Delegate { task, to, questions, answered }
                if *task == update.task_id && to == agent =>
            {
                answered.clear();
                Some(questions)
            }
            _ => None,
        });
        let mut questions = status.questions.clone();
        for question in asker.is_some().then_some(&mut questions).into_iter().flatten() {
            question.asked_by = asker.cloned().map(Box::new);
        }
        let Some(asked) = asked.filter(|asked| **asked != questions) else { return false };
        *asked = questions;
        true
    }

    /// Whether the request `key` is an open question to agents.
    pub(super) fn is_help(&self, key: RequestKey) -> bool {
        self.open.iter().any(|ask| ask.key == key && ask.is_open() && matches!(ask.kind, RequestKind::Help))
    }

    /// Takes what the agent reports that works on the help request `key`. Returns what follows: its answer is awaited anew; and
    /// whether its questions have changed.
    pub(super) fn take_help_report(
        &mut self,
        by: &Principal,
        key: RequestKey,
        envelope: &Envelope,
        (limits, event): (&WorkLimits, &Event),
    ) -> (Option<Effect>, bool) {
        let Some(ask) = self.open.iter_mut().find(|ask| ask.key == key && ask.is_open()) else {
            return (None, false);
        };
        let when = TimerAt::Node(event.at + limits.help);
        let awaited = Effect::SetTimer { timer: Timer::Request(key), when };
        let before = ask.questions().to_vec();
        if let Some(said) = HelperQuestions::read(by, envelope) {
            ask.helper = Some(said);
        }
        (Some(awaited), ask.questions() != before)
    }

    /// The doer has not taken an answer: what it asked is open again. Returns whether there is something.
    pub(super) fn reopen_questions(&mut self, doer: &AgentId) -> bool {
        let open = self.open.iter_mut().filter(|ask| ask.reply.is_none());
        let mut any = false;
        for ask in open {
            if let Some(helper) = ask.helper.as_mut().filter(|helper| helper.agent == *doer) {
                any |= helper.reopen();
            }
            if let RequestKind::Delegate { to, questions, answered, .. } = &mut ask.kind
                && to == doer
            {
                any |= !answered.is_empty();
                questions.append(answered);
            }
        }
        any
    }

    /// The questions of doers, each with the id of its request.
    pub(super) fn questions_of_doers(&self) -> Vec<(String, Question)> {
        let open = self.open.iter().filter(|ask| ask.reply.is_none());
        let asked = open.flat_map(|ask| {
            let questions = match &ask.kind {
                RequestKind::Delegate { questions, .. } => questions.as_slice(),
                RequestKind::Question(_)
                | RequestKind::Help
                | RequestKind::Find
                | RequestKind::Task { .. } => &[],
            };
            questions.iter().map(|question| (ask.id.clone(), question.clone()))
        });
        asked.collect()
    }

    /// What doers ask the owner, by the ids of their requests.
    pub(super) fn asking(&self) -> Vec<(String, ItemQuestion)> {
        let asks = |ask: &PendingRequest| match &ask.kind {
            RequestKind::Delegate { task, questions, .. } if ask.reply.is_none() && !questions.is_empty() => {
                let texts: Vec<_> = questions.iter().map(|question| question.text.as_str()).collect();
                let auth = questions.iter().any(|question| question.kind == QuestionKind::Credential);
                let remote = questions.iter().find_map(|question| question.remote.clone());
                let task = remote.as_ref().map_or_else(|| task.to_string(), |remote| remote.task_id.clone());
                let (mode, text) = (remote.map(|remote| remote.mode), texts.join("\n"));
                Some((ask.id.clone(), ItemQuestion { task, mode, text, auth }))
            }
            _ => None,
        };
        self.open.iter().filter_map(asks).collect()
    }

    /// Takes the owner's answer to `question`, or to the only open one that takes a text. Returns the message that passes it on,
    /// if a doer asked; `None` if there is no such question, or it is no answer to it.
    pub(super) fn answer(
        &mut self,
        question: Option<&QuestionId>,
        answer: &Answer,
        message: Option<&Message>,
    ) -> Option<Option<Effect>> {
        let questions = self.questions();
        let asked = match question {
            Some(id) => questions.iter().find(|question| question.id == id.as_str())?,
            None => {
                let mut takes_text = questions.iter().filter(|question| question.takes_plain_text());
                takes_text.next().filter(|_| takes_text.next().is_none())?
            }
        };
        answer.check(asked).ok()?;
        let id = QuestionId::parse(&asked.id).ok();
        let open = self.open.iter_mut().filter(|ask| ask.reply.is_none());
        for ask in open {
            match &mut ask.kind {
                RequestKind::Question(own) if own.id == asked.id => {
                    ask.reply = Some(RequestResult { id: ask.id.clone(), ..answered(answer) });
                    return Some(None);
                }
                RequestKind::Delegate { task, to, questions, answered } => {
                    if let Some(place) = questions.iter().position(|question| question.id == asked.id) {
                        answered.push(questions.remove(place));
                        let (task, to) = (task.clone(), Address::Agent(to.clone()));
                        let answer =
                            Payload::TaskAnswer(TaskAnswer::new(task, None, id.as_ref(), answer, message));
                        let message = OutgoingMessage::new(Label::Answer, to, answer);
                        return Some(Some(Effect::Send(message)));
                    }
                }
                RequestKind::Help => {
                    let helper = ask.helper.as_mut().zip(id.as_ref());
                    if let Some((helper, id)) = helper.filter(|(helper, id)| helper.asks(id)) {
                        let task = TaskId::parse(id.as_str()).ok()?;
                        return Some(
                            helper.answer(id, TaskAnswer::new(task, None, Some(id), answer, message)),
                        );
                    }
                }
                RequestKind::Question(_) | RequestKind::Find | RequestKind::Task { .. } => {}
            }
        }
        None
    }

    /// The time for the request `key` is over.
    pub(super) fn expire(&mut self, key: RequestKey) -> Expiry {
        let Some(ask) = self.open.iter_mut().find(|ask| ask.key == key && ask.reply.is_none()) else {
            return Expiry::Late;
        };
        let RequestKind::Question(question) = &ask.kind else {
            // Its helper waits for a person, whose answer takes as long as it takes.
            if !ask.questions().is_empty() {
                return Expiry::Extended;
            }
            self.give_up(key, "no answer in time");
            return Expiry::Request;
        };
        let late = match question.on_timeout.clone().unwrap_or_default() {
            OnTimeout::Fail => return Expiry::Fails(format!("nobody answered in time: {}", question.text)),
            OnTimeout::Answer(text) => answered(&Answer::Text(text)),
            OnTimeout::Continue => RequestResult {
                decision: (question.kind == QuestionKind::Approval).then_some(Decision::Deny),
                ..result(false, None, "no answer in time".to_owned(), Vec::new())
            },
        };
        ask.reply = Some(RequestResult { id: ask.id.clone(), ..late });
        Expiry::Question
    }

    /// A request was given up. If its addressee may have it, it counts as one that fell silent. Returns whether it was open.
    pub(super) fn undelivered(&mut self, key: RequestKey, reason: &str, message: &str) -> bool {
        match may_have_arrived(reason) {
            true => self.give_up(key, message),
            false => self.was_refused(key, message),
        }
    }

    /// Fails the request `key`, whose doer will not say what it has used.
    fn give_up(&mut self, key: RequestKey, why: &str) -> bool {
        let open = self.open.iter().filter(|ask| ask.key == key && ask.reply.is_none());
        self.lost = open.fold(self.lost, |lost, ask| lost.plus(ask.budget));
        self.was_refused(key, why)
    }

    /// Fails the request `key`, which its addressee has not taken.
    fn was_refused(&mut self, key: RequestKey, why: &str) -> bool {
        self.settle(|ask| ask.key == key, result(false, None, why.to_owned(), Vec::new()))
    }

    fn settle(&mut self, is_it: impl Fn(&PendingRequest) -> bool, reply: RequestResult) -> bool {
        let Some(ask) = self.open.iter_mut().find(|ask| ask.reply.is_none() && is_it(ask)) else {
            return false;
        };
        let task_id = match &ask.kind {
            RequestKind::Delegate { task, .. } => Some(task.clone()),
            RequestKind::Help | RequestKind::Question(_) | RequestKind::Find | RequestKind::Task { .. } => {
                None
            }
        };
        ask.reply = Some(RequestResult { id: ask.id.clone(), task_id, ..reply });
        true
    }

    /// Whether an open request goes on without a person's answer.
    pub(super) fn works_beside_questions(&self) -> bool {
        self.open.iter().any(|ask| ask.is_open() && ask.questions().is_empty())
    }

    /// Cancels one request at the agent that works on it.
    pub(super) fn withdraw_one(&mut self, id: &str, reason: &str) -> Vec<Effect> {
        let (gone, kept) = std::mem::take(&mut self.open).into_iter().partition(|ask| ask.id == id);
        self.open = gone;
        let effects = self.withdraw(reason);
        self.open = kept;
        effects
    }

    /// Cancels the open requests at the agents that still work on them.
    pub(super) fn withdraw(&mut self, reason: &str) -> Vec<Effect> {
        let open = std::mem::take(&mut self.open);
        let silent = open.iter().filter(|ask| ask.reply.is_none());
        self.lost = silent.fold(self.lost, |lost, ask| lost.plus(ask.budget));
        let children = open.into_iter().filter(|ask| ask.reply.is_none()).filter_map(|ask| match ask.kind {
            RequestKind::Delegate { task, to, .. } => Some((task, to)),
            RequestKind::Help | RequestKind::Question(_) | RequestKind::Find | RequestKind::Task { .. } => {
                None
            }
        });
        children
            .map(|(task_id, to)| {
                let cancel =
                    TaskCancel { task_id, reason: Some(reason.to_owned()), epoch: None, extra: Map::new() };
                let to = Address::Agent(to);
                Effect::Send(OutgoingMessage::new(Label::Withdraw, to, Payload::TaskCancel(cancel)))
            })
            .collect()
    }
}

/// Whether other agents do the request. Questions to people and searches can be repeated.
fn is_to_agent(ask: &Progress) -> bool {
    matches!(ask, Progress::Help(Help { .. }) | Progress::Delegate(Delegate { .. }))
}

/// The agent that a request names.
fn addressed(ask: &Progress) -> Option<&AgentId> {
    let (Progress::Help(Help { to, .. }) | Progress::Delegate(Delegate { to, .. })) = ask else {
        return None;
    };
    if let Address::Agent(agent) = to { Some(agent) } else { None }
}

/// The budget that a request names, if it may have one.
fn wanted(ask: &Progress) -> Option<Budget> {
    match ask {
        Progress::Help(Help { budget, .. }) | Progress::Delegate(Delegate { budget, .. }) => Some(*budget),
        _ => None,
    }
}

/// A result without an id.
fn result(ok: bool, from: Option<&AgentId>, text: String, artifacts: Vec<Artifact>) -> RequestResult {
    RequestResult { ok, from: from.cloned(), text, artifacts, ..RequestResult::default() }
}

/// The result of a question, without an id.
fn answered(answer: &Answer) -> RequestResult {
    let decision = answer.decision();
    let values = if let Answer::Values(values) = answer { Some(values) } else { answer.edited() };
    let is_yes = decision != Some(Decision::Deny);
    RequestResult { decision, values: values.cloned(), ..result(is_yes, None, answer.words(), Vec::new()) }
}

/// The artifacts of the task that a brain refers to. Those that it has produced are added when the message is sent.
fn chosen(ownership: &TaskOwnership, names: &[String]) -> Vec<Artifact> {
    let all = ownership.spec.artifacts.iter();
    let named = |artifact: &&Artifact| names.contains(&artifact.artifact_id);
    all.filter(named).cloned().collect()
}

/// A unique id for a child task; the same request gets the same id.
fn child_id(ownership: &TaskOwnership, me: &AgentId, key: RequestKey) -> TaskId {
    let digest = request_digest(ownership, me, key);
    TaskId::parse(&format!("sub-{}", &digest[..20])).unwrap_or_else(|_| ownership.spec.task_id.clone())
}

/// A unique id for a question, from the brain's own. The time makes it unique also if the task is sent once more: an approval
/// holds for one question.
fn question_id(
    (ownership, me): (&TaskOwnership, &AgentId),
    key: RequestKey,
    own: &str,
    asked_at: WallTime,
) -> String {
    let digest =
        Digest::of(format!("{}|{}", request_digest(ownership, me, key), asked_at.0).as_bytes()).to_string();
    let unique = &digest[..20];
    let named = QuestionId::parse(&format!("{own}-{unique}"));
    named.map_or_else(|_| format!("q-{unique}"), |id| id.to_string())
}

fn request_digest(ownership: &TaskOwnership, me: &AgentId, key: RequestKey) -> String {
    let spec = &ownership.spec;
    let epoch = ownership.requester.as_ref().and_then(|requester| requester.epoch).or(ownership.claim);
    let requester =
        ownership.requester.as_ref().map(|requester| requester.message.as_str()).unwrap_or_default();
    let RequestKey(turn, index) = key;
    let seed =
        format!("{}|{me}|{}|{epoch:?}|{requester}|{:?}|{turn}:{index}", spec.root, spec.task_id, spec.path);
    Digest::of(seed.as_bytes()).to_string()
}
