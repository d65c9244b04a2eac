//! An agent does a task that was offered on the board (DESIGN §6, claims): it claims the task there, does it like any
//! other, and ends the claim before the task counts as ended.
//!
//! An offer is a `task.available` with a `taskId`, and in its `refs` a `description` and, if need be, an `input` (any
//! JSON); without a description its subject is used. The whole signal has at most 16 KiB. The board decides who gets
//! the claim, publishes it and its end, and offers the task again when a lease runs out. An agent that loses the claim
//! stops, and its progress is discarded. A failed task ends as failed on the board, too.

use super::{
    EventKind, OpenTaskView, Outcome, Pattern, TimerAt,
    delegation::{self, Delegation, DelegationLabel, Timeouts},
    ownership::{TaskOwnership, produced},
};
use crate::{
    ids::AgentId,
    message::{Epoch, MessageKind},
    principal::Principal,
    signal::Signal,
    task::{Status, TaskSpec, TaskState},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

type OpenTaskEvent = super::Event<DelegationLabel, OpenTaskTimer>;
type OpenTaskEffect = super::Effect<DelegationLabel, OpenTaskTimer>;

/// The timers of an open task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OpenTaskTimer {
    /// The next renewal of the claim.
    Renew,
    /// A timer of the work.
    Work(delegation::DelegationTimer),
}

/// One agent's side of one open task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTask {
    me: AgentId,
    owner: Principal,
    spec: TaskSpec,
    lease: Duration,
    timeouts: Timeouts,
    stage: OpenTaskStage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum OpenTaskStage {
    /// Nothing has happened.
    Offered,
    /// The board has been asked for the claim.
    Claiming,
    /// It is being done.
    #[serde(rename_all = "camelCase")]
    Doing { epoch: Epoch, work: Box<Delegation> },
    /// It has ended here, and the board is informed.
    #[serde(rename_all = "camelCase")]
    Closing { epoch: Epoch, outcome: Box<Outcome> },
    /// It has ended.
    Over,
}

/// The task that `signal` offers, on behalf of `root`; `None` if the signal is incomplete.
pub fn offered(signal: &Signal, root: Principal) -> Option<TaskSpec> {
    let described = signal.refs.get("description").and_then(|text| text.as_str());
    let description = described.or(signal.subject.as_deref()).filter(|text| !text.trim().is_empty())?;
    Some(TaskSpec {
        task_id: signal.task_id.clone()?,
        description: description.to_owned(),
        capability: signal.capability.clone(),
        input: signal.refs.get("input").cloned(),
        artifacts: Vec::new(),
        deadline: None,
        accepted_modes: Vec::new(),
        path: Vec::new(),
        parent: None,
        root,
        contact: None,
    })
}

impl OpenTask {
    /// `me` claims the task that `owner` offers, with this `lease`.
    pub fn new(me: AgentId, owner: Principal, spec: TaskSpec, lease: Duration, timeouts: Timeouts) -> Self {
        Self { me, owner, spec, lease, timeouts, stage: OpenTaskStage::Offered }
    }

    /// The claim it is done under.
    fn epoch(&self) -> Option<Epoch> {
        match &self.stage {
            OpenTaskStage::Doing { epoch, .. } | OpenTaskStage::Closing { epoch, .. } => Some(*epoch),
            OpenTaskStage::Offered | OpenTaskStage::Claiming | OpenTaskStage::Over => None,
        }
    }

    fn take_on(&mut self, epoch: Epoch, event: &OpenTaskEvent) -> Vec<OpenTaskEffect> {
        let mut ownership = TaskOwnership::new(self.spec.clone(), None);
        ownership.announces = false;
        ownership.claim = Some(epoch);
        let work = Delegation::new(self.me.clone(), ownership, None, self.timeouts);
        self.stage = OpenTaskStage::Doing { epoch, work: Box::new(work) };
        let mut effects = vec![
            OpenTaskEffect::TrackTask { spec: Box::new(self.spec.clone()), owner: self.owner.clone(), epoch },
            self.renew_later(event),
        ];
        effects.extend(self.work(epoch, &OpenTaskEvent { what: EventKind::Started, ..event.clone() }));
        effects
    }

    fn renew_later(&self, event: &OpenTaskEvent) -> OpenTaskEffect {
        OpenTaskEffect::SetTimer {
            timer: OpenTaskTimer::Renew,
            when: TimerAt::Node(event.at + self.lease / 3),
        }
    }

    /// The effects of the inner delegation on `event`. Its end waits for the board's confirmation.
    fn work(&mut self, epoch: Epoch, event: &OpenTaskEvent) -> Vec<OpenTaskEffect> {
        let OpenTaskStage::Doing { work, .. } = &mut self.stage else { return Vec::new() };
        let task = self.spec.task_id.clone();
        let mut effects = Vec::new();
        for effect in run(work, event) {
            let OpenTaskEffect::Finish(outcome) = effect else {
                effects.push(effect);
                continue;
            };
            let is_done = outcome.status.state == TaskState::Completed;
            effects.push(OpenTaskEffect::ClearTimer { timer: OpenTaskTimer::Renew });
            effects.push(OpenTaskEffect::CloseOpenTask { task: task.clone(), epoch, is_done });
            self.stage = OpenTaskStage::Closing { epoch, outcome: Box::new(outcome) };
            break;
        }
        effects
    }

    /// Stops the work and releases the claim; the board offers the task again.
    fn give_back(&mut self, why: &str, event: &OpenTaskEvent) -> Vec<OpenTaskEffect> {
        let OpenTaskStage::Doing { epoch, work } = &mut self.stage else { return Vec::new() };
        let (epoch, mut effects) = (*epoch, stopped(work, &self.me, why, event));
        effects.push(OpenTaskEffect::ClearTimer { timer: OpenTaskTimer::Renew });
        effects.push(OpenTaskEffect::ReleaseOpenTask { task: self.spec.task_id.clone(), epoch });
        let outcome = Outcome::new(Status::new(TaskState::Rejected, why));
        self.stage = OpenTaskStage::Closing { epoch, outcome: Box::new(outcome) };
        effects
    }

    /// The claim expired: another agent may hold it, so the work is discarded.
    fn lose(&mut self, event: &OpenTaskEvent) -> Vec<OpenTaskEffect> {
        let why = "its claim's lease ran out: the board has offered it again";
        let mut effects = Vec::new();
        if let OpenTaskStage::Doing { work, .. } = &mut self.stage {
            effects.extend(stopped(work, &self.me, why, event));
        }
        effects.extend(self.end(TaskState::Failed, why.to_owned()));
        effects
    }

    fn confirmed(&mut self) -> Vec<OpenTaskEffect> {
        let OpenTaskStage::Closing { outcome, .. } = std::mem::replace(&mut self.stage, OpenTaskStage::Over)
        else {
            return Vec::new();
        };
        let is_done = outcome.status.state == TaskState::Completed;
        let mut effects = if is_done { produced(&self.spec, &outcome.produced) } else { Vec::new() };
        effects.push(OpenTaskEffect::Finish(*outcome));
        effects
    }

    fn end(&mut self, state: TaskState, message: String) -> Vec<OpenTaskEffect> {
        self.stage = OpenTaskStage::Over;
        vec![OpenTaskEffect::Finish(Outcome::new(Status::new(state, message)))]
    }
}

/// The effects that stop `work`, without its end.
fn stopped(work: &mut Delegation, me: &AgentId, why: &str, event: &OpenTaskEvent) -> Vec<OpenTaskEffect> {
    let what = EventKind::Cancelled { by: Principal::Agent(me.clone()), reason: why.to_owned() };
    let mut effects = run(work, &OpenTaskEvent { what, ..event.clone() });
    effects.retain(|effect| !matches!(effect, OpenTaskEffect::Finish(_)));
    effects
}

/// Runs `work` on `event`, with its timers embedded in [`OpenTaskTimer::Work`].
fn run(work: &mut Delegation, event: &OpenTaskEvent) -> Vec<OpenTaskEffect> {
    let timer = |timer: &OpenTaskTimer| match timer {
        OpenTaskTimer::Renew => None,
        OpenTaskTimer::Work(timer) => Some(*timer),
    };
    let event = event.try_map(|label| Some(*label), timer);
    let effects = event.map(|event| work.on(&event)).unwrap_or_default();
    effects.into_iter().map(|effect| effect.map(|label| label, OpenTaskTimer::Work)).collect()
}

impl Pattern for OpenTask {
    type Label = DelegationLabel;
    type Timer = OpenTaskTimer;

    const NAME: &'static str = "open-task";
    const OPENED_BY: &'static [MessageKind] = &[];
    const RECEIVES: &'static [MessageKind] = Delegation::RECEIVES;

    fn is_work(&self) -> bool {
        matches!(self.stage, OpenTaskStage::Doing { .. })
    }

    fn open_task(&self) -> Option<OpenTaskView<'_>> {
        Some(OpenTaskView {
            spec: &self.spec,
            owner: &self.owner,
            epoch: self.epoch(),
            is_pending: matches!(self.stage, OpenTaskStage::Offered | OpenTaskStage::Claiming),
        })
    }

    fn on(&mut self, event: &OpenTaskEvent) -> Vec<OpenTaskEffect> {
        let under = self.epoch();
        match (&self.stage, &event.what) {
            (OpenTaskStage::Offered, EventKind::Started) => {
                self.stage = OpenTaskStage::Claiming;
                vec![OpenTaskEffect::ClaimOpenTask { task: self.spec.task_id.clone(), lease: self.lease }]
            }
            (OpenTaskStage::Claiming, EventKind::Claimed { epoch, .. }) => self.take_on(*epoch, event),
            (OpenTaskStage::Claiming, EventKind::ClaimLost { holder }) => {
                let who = holder.as_ref().map_or("somebody else", AgentId::as_str);
                let message = format!("{who} has it");
                self.end(TaskState::Rejected, message)
            }
            (OpenTaskStage::Offered | OpenTaskStage::Claiming, EventKind::Cancelled { reason, .. }) => {
                self.end(TaskState::Canceled, reason.clone())
            }
            (OpenTaskStage::Doing { .. }, EventKind::Claimed { epoch, .. }) if under == Some(*epoch) => {
                vec![self.renew_later(event)]
            }
            (OpenTaskStage::Doing { epoch, .. }, EventKind::TimerFired { timer: OpenTaskTimer::Renew }) => {
                vec![OpenTaskEffect::RenewOpenTask { task: self.spec.task_id.clone(), epoch: *epoch }]
            }
            (
                OpenTaskStage::Doing { .. } | OpenTaskStage::Closing { .. },
                EventKind::ClaimExpired { epoch },
            ) if under == Some(*epoch) => self.lose(event),
            (OpenTaskStage::Doing { .. }, EventKind::Draining { reason }) => self.give_back(reason, event),
            (OpenTaskStage::Closing { .. }, EventKind::ClaimEnded { epoch }) if under == Some(*epoch) => {
                self.confirmed()
            }
            (OpenTaskStage::Doing { epoch, .. }, _) => self.work(*epoch, event),
            (
                OpenTaskStage::Offered
                | OpenTaskStage::Claiming
                | OpenTaskStage::Closing { .. }
                | OpenTaskStage::Over,
                _,
            ) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
