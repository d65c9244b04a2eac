//! An agent does a task that was offered on the board (DESIGN §6, claims): it claims the task there, does it like any
//! other, and ends the claim before the task counts as ended.
//!
//! An offer is a `task.available` with a `taskId`, and in its `refs` a `description` and, if need be, an `input` (any
//! JSON); without a description its subject is taken for one. The whole signal has 16 KiB. The board decides who has
//! the claim, tells of it and of its end, and offers the task again when a lease runs out; whoever has lost the claim
//! stops, and what it had so far counts for nothing. A task that comes to nothing ends failed on the board, too.

use super::{
    Effect, Event, Outcome, Pattern, What, When,
    accountable::{Accountable, produced},
    delegation::{Delegation, Patience},
};
use crate::{
    ids::AgentId,
    message::Epoch,
    principal::Principal,
    signal::Signal,
    task::{Status, TaskSpec, TaskState},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The timer of the claim's lease.
const LEASE: &str = "claim";

/// One agent's side of one open task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTask {
    me: AgentId,
    owner: Principal,
    spec: TaskSpec,
    lease: Duration,
    patience: Patience,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stage {
    /// Nothing has happened.
    Offered,
    /// The board has been asked for the claim.
    Claiming,
    /// It is being done.
    #[serde(rename_all = "camelCase")]
    Doing { epoch: Epoch, work: Box<Delegation> },
    /// It has come to its end here, and the board has been told.
    #[serde(rename_all = "camelCase")]
    Closing { epoch: Epoch, outcome: Box<Outcome> },
    /// Nothing follows.
    Over,
}

/// What `signal` offers to whoever claims it, on behalf of `root`; `None` if that can't be made out.
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
    /// `me` tries to get the task that `owner` offers. `lease` is how long its silence is taken for work.
    pub fn new(me: AgentId, owner: Principal, spec: TaskSpec, lease: Duration, patience: Patience) -> Self {
        Self { me, owner, spec, lease, patience, stage: Stage::Offered }
    }

    /// What is to be done.
    pub fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    /// Who offered it.
    pub fn owner(&self) -> &Principal {
        &self.owner
    }

    /// The claim it is done under.
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.stage {
            Stage::Doing { epoch, .. } | Stage::Closing { epoch, .. } => Some(*epoch),
            Stage::Offered | Stage::Claiming | Stage::Over => None,
        }
    }

    /// Whether it is not known yet who has it.
    pub fn is_claiming(&self) -> bool {
        matches!(self.stage, Stage::Offered | Stage::Claiming)
    }

    /// Whether it is being done.
    pub fn is_work(&self) -> bool {
        matches!(self.stage, Stage::Doing { .. })
    }

    fn take_on(&mut self, epoch: Epoch, event: &Event) -> Vec<Effect> {
        let mut accountable = Accountable::new(self.spec.clone(), None);
        accountable.announces = false;
        accountable.claim = Some(epoch);
        let work = Delegation::new(self.me.clone(), accountable, None, self.patience);
        self.stage = Stage::Doing { epoch, work: Box::new(work) };
        let mut effects = vec![
            Effect::TakeOn { spec: Box::new(self.spec.clone()), owner: self.owner.clone(), epoch },
            self.renew_later(event),
        ];
        effects.extend(self.work(epoch, &Event { what: What::Started, ..event.clone() }));
        effects
    }

    fn renew_later(&self, event: &Event) -> Effect {
        Effect::WakeAt { timer: LEASE.to_owned(), when: When::Node(event.at + self.lease / 3) }
    }

    /// What the work makes of `event`; its end is the board's to confirm.
    fn work(&mut self, epoch: Epoch, event: &Event) -> Vec<Effect> {
        let Stage::Doing { work, .. } = &mut self.stage else { return Vec::new() };
        let task = self.spec.task_id.clone();
        let mut effects = Vec::new();
        for effect in work.on(event) {
            let Effect::Finish(outcome) = effect else {
                effects.push(effect);
                continue;
            };
            let is_done = outcome.status.state == TaskState::Completed;
            effects.push(Effect::Forget { timer: LEASE.to_owned() });
            effects.push(Effect::CloseOpen { task: task.clone(), epoch, is_done });
            self.stage = Stage::Closing { epoch, outcome: Box::new(outcome) };
            break;
        }
        effects
    }

    /// Gives the claim back, and what was done so far up: the board offers the task again.
    fn give_back(&mut self, why: &str, event: &Event) -> Vec<Effect> {
        let Stage::Doing { epoch, work } = &mut self.stage else { return Vec::new() };
        let (epoch, mut effects) = (*epoch, stopped(work, &self.me, why, event));
        effects.push(Effect::Forget { timer: LEASE.to_owned() });
        effects.push(Effect::ReleaseOpen { task: self.spec.task_id.clone(), epoch });
        let status = Status::new(TaskState::Rejected, why);
        let outcome =
            Outcome { status, artifacts: Vec::new(), kept_word: Default::default(), is_message: false };
        self.stage = Stage::Closing { epoch, outcome: Box::new(outcome) };
        effects
    }

    /// Somebody else may have it by now: nothing that was done counts.
    fn lose(&mut self, event: &Event) -> Vec<Effect> {
        let why = "its claim's lease ran out: the board has offered it again";
        let mut effects = Vec::new();
        if let Stage::Doing { work, .. } = &mut self.stage {
            effects.extend(stopped(work, &self.me, why, event));
        }
        effects.extend(self.end(TaskState::Failed, why.to_owned()));
        effects
    }

    fn confirmed(&mut self) -> Vec<Effect> {
        let Stage::Closing { outcome, .. } = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Vec::new();
        };
        let is_done = outcome.status.state == TaskState::Completed;
        let mut effects = if is_done { produced(&self.spec, &outcome.artifacts) } else { Vec::new() };
        effects.push(Effect::Finish(*outcome));
        effects
    }

    fn end(&mut self, state: TaskState, message: String) -> Vec<Effect> {
        self.stage = Stage::Over;
        let status = Status::new(state, message);
        vec![Effect::Finish(Outcome {
            status,
            artifacts: Vec::new(),
            kept_word: Default::default(),
            is_message: false,
        })]
    }
}

/// What it takes to stop `work`, whose end is nobody's news.
fn stopped(work: &mut Delegation, me: &AgentId, why: &str, event: &Event) -> Vec<Effect> {
    let what = What::Cancelled { by: Principal::Agent(me.clone()), reason: why.to_owned() };
    let mut effects = work.on(&Event { what, ..event.clone() });
    effects.retain(|effect| !matches!(effect, Effect::Finish(_)));
    effects
}

impl Pattern for OpenTask {
    fn on(&mut self, event: &Event) -> Vec<Effect> {
        let under = self.epoch();
        match (&self.stage, &event.what) {
            (Stage::Offered, What::Started) => {
                self.stage = Stage::Claiming;
                vec![Effect::ClaimOpen { task: self.spec.task_id.clone(), lease: self.lease }]
            }
            (Stage::Claiming, What::Claimed { epoch, .. }) => self.take_on(*epoch, event),
            (Stage::Claiming, What::ClaimLost { holder }) => {
                let who = holder.as_ref().map_or("somebody else", AgentId::as_str);
                let message = format!("{who} has it");
                self.end(TaskState::Rejected, message)
            }
            (Stage::Offered | Stage::Claiming, What::Cancelled { reason, .. }) => {
                self.end(TaskState::Canceled, reason.clone())
            }
            (Stage::Doing { .. }, What::Claimed { epoch, .. }) if under == Some(*epoch) => {
                vec![self.renew_later(event)]
            }
            (Stage::Doing { epoch, .. }, What::Woke { timer }) if timer == LEASE => {
                vec![Effect::RenewOpen { task: self.spec.task_id.clone(), epoch: *epoch }]
            }
            (Stage::Doing { .. } | Stage::Closing { .. }, What::ClaimExpired { epoch })
                if under == Some(*epoch) =>
            {
                self.lose(event)
            }
            (Stage::Doing { .. }, What::Leaving { reason }) => self.give_back(reason, event),
            (Stage::Closing { .. }, What::ClaimEnded { epoch }) if under == Some(*epoch) => self.confirmed(),
            (Stage::Doing { epoch, .. }, _) => self.work(*epoch, event),
            (Stage::Offered | Stage::Claiming | Stage::Closing { .. } | Stage::Over, _) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
