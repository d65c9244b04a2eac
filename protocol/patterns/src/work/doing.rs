//! One agent does a task: it runs turns of its brain, sends the requests of a turn to other agents or the owner, runs the
//! next turn with the answers, and ends the task once (RFC-005, pattern 1).
//!
//! The requester is a user, a peer that delegates, or a manager that awarded the task. Under an award every report carries
//! the award's epoch, and reports renew the lease. Awarded work ends here when its manager has the result. If the manager
//! fences a report, the award has lapsed: the work stops and ends as canceled, superseded.
//!
//! Everything that a brain says goes through here, also when it answers a peer or reacts to a signal; [`lines`] says which
//! of it has an effect. If the brain fails for a technical reason, work that was sent to the agent itself is handed on to an
//! auction among other agents.

mod answer;
mod award_answer;
mod budget;
mod confirmation;
mod doer_progress;
mod hand_on;
mod handoff;
pub(crate) mod lines;
mod lone_request;
mod pause;
mod result;
mod so_far;
mod space;

use super::{Assignment, WorkLimits, pending_requests::Expiry};
use crate::{
    Effect, Event, EventKind, Label, OutgoingSignal, Pattern, RecordedTurnProgress, RequestKey, Timer,
    TimerAt, Update, View, WorkPhase, WorkSoFar,
    context::{ContextEntry, ContextStart, EndedTurn, TaskContext},
    contract_net::Auction,
    ownership::TaskOwnership,
    session::{host_work::HOST_WORK, names, routing, seat},
    turn::{Progress, Prompt, RequestResult, TurnEnd, TurnSubject},
    turn_log::TurnLog,
    turn_record::TurnInput,
};
use award_answer::AwardRefusal;
use confirmation::UnconfirmedOutcome;
use doer_progress::DoerProgress;
use handoff::HandedWork;
use lines::{LineFate, WorkKind};
use pause::Pauses;
use protocol::{
    a2a::message::Message,
    artifact::{Artifact, ArtifactChunk},
    budget::Budget,
    envelope::Envelope,
    handoff::ChatHandover,
    ids::{AgentId, Digest, QuestionId, TaskId},
    message::{AwardAccept, MessageKind, Payload},
    principal::Principal,
    problem::Reason,
    question::Answer,
    signal::{ON_BEHALF_OF, PARENT_TASK, SignalType},
    task::{Status, TaskState},
};
use result::RefusedWork;
use serde::{Deserialize, Serialize};
use serde_json::json;
use so_far::DoneWork;
use space::PostedEntries;
use std::{collections::BTreeMap, time::Duration};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The most turns one task may take, unless its agent says otherwise; a task with more fails.
pub const MAX_TURNS: u32 = 64;

/// How much is kept of the text that a turn of a context has produced.
const MAX_WORDS: usize = 240;

const NO_SEAT: &str = "pass, label: the task is no turn of a session";

/// The doer's side of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Doing {
    task: Assignment,
    #[serde(default, skip_serializing_if = "WorkKind::is_task")]
    kind: WorkKind,
    is_thinking: bool,
    /// The award's, if it is done under one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    declines: Option<AwardRefusal>,
    /// Whether the first turn waits for a free slot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_queued: bool,
    /// The quota that keeps the first turn from beginning, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<String>,
    /// The bound that the running turn has passed, with the figures: it may end with a result, and do nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over_budget: Option<String>,
    /// The agent to which the chat could not be handed over, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_handed: Option<(AgentId, String)>,
    /// The terms of the auction that follows if its own brain fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auction: Option<Auction>,
    /// The digests of the messages of the task's turns to other seats of a session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    says: Vec<String>,
    #[serde(default, skip_serializing_if = "TurnLog::is_empty")]
    log: TurnLog,
    #[serde(default, skip_serializing_if = "Pauses::is_none")]
    pauses: Pauses,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_reported: bool,
    /// Whether it has called a tool, asked others or posted something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    acted: bool,
    /// The context of the task, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Box<TaskContext>>,
    /// The bytes of the artifacts of a task that belongs to a context.
    #[serde(default, skip_serializing_if = "is_zero")]
    made: u64,
    /// The beginning of the first text that it has produced there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    words: String,
    /// What was refused, if it is done again.
    #[serde(default, skip_serializing_if = "RefusedWork::is_none")]
    refused: RefusedWork,
    /// What it has posted in its space.
    #[serde(default, skip_serializing_if = "PostedEntries::is_none")]
    posted: PostedEntries,
    /// Whether the brain itself has ended its answer to a peer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_answered: bool,
    /// The outcome of awarded work, until the manager has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unconfirmed: Option<Box<UnconfirmedOutcome>>,
    /// The work of the agent to which the chat of the task was handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handed: Option<Box<HandedWork>>,
    /// How the chat came back, if it was handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    came_back: Option<ChatHandover>,
    /// What the agents that work for it say of their progress.
    #[serde(default, skip_serializing_if = "DoerProgress::is_none")]
    progress: DoerProgress,
    /// What it has done of the task before, until it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    so_far: Option<Box<WorkSoFar>>,
}

impl Doing {
    /// `me` does it. `lease` is the award's, if it is done under one.
    pub fn new(me: AgentId, ownership: TaskOwnership, lease: Option<Duration>, limits: WorkLimits) -> Self {
        Self {
            task: Assignment::new(me, ownership, limits),
            kind: WorkKind::Task,
            is_thinking: false,
            lease,
            declines: None,
            is_queued: false,
            held: None,
            over_budget: None,
            not_handed: None,
            auction: None,
            says: Vec::new(),
            log: TurnLog::default(),
            pauses: Pauses::default(),
            has_reported: false,
            acted: false,
            context: None,
            made: 0,
            words: String::new(),
            refused: RefusedWork::default(),
            posted: PostedEntries::default(),
            has_answered: false,
            unconfirmed: None,
            handed: None,
            came_back: None,
            progress: DoerProgress::default(),
            so_far: None,
        }
    }

    /// The first turn waits for a free slot.
    #[must_use]
    pub fn queued(mut self, is_queued: bool) -> Self {
        self.is_queued = is_queued;
        self
    }

    /// The first turn waits for a quota, if `why` says so.
    #[must_use]
    pub fn held(mut self, why: Option<String>) -> Self {
        self.held = why;
        self
    }

    /// The task belongs to a context, from which it goes on as soon as no other turn there is under way.
    #[must_use]
    pub fn in_context(mut self, context: Option<TaskContext>) -> Self {
        self.context = context.map(Box::new);
        self
    }

    /// Whether the task waits for another turn of its context.
    fn waits_for_context(&self) -> bool {
        self.context.as_ref().is_some_and(|context| context.start.is_none())
    }

    fn start(&mut self, event: &Event) -> Vec<Effect> {
        if let Some(refusal) = self.declines.clone() {
            return self.decline(refusal);
        }
        if self.kind == WorkKind::LoneRequest {
            return self.send_lone_request(event);
        }
        let ownership = &self.task.ownership;
        let mut effects = Vec::new();
        if let Some((requester, epoch)) =
            ownership.requester.as_ref().and_then(|requester| Some((requester, requester.epoch?)))
        {
            let task_id = ownership.spec.task_id.clone();
            let accept = AwardAccept { task_id, epoch, extra: Default::default() };
            effects.push(Effect::Send(requester.reply(Label::Accept, Payload::AwardAccept(accept))));
        }
        effects.extend(self.renew(event));
        effects.extend(ownership.deadline_timer());
        effects.extend(ownership.is_told_later(event));
        if let Some(so_far) = self.so_far.take().and_then(|so_far| DoneWork::read(&so_far)) {
            effects.extend(self.go_on_behind(so_far));
            return effects;
        }
        if self.waits_for_context() {
            let me = &self.task.me;
            let message = match seat::is_seat_turn(&self.task.ownership.spec) {
                true => format!("queued: {me} has another turn on the same seat"),
                false => format!("queued: {me} is busy with what was said before in this context"),
            };
            effects.extend(self.task.ownership.status(TaskState::Submitted, message));
            return effects;
        }
        if let Some(passed_on) = self.follow_handover(event) {
            effects.extend(passed_on);
            return effects;
        }
        effects.extend(match self.is_queued {
            true => {
                let message = match &self.held {
                    Some(why) => format!("queued: {why}"),
                    None => format!("queued: {} is busy", self.task.me),
                };
                self.task.ownership.status(TaskState::Submitted, message)
            }
            false => self.works_on_it(),
        });
        effects.extend(self.think());
        effects
    }

    /// The context is free: the first turn is due.
    fn go_on_from(&mut self, start: &ContextStart, event: &Event) -> Vec<Effect> {
        let Some(context) = self.context.as_mut().filter(|context| context.start.is_none()) else {
            return Vec::new();
        };
        context.start = Some(start.clone());
        if let Some(passed_on) = self.follow_handover(event) {
            return passed_on;
        }
        self.is_queued = true;
        self.think()
    }

    fn works_on_it(&mut self) -> Vec<Effect> {
        let status = Status::new(TaskState::Working, format!("{} is working on it", self.task.me));
        // Under an award the acceptance says the same.
        match self.task.ownership.is_awarded() {
            true => vec![Effect::Update(Update::Status(status))],
            false => self.task.ownership.show_status(status),
        }
    }

    fn renew(&self, event: &Event) -> Option<Effect> {
        let when = TimerAt::Node(event.at + self.lease? / 3);
        Some(Effect::SetTimer { timer: Timer::Renew, when })
    }

    /// Begins the next turn.
    fn think(&mut self) -> Vec<Effect> {
        if let Some(figures) = self.over_budget.clone() {
            return self.fail(figures);
        }
        self.task.begin_turn();
        let mut effects = self.record_answers();
        let input = self.log.begin_turn();
        effects.push(self.run_turn(input));
        effects
    }

    /// Records the answers that the turn is the first to be given.
    fn record_answers(&mut self) -> Vec<Effect> {
        let for_turn = self.task.turn;
        let answers = self.task.pending.take_results().into_iter();
        answers.map(|answer| self.log.answer(RequestResult { for_turn, ..answer })).collect()
    }

    fn run_turn(&mut self, input: TurnInput) -> Effect {
        self.is_thinking = true;
        let (turn, spec) = (self.task.turn, &self.task.ownership.spec);
        let about = TurnSubject::Task(spec.for_brain());
        let first = spec.contact.as_ref().filter(|_| turn == 1);
        let prompt = Prompt {
            epoch: self.task.ownership.epoch(),
            messages: first.map(|contact| contact.message.clone()).into_iter().collect(),
            history: if self.knows_its_chat() { Vec::new() } else { spec.history.clone() },
            handover: self.how_chat_came(),
            revision: self.refused.revision.clone(),
            space: spec.space.clone(),
            session: seat::session_of_findings(spec),
            ..Prompt::new(turn, about)
        };
        let input = TurnInput { refused: self.refused.chunks, ..input };
        Effect::RunTurn { turn, prompt: Box::new(prompt), deadline: spec.deadline, input }
    }

    fn report(&mut self, updates: &[Progress], event: &Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.has_reported |= updates.iter().any(|update| !matches!(update, Progress::Brief(_)));
        self.acted |= updates.iter().any(lines::is_action);
        for update in updates {
            if let Some(figures) = self.over_budget.clone().filter(|_| lines::goes_on(update)) {
                effects.extend(self.fail(figures));
                return effects;
            }
            effects.extend(match self.turn_kind().fate(update) {
                LineFate::Done | LineFate::Refused(_) => self.take_line(update.clone(), event),
                LineFate::Ignored => Vec::new(),
                LineFate::NotDone(why) => self.task.ownership.status(TaskState::Working, why),
                LineFate::Fails(why) => self.fail(why),
            });
            if self.task.ownership.has_ended() {
                return effects;
            }
        }
        effects.extend(self.task.ownership.report_chunks(false));
        effects
    }

    fn take_line(&mut self, line: Progress, event: &Event) -> Vec<Effect> {
        match line {
            // A brain that asks again after it was told would do so without end.
            Progress::Handoff(asked)
                if let Some((_, why)) = self.not_handed.clone().filter(|(to, _)| *to == asked.to) =>
            {
                self.fail(why)
            }
            Progress::Status { message } => self.task.ownership.status(TaskState::Working, message),
            Progress::Artifact { artifact, append, last_chunk } => {
                if self.context.is_some() {
                    self.made += artifact.size() as u64;
                    self.note_words(&artifact);
                }
                let chunk = ArtifactChunk { artifact, append, last_chunk };
                self.task.ownership.produce(chunk).into_iter().collect()
            }
            Progress::Signal { signal, subject, capability, mut refs } => {
                refs.remove(ON_BEHALF_OF);
                let mut task_id = Some(self.task.ownership.spec.task_id.clone());
                if signal == SignalType::task_available() {
                    // Each offer is a task of its own.
                    refs.extend(task_id.take().map(|parent| (PARENT_TASK.to_owned(), json!(parent))));
                }
                let to = routing::signals_to(&self.task.ownership.spec);
                let signal =
                    OutgoingSignal { kind: signal, subject, task_id, capability, refs, to, root_proof: None };
                vec![Effect::Publish { signal }]
            }
            Progress::Question(question) if let Err(why) = question.validate() => {
                self.fail(format!("question {}: {why}", question.id))
            }
            Progress::Post { entry } => self.post(*entry),
            ask @ (Progress::Help { .. }
            | Progress::Delegate { .. }
            | Progress::Question(_)
            | Progress::Find { .. }
            | Progress::Handoff(_)
            | Progress::AwaitTask { .. }) => {
                match (self.task.pending.check_id(&ask, self.task.turn), ask.waits()) {
                    (Err(why), _) => self.fail(why),
                    (Ok(false), _) => Vec::new(),
                    (Ok(true), Some(false)) => self.ask_at_once(ask, event),
                    (Ok(true), _) => {
                        self.task.pending.note(ask);
                        Vec::new()
                    }
                }
            }
            Progress::Say { to, text, mode } => self.say("say", |number| seat::say(number, &to, &text, mode)),
            Progress::Directive(directive) => {
                self.say("directive", |number| seat::directive(number, &directive))
            }
            Progress::Checkpoint(checkpoint) => {
                let record = self.log.checkpoint(&checkpoint);
                record.map_or_else(|why| self.fail(why), |record| vec![record])
            }
            Progress::Usage(call) => self.charge_call(&call),
            Progress::Tool(_) | Progress::Brief(_) | Progress::Log { .. } => Vec::new(),
        }
    }

    /// Adds a message to other seats of the session, or a directive, to the result of the turn; once, if the brain says it again
    /// after an answer.
    fn say(&mut self, what: &str, message: impl FnOnce(u32) -> Option<Artifact>) -> Vec<Effect> {
        let number = u32::try_from(self.says.len()).unwrap_or(u32::MAX).saturating_add(1);
        let Some(message) = message(number) else {
            return self.fail(format!(
                "{what}: a message has addressees and a text of at most {} bytes",
                seat::MAX_SAY_BYTES
            ));
        };
        let content = json!([message.metadata, message.parts]).to_string();
        let digest = Digest::of(content.as_bytes()).to_string()[..16].to_owned();
        if self.says.contains(&digest) {
            return Vec::new();
        }
        if number > seat::MAX_SAYS {
            return self.fail(format!("more than {} messages in one turn", seat::MAX_SAYS));
        }
        self.says.push(digest);
        self.task.ownership.produce(ArtifactChunk::whole(message)).into_iter().collect()
    }

    /// Sends what is asked, or what was noted.
    fn send(&mut self, ask: Option<Progress>, event: &Event) -> Vec<Effect> {
        let terms = (self.task.limits, Budget::from(&self.task.bounds()), self.turn_kind());
        self.task.send(ask, terms, event)
    }

    /// Sends a request while the turn goes on.
    fn ask_at_once(&mut self, ask: Progress, event: &Event) -> Vec<Effect> {
        if self.task.pending.is_too_much() {
            return self.fail(self.asked_too_much());
        }
        let mut effects = self.send(Some(ask), event);
        if effects.iter().any(|effect| matches!(effect, Effect::AskPerson { .. })) {
            effects.extend(self.show_questions(""));
        }
        effects
    }

    fn asked_too_much(&self) -> String {
        format!("asked more than {} things in one turn", super::MAX_REQUESTS)
    }

    fn end_turn(&mut self, end: &TurnEnd, event: &Event) -> Vec<Effect> {
        self.is_thinking = false;
        if self.task.ownership.has_ended() {
            return Vec::new();
        }
        match end {
            TurnEnd::Failed { .. }
            | TurnEnd::Pause { .. }
            | TurnEnd::Waiting
            | TurnEnd::WaitingFor { .. }
                if let Some(figures) = self.over_budget.clone() =>
            {
                self.fail(figures)
            }
            _ if self.kind == WorkKind::Answer => self.end_answer(end, event),
            TurnEnd::Done { .. } | TurnEnd::Message { .. }
                if self.has_unread_messages() && self.over_budget.is_none() =>
            {
                self.read_messages()
            }
            TurnEnd::Done { message } => {
                let has_said = message.as_ref().is_some_and(|text| !text.trim().is_empty());
                match message.clone() {
                    _ if !has_said && self.kind == WorkKind::Reaction => {
                        self.check_result(Some("nothing to say".to_owned()), event)
                    }
                    message if has_said || self.task.ownership.has_content() => {
                        self.check_result(message, event)
                    }
                    _ => self.fail("done without a result: no artifact and no message".to_owned()),
                }
            }
            TurnEnd::Seat { message, seat: end } => {
                if !seat::is_seat_turn(&self.task.ownership.spec) {
                    return self.fail(NO_SEAT.to_owned());
                }
                let said = message.clone().filter(|text| !text.trim().is_empty());
                let has_content = self.task.ownership.has_content();
                let silent = || (end.passed || has_content).then(|| names::PASSES.to_owned());
                let message = said.or_else(silent);
                self.task.ownership.seat = Some(end.clone());
                self.end_turn(&TurnEnd::Done { message }, event)
            }
            TurnEnd::Failed { reason } => self.fail(reason.clone()),
            TurnEnd::LastingFailure { reason } => {
                self.task.ownership.is_failure_lasting = true;
                self.fail(reason.clone())
            }
            TurnEnd::Rejected { reason } => self.finish(TaskState::Rejected, Some(reason.clone())),
            TurnEnd::Message { text } if self.may_just_answer() => self.just_answer(text),
            TurnEnd::Message { text } => self.end_turn(&TurnEnd::Done { message: Some(text.clone()) }, event),
            TurnEnd::Pause { after_ms, reason } => self.pause(*after_ms, reason, event),
            TurnEnd::Waiting => self.wait(event),
            TurnEnd::WaitingFor { task } => self.wait_for(task, event),
            TurnEnd::Handoff(asked) => self.end_with_handoff(asked, event),
        }
    }

    /// The turn waits for the end of a task, too.
    fn wait_for(&mut self, task: &TaskId, event: &Event) -> Vec<Effect> {
        let spec = &self.task.ownership.spec;
        let session = seat::place(spec.input.as_ref()).map(|turn| turn.session);
        let whole = spec.parent.iter().chain(spec.run.as_ref().map(|run| &run.task)).chain(&session);
        if *task == spec.task_id || whole.into_iter().any(|whole| whole == task) {
            let why = "wait: the turn can't wait for the end of its own task, or of one that it is a part of";
            return self.fail(why.to_owned());
        }
        let awaited = Progress::AwaitTask { id: task.to_string(), task: task.clone() };
        let mut effects = self.task.ownership.status(TaskState::Working, format!("waits for task {task}"));
        effects.extend(self.take_line(awaited, event));
        if !self.task.ownership.has_ended() {
            effects.extend(self.wait(event));
        }
        effects
    }

    /// The turn waits for the results of its requests.
    fn wait(&mut self, event: &Event) -> Vec<Effect> {
        if self.task.turn >= self.max_turns() {
            return self.fail(format!("asked for more than {} turns", self.max_turns()));
        }
        if self.task.pending.is_too_much() {
            return self.fail(self.asked_too_much());
        }
        if let Some(handed_over) = self.hand_over_noted(event) {
            return handed_over;
        }
        let mut effects = self.send(None, event);
        if self.task.pending.waits_for_person() {
            effects.extend(self.show_questions(""));
        }
        if self.task.pending.is_waiting() {
            if self.kind == WorkKind::Answer {
                effects.extend(self.sign_of_life());
            }
            return effects;
        }
        effects.extend(match self.task.pending.has_results() {
            true => self.go_on(),
            false => self.fail(self.task.pending.why_nothing_is_asked()),
        });
        effects
    }

    /// Tells the requester that the work goes on. An answer does so while it waits for others: its agent's turn has bounds of its
    /// own.
    fn sign_of_life(&mut self) -> Vec<Effect> {
        if self.kind == WorkKind::Answer && self.is_thinking {
            return Vec::new();
        }
        self.task.ownership.sign_of_life()
    }

    /// Whether the owner has said something that no turn was given, and there may be another turn.
    fn has_unread_messages(&self) -> bool {
        self.log.has_new_messages() && self.task.turn < self.max_turns()
    }

    /// Begins the turn that reads what the owner has said since the last one began. The work is done only when its brain has
    /// read all that was accepted.
    fn read_messages(&mut self) -> Vec<Effect> {
        let message = format!("{} reads what was said meanwhile", self.task.me);
        let mut effects = self.task.ownership.status(TaskState::Working, message);
        effects.extend(self.think());
        effects
    }

    /// Whether a message may be the whole answer: the requester is an A2A client that has not seen the task yet.
    fn may_just_answer(&self) -> bool {
        let ownership = &self.task.ownership;
        let is_its_own = ownership.requester.is_none() && ownership.claim.is_none();
        let is_first = ownership.spec.contact.is_some() && self.task.turn == 1 && !self.has_reported;
        is_its_own && is_first && self.task.checks.is_none()
    }

    fn just_answer(&mut self, text: &str) -> Vec<Effect> {
        self.task.ownership.announces = false;
        let mut effects = self.finish(TaskState::Completed, Some(text.to_owned()));
        for effect in &mut effects {
            if let Effect::Finish(outcome) = effect {
                outcome.is_message = true;
            }
        }
        effects
    }

    fn go_on(&mut self) -> Vec<Effect> {
        if self.is_thinking
            || self.task.checks.is_under_way()
            || self.pauses.is_paused()
            || self.task.pending.is_waiting()
            || self.task.ownership.has_ended()
        {
            return Vec::new();
        }
        if self.kind == WorkKind::LoneRequest {
            return self.end_with_answer();
        }
        self.task.ownership.questions = self.task.pending.questions();
        let message = format!("{} goes on with what came back", self.task.me);
        let mut effects = self.task.ownership.status(TaskState::Working, message);
        effects.extend(self.think());
        effects
    }

    /// The owner's answer to a question of this agent or of one that works for it, or a message.
    fn answered(
        &mut self,
        question: Option<&QuestionId>,
        answer: &Answer,
        message: Option<&Message>,
    ) -> Vec<Effect> {
        let mut effects: Vec<_> =
            message.cloned().map(|message| self.log.message(message)).into_iter().collect();
        let Some(passed_on) = self.task.pending.answer(question, answer, message) else {
            effects.extend(self.say_to_handed(answer, message));
            return effects;
        };
        effects.extend(passed_on);
        effects.extend(self.after_answer());
        effects
    }

    /// A question was answered, or is no longer open.
    fn after_answer(&mut self) -> Vec<Effect> {
        if self.task.pending.is_waiting() { self.show_questions("") } else { self.go_on() }
    }

    fn show_questions(&mut self, why: &str) -> Vec<Effect> {
        let is_working = self.is_working();
        self.task.show_questions(why, is_working)
    }

    /// Whether it works on, whatever is asked.
    fn is_working(&self) -> bool {
        self.is_thinking || self.task.checks.runs_turn() || self.pauses.is_paused()
    }

    /// The time for a request is over.
    fn expire(&mut self, key: RequestKey, event: &Event) -> Vec<Effect> {
        match self.task.pending.expire(key) {
            Expiry::Late => Vec::new(),
            Expiry::Extended => {
                let when = TimerAt::Node(event.at + self.task.limits.help);
                vec![Effect::SetTimer { timer: Timer::Request(key), when }]
            }
            Expiry::Request => self.charge_lost_and_go_on(),
            Expiry::Question => self.after_answer(),
            Expiry::Fails(why) => self.fail(why),
        }
    }

    fn charge_lost_and_go_on(&mut self) -> Vec<Effect> {
        let mut effects = self.charge_lost();
        effects.extend(self.go_on());
        effects
    }

    fn fail(&mut self, reason: String) -> Vec<Effect> {
        self.finish(TaskState::Failed, Some(reason))
    }

    fn finish(&mut self, state: TaskState, message: Option<String>) -> Vec<Effect> {
        if self.task.ownership.has_ended() {
            return Vec::new();
        }
        let result = (state == TaskState::Completed).then(|| message.as_deref().unwrap_or_default());
        let so_far = self.so_far(state, result);
        let mut effects = self.stop(message.as_deref().unwrap_or("no longer needed"));
        if self.acted && seat::is_seat_turn(&self.task.ownership.spec) {
            let findings = self.posted.findings();
            let seat = self.task.ownership.seat.get_or_insert_default();
            (seat.acted, seat.findings) = (true, findings);
        }
        let may_curate = self.kind != WorkKind::Answer;
        let may_have_proposed = self.posted.has_proposal() || self.task.has_delegated;
        if may_curate && may_have_proposed && state == TaskState::Completed {
            effects.extend(self.task.curate(false, None));
        }
        effects.extend(self.task.remember(state, message.as_deref()));
        effects.extend(self.task.settle_usage());
        let entry = self.context_entry(message.as_deref());
        effects.extend(self.task.ownership.finish(state, message, BTreeMap::new()));
        if let Some(Effect::Finish(outcome)) = effects.last_mut() {
            outcome.context = entry.map(Box::new);
            outcome.so_far = so_far;
        }
        if self.task.ownership.is_awarded()
            && state != TaskState::Canceled
            && let Some(Effect::Finish(outcome)) = effects.pop_if(|last| matches!(last, Effect::Finish(_)))
        {
            self.unconfirmed = Some(Box::new(UnconfirmedOutcome { outcome, responses: 1 }));
        }
        effects
    }

    /// What the task adds to its context, if it has begun.
    fn context_entry(&self, said: Option<&str>) -> Option<ContextEntry> {
        let said = said.filter(|said| *said != names::PASSES).unwrap_or_default();
        let spec = &self.task.ownership.spec;
        let given: usize = seat::new_artifacts(spec).map(Artifact::size).sum();
        let bytes = (self.log.checkpoint_bytes() + said.len() + given) as u64 + self.made;
        let checkpoints = self.log.checkpoints();
        let said = if said.is_empty() { self.words.as_str() } else { said };
        let summary = self.log.summary().cloned();
        let by = self.handed_away().map(|handed| handed.to.clone());
        let has_begun = self.task.turn > 0 || by.is_some();
        let turn = EndedTurn { checkpoints, bytes, summary, by, ..EndedTurn::new(&spec.terms, said) };
        self.context.as_ref().filter(|_| has_begun)?.entry(turn)
    }

    /// Keeps the beginning of what it says: a line about the turn has it.
    fn note_words(&mut self, artifact: &Artifact) {
        let room = MAX_WORDS.saturating_sub(self.words.len());
        if room > 0 {
            self.words.extend(artifact.as_text().chars().take(room));
        }
    }

    /// Stops the running turn and withdraws open requests.
    fn stop(&mut self, why: &str) -> Vec<Effect> {
        let stopped = std::mem::take(&mut self.is_thinking).then_some(Effect::StopTurn);
        stopped.into_iter().chain(self.task.stop(why)).collect()
    }

    fn receive(
        &mut self,
        by: &Principal,
        answers: Option<Label>,
        payload: &Payload,
        event: &Event,
    ) -> Vec<Effect> {
        if let Some(effects) = self.handed_report(by, answers, payload, event) {
            return effects;
        }
        match payload {
            Payload::TaskCancel(_) => match self.task.cancel_reason(by, payload) {
                Some(reason) => self.finish(TaskState::Canceled, Some(reason)),
                None => Vec::new(),
            },
            Payload::TaskAnswer(answer) => match self.task.requesters_answer(by, answer) {
                Some(said) => self.answered(answer.question_id.as_ref(), &said, answer.message.as_deref()),
                None => Vec::new(),
            },
            Payload::TaskUpdate(update) => match self.task.pending.take_questions(by, update, None) {
                true => self.show_questions(""),
                false
                    if self.only_waits() && update.status.as_ref().is_some_and(|status| status.is_pause) =>
                {
                    self.show_pause_of_doer(by, update)
                }
                false => self.show_progress_of_doer(by, update, event),
            },
            _ => {
                let Some(answer) = self.task.pending.take_answer(by, answers, payload) else {
                    return Vec::new();
                };
                self.progress.forget();
                let mut effects = match (payload.usage(), by.agent()) {
                    (Some(usage), Some(agent)) => self.charge_request(usage, agent, &answer),
                    _ => Vec::new(),
                };
                effects.extend(self.go_on());
                effects
            }
        }
    }

    /// An agent that helps goes on with it, and may ask the owner.
    fn receive_help_report(
        &mut self,
        by: &Principal,
        key: RequestKey,
        envelope: &Envelope,
        event: &Event,
    ) -> Vec<Effect> {
        let terms = (&self.task.limits, event);
        let (awaited, has_changed) = self.task.pending.take_help_report(by, key, envelope, terms);
        let mut effects: Vec<_> = awaited.into_iter().collect();
        if has_changed {
            effects.extend(self.show_questions(""));
        }
        effects
    }

    fn phase(&self) -> Option<WorkPhase> {
        let spec = &self.task.ownership.spec;
        let does_host_work = || {
            spec.capability.as_ref().is_some_and(|capability| capability.as_str() == HOST_WORK)
                && self.task.ownership.is_requested_by(&self.task.me, None)
        };
        let is_thinking = self.is_thinking || self.task.checks.runs_turn();
        if self.declines.is_some() || self.task.ownership.has_ended() {
            None
        } else if self.held.is_some() {
            Some(WorkPhase::Held)
        } else if self.waits_for_context() || is_thinking && does_host_work() {
            Some(WorkPhase::AwaitsAgents)
        } else if is_thinking || self.task.turn == 0 && self.kind != WorkKind::LoneRequest {
            Some(WorkPhase::Active)
        } else if self.pauses.is_paused() {
            Some(WorkPhase::Paused)
        } else if self.task.pending.waits_for_person() {
            Some(WorkPhase::AwaitsPerson)
        } else {
            Some(WorkPhase::AwaitsAgents)
        }
    }

    fn turn_progress(&self) -> RecordedTurnProgress<'_> {
        let progress = self.task.turn_progress(Some(self.max_turns()));
        match self.task.checks.runs_turn() {
            true => progress,
            false => {
                let context = self.context.as_ref().and_then(|context| context.start.as_ref());
                RecordedTurnProgress { checkpoints: self.log.checkpoints(), context, ..progress }
            }
        }
    }
}

impl Pattern for Doing {
    const NAME: &'static str = "delegation";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::TaskRequest, MessageKind::Award];
    const RECEIVES: &'static [MessageKind] = &[
        MessageKind::TaskUpdate,
        MessageKind::TaskResponse,
        MessageKind::TaskCancel,
        MessageKind::TaskAnswer,
        MessageKind::HelpResponse,
    ];

    fn view(&self) -> View<'_> {
        let ownership = &self.task.ownership;
        let awarded_by = ownership.requester.as_ref().filter(|requester| requester.epoch.is_some());
        View {
            work: self.phase(),
            has_runner_up: awarded_by.is_some() && !ownership.is_last,
            manager: awarded_by.map(|requester| &requester.agent),
            is_closing: self.unconfirmed.is_some(),
            context: self.context.as_deref(),
            turn: self.turn_progress(),
            root: Some((&ownership.spec.root, ownership.spec.root_proof)),
            ..View::default()
        }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        if self.unconfirmed.is_some() {
            return self.confirm(event);
        }
        let reserved = self.task.pending.reserved();
        let mut effects = self.step(event);
        // Before the effect that ends the task.
        effects.splice(0..0, self.task.show_reserved(reserved));
        effects
    }
}

impl Doing {
    fn step(&mut self, event: &Event) -> Vec<Effect> {
        let has_ended = self.task.ownership.has_ended();
        match &event.what {
            EventKind::Undelivered { label: Label::Response, reason, message, .. } if has_ended => {
                self.task.ownership.response_undelivered(reason, message)
            }
            EventKind::Delivered { label: Label::Chunks, .. } => self.task.ownership.chunks_settled(true),
            EventKind::Undelivered { label: Label::Chunks, reason, .. }
                if *reason != Reason::Fenced.code() =>
            {
                self.task.ownership.chunks_settled(false)
            }
            _ if has_ended => Vec::new(),
            _ if let Some(step) = self.task.check_event(event) => self.checked(step, event),
            EventKind::Started if self.task.turn == 0 => self.start(event),
            EventKind::ContextFree { start } => self.go_on_from(start, event),
            EventKind::TurnStarted { turn: 1, .. } if std::mem::take(&mut self.is_queued) => {
                self.held = None;
                self.works_on_it()
            }
            EventKind::TurnHeld { turn: 1, why } if self.is_queued && self.held.as_ref() != Some(why) => {
                self.held = Some(why.clone());
                self.task.ownership.status(TaskState::Submitted, format!("queued: {why}"))
            }
            EventKind::QuotaNear { message } if self.is_thinking => {
                self.task.ownership.status(TaskState::Working, message)
            }
            EventKind::TurnProgress { turn, updates } if self.is_running(*turn) => {
                self.report(updates, event)
            }
            EventKind::TurnEnded { turn, updates, end } if self.is_running(*turn) => {
                let mut effects = self.report(updates, event);
                effects.extend(self.end_turn(end, event));
                effects
            }
            EventKind::TurnFailed { turn, reason } if self.is_running(*turn) => {
                self.is_thinking = false;
                match self.over_budget.clone() {
                    Some(figures) => self.fail(figures),
                    None => self.brain_failed(reason.clone(), event),
                }
            }
            EventKind::MessageReceived { by, answers: Some(Label::Request(key)), envelope }
                if matches!(envelope.payload, Payload::TaskUpdate(_)) && self.task.pending.is_help(*key) =>
            {
                self.receive_help_report(by, *key, envelope, event)
            }
            EventKind::MessageReceived { by, answers, envelope } => {
                self.receive(by, *answers, &envelope.payload, event)
            }
            EventKind::Undelivered { label, reason, message, .. }
                if label.is_report() && *reason == Reason::Fenced.code() =>
            {
                self.superseded(message)
            }
            what if let Some((mut effects, is_lost)) = self.task.request_delivery(what) => {
                self.note_delivery(what);
                if is_lost {
                    effects.extend(self.charge_lost_and_go_on());
                }
                effects
            }
            EventKind::Undelivered { label: Label::Answer, to, message, .. }
                if self.task.pending.reopen_questions(to) =>
            {
                self.show_questions(&format!("the answer was not taken: {message}\n"))
            }
            EventKind::Answered { question, answer, message, .. } => {
                self.answered(question.as_ref(), answer, message.as_deref())
            }
            EventKind::SpaceAnswered { label: Label::Request(key), answer }
                if self.task.pending.take_found(*key, answer) =>
            {
                self.go_on()
            }
            EventKind::SpaceAnswered { label: Label::Request(key), answer } => {
                self.task.pending.look_later(*key, answer, event).into_iter().collect()
            }
            EventKind::SpaceAnswered { label: Label::Space, answer } => {
                let is_working = self.is_working();
                self.task.posted(answer, is_working)
            }
            EventKind::TimerFired { timer: Timer::Renew } => {
                let mut effects = self.sign_of_life();
                effects.extend(self.renew(event));
                effects
            }
            EventKind::TimerFired { timer: Timer::Deadline } => {
                self.fail(format!("its deadline passed{}", self.pauses.why_paused()))
            }
            EventKind::TimerFired { timer: Timer::Request(key) } => self.expire(*key, event),
            EventKind::TimerFired { timer: Timer::Look(key) } => {
                self.task.pending.look(*key, &self.task.ownership.spec).into_iter().collect()
            }
            EventKind::TimerFired { timer: Timer::Tell } => {
                self.task.ownership.tell(&self.task.me).into_iter().collect()
            }
            EventKind::TimerFired { timer: Timer::Progress } => self.show_next_progress(event),
            EventKind::TimerFired { timer: Timer::Resume } => self.resume(),
            EventKind::Cancelled { reason, .. } => self.finish(TaskState::Canceled, Some(reason.clone())),
            EventKind::Draining { reason: Some(reason), away_ms } => self.drains(reason, *away_ms),
            EventKind::Restarted => self.checks_in(),
            _ => Vec::new(),
        }
    }

    /// Whether it is the turn that runs.
    fn is_running(&self, turn: u32) -> bool {
        self.is_thinking && turn == self.task.turn
    }
}

#[cfg(test)]
mod tests;
