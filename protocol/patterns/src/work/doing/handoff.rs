//! A chat that is handed over. The agent that a person talks with stays accountable: it passes each message on, as a task of its own,
//! to the agent with which the chat goes on, and hands back what that one answers. Whoever has the chat hands it on, or back, through
//! the accountable agent, so that no chain grows.

use super::{Doing, Effect, Event, EventKind, TaskState, WorkKind, lines, lines::LineFate};
use crate::{
    Label, OutgoingMessage,
    turn::{HandoffRequest, Progress},
    work::pending_requests::RequestSender,
};
use protocol::{
    a2a::message::Message,
    budget::Budget,
    handoff::{ChatHandover, HandedChat, Handoff, Handover},
    ids::{Address, AgentId, TaskId},
    message::{Payload, TaskAnswer, TaskResponse, TaskUpdate},
    principal::Principal,
    question::Answer,
};
use serde::{Deserialize, Serialize};

/// How often one message may be handed on. A circle of agents that hand it to each other ends there.
const MAX_HANDOFFS: u32 = 6;

/// The brain's name for a request that it has not made: its chat was handed over before.
const PASSED_ON: &str = "passed-on";

/// The work of the agent to which a chat was handed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HandedWork {
    pub(super) to: AgentId,
    /// The brain's name for the handover.
    id: String,
    by: AgentId,
    reason: String,
    /// How often this message was handed on.
    times: u32,
    /// Whether the chat was handed over with this message.
    is_new: bool,
    /// Whether the other agent has it.
    is_taken: bool,
    /// How many pieces of artifacts it has reported.
    pieces: u64,
}

impl Doing {
    /// The work of the agent that has the task, while it has it.
    pub(super) fn handed_away(&self) -> Option<&HandedWork> {
        self.handed.as_deref().filter(|_| self.kind == WorkKind::LoneRequest)
    }

    /// Whether it has had earlier turns of its chat: what was said before is known.
    pub(super) fn knows_its_chat(&self) -> bool {
        let start = self.context.as_ref().and_then(|context| context.start.as_ref());
        self.task.ownership.spec.handed.is_some() && start.is_some_and(|start| !start.is_empty())
    }

    /// How the chat came to this agent, if another one has handed it over, or back.
    pub(super) fn how_chat_came(&self) -> Option<ChatHandover> {
        let handed = || {
            let handover = self.task.ownership.spec.handed.as_ref()?.handover();
            let summary = if self.knows_its_chat() { String::new() } else { handover.summary };
            Some(ChatHandover { summary, ..handover })
        };
        self.came_back.clone().or_else(handed)
    }

    /// The turn ends with a handover.
    pub(super) fn end_with_handoff(&mut self, asked: &HandoffRequest, event: &Event) -> Vec<Effect> {
        let mut effects = self.take_line(Progress::Handoff(asked.clone()), event);
        if !self.task.ownership.has_ended() {
            effects.extend(self.wait(event));
        }
        effects
    }

    /// Hands the chat over if the turn has asked for it; `None` if that can't be, which the next turn is told. To ask for the same
    /// more than once is one handover.
    pub(super) fn hand_over_noted(&mut self, event: &Event) -> Option<Vec<Effect>> {
        let handoffs = self.task.pending.take_handoffs();
        let first = handoffs.first()?;
        let several = handoffs.iter().any(|other| other.to != first.to);
        let several = several.then(|| "a chat goes on with one agent: hand it over to one".to_owned());
        if let Some(why) = several.or_else(|| self.why_not_handed_over(first)) {
            let turn = self.task.turn;
            self.not_handed = Some((first.to.clone(), why.clone()));
            for asked in handoffs {
                self.task.pending.refuse_handoff(asked, turn, why.clone());
            }
            return None;
        }
        Some(self.hand_over(handoffs.into_iter().next()?, event))
    }

    fn hand_over(&mut self, asked: HandoffRequest, event: &Event) -> Vec<Effect> {
        let HandoffRequest { id, to, reason, .. } = asked;
        if self.task.ownership.spec.handed.is_some() {
            let message = format!("hands the chat to {to}: {reason}");
            self.task.ownership.handed_on = Some(Handoff { to, reason });
            return self.finish(TaskState::Completed, Some(message));
        }
        let by = self.task.me.clone();
        let times = self.handed.as_ref().map_or(0, |handed| handed.times);
        self.begin_handover(HandedWork::new(id, to, by, reason, times), event)
    }

    fn why_not_handed_over(&self, asked: &HandoffRequest) -> Option<String> {
        if let LineFate::Refused(why) = self.turn_kind().fate(&Progress::Handoff(asked.clone())) {
            return Some(why.to_owned());
        }
        if self.context.is_none() {
            return Some(lines::NO_CHAT.to_owned());
        }
        if asked.to == self.task.me {
            return Some(format!("you are {}, with whom the chat is", asked.to));
        }
        if self.task.pending.is_asking() {
            return Some("other requests of this task have no answer yet: wait for them first".to_owned());
        }
        asked.refusal.clone()
    }

    /// Passes the task on if its chat was handed over before.
    pub(super) fn follow_handover(&mut self, event: &Event) -> Option<Vec<Effect>> {
        let start = self.context.as_ref()?.start.as_ref()?;
        let Handover { chat, to, by, reason, .. } = start.handover.as_deref().cloned()?;
        let work = HandedWork::new(PASSED_ON.to_owned(), to, by, reason, 0);
        let message = format!("passed on to {}, with whom this chat goes on", work.to);
        let mut effects = self.task.ownership.status(TaskState::Submitted, message);
        effects.extend(self.pass_on(HandedWork { is_new: false, ..work }, Some(chat), event));
        Some(effects)
    }

    /// The chat goes on with another agent from this message on.
    fn begin_handover(&mut self, work: HandedWork, event: &Event) -> Vec<Effect> {
        let (to, by, reason) = (work.to.clone(), work.by.clone(), work.reason.clone());
        let mut effects = self.task.ownership.status(TaskState::Working, format!("now with {to}: {reason}"));
        effects.extend(self.pass_on(work, None, event));
        let Some((chat, _)) = self.task.pending.passed_on() else { return effects };
        let handover = Handover { chat: chat.clone(), to, by, reason, at: event.wall };
        effects.extend(self.record_handover(Some(handover)));
        effects
    }

    fn record_handover(&self, handover: Option<Handover>) -> Vec<Effect> {
        let context = self.context.as_ref().map(|context| context.name.clone());
        context
            .map(|context| Effect::HandOver { context, handover: handover.map(Box::new) })
            .into_iter()
            .collect()
    }

    fn pass_on(&mut self, work: HandedWork, chat: Option<TaskId>, event: &Event) -> Vec<Effect> {
        let start = self.context.as_ref().and_then(|context| context.start.as_ref());
        let (summary, history) =
            (start.map(|start| start.words()).unwrap_or_default(), self.task.ownership.spec.history.clone());
        let (by, reason) = (work.by.clone(), work.reason.clone());
        let handed = |task: &TaskId| HandedChat {
            chat: chat.unwrap_or_else(|| task.clone()),
            by,
            reason,
            summary,
            history,
        };
        let (limits, bounds, kind) = (self.task.limits, Budget::from(&self.task.bounds()), self.turn_kind());
        let super::Assignment { me, ownership, turn, pending, .. } = &mut self.task;
        let sender = RequestSender { ownership, me, turn: *turn, limits: &limits, bounds, kind, event };
        let mut effects = pending.pass_on((&work.id, &work.to), handed, sender);
        effects.push(Effect::Assign { doer: Some(work.to.clone()) });
        self.task.has_delegated = true;
        self.kind = WorkKind::LoneRequest;
        self.handed = Some(Box::new(work));
        effects
    }

    /// Notes that the other agent has the task.
    pub(super) fn note_delivery(&mut self, what: &EventKind) {
        if let (EventKind::Delivered { by, .. }, Some(handed)) = (what, self.handed.as_mut()) {
            handed.is_taken |= handed.to == *by;
        }
    }

    /// What the person says while the other agent works is for that one.
    pub(super) fn say_to_handed(&self, answer: &Answer, message: Option<&Message>) -> Option<Effect> {
        let message = self.handed_away().and(message)?;
        let (task, to) = self.task.pending.passed_on()?;
        let said = TaskAnswer::new(task.clone(), None, None, answer, Some(message));
        let to = Address::Agent(to.clone());
        Some(Effect::Send(OutgoingMessage::new(Label::Answer, to, Payload::TaskAnswer(said))))
    }

    /// What the other agent reports; `None` if it is about something else.
    pub(super) fn handed_report(
        &mut self,
        by: &Principal,
        answers: Option<Label>,
        payload: &Payload,
        event: &Event,
    ) -> Option<Vec<Effect>> {
        let agent = self.handed_away().and(by.agent())?;
        #[expect(clippy::wildcard_enum_match_arm, reason = "it is told of these alone")]
        match payload {
            Payload::TaskUpdate(update) => {
                self.task.pending.request_of(by, &update.task_id)?;
                Some(self.handed_update(by, update, event))
            }
            Payload::TaskResponse(response) => {
                self.task.pending.request_of(by, &response.task_id)?;
                let lacks_pieces = |sent| self.handed.as_ref().is_some_and(|handed| handed.pieces != sent);
                if response.state == TaskState::Completed && response.chunks.is_some_and(lacks_pieces) {
                    // A report was lost: the whole result follows.
                    return Some(Vec::new());
                }
                let answer = self.task.pending.take_answer(by, answers, payload)?;
                let mut effects = self.charge_request(&response.usage, agent, &answer);
                if !self.task.ownership.has_ended() {
                    effects.extend(self.handed_response(agent, response, event));
                }
                Some(effects)
            }
            _ => None,
        }
    }

    /// Shows what the other agent reports as if it were its own.
    fn handed_update(&mut self, by: &Principal, update: &TaskUpdate, event: &Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if update.restarts {
            effects.extend(self.task.ownership.discard_artifacts());
        }
        for chunk in update.clone().into_chunks() {
            if let Some(handed) = &mut self.handed {
                handed.pieces += 1;
            }
            let protocol::artifact::ArtifactChunk { artifact, append, last_chunk } = chunk;
            effects.extend(self.take_line(Progress::Artifact { artifact, append, last_chunk }, event));
        }
        let asks_anew = self.task.pending.take_questions(by, update, None);
        let status = update.status.as_ref().filter(|status| status.questions.is_empty());
        let status = status.filter(|_| !self.task.pending.waits_for_person());
        match status {
            _ if asks_anew => effects.extend(self.show_questions("")),
            Some(status) if !status.state.is_terminal() => {
                let mut status = status.clone();
                status.state = TaskState::Working;
                effects.extend(self.task.ownership.show_status(status));
            }
            Some(_) | None => {}
        }
        effects
    }

    fn handed_response(&mut self, by: &AgentId, response: &TaskResponse, event: &Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        for artifact in response.artifacts.iter().cloned() {
            let whole = Progress::Artifact { artifact, append: false, last_chunk: true };
            effects.extend(self.take_line(whole, event));
        }
        let message = response.message.clone();
        effects.extend(match (&response.handed_on, response.state) {
            (Some(next), TaskState::Completed) => self.handed_on(by, next.clone(), event),
            (None, TaskState::Completed) => self.finish(TaskState::Completed, message),
            (_, state) => {
                let why = message.unwrap_or_else(|| state.word().to_owned());
                self.fail(format!("{by}, with whom this chat goes on: {why}"))
            }
        });
        effects
    }

    /// The agent that has the chat hands it on, or back.
    fn handed_on(&mut self, by: &AgentId, Handoff { to, reason }: Handoff, event: &Event) -> Vec<Effect> {
        let Some(handed) = &self.handed else { return Vec::new() };
        let (id, times) = (handed.id.clone(), handed.times + 1);
        if times > MAX_HANDOFFS {
            return self.fail(format!(
                "the message was handed on {MAX_HANDOFFS} times, the last time by {by} to {to}, and nobody has answered it"
            ));
        }
        if to == self.task.me {
            return self.takes_chat_back(returned(by.clone(), reason));
        }
        // The turn that follows is that of another agent.
        self.task.pending.take_results();
        self.begin_handover(HandedWork::new(id, to, by.clone(), reason, times), event)
    }

    /// The own brain answers.
    fn takes_chat_back(&mut self, how: ChatHandover) -> Vec<Effect> {
        let was_asked_for = self.handed.as_ref().is_some_and(|handed| handed.id != PASSED_ON);
        if !was_asked_for {
            // No turn has asked for what has come back.
            self.task.pending.take_results();
        }
        let message = format!("{} has the chat again: {}", self.task.me, how.reason);
        self.kind = WorkKind::Task;
        self.came_back = Some(how);
        let mut effects = self.record_handover(None);
        effects.push(Effect::Assign { doer: None });
        effects.extend(self.task.ownership.status(TaskState::Working, message));
        effects.extend(match self.task.turn >= self.max_turns() {
            true => self.fail(format!("asked for more than {} turns", self.max_turns())),
            false => self.think(),
        });
        effects
    }

    /// The other agent can't be reached, or does not answer. If it has not taken the chat yet, the own brain goes on.
    pub(super) fn handed_in_vain(&mut self) -> Vec<Effect> {
        let Some(handed) = self.handed.as_deref().cloned() else { return Vec::new() };
        let why = self.task.pending.why_unanswered(&handed.id).unwrap_or_else(|| "no answer".to_owned());
        if handed.is_new && !handed.is_taken {
            let reason = format!("{} can't be reached: {why}", handed.to);
            self.not_handed = Some((handed.to, reason.clone()));
            return self.takes_chat_back(returned(handed.by, reason));
        }
        self.task.pending.take_results();
        let contact = self.task.ownership.spec.contact.as_ref();
        let context = contact.and_then(|contact| contact.context_id.as_deref()).unwrap_or_default();
        self.fail(format!(
            "{}, with whom this chat goes on, gives no answer: {why}; `mesh context take-back {context}` gives it back to {}",
            handed.to, self.task.me
        ))
    }
}

fn returned(by: AgentId, reason: String) -> ChatHandover {
    ChatHandover { by, reason, is_back: true, summary: String::new() }
}

impl HandedWork {
    fn new(id: String, to: AgentId, by: AgentId, reason: String, times: u32) -> Self {
        Self { to, id, by, reason, times, is_new: true, is_taken: false, pieces: 0 }
    }
}
