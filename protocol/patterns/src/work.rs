//! The work on a task that an agent has taken on: its brain does it ([`doing`]), or it hosts a session ([`hosting`]).
//!
//! Both answer for the task, send requests to other agents and questions to the owner, check the result before it counts,
//! and keep account of what is used. That is their [`Assignment`]; the rest of their states is their own.

pub mod doing;
pub mod hosting;
mod limits;
mod pending_requests;

pub use doing::{Doing, MAX_TURNS};
pub use hosting::Hosting;
pub use limits::WorkLimits;
pub use pending_requests::MAX_REQUESTS;

use super::{
    Effect, Event, EventKind, Label, RecordedTurnProgress, Update,
    ownership::TaskOwnership,
    result_check::{CheckStep, CheckedTask, ResultChecks},
    session::{host_work::HOST_WORK, seat},
    turn::Progress,
};
use doing::lines::TurnKind;
use pending_requests::{PendingRequests, RequestSender};
use protocol::{
    acceptance::AcceptanceTerms,
    budget::Budget,
    ids::AgentId,
    message::{Payload, TaskAnswer},
    principal::{Principal, TaskRoot},
    question::{Answer, QuestionKind},
    spaces::{
        Space,
        request::{SpaceAction, SpaceAnswer, SpaceRequest},
        task_history,
    },
    task::TaskState,
    time::WallTime,
    usage::{TaskBounds, Usage},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A task that an agent has taken on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assignment {
    me: AgentId,
    ownership: TaskOwnership,
    limits: WorkLimits,
    /// Counts the turns of the brain, or the decisions of the session.
    turn: u32,
    pending: PendingRequests,
    /// The checks that a result passes before it counts.
    #[serde(default, skip_serializing_if = "ResultChecks::is_none")]
    checks: ResultChecks,
    /// The summary of the result that is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    /// The agents for which its requests wait, because they are away.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    away: BTreeSet<AgentId>,
    /// Whether work was given to other agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_delegated: bool,
}

impl Assignment {
    fn new(me: AgentId, ownership: TaskOwnership, limits: WorkLimits) -> Self {
        let (pending, checks) = (PendingRequests::default(), ResultChecks::default());
        Self {
            me,
            ownership,
            limits,
            turn: 0,
            pending,
            checks,
            summary: None,
            away: BTreeSet::new(),
            has_delegated: false,
        }
    }

    fn check_on(&mut self, terms: AcceptanceTerms) {
        self.ownership.is_checked = !terms.is_default();
        self.checks = ResultChecks::of(terms);
    }

    fn begin_turn(&mut self) {
        self.turn += 1;
        self.pending.begin_turn();
    }

    /// What the task may use: the bounds of the agent, and no more than its requester has given.
    fn bounds(&self) -> TaskBounds {
        self.limits.bounds.within(self.ownership.spec.budget)
    }

    /// What its running turn is given; `turns` is the most that it may take.
    fn turn_progress(&self, turns: Option<u32>) -> RecordedTurnProgress<'_> {
        let (used, produced) = (*self.ownership.usage(), self.ownership.produced());
        let bounds = TaskBounds { turns, ..self.bounds() };
        let remaining = bounds.remaining(self.turn, &used, self.pending.reserved());
        RecordedTurnProgress { produced, used, remaining, ..RecordedTurnProgress::default() }
    }

    /// Sends a request of a turn, or without one all that were noted. Together they are given no more than `bounds`.
    fn send(
        &mut self,
        ask: Option<Progress>,
        (limits, bounds, kind): (WorkLimits, Budget, TurnKind),
        event: &Event,
    ) -> Vec<Effect> {
        let Self { me, ownership, turn, pending, .. } = self;
        let sender = RequestSender { ownership, me, turn: *turn, limits: &limits, bounds, kind, event };
        let effects = match ask {
            Some(ask) => pending.send_at_once(ask, sender),
            None => pending.send(sender),
        };
        self.has_delegated |= effects.iter().any(|effect| {
            matches!(effect, Effect::Send(message) if matches!(message.payload, Payload::TaskRequest(_)))
        });
        effects
    }

    fn checked_task(&mut self) -> (&mut ResultChecks, CheckedTask<'_>) {
        let Self { me, ownership, limits, checks, .. } = self;
        (checks, CheckedTask { me, ownership, bounds: limits.bounds })
    }

    /// The work is done: what was asked and not answered is withdrawn, and the ids of requests may be used again.
    fn withdraw_requests(&mut self) -> Vec<Effect> {
        self.pending.forget_ids();
        self.pending.withdraw("the work is done")
    }

    /// Checks the result, after [`Self::withdraw_requests`].
    fn begin_check(&mut self, summary: Option<String>, event: &Event) -> Vec<Effect> {
        self.ownership.questions.clear();
        self.summary.clone_from(&summary);
        let me = self.me.clone();
        let (checks, task) = self.checked_task();
        checks.begin(&me, summary, task, event)
    }

    /// What follows from an event of the check under way; `None` if it is about something else.
    fn check_event(&mut self, event: &Event) -> Option<CheckStep> {
        let (checks, task) = self.checked_task();
        checks.on(task, event)
    }

    /// Stops the check under way, and withdraws open requests.
    fn stop(&mut self, why: &str) -> Vec<Effect> {
        let (checks, task) = self.checked_task();
        let mut effects = checks.abort(why, task);
        self.ownership.questions.clear();
        effects.extend(self.pending.withdraw(why));
        effects
    }

    /// The state of the task while nothing but what is asked keeps it from going on.
    fn asked_state(&self) -> TaskState {
        let questions = &self.ownership.questions;
        match questions.iter().any(|question| question.kind == QuestionKind::Credential) {
            _ if questions.is_empty() => TaskState::Working,
            true => TaskState::AuthRequired,
            false => TaskState::InputRequired,
        }
    }

    /// Shows the open questions; the message begins with `why`. While something else goes on, the task is working.
    fn show_questions(&mut self, why: &str, is_working: bool) -> Vec<Effect> {
        self.ownership.questions = self.pending.questions();
        let state = if is_working { TaskState::Working } else { self.asked_state() };
        let texts: Vec<_> = self.ownership.questions.iter().map(|question| question.shown_text()).collect();
        let message = if texts.is_empty() { "answered".to_owned() } else { texts.join("\n") };
        self.ownership.status(state, format!("{why}{message}"))
    }

    /// The effects of an event about the delivery of a request, and whether the request is lost; `None` if it is about something
    /// else.
    fn request_delivery(&mut self, what: &EventKind) -> Option<(Vec<Effect>, bool)> {
        match what {
            EventKind::RecipientAway { label: Label::Request(_), to, since } => {
                Some((self.waits_for(to, *since), false))
            }
            EventKind::Delivered { label: Label::Request(_), by } => {
                Some((self.waits_no_longer_for(by), false))
            }
            EventKind::Undelivered { label: Label::Request(key), to, reason, message } => {
                let effects = self.waits_no_longer_for(to);
                Some((effects, self.pending.undelivered(*key, reason, message)))
            }
            _ => None,
        }
    }

    /// A request waits for an agent that is away.
    fn waits_for(&mut self, to: &AgentId, since: WallTime) -> Vec<Effect> {
        self.away.insert(to.clone());
        self.show_progress(format!("waits for {to}, which is away since {since}"))
    }

    /// A request has reached an agent, or never will.
    fn waits_no_longer_for(&mut self, to: &AgentId) -> Vec<Effect> {
        let message = format!("{} is working on it", self.me);
        if self.away.remove(to) { self.show_progress(message) } else { Vec::new() }
    }

    /// Shows what goes on, unless questions are shown.
    fn show_progress(&mut self, message: String) -> Vec<Effect> {
        match self.ownership.questions.is_empty() {
            true => self.ownership.status(TaskState::Working, message),
            false => Vec::new(),
        }
    }

    /// The reason of the requester's cancel, if `payload` is one.
    fn cancel_reason(&self, by: &Principal, payload: &Payload) -> Option<String> {
        let Payload::TaskCancel(cancel) = payload else { return None };
        self.ownership.is_requested_by(by.agent()?, cancel.epoch).then(|| cancel.words())
    }

    /// What the requester answers, if `answer` is of it.
    fn requesters_answer(&self, by: &Principal, answer: &TaskAnswer) -> Option<Answer> {
        let is_requesters = self.ownership.is_requested_by(by.agent()?, answer.epoch);
        Answer::from_json(&answer.answer).ok().filter(|_| is_requesters)
    }

    /// Charges at the end what nobody has said: the own brain may be one that does not say what it uses.
    fn settle_usage(&mut self) -> Vec<Effect> {
        let lost = self.pending.take_lost();
        let mut effects: Vec<_> = self.ownership.add_usage(&lost.charged_whole()).into_iter().collect();
        if self.limits.is_unmetered && self.turn > 0 {
            let unknown = match self.ownership.spec.budget {
                budget if budget.is_none() => Usage { unknown: 1, ..Usage::default() },
                budget => budget.left(self.ownership.usage(), Budget::default()).charged_whole(),
            };
            effects.extend(self.ownership.add_usage(&unknown));
        }
        effects
    }

    /// Shows what is reserved, if that is not `before`.
    fn show_reserved(&self, before: Budget) -> Option<Effect> {
        let reserved = self.pending.reserved();
        let is_shown = reserved != before && !self.ownership.is_hidden;
        is_shown.then_some(Effect::Update(Update::Reserved(reserved)))
    }

    /// Asks the space of the task, for `root` if the brain asks.
    fn ask_space(&self, action: SpaceAction, root: Option<TaskRoot>) -> Effect {
        let request = Box::new(SpaceRequest { space: self.ownership.spec.space(), root, action });
        Effect::AskSpace { label: Label::Space, request }
    }

    /// The curation of what was proposed in the run of which the task is the root. What was proposed for another one waits for the
    /// end of that.
    fn curate(&self, session: bool, declined: Option<String>) -> Option<Effect> {
        let task = self.ownership.spec.task_id.clone();
        let is_root = self.ownership.spec.run.is_none();
        is_root.then(|| self.ask_space(SpaceAction::Curate { task, session, declined }, None))
    }

    /// The memory of the task in the agent's vault, if it belongs to a space with a name. The turn of a seat is one if the seat is
    /// done with it; of a sealed stage there is none.
    fn remember(&self, state: TaskState, said: Option<&str>) -> Option<Effect> {
        let spec = &self.ownership.spec;
        let has_passed = self.ownership.seat.as_ref().is_some_and(|seat| seat.passed);
        let is_host_work = spec.capability.as_ref().is_some_and(|of| of.as_str() == HOST_WORK);
        if Space::new(spec.space()).is_default() || seat::is_sealed(spec) || has_passed || is_host_work {
            return None;
        }
        let made = self.ownership.artifact_ids();
        let draft = task_history::draft(&spec.task_id, &spec.description, (state, said), &made);
        let draft = draft.caused_by(&self.me, spec.task_root());
        Some(self.ask_space(SpaceAction::Post { entry: Box::new(draft) }, None))
    }

    /// A space has answered. A refusal is shown, and the work goes on.
    fn posted(&mut self, answer: &SpaceAnswer, is_working: bool) -> Vec<Effect> {
        let SpaceAnswer::Refused { message, .. } = answer else { return Vec::new() };
        let state = if is_working { TaskState::Working } else { self.asked_state() };
        self.ownership.status(state, format!("the space refused an entry: {message}"))
    }
}
