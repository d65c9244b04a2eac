//! One conversation as its journal shows it, and what must hold in the order of its steps.

use engine::records::Step;
use patterns::{
    AnyPattern, Effect, EventKind,
    turn::{Progress, TurnSubject},
};
use protocol::{
    ids::{Address, AgentId, TaskId},
    message::{BUSY, MessageKind, Payload},
    principal::Principal,
    task::TaskState,
};
use std::collections::BTreeSet;

/// A conversation as its journal shows it.
#[derive(Debug, Default)]
pub(crate) struct ObservedConversation {
    pub steps: Vec<Step>,
    /// The step in which it ended, and its final state.
    pub ended: Option<(u64, TaskState)>,
    /// The award in force: its epoch and its winner.
    live_award: Option<(u64, AgentId)>,
    pub(super) newest_epoch: u64,
    awarded: BTreeSet<u64>,
}

impl ObservedConversation {
    /// The number of its last durable step.
    pub(crate) fn last_step(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.step)
    }

    /// Whether an event of this kind is durable.
    pub(crate) fn has_event(&self, is_kind: impl Fn(&EventKind) -> bool) -> bool {
        self.steps.iter().flat_map(|step| &step.events).any(|event| is_kind(&event.what))
    }

    /// The tokens that its turns have reported, as its journal has them.
    pub(crate) fn reported_tokens(&self) -> u64 {
        let events = self.steps.iter().flat_map(|step| &step.events);
        let updates = events.flat_map(|event| match &event.what {
            EventKind::TurnProgress { updates, .. } | EventKind::TurnEnded { updates, .. } => {
                updates.as_slice()
            }
            _ => &[],
        });
        let tokens = updates.map(|update| match update {
            Progress::Usage(call) => call.input_tokens + call.output_tokens,
            _ => 0,
        });
        tokens.sum()
    }

    fn initial(&self) -> Option<&AnyPattern> {
        self.steps.first()?.replay_start()
    }

    /// Whether it reacts to the signal of this publisher and id.
    pub(crate) fn is_reaction_to(&self, (from, id): &(AgentId, String)) -> bool {
        let origin = self.steps.first().and_then(|step| step.origin.as_ref());
        let signal = origin.and_then(|origin| origin.signal.as_ref());
        signal.is_some_and(|signal| signal.from == *from && signal.id == *id)
    }

    /// Whether it is the manager of this task and has taken the award of `epoch` back.
    pub(crate) fn has_revoked(&self, task: &TaskId, epoch: u64) -> bool {
        let is_end = |effect: &Effect| matches!(effect, Effect::Finish(outcome) if outcome.status.state == TaskState::Completed);
        let is_release = |effect: &Effect| matches!(effect, Effect::Release { task: of, epoch: freed } if of == task && *freed == epoch);
        // A result that is checked has been delivered; refused, it ends the award but not the doer's task.
        let is_check = |effect: &Effect| match effect {
            Effect::RunTurn { prompt, .. } => matches!(prompt.about, TurnSubject::Check { .. }),
            Effect::Send(message) => {
                matches!(&message.payload, Payload::TaskRequest(request) if request.is_review)
            }
            _ => false,
        };
        let is_checked = self.steps.iter().any(|step| step.effects.iter().any(is_check))
            && self.has_event(|what| is_completion(what, epoch));
        !is_checked
            && self
                .steps
                .iter()
                .any(|step| step.effects.iter().any(is_release) && !step.effects.iter().any(is_end))
    }

    /// The name of its pattern.
    pub(crate) fn pattern(&self) -> Option<&'static str> {
        self.initial().map(AnyPattern::name)
    }

    /// Whether it may award its task: it is an auction, or may become one.
    pub(super) fn may_award(&self) -> bool {
        matches!(self.pattern(), Some("contract-net" | "delegation"))
    }

    /// The violations of the next step.
    pub(super) fn check_step(&mut self, step: &Step) -> Vec<String> {
        let mut violations = Vec::new();
        for effect in &step.effects {
            if let (Some((at, state)), true) = (self.ended, is_forbidden_after_end(effect)) {
                violations.push(format!(
                    "{} after it had ended as {} in step {at}",
                    effect_name(effect),
                    state.word()
                ));
            }
            match effect {
                Effect::Finish(outcome) => {
                    if self.ended.is_some() {
                        violations.push("it has two results".to_owned());
                    }
                    let state = outcome.status.state;
                    let has_awarded = self.pattern() == Some("contract-net") || self.newest_epoch > 0;
                    if state == TaskState::Completed && has_awarded {
                        violations.extend(self.unproven_completion(step));
                    }
                    let message = outcome.status.message.as_deref().unwrap_or_default();
                    if message.starts_with("unassigned") || message.starts_with("no bids") {
                        violations.extend(self.ignored_busy_bidder(step));
                    }
                    self.ended = Some((step.step, state));
                }
                Effect::Send(message) => {
                    if let Payload::Award(award) = &message.payload {
                        if let Some((epoch, winner)) = &self.live_award {
                            violations
                                .push(format!("two live awards: {epoch} of {winner} and {}", award.epoch));
                        }
                        if award.epoch != self.newest_epoch || !self.awarded.insert(award.epoch) {
                            violations
                                .push(format!("award {} is not the newest, or given twice", award.epoch));
                        }
                        let Address::Agent(winner) = &message.to else { continue };
                        self.live_award = Some((award.epoch, winner.clone()));
                    }
                }
                Effect::Release { epoch, .. } => {
                    self.live_award.take_if(|(live_award, _)| live_award == epoch);
                }
                _ => {}
            }
        }
        violations
    }

    /// A manager does not give a task up while a bidder is only busy, unless an award of that call, or one whose holder came back
    /// meanwhile, has failed.
    fn ignored_busy_bidder(&self, last: &Step) -> Option<String> {
        let sends = |step: &Step, kind| {
            let is_kind =
                |effect: &Effect| matches!(effect, Effect::Send(message) if message.payload.kind() == kind);
            step.effects.iter().any(is_kind)
        };
        let finds = |step: &Step| {
            let is_result =
                |what: &EventKind| matches!(what, EventKind::PeersFound { .. } | EventKind::CallDue { .. });
            step.events.iter().any(|event| is_result(&event.what))
        };
        if finds(last) {
            return None;
        }
        let since_call = self.steps.iter().rev().take_while(|step| !sends(step, MessageKind::Cfp));
        let mut steps = since_call.chain([last]);
        let was_awarded = steps.clone().any(|step| sends(step, MessageKind::Award));
        let has_ended = |what: &EventKind| match what {
            EventKind::MessageReceived { envelope, .. } => {
                matches!(envelope.payload, Payload::TaskResponse(_) | Payload::AwardDecline(_))
            }
            _ => false,
        };
        let was_awarded =
            was_awarded || steps.clone().any(|step| step.events.iter().any(|event| has_ended(&event.what)));
        let is_busy = |what: &EventKind| match what {
            EventKind::MessageReceived { envelope, .. } => match &envelope.payload {
                Payload::NoBid(no_bid) => no_bid.reason == BUSY,
                _ => false,
            },
            _ => false,
        };
        let was_busy = steps.any(|step| step.events.iter().any(|event| is_busy(&event.what)));
        let said = last.effects.iter().rev().find_map(|effect| match effect {
            Effect::Finish(outcome) => Some(format!("{outcome:?}")),
            _ => None,
        });
        let said = said.unwrap_or_default();
        (was_busy && !was_awarded).then(|| format!("it gives up although a bidder was only busy: {said}"))
    }

    /// A manager completes a task only with a response under the newest award.
    fn unproven_completion(&self, step: &Step) -> Option<String> {
        // A check may come between the response and the end.
        let mut events = self.steps.iter().chain([step]).flat_map(|step| &step.events);
        let has_response = events.any(|event| is_completion(&event.what, self.newest_epoch));
        (!has_response)
            .then(|| format!("it is completed without a response under award {}", self.newest_epoch))
    }
}

/// Whether it is a result of an agent under the award of `epoch`.
fn is_completion(what: &EventKind, epoch: u64) -> bool {
    match what {
        EventKind::MessageReceived { by, envelope, .. } => match &envelope.payload {
            Payload::TaskResponse(response) => {
                response.epoch == Some(epoch)
                    && response.state == TaskState::Completed
                    && by.agent().is_some()
            }
            _ => false,
        },
        _ => false,
    }
}

/// The award that a step accepts: the task with its owner, and the epoch.
pub(super) fn accepted_award(
    conversation: &ObservedConversation,
    step: &Step,
) -> Option<((TaskId, Principal), u64)> {
    let first = conversation.steps.first().unwrap_or(step);
    let by = first.origin.as_ref()?.message.as_ref().filter(|message| message.kind == MessageKind::Award)?;
    let accepted = step.effects.iter().find_map(|effect| match effect {
        Effect::Send(message) => match &message.payload {
            Payload::AwardAccept(accept) => Some((accept.task_id.clone(), accept.epoch)),
            _ => None,
        },
        _ => None,
    });
    accepted.map(|(task, epoch)| ((task, by.by.clone()), epoch))
}

/// Whether the effect must not follow the end of a conversation.
fn is_forbidden_after_end(effect: &Effect) -> bool {
    let is_award = |effect: &Effect| matches!(effect, Effect::Send(message) if matches!(message.payload.kind(), MessageKind::Award | MessageKind::Cfp | MessageKind::TaskUpdate));
    matches!(
        effect,
        Effect::RunTurn { .. }
            | Effect::Update(_)
            | Effect::Assign { .. }
            | Effect::Claim { .. }
            | Effect::ClaimOpenTask { .. }
            | Effect::SetTimer { .. }
            | Effect::AskPerson { .. }
    ) || is_award(effect)
}

fn effect_name(effect: &Effect) -> String {
    let value = serde_json::to_value(effect).unwrap_or_default();
    let named = |member: &str| value.get(member).and_then(|name| name.as_str()).map(str::to_owned);
    let kind = named("effect").unwrap_or_default();
    named("type").map_or(kind.clone(), |of| format!("{kind} {of}"))
}

/// A step in one line.
pub(crate) fn step_line(step: &Step) -> String {
    let event = |what: &EventKind| {
        let value = serde_json::to_value(what).unwrap_or_default();
        let kind = value.get("event").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
        match what {
            EventKind::MessageReceived { by, envelope, .. } => {
                format!("{} {} of {by}", envelope.kind().wire(), envelope.message_id)
            }
            EventKind::TimerFired { timer } => format!("{kind} {timer:?}"),
            EventKind::Delivered { label, by } => format!("{kind} {label:?} by {by}"),
            EventKind::Undelivered { label, to, reason, .. } => format!("{kind} {label:?} to {to}: {reason}"),
            EventKind::Claimed { holder, epoch } => format!("{kind} {epoch} for {holder}"),
            EventKind::ClaimExpired { epoch } | EventKind::ClaimEnded { epoch } => format!("{kind} {epoch}"),
            _ => kind,
        }
    };
    let events: Vec<_> = step.events.iter().map(|one| event(&one.what)).collect();
    let effects: Vec<_> = step.effects.iter().map(effect_name).collect();
    let at = step.events.first().map_or(0, |event| event.at.0);
    format!("step {} at {at}: [{}] -> [{}]", step.step, events.join(", "), effects.join(", "))
}
