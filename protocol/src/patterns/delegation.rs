//! One agent does a task: it runs turns of its brain, sends the requests of a turn to other agents or the owner, runs the
//! next turn with the answers, and ends the task once (RFC-005, pattern 1).
//!
//! The requester is a user, a peer that delegates, or a manager that awarded the task. Under an award every report carries
//! the award's epoch, and reports renew the lease. Awarded work ends here when its manager has the result. If the manager
//! fences a report, the award has lapsed: the work stops and ends as canceled, superseded.
//!
//! Work that was sent to the agent itself is like an award to itself: if its brain fails for a technical reason, the same
//! conversation goes on as an auction among other agents.

mod acceptance;
mod award_answer;
mod budget;
mod confirmation;
mod own_failure;
mod pause;
mod pending_requests;
mod session_work;
mod space;
mod work_limits;

pub use pending_requests::MAX_REQUESTS;
pub use work_limits::WorkLimits;

use super::{
    Effect, Event, EventKind, Label, OutgoingSignal, Pattern, RecordedTurnProgress, RequestKey, SessionView,
    Timer, TimerAt, View, WorkPhase,
    contract_net::{Auction, ContractNet},
    ownership::{TaskOwnership, may_have_arrived},
    result_check::ResultChecks,
    session::{Session, seat},
    turn,
    turn_log::{TurnInput, TurnLog},
};
use crate::{
    a2a::message::Message,
    answer::SeatEnd,
    artifact::{Artifact, ArtifactChunk},
    budget::Budget,
    ids::{AgentId, Digest, QuestionId},
    message::{AwardAccept, MessageKind, Payload},
    principal::Principal,
    problem::Reason,
    question::{Answer, QuestionKind},
    signal::{ON_BEHALF_OF, PARENT_TASK, SignalType},
    task::{Status, TaskState},
    usage::TaskBounds,
};
use acceptance::OwnResult;
use award_answer::AwardRefusal;
use confirmation::UnconfirmedOutcome;
use pause::Pauses;
use pending_requests::{Expiry, PendingRequests, RequestSender};
use serde::{Deserialize, Serialize};
use serde_json::json;
use space::PostedEntries;
use std::{collections::BTreeMap, time::Duration};
use turn::{Delegate, Help, Progress, Prompt, RequestResult, TurnEnd, TurnSubject};

/// The most turns one task may take, unless its agent says otherwise; a task with more fails.
pub const MAX_TURNS: u32 = 64;

/// The doer's side of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delegation {
    me: AgentId,
    pub(super) ownership: TaskOwnership,
    lease: Option<Duration>,
    work_limits: WorkLimits,
    turn: u32,
    is_thinking: bool,
    pending: PendingRequests,
    declines: Option<AwardRefusal>,
    /// Whether the first turn waits for a free slot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_queued: bool,
    /// Whether it awards the task to others if its own brain fails, and on which terms.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    may_auction: bool,
    #[serde(default, skip_serializing_if = "Auction::is_default")]
    auction_terms: Auction,
    /// The auction, after its own brain has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auction: Option<Box<ContractNet>>,
    /// The session that its seats do, if the task is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<Box<Session>>,
    /// The digests of the messages of the task's turns to other seats of a session.
    #[serde(default)]
    says: Vec<String>,
    #[serde(default, skip_serializing_if = "TurnLog::is_empty")]
    log: TurnLog,
    #[serde(default, skip_serializing_if = "Pauses::is_none")]
    pauses: Pauses,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_reported: bool,
    /// The checks that a result passes before it counts.
    #[serde(default, skip_serializing_if = "ResultChecks::is_none")]
    checks: ResultChecks,
    /// What is checked, or was refused and is done again.
    #[serde(default, skip_serializing_if = "OwnResult::is_none")]
    result: OwnResult,
    /// What it has posted in its space.
    #[serde(default, skip_serializing_if = "PostedEntries::is_none")]
    posted: PostedEntries,
    /// The outcome of awarded work, until the manager has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unconfirmed: Option<Box<UnconfirmedOutcome>>,
}

impl Delegation {
    /// `me` does it. `lease` is the award's, if it is done under one.
    pub fn new(
        me: AgentId,
        ownership: TaskOwnership,
        lease: Option<Duration>,
        work_limits: WorkLimits,
    ) -> Self {
        Self {
            me,
            ownership,
            lease,
            work_limits,
            turn: 0,
            is_thinking: false,
            pending: PendingRequests::default(),
            declines: None,
            is_queued: false,
            may_auction: false,
            auction_terms: Auction::default(),
            auction: None,
            session: None,
            says: Vec::new(),
            log: TurnLog::default(),
            pauses: Pauses::default(),
            has_reported: false,
            checks: ResultChecks::default(),
            result: OwnResult::default(),
            posted: PostedEntries::default(),
            unconfirmed: None,
        }
    }

    /// The first turn waits for a free slot.
    #[must_use]
    pub fn queued(mut self, is_queued: bool) -> Self {
        self.is_queued = is_queued;
        self
    }

    fn start(&mut self, event: &Event) -> Vec<Effect> {
        if let Some(refusal) = self.declines.clone() {
            return self.decline(refusal);
        }
        let mut effects = Vec::new();
        if let Some((requester, epoch)) =
            self.ownership.requester.as_ref().and_then(|requester| Some((requester, requester.epoch?)))
        {
            let accept = AwardAccept {
                task_id: self.ownership.spec.task_id.clone(),
                epoch,
                extra: Default::default(),
            };
            effects.push(Effect::Send(requester.reply(Label::Accept, Payload::AwardAccept(accept))));
        }
        effects.extend(self.renew(event));
        if let Some(deadline) = self.ownership.spec.deadline {
            effects.push(Effect::SetTimer { timer: Timer::Deadline, when: TimerAt::Wall(deadline) });
        }
        effects.extend(match self.is_queued {
            true => self.ownership.status(TaskState::Submitted, format!("queued: {} is busy", self.me)),
            false => self.works_on_it(),
        });
        effects.extend(if self.session.is_some() { self.start_session(event) } else { self.think() });
        effects
    }

    fn works_on_it(&mut self) -> Vec<Effect> {
        let status = Status::new(TaskState::Working, format!("{} is working on it", self.me));
        // Under an award the acceptance says the same.
        match self.ownership.is_awarded() {
            true => vec![Effect::Update(super::Update::Status(status))],
            false => self.ownership.show_status(status),
        }
    }

    fn renew(&self, event: &Event) -> Option<Effect> {
        let lease = self.lease?;
        Some(Effect::SetTimer { timer: Timer::Renew, when: TimerAt::Node(event.at + lease / 3) })
    }

    /// Begins the next turn.
    fn think(&mut self) -> Vec<Effect> {
        self.turn += 1;
        self.pending.begin_turn();
        let mut effects = self.record_answers();
        let input = self.log.begin_turn();
        effects.push(self.run_turn(input));
        effects
    }

    /// Records the answers that the turn is the first to be given.
    fn record_answers(&mut self) -> Vec<Effect> {
        let turn = self.turn;
        let answers = self.pending.take_results().into_iter();
        answers.map(|answer| self.log.answer(RequestResult { for_turn: turn, ..answer })).collect()
    }

    fn run_turn(&mut self, input: TurnInput) -> Effect {
        self.is_thinking = true;
        let spec = &self.ownership.spec;
        let about = TurnSubject::Task(spec.for_brain());
        let first = spec.contact.as_ref().filter(|_| self.turn == 1);
        let messages = first.map(|contact| contact.message.clone()).into_iter().collect();
        let (epoch, history) = (self.ownership.epoch(), spec.history.clone());
        let space = spec.space.clone();
        let (revision, input) = self.revision(input);
        let prompt = Prompt { epoch, messages, history, revision, space, ..Prompt::new(self.turn, about) };
        let (turn, prompt, deadline) = (self.turn, Box::new(prompt), spec.deadline);
        Effect::RunTurn { turn, prompt, deadline, input }
    }

    fn report(&mut self, updates: &[Progress], event: &Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.has_reported |= updates.iter().any(|update| !matches!(update, Progress::Brief(_)));
        for update in updates {
            match update.clone() {
                Progress::Status { message } => {
                    effects.extend(self.ownership.status(TaskState::Working, message))
                }
                Progress::Artifact { artifact, append, last_chunk } => {
                    let chunk = ArtifactChunk { artifact, append, last_chunk };
                    effects.extend(self.ownership.produce(chunk));
                }
                Progress::Signal { .. } | Progress::Post { .. } if self.is_kept_sealed(update) => {
                    let message = format!("nothing was published: {}", seat::SEALED);
                    effects.extend(self.ownership.status(TaskState::Working, message));
                }
                Progress::Signal { signal, subject, capability, mut refs } => {
                    refs.remove(ON_BEHALF_OF);
                    let mut task_id = Some(self.ownership.spec.task_id.clone());
                    if signal == SignalType::task_available() {
                        // Each offer is a task of its own.
                        refs.extend(task_id.take().map(|parent| (PARENT_TASK.to_owned(), json!(parent))));
                    }
                    let signal = OutgoingSignal { kind: signal, subject, task_id, capability, refs };
                    effects.push(Effect::Publish { signal });
                }
                Progress::Question(question) if question.validate().is_err() => {
                    let why = question.validate().err().unwrap_or_default();
                    effects.extend(self.fail(format!("question {}: {why}", question.id)));
                }
                Progress::Post { entry } => effects.extend(self.post(*entry)),
                ask @ (Progress::Help(Help { .. })
                | Progress::Delegate(Delegate { .. })
                | Progress::Question(_)
                | Progress::Find { .. }) => match (self.pending.check_id(&ask, self.turn), ask.waits()) {
                    (Err(why), _) => effects.extend(self.fail(why)),
                    (Ok(false), _) => {}
                    (Ok(true), Some(false)) => effects.extend(self.ask_at_once(ask, event)),
                    (Ok(true), _) => self.pending.note(ask),
                },
                Progress::Say { to, text, mode } => {
                    effects.extend(self.say("say", |number| seat::say(number, &to, &text, mode)));
                }
                Progress::Directive(directive) => {
                    effects.extend(self.say("directive", |number| seat::directive(number, &directive)));
                }
                Progress::Checkpoint(checkpoint) => match self.log.checkpoint(&checkpoint) {
                    Ok(record) => effects.push(record),
                    Err(why) => effects.extend(self.fail(why)),
                },
                Progress::Usage(call) => effects.extend(self.charge_call(&call)),
                Progress::Tool(_) | Progress::Brief(_) | Progress::Log { .. } => {}
            }
            if self.ownership.has_ended() {
                return effects;
            }
        }
        effects.extend(self.ownership.report_chunks(false));
        effects
    }

    /// Adds a message to other seats of the session, or a directive, to the result of the turn; once, if the brain says it again
    /// after an answer.
    fn say(&mut self, what: &str, message: impl FnOnce(u32) -> Option<Artifact>) -> Vec<Effect> {
        if !seat::is_seat_turn(&self.ownership.spec) {
            return self.fail(format!("{what}: the task is no turn of a session"));
        }
        let number = u32::try_from(self.says.len()).unwrap_or(u32::MAX).saturating_add(1);
        match message(number) {
            Some(message) => {
                let content = json!([message.metadata, message.parts]).to_string();
                let digest = Digest::of(content.as_bytes()).to_string()[..16].to_owned();
                if self.says.contains(&digest) {
                    return Vec::new();
                }
                if number > seat::MAX_SAYS {
                    return self.fail(format!("more than {} messages in one turn", seat::MAX_SAYS));
                }
                self.says.push(digest);
                self.ownership.produce(ArtifactChunk::whole(message)).into_iter().collect()
            }
            None => self.fail(format!(
                "{what}: a message has addressees and a text of at most {} bytes",
                seat::MAX_SAY_BYTES
            )),
        }
    }

    /// Sends a request while the turn goes on.
    fn ask_at_once(&mut self, ask: Progress, event: &Event) -> Vec<Effect> {
        if self.pending.is_too_much() {
            return self.fail(self.asked_too_much());
        }
        let sender = RequestSender {
            ownership: &self.ownership,
            me: &self.me,
            turn: self.turn,
            limits: &self.work_limits,
            bounds: Budget::from(&self.bounds()),
            event,
        };
        let mut effects = self.pending.send_at_once(ask, sender);
        if effects.iter().any(|effect| matches!(effect, Effect::AskPerson { .. })) {
            effects.extend(self.show_questions());
        }
        effects
    }

    fn asked_too_much(&self) -> String {
        format!("asked more than {} things in one turn", MAX_REQUESTS)
    }

    fn end_turn(&mut self, end: &TurnEnd, event: &Event) -> Vec<Effect> {
        self.is_thinking = false;
        if self.ownership.has_ended() {
            return Vec::new();
        }
        match end {
            TurnEnd::Done { .. } | TurnEnd::Message { .. } if self.has_unread_messages() => {
                self.read_messages()
            }
            TurnEnd::Done { message } => {
                let has_message = message.as_ref().is_some_and(|text| !text.trim().is_empty());
                if has_message || self.ownership.has_content() {
                    self.check_result(message.clone(), event)
                } else {
                    self.fail("done without a result: no artifact and no message".to_owned())
                }
            }
            TurnEnd::Seat { message, seat: end } => {
                if !seat::is_seat_turn(&self.ownership.spec) {
                    return self.fail("pass, label: the task is no turn of a session".to_owned());
                }
                let said = message.clone().filter(|text| !text.trim().is_empty());
                let silent = || (end.passed || self.ownership.has_content()).then(|| seat::PASSES.to_owned());
                let message = said.or_else(silent);
                self.ownership.seat = Some(SeatEnd { doer: None, ..end.clone() });
                self.end_turn(&TurnEnd::Done { message }, event)
            }
            TurnEnd::Failed { reason } => self.fail(reason.clone()),
            TurnEnd::Rejected { reason } => self.finish(TaskState::Rejected, Some(reason.clone())),
            TurnEnd::Message { text } if self.may_just_answer() => self.just_answer(text),
            TurnEnd::Message { text } => self.end_turn(&TurnEnd::Done { message: Some(text.clone()) }, event),
            TurnEnd::Pause { after_ms, reason } => self.pause(*after_ms, reason, event),
            TurnEnd::Waiting if self.turn >= self.max_turns() => {
                self.fail(format!("asked for more than {} turns", self.max_turns()))
            }
            TurnEnd::Waiting if self.pending.is_too_much() => self.fail(self.asked_too_much()),
            TurnEnd::Waiting => {
                let sender = RequestSender {
                    ownership: &self.ownership,
                    me: &self.me,
                    turn: self.turn,
                    limits: &self.work_limits,
                    bounds: Budget::from(&self.bounds()),
                    event,
                };
                let mut asks = self.pending.send(sender);
                if self.pending.waits_for_person() {
                    asks.extend(self.show_questions());
                }
                if self.pending.is_waiting() {
                    return asks;
                }
                asks.extend(match self.pending.has_results() {
                    true => self.go_on(),
                    false => self.fail(self.pending.why_nothing_is_asked()),
                });
                asks
            }
        }
    }

    /// Whether the owner has said something that no turn was given, and there may be another turn.
    fn has_unread_messages(&self) -> bool {
        self.session.is_none() && self.log.has_new_messages() && self.turn < self.max_turns()
    }

    /// Begins the turn that reads what the owner has said since the last one began. The work is done only when its brain has
    /// read all that was accepted.
    fn read_messages(&mut self) -> Vec<Effect> {
        let message = format!("{} reads what was said meanwhile", self.me);
        let mut effects = self.ownership.status(TaskState::Working, message);
        effects.extend(self.think());
        effects
    }

    /// Whether a message may be the whole answer: the requester is an A2A client that has not seen the task yet.
    fn may_just_answer(&self) -> bool {
        let is_its_own = self.ownership.requester.is_none() && self.ownership.claim.is_none();
        is_its_own
            && self.ownership.spec.contact.is_some()
            && self.turn == 1
            && !self.has_reported
            && self.checks.is_none()
    }

    fn just_answer(&mut self, text: &str) -> Vec<Effect> {
        self.ownership.announces = false;
        let mut effects = self.finish(TaskState::Completed, Some(text.to_owned()));
        for effect in &mut effects {
            if let Effect::Finish(outcome) = effect {
                outcome.is_message = true;
            }
        }
        effects
    }

    fn go_on(&mut self) -> Vec<Effect> {
        if self.session.is_some()
            || self.is_thinking
            || self.checks.is_under_way()
            || self.pauses.is_paused()
            || self.pending.is_waiting()
            || self.ownership.has_ended()
        {
            return Vec::new();
        }
        self.ownership.questions = self.pending.questions();
        let mut effects =
            self.ownership.status(TaskState::Working, format!("{} goes on with what came back", self.me));
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
        let Some(passed_on) = self.pending.answer(question, answer, message) else { return effects };
        effects.extend(passed_on);
        effects.extend(self.after_answer());
        effects
    }

    /// A question was answered, or is no longer open.
    fn after_answer(&mut self) -> Vec<Effect> {
        if self.pending.is_waiting() { self.show_questions() } else { self.go_on() }
    }

    /// Shows the open questions. While something else goes on, the task is working.
    fn show_questions(&mut self) -> Vec<Effect> {
        self.show_questions_because("")
    }

    /// The same; the message begins with `why`.
    fn show_questions_because(&mut self, why: &str) -> Vec<Effect> {
        self.ownership.questions = self.pending.questions();
        let state = self.open_state();
        let questions = &self.ownership.questions;
        let texts: Vec<_> = questions.iter().map(|question| question.shown_text()).collect();
        let message = if texts.is_empty() { "answered".to_owned() } else { texts.join("\n") };
        self.ownership.status(state, format!("{why}{message}"))
    }

    /// The state of the task while it is open, by what is asked.
    fn open_state(&self) -> TaskState {
        let questions = &self.ownership.questions;
        let asks_for_credential = questions.iter().any(|question| question.kind == QuestionKind::Credential);
        match asks_for_credential {
            _ if questions.is_empty()
                || self.is_thinking
                || self.pauses.is_paused()
                || self.session.is_some() && self.pending.works_beside_questions() =>
            {
                TaskState::Working
            }
            true => TaskState::AuthRequired,
            false => TaskState::InputRequired,
        }
    }

    /// Ends all questions without an answer, because there is no person.
    pub(super) fn refuse_questions(&mut self, why: &str) -> Vec<Effect> {
        if self.pending.refuse_questions(why) { self.after_answer() } else { Vec::new() }
    }

    /// The time for a request is over.
    fn expire(&mut self, key: RequestKey) -> Vec<Effect> {
        match self.pending.expire(key) {
            Expiry::Late => Vec::new(),
            Expiry::Request => {
                let mut effects = self.charge_lost();
                effects.extend(self.go_on());
                effects
            }
            Expiry::Question => self.after_answer(),
            Expiry::Fails(why) => self.fail(why),
        }
    }

    /// A request was given up. If its addressee may have it, it counts as one that fell silent.
    fn undelivered(&mut self, key: RequestKey, reason: &str, message: &str) -> Vec<Effect> {
        let is_known = match may_have_arrived(reason) {
            true => self.pending.give_up(key, message),
            false => self.pending.was_refused(key, message),
        };
        if !is_known {
            return Vec::new();
        }
        let mut effects = self.charge_lost();
        effects.extend(self.go_on());
        effects
    }

    fn fail(&mut self, reason: String) -> Vec<Effect> {
        self.finish(TaskState::Failed, Some(reason))
    }

    fn finish(&mut self, state: TaskState, message: Option<String>) -> Vec<Effect> {
        if self.ownership.has_ended() {
            return Vec::new();
        }
        let mut effects = self.stop(message.as_deref().unwrap_or("no longer needed"));
        effects.extend(self.curate(state));
        effects.extend(self.remember_task(state, message.as_deref()));
        effects.extend(self.settle_usage());
        effects.extend(self.record_session());
        effects.extend(self.ownership.finish(state, message, BTreeMap::new()));
        if self.ownership.is_awarded()
            && state != TaskState::Canceled
            && let Some(Effect::Finish(outcome)) = effects.pop_if(|last| matches!(last, Effect::Finish(_)))
        {
            self.unconfirmed = Some(Box::new(UnconfirmedOutcome { outcome, responses: 1 }));
        }
        effects
    }

    /// The reason of the requester's cancel, if `payload` is one.
    fn cancel_reason(&self, by: &Principal, payload: &Payload) -> Option<String> {
        let Payload::TaskCancel(cancel) = payload else { return None };
        self.ownership.is_requested_by(by.agent()?, cancel.epoch).then(|| cancel.words())
    }

    /// Stops the running turn and withdraws open requests.
    fn stop(&mut self, why: &str) -> Vec<Effect> {
        let is_check = self.checks.is_under_way();
        let stopped = std::mem::take(&mut self.is_thinking) && !is_check;
        let stopped = stopped.then_some(Effect::StopTurn);
        let mut effects: Vec<_> = stopped.into_iter().chain(self.stop_check(why)).collect();
        self.ownership.questions.clear();
        effects.extend(self.pending.withdraw(why));
        effects
    }

    fn receive(
        &mut self,
        by: &Principal,
        answers: Option<Label>,
        payload: &Payload,
        event: &Event,
    ) -> Vec<Effect> {
        let by_requester =
            |epoch| by.agent().is_some_and(|agent| self.ownership.is_requested_by(agent, epoch));
        if let Payload::TaskCancel(_) = payload {
            let reason = self.cancel_reason(by, payload);
            return reason.map(|reason| self.finish(TaskState::Canceled, Some(reason))).unwrap_or_default();
        }
        if let Payload::TaskAnswer(answer) = payload {
            return match Answer::from_json(&answer.answer) {
                Ok(said) if by_requester(answer.epoch) => {
                    self.answered(answer.question_id.as_ref(), &said, answer.message.as_deref())
                }
                _ => Vec::new(),
            };
        }
        if let Payload::TaskUpdate(update) = payload {
            self.note_report(by, update, event);
            let asker = self.asker(by, update);
            if !self.pending.take_questions(by, update, asker.as_ref()) {
                return self.show_pause_of_doer(by, update);
            }
            let mut effects = self.session_asks(event);
            // What the autopilot is asked waits for nobody.
            effects.extend(self.session_questions(event));
            effects.extend(self.show_questions());
            return effects;
        }
        let Some(answer) = self.pending.take_answer(by, answers, payload) else { return Vec::new() };
        let mut effects = match (payload.usage(), by.agent()) {
            (Some(usage), Some(agent)) => self.charge_request(usage, agent, &answer),
            _ => Vec::new(),
        };
        effects.extend(self.go_on());
        effects
    }
}

impl Pattern for Delegation {
    const NAME: &'static str = "delegation";
    const OPENED_BY: &'static [MessageKind] = &[MessageKind::TaskRequest, MessageKind::Award];
    const RECEIVES: &'static [MessageKind] = &[
        MessageKind::TaskUpdate,
        MessageKind::TaskResponse,
        MessageKind::TaskCancel,
        MessageKind::TaskAnswer,
        MessageKind::HelpResponse,
        MessageKind::Bid,
        MessageKind::NoBid,
        MessageKind::AwardAccept,
        MessageKind::AwardDecline,
    ];

    fn view(&self) -> View<'_> {
        if let Some(auction) = &self.auction {
            return auction.view();
        }
        let awarded_by = self.ownership.requester.as_ref().filter(|requester| requester.epoch.is_some());
        View {
            work: self.work_phase(),
            has_runner_up: awarded_by.is_some() && !self.ownership.is_last,
            manager: awarded_by.map(|requester| &requester.agent),
            is_closing: self.unconfirmed.is_some(),
            session: self.session.is_some().then_some(SessionView(self)),
            turn: self.turn_progress(),
            ..View::default()
        }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        let reserved = self.pending.reserved();
        let mut effects = self.step(event);
        effects.extend(self.session_results(event));
        effects.extend(self.session_questions(event));
        // Before the effect that ends the task.
        effects.splice(0..0, self.show_reserved(reserved));
        effects
    }
}

impl Delegation {
    fn work_phase(&self) -> Option<WorkPhase> {
        if self.declines.is_some() || self.ownership.has_ended() {
            None
        } else if self.is_thinking && self.does_host_work() {
            Some(WorkPhase::AwaitsAgents)
        } else if self.is_thinking || self.turn == 0 {
            Some(WorkPhase::Active)
        } else if self.pauses.is_paused() {
            Some(WorkPhase::Paused)
        } else if self.pending.waits_for_person() {
            Some(WorkPhase::AwaitsPerson)
        } else {
            Some(WorkPhase::AwaitsAgents)
        }
    }

    fn turn_progress(&self) -> RecordedTurnProgress<'_> {
        let (used, produced) = (*self.ownership.usage(), self.ownership.produced());
        let bounds = TaskBounds { turns: Some(self.max_turns()), ..self.bounds() };
        let remaining = bounds.remaining(self.turn, &used, self.pending.reserved());
        let checkpoints = if self.checks.runs_turn() { Default::default() } else { self.log.checkpoints() };
        RecordedTurnProgress { produced, artifacts: &[], checkpoints, used, remaining }
    }

    fn step(&mut self, event: &Event) -> Vec<Effect> {
        if self.unconfirmed.is_some() {
            return self.confirm(event);
        }
        if let Some(effects) = self.run_auction(event) {
            return effects;
        }
        if let EventKind::Undelivered { label: Label::Response, reason, message, .. } = &event.what
            && self.ownership.has_ended()
        {
            return self.ownership.response_undelivered(reason, message);
        }
        if let EventKind::Delivered { label: Label::Chunks, .. } = &event.what {
            return self.ownership.chunks_settled(true);
        }
        if let EventKind::Undelivered { label: Label::Chunks, reason, .. } = &event.what
            && *reason != Reason::Fenced.code()
        {
            return self.ownership.chunks_settled(false);
        }
        if self.ownership.has_ended() {
            return Vec::new();
        }
        if let Some(effects) = self.check_event(event) {
            return effects;
        }
        match &event.what {
            EventKind::Started if self.turn == 0 => self.start(event),
            EventKind::TurnStarted { turn: 1 } if std::mem::take(&mut self.is_queued) => self.works_on_it(),
            EventKind::TurnProgress { turn, updates } if *turn == self.turn && self.is_thinking => {
                self.report(updates, event)
            }
            EventKind::TurnEnded { turn, updates, end } if *turn == self.turn && self.is_thinking => {
                let mut effects = self.report(updates, event);
                effects.extend(self.end_turn(end, event));
                effects
            }
            EventKind::TurnFailed { turn, reason } if *turn == self.turn && self.is_thinking => {
                self.is_thinking = false;
                self.brain_failed(reason.clone(), event)
            }
            EventKind::MessageReceived { by, answers, envelope } => {
                self.receive(by, *answers, &envelope.payload, event)
            }
            EventKind::Undelivered { label, reason, message, .. }
                if label.is_report() && *reason == Reason::Fenced.code() =>
            {
                self.superseded(message)
            }
            EventKind::Undelivered { label: Label::Request(key), reason, message, .. } => {
                self.undelivered(*key, reason, message)
            }
            EventKind::Undelivered { label: Label::Answer, to, message, .. }
                if self.pending.reopen_questions(to) =>
            {
                let mut effects = self.session_asks(event);
                effects
                    .extend(self.show_questions_because(&format!("the answer was not taken: {message}\n")));
                effects
            }
            EventKind::Answered { question, answer, message, .. } => {
                self.answered(question.as_ref(), answer, message.as_deref())
            }
            EventKind::SpaceAnswered { label: Label::Request(key), answer }
                if self.pending.take_found(*key, answer) =>
            {
                self.go_on()
            }
            EventKind::SpaceAnswered { label: Label::Space, answer } => self.posted(answer),
            EventKind::TimerFired { timer: Timer::Renew } => {
                let mut effects = self.ownership.sign_of_life();
                effects.extend(self.renew(event));
                effects
            }
            EventKind::TimerFired { timer: Timer::Deadline } => {
                self.fail(format!("its deadline passed{}", self.pauses.why_paused()))
            }
            EventKind::TimerFired { timer: Timer::Request(key) } => self.expire(*key),
            EventKind::TimerFired { timer: Timer::Resume } => self.resume(),
            EventKind::TimerFired { timer: Timer::Session(timer) } => self.session_timer(*timer, event),
            EventKind::Directed { directive, .. } => {
                self.decide(event, |session, cx| session.direct(cx, directive))
            }
            EventKind::Cancelled { reason, .. } => self.finish(TaskState::Canceled, Some(reason.clone())),
            EventKind::Draining { reason: Some(reason) } => self.hand_back(reason),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
