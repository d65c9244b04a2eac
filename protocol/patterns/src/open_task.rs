//! An agent does a task that was offered on the board (DESIGN §6, claims): it claims the task there, does it like any
//! other, and ends the claim before the task counts as ended.
//!
//! An offer is a `task.available` with a `taskId`, and in its `refs` a `description` and, if need be, an `input` (any
//! JSON); without a description its subject is used. The whole signal has at most 16 KiB. The board decides who gets
//! the claim, publishes it and its end, and offers the task again when a lease runs out. An agent that loses the claim
//! stops, its progress is discarded, and the task ends here as canceled: superseded. A failed task ends as failed on the
//! board, too. If an agent offered it, the result goes to that agent.

use super::{
    Effect, Event, EventKind, Label, OpenTaskView, Outcome, OutgoingMessage, Pattern, RecordedArtifacts,
    Timer, TimerAt, View,
    ownership::{TaskOwnership, produced},
    work::{Doing, WorkLimits},
};
use protocol::{
    acceptance::AcceptanceTerms,
    ids::{Address, AgentId, MessageId},
    message::{Epoch, MessageKind, Payload, TaskResponse},
    principal::{Principal, TaskRoot},
    signal::{Signal, described_task},
    task::{OpenTaskKey, Status, TaskSpec, TaskState, TaskTerms},
};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::time::Duration;

/// One agent's side of one open task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTask {
    me: AgentId,
    owner: Principal,
    /// The signal that offered it first.
    offer: MessageId,
    spec: TaskSpec,
    lease: Duration,
    work_limits: WorkLimits,
    /// What its result passes before it counts.
    #[serde(default, skip_serializing_if = "AcceptanceTerms::is_default")]
    acceptance: AcceptanceTerms,
    stage: OpenTaskStage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum OpenTaskStage {
    Offered,
    /// The board has been asked for the claim.
    #[serde(rename_all = "camelCase")]
    Claiming {
        /// Why it was cancelled meanwhile; the claim is released as soon as the board's answer is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        called_off: Option<String>,
    },
    /// It is being done.
    #[serde(rename_all = "camelCase")]
    Doing {
        epoch: Epoch,
        work: Box<Doing>,
    },
    /// It has ended here, and the board is informed.
    #[serde(rename_all = "camelCase")]
    Closing {
        epoch: Epoch,
        outcome: Box<Outcome>,
        /// Whether the board offers it again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_released: bool,
    },
    Over,
}

/// The task that `signal` offers, on behalf of `root`; `None` if the signal is incomplete.
pub fn offered(signal: &Signal, root: TaskRoot) -> Option<TaskSpec> {
    let terms = TaskTerms {
        capability: signal.capability.clone(),
        input: signal.refs.get("input").cloned(),
        ..TaskTerms::new(described_task(&signal.refs, signal.subject.as_deref())?)
    };
    let TaskRoot { principal, proof } = root;
    Some(TaskSpec { root_proof: proof, ..TaskSpec::new(signal.task_id.clone()?, terms, principal) })
}

impl OpenTask {
    /// `me` claims the task that `owner` has offered by the signal `offer`, with this `lease`.
    pub fn new(
        me: AgentId,
        owner: Principal,
        offer: MessageId,
        spec: TaskSpec,
        lease: Duration,
        work_limits: WorkLimits,
    ) -> Self {
        let (acceptance, stage) = (AcceptanceTerms::default(), OpenTaskStage::Offered);
        Self { me, owner, offer, spec, lease, work_limits, acceptance, stage }
    }

    /// Its result is checked on these terms before it counts.
    #[must_use]
    pub fn with_acceptance(mut self, terms: AcceptanceTerms) -> Self {
        self.acceptance = terms;
        self
    }

    /// The claim it is done under.
    fn epoch(&self) -> Option<Epoch> {
        match &self.stage {
            OpenTaskStage::Doing { epoch, .. } | OpenTaskStage::Closing { epoch, .. } => Some(*epoch),
            OpenTaskStage::Offered | OpenTaskStage::Claiming { .. } | OpenTaskStage::Over => None,
        }
    }

    /// Its key on the board.
    fn key(&self) -> OpenTaskKey {
        OpenTaskKey { publisher: self.owner.clone(), task_id: self.spec.task_id.clone() }
    }

    /// The board has granted the claim of `epoch`.
    fn claimed(&mut self, epoch: Epoch, event: &Event) -> Vec<Effect> {
        match &mut self.stage {
            OpenTaskStage::Claiming { called_off: None } => self.take_on(epoch, event),
            OpenTaskStage::Claiming { called_off: Some(reason) } => {
                let status = Status::new(TaskState::Canceled, std::mem::take(reason));
                self.release(epoch, status)
            }
            _ => Vec::new(),
        }
    }

    fn take_on(&mut self, epoch: Epoch, event: &Event) -> Vec<Effect> {
        let mut ownership = TaskOwnership::new(self.spec.clone(), None);
        ownership.announces = false;
        ownership.claim = Some(epoch);
        let work = Doing::new(self.me.clone(), ownership, None, self.work_limits)
            .with_acceptance(self.acceptance.clone());
        self.stage = OpenTaskStage::Doing { epoch, work: Box::new(work) };
        let mut effects = vec![
            Effect::TrackTask { spec: Box::new(self.spec.clone()), owner: self.owner.clone(), epoch },
            self.renew_later(event),
        ];
        effects.extend(self.work(epoch, &Event { what: EventKind::Started, at: event.at, wall: event.wall }));
        effects
    }

    fn renew_later(&self, event: &Event) -> Effect {
        Effect::SetTimer { timer: Timer::Claim, when: TimerAt::Node(event.at + self.lease / 3) }
    }

    /// The effects of the inner delegation on `event`. Its end waits for the board's confirmation.
    fn work(&mut self, epoch: Epoch, event: &Event) -> Vec<Effect> {
        let OpenTaskStage::Doing { work, .. } = &mut self.stage else { return Vec::new() };
        let work_effects = work.on(event);
        let mut effects = Vec::new();
        for effect in work_effects {
            let Effect::Finish(outcome) = effect else {
                effects.push(effect);
                continue;
            };
            let is_done = outcome.status.state == TaskState::Completed;
            if is_done {
                // The board announces the end itself, so the artifacts come before it.
                effects.extend(produced(&self.spec, &outcome.produced));
            }
            effects.push(Effect::ClearTimer { timer: Timer::Claim });
            effects.push(Effect::CloseOpenTask { task: self.key(), epoch, is_done });
            self.stage = OpenTaskStage::Closing { epoch, outcome: Box::new(outcome), is_released: false };
            break;
        }
        effects
    }

    /// Stops the work and releases the claim; the board offers the task again.
    fn give_back(&mut self, why: &str, event: &Event) -> Vec<Effect> {
        let OpenTaskStage::Doing { epoch, work } = &mut self.stage else { return Vec::new() };
        let (epoch, mut effects) = (*epoch, stopped(work, &self.me, why, event));
        effects.push(Effect::ClearTimer { timer: Timer::Claim });
        effects.extend(self.release(epoch, Status::new(TaskState::Rejected, why)));
        effects
    }

    /// Releases the claim; the task ends here with `status` when the board has it back.
    fn release(&mut self, epoch: Epoch, status: Status) -> Vec<Effect> {
        let outcome = Box::new(Outcome::new(status));
        self.stage = OpenTaskStage::Closing { epoch, outcome, is_released: true };
        vec![Effect::ReleaseOpenTask { task: self.key(), epoch }]
    }

    /// The claim expired: another agent may hold it, so the work is discarded.
    fn lose(&mut self, event: &Event) -> Vec<Effect> {
        let why = "superseded: its claim's lease ran out, and the board has offered it again";
        let mut effects = Vec::new();
        if let OpenTaskStage::Doing { work, .. } = &mut self.stage {
            effects.extend(stopped(work, &self.me, why, event));
        }
        effects.extend(self.end(TaskState::Canceled, why.to_owned()));
        effects
    }

    /// The board has recorded the end of the claim.
    fn confirmed(&mut self) -> Vec<Effect> {
        let OpenTaskStage::Closing { epoch, outcome, is_released } =
            std::mem::replace(&mut self.stage, OpenTaskStage::Over)
        else {
            return Vec::new();
        };
        let mut effects = Vec::from_iter(self.report(epoch, &outcome).filter(|_| !is_released));
        effects.push(Effect::Finish(*outcome));
        effects
    }

    /// The result for the agent that offered the task.
    fn report(&self, epoch: Epoch, outcome: &Outcome) -> Option<Effect> {
        let response = TaskResponse {
            task_id: self.spec.task_id.clone(),
            seq: 1,
            state: outcome.status.state,
            epoch: Some(epoch),
            doer: None,
            artifacts: Vec::new(),
            chunks: None,
            message: outcome.status.message.clone(),
            lasting: false,
            usage: outcome.usage,
            seat: None,
            handed_on: None,
            extra: Map::new(),
        };
        let chunks = outcome.chunks;
        let recorded = (!chunks.is_empty()).then(|| RecordedArtifacts { chunks, only: Vec::new() });
        let publisher = Address::Agent(self.owner.agent()?.clone());
        let report = OutgoingMessage::new(Label::Response, publisher, Payload::TaskResponse(response));
        let in_reply_to = Some(self.offer.clone());
        Some(Effect::Send(OutgoingMessage { in_reply_to, recorded, ..report }))
    }

    fn end(&mut self, state: TaskState, message: String) -> Vec<Effect> {
        self.stage = OpenTaskStage::Over;
        vec![Effect::Finish(Outcome::new(Status::new(state, message)))]
    }
}

/// The effects that stop `work`, without its end.
fn stopped(work: &mut Doing, me: &AgentId, why: &str, event: &Event) -> Vec<Effect> {
    let what = EventKind::Cancelled { by: Principal::Agent(me.clone()), reason: why.to_owned() };
    let mut effects = work.on(&Event { what, at: event.at, wall: event.wall });
    effects.retain(|effect| !matches!(effect, Effect::Finish(_)));
    effects
}

impl Pattern for OpenTask {
    const NAME: &'static str = "open-task";
    const OPENED_BY: &'static [MessageKind] = &[];
    const RECEIVES: &'static [MessageKind] = Doing::RECEIVES;

    fn view(&self) -> View<'_> {
        let work = if let OpenTaskStage::Doing { work, .. } = &self.stage { Some(work.view()) } else { None };
        let work = work.unwrap_or_default();
        View {
            work: work.work,
            turn: work.turn,
            root: work.root,
            is_closing: matches!(self.stage, OpenTaskStage::Closing { .. }),
            open_task: Some(OpenTaskView {
                spec: &self.spec,
                owner: &self.owner,
                epoch: self.epoch(),
                is_pending: matches!(self.stage, OpenTaskStage::Offered | OpenTaskStage::Claiming { .. }),
            }),
            ..View::default()
        }
    }

    fn on(&mut self, event: &Event) -> Vec<Effect> {
        let under = self.epoch();
        match (&self.stage, &event.what) {
            (OpenTaskStage::Offered, EventKind::Started) => {
                self.stage = OpenTaskStage::Claiming { called_off: None };
                vec![Effect::ClaimOpenTask { task: self.key(), lease: self.lease }]
            }
            (OpenTaskStage::Claiming { .. }, EventKind::Claimed { epoch, .. }) => self.claimed(*epoch, event),
            (OpenTaskStage::Claiming { called_off }, EventKind::ClaimLost { holder }) => match called_off {
                Some(reason) => self.end(TaskState::Canceled, reason.clone()),
                None => {
                    let who = holder.as_ref().map_or("somebody else", AgentId::as_str);
                    self.end(TaskState::Rejected, format!("{who} has it"))
                }
            },
            (OpenTaskStage::Offered, EventKind::Cancelled { reason, .. }) => {
                self.end(TaskState::Canceled, reason.clone())
            }
            (OpenTaskStage::Claiming { called_off: None }, EventKind::Cancelled { reason, .. }) => {
                self.stage = OpenTaskStage::Claiming { called_off: Some(reason.clone()) };
                Vec::new()
            }
            (OpenTaskStage::Doing { .. }, EventKind::Claimed { epoch, .. }) if under == Some(*epoch) => {
                vec![self.renew_later(event)]
            }
            (OpenTaskStage::Doing { epoch, .. }, EventKind::TimerFired { timer: Timer::Claim }) => {
                vec![Effect::RenewOpenTask { task: self.key(), epoch: *epoch }]
            }
            (
                OpenTaskStage::Doing { .. } | OpenTaskStage::Closing { .. },
                EventKind::ClaimExpired { epoch },
            ) if under == Some(*epoch) => self.lose(event),
            (OpenTaskStage::Doing { .. }, EventKind::Draining { reason: Some(reason), .. }) => {
                self.give_back(reason, event)
            }
            (OpenTaskStage::Closing { .. }, EventKind::ClaimEnded { epoch }) if under == Some(*epoch) => {
                self.confirmed()
            }
            (OpenTaskStage::Doing { epoch, .. }, _) => self.work(*epoch, event),
            (
                OpenTaskStage::Offered
                | OpenTaskStage::Claiming { .. }
                | OpenTaskStage::Closing { .. }
                | OpenTaskStage::Over,
                _,
            ) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
